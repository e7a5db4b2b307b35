from __future__ import annotations

import copy
import pickle
from dataclasses import fields
from typing import Any

import pytest

from hpn.datasets import Graph
from hpn.errors import ConfigError
from hpn.learners import HPN, LEARNERS
from hpn.learners.hpn import PaperHPN, SolvedHPN
from hpn.learners.hpn.presets import PRESETS, Settings, SolvedSettings
from hpn.params import check_space, declared_params
from hpn.streams import TaskStream

MADE = [({}, SolvedHPN), ({"preset": "best"}, SolvedHPN), ({"preset": "paper"}, PaperHPN)]
MADE += [({"preset": "large"}, PaperHPN)]
SHARED = {"threshold_atomic", "threshold_node", "threshold_class"}
OWN = {"width": 64, "strength": 0.5, "balance": 0.25}
"""What applies to the preset best only."""


@pytest.mark.parametrize(("given", "kind"), MADE)
def test_the_preset_decides_which_network_is_made(given: dict[str, Any], kind: type[HPN]) -> None:
    learner = HPN(**given, seed=3)
    assert type(learner) is kind
    assert isinstance(learner, HPN)
    assert learner.preset == given.get("preset", "best")
    assert learner.seed == 3
    assert type(LEARNERS["hpn"](**given)) is kind


@pytest.mark.parametrize("kind", [SolvedHPN, PaperHPN])
def test_a_network_can_be_named_itself(kind: type[HPN]) -> None:
    assert type(kind()) is kind
    assert declared_params(kind) == declared_params(HPN)


def test_every_hyper_parameter_is_an_argument() -> None:
    known = {field.name for kind in (Settings, SolvedSettings) for field in fields(kind)}
    assert set(declared_params(HPN)) == known | {"preset", "seed"}
    assert {field.name for field in fields(Settings)} & {
        field.name for field in fields(SolvedSettings)
    } == SHARED


def test_what_is_left_out_is_as_the_preset_has_it() -> None:
    assert SolvedHPN().settings() == SolvedSettings()
    assert HPN(preset="paper").settings() == PRESETS["paper"]
    assert HPN(preset="large").settings() == PRESETS["large"]
    assert PRESETS["large"] != PRESETS["paper"]
    solved = HPN(width=64, threshold_node=0.5).settings()
    assert solved == SolvedSettings(width=64, threshold_node=0.5)
    large = HPN(preset="large", dim=8).settings()
    assert (large.dim, large.epochs) == (8, PRESETS["large"].epochs)


def test_the_preset_best_is_what_was_measured() -> None:
    assert HPN().effective_params() == {
        "preset": "best",
        "width": 2000,
        "strength": 0.1,
        "balance": 0.75,
        "threshold_atomic": 0.003,
        "threshold_node": 0.01,
        "threshold_class": 0.1,
    }


def test_effective_params_are_written_out() -> None:
    assert HPN(width=64, seed=8).effective_params() == {"preset": "best", **vars(SolvedSettings(width=64))}
    found = HPN(preset="paper", dim=3).effective_params()
    assert (found["preset"], found["dim"], found["epochs"]) == ("paper", 3, 90)
    assert "width" not in found
    assert "seed" not in found


@pytest.mark.parametrize("name", sorted({field.name for field in fields(Settings)} - SHARED))
def test_what_does_not_apply_to_best_is_named(name: str) -> None:
    value = getattr(PRESETS["paper"], name)
    learner = HPN(**{name: value})
    with pytest.raises(ConfigError, match=rf"^{name} does not apply to the preset best.*: width, strength"):
        learner.settings()
    with pytest.raises(ConfigError, match=f"^{name} does not apply"):
        learner.effective_params()


@pytest.mark.parametrize("preset", ["paper", "large"])
@pytest.mark.parametrize("name", sorted(OWN))
def test_what_does_not_apply_to_the_others_is_named(name: str, preset: Any) -> None:
    learner = HPN(preset=preset, **{name: OWN[name]})
    with pytest.raises(ConfigError, match=rf"^{name} does not apply to the preset {preset}.*num_extractors"):
        learner.settings()


@pytest.mark.parametrize("given", [{"preset": "paper", "width": 64}, {"epochs": 3}, {"width": 0}])
def test_what_cannot_be_used_is_told_before_anything_is_learned(graph: Graph, given: dict[str, Any]) -> None:
    learner = HPN(**given)
    with pytest.raises(ConfigError, match=[*given][-1]):
        learner.fit_task(TaskStream(graph).task(0))


def test_a_task_that_could_not_be_learned_has_not_arrived(graph: Graph) -> None:
    learner = HPN(epochs=3)
    with pytest.raises(ConfigError, match="epochs"):
        learner.fit_task(TaskStream(graph).task(0))
    assert not getattr(learner, "tasks_", [])


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "HPN(preset='best', seed=0)"),
        ({"width": 64, "seed": 2}, "HPN(preset='best', width=64, seed=2)"),
        ({"preset": "paper", "dim": 4}, "HPN(preset='paper', dim=4, seed=0)"),
        ({"preset": "paper", "use_cls": False, "alpha": 0.0}, None),
    ],
)
def test_texts_make_the_same_again(given: dict[str, Any], text: str | None) -> None:
    learner = HPN(**given)
    assert text is None or repr(learner) == text
    again = eval(repr(learner), {"HPN": HPN})
    assert type(again) is type(learner)
    assert again.get_params() == learner.get_params()
    assert again.effective_params() == learner.effective_params()


@pytest.mark.parametrize("given", [{"width": 64, "seed": 4}, {"preset": "large", "dim": 7}])
def test_copies_are_of_the_same_kind(given: dict[str, Any]) -> None:
    learner = HPN(**given)
    for again in (copy.copy(learner), copy.deepcopy(learner), pickle.loads(pickle.dumps(learner))):
        assert again is not learner
        assert type(again) is type(learner)
        assert again.get_params() == learner.get_params()


@pytest.mark.parametrize("given", [{"width": 40}, {"preset": "paper", "epochs": 2, "warmup_epochs": 1}])
def test_copies_of_a_fitted_one_go_their_own_way(graph: Graph, given: dict[str, Any]) -> None:
    stream = TaskStream(graph)
    learner = HPN(**given).fit_task(stream.task(0))
    query, _ = stream.query(task=0, after=0, evaluate="oracle")
    scores = learner.predict_scores(query)
    for again in (copy.deepcopy(learner), pickle.loads(pickle.dumps(learner))):
        assert type(again) is type(learner)
        assert (again.predict_scores(query) == scores).all()
        again.fit_task(stream.task(1))
        assert len(again.tasks_) == 2
        assert len(learner.tasks_) == 1


@pytest.mark.parametrize("name", sorted(SHARED))
@pytest.mark.parametrize("value", [0.0, 1e-6, 1.5, -1.0])
def test_thresholds_have_a_range(graph: Graph, name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=name):
        HPN(**{name: value, "width": 10}).fit_task(TaskStream(graph).task(0))


def test_the_search_space_can_be_searched() -> None:
    check_space(SolvedHPN)
    assert set(SolvedHPN.search_space) <= set(vars(SolvedSettings()))
