from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from hpn.datasets import Graph
from hpn.errors import ConfigError
from hpn.learners import HPN, LEARNERS
from hpn.learners.hpn import PaperHPN, SolvedHPN
from hpn.params import declared_params, resolve_params
from hpn.streams import TaskStream

MADE = [({}, SolvedHPN), ({"preset": "best"}, SolvedHPN), ({"preset": "paper"}, PaperHPN)]
THRESHOLDS = ["threshold_atomic", "threshold_node", "threshold_class"]


@pytest.mark.parametrize(("given", "kind"), MADE)
def test_the_preset_decides_which_network_is_made(given: dict[str, Any], kind: type[HPN]) -> None:
    learner = HPN(**given, seed=3)
    assert type(learner) is type(LEARNERS["hpn"](**given)) is type(kind()) is kind
    assert isinstance(learner, HPN)
    assert learner.preset == given.get("preset", "best")
    assert learner.seed == 3
    resolved = resolve_params(HPN, given, owner="hpn")
    assert set(resolved) == set(declared_params(kind)) == set(learner.get_params())
    assert learner.effective_params() == {name: value for name, value in resolved.items() if name != "seed"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"preset": "large"}, "unknown preset 'large'; known: best, paper"),
        ({"preset": "papers"}, "unknown preset 'papers'; did you mean 'paper'?"),
        ({"preset": "paper", "width": 64}, "hpn has no 'width'; preset=best has it; it takes: preset, num"),
        ({"epochs": 3}, "hpn has no 'epochs'; preset=paper has it; it takes: preset, width"),
        ({"width": 0}, "hpn: width = 0"),
        *(({name: value}, f"hpn: {name}") for name in THRESHOLDS for value in (0.0, 1.5)),
    ],
)
def test_wrong_hyper_parameters_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve_params(HPN, given, owner="hpn")


@pytest.mark.parametrize("given", [{"preset": "large"}, {"preset": "paper", "num_selected": 30}])
def test_wrong_arguments_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"unknown preset|num_selected"):
        HPN(**given)


@pytest.mark.parametrize("given", [{}, {"width": 64, "seed": 2}, {"preset": "paper", "dim": 4, "use_cls": False}])
def test_representations_and_copies_make_equal_learners(given: dict[str, Any]) -> None:
    learner = HPN(**given)
    names = {"HPN": HPN, "PaperHPN": PaperHPN, "SolvedHPN": SolvedHPN}
    copies = (copy.copy(learner), copy.deepcopy(learner), pickle.loads(pickle.dumps(learner)))
    for again in (eval(repr(learner), names), *copies):
        assert again is not learner
        assert type(again) is type(learner)
        assert again.get_params() == learner.get_params()


@pytest.mark.parametrize("given", [{"width": 40}, {"preset": "paper", "epochs": 2, "warmup_epochs": 1}])
def test_copies_of_a_fitted_learner_are_independent(graph: Graph, given: dict[str, Any]) -> None:
    stream = TaskStream(graph)
    learner = HPN(**given).fit_task(stream.step(0))
    query, _ = stream.query(step=0, after=0, evaluate="oracle")
    scores = learner.predict_scores(query)
    for again in (copy.deepcopy(learner), pickle.loads(pickle.dumps(learner))):
        assert type(again) is type(learner)
        assert (again.predict_scores(query) == scores).all()
        again.fit_task(stream.step(1))
        assert len(again.tasks_) == 2
        assert len(learner.tasks_) == 1
