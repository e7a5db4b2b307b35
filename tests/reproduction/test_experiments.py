from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpn.datasets import CATALOG, Graph, load_dataset
from hpn.errors import ConfigError
from hpn.experiment.compare.cells import with_cell
from hpn.experiment.run.config import resolve_config
from hpn.learners import LEARNERS
from hpn.learners.hpn import PaperHPN
from hpn.reproduction.experiments import EXPERIMENTS, LARGE_GRAPH, Experiment, choose_experiments

ALL = list(EXPERIMENTS.values())


@pytest.fixture(scope="module")
def digits() -> Graph:
    return load_dataset("digits")


def settings(case: Any) -> Any:
    return LEARNERS["hpn"](**case.settings)


@pytest.mark.parametrize("experiment", ALL, ids=[*EXPERIMENTS])
def test_every_case_can_be_run_and_no_two_are_told_apart_by_nothing(
    experiment: Experiment, digits: Graph
) -> None:
    base, _ = resolve_config("digits", recipe=None)
    cases = experiment.cases(digits)
    labels = [tuple(case.label.items()) for case in cases]
    assert len(set(labels)) == len(labels)
    configs = {with_cell(base, case.cell, case.settings).short_hash() for case in cases}
    assert len(configs) == len(cases), "no two cases are the same run"
    assert {*experiment.datasets} <= {*CATALOG}


def test_the_whole_preset_is_one_run_in_every_experiment(digits: Graph) -> None:
    """What the paper's preset is, levels, losses, thresholds and all, runs once for all of them."""
    base, _ = resolve_config("digits", recipe=None)
    whole = {
        "comparison": {"method": "hpn", "backbone": None, "preset": "paper"},
        "ablation-levels": {"preset": "paper", "levels": "ANC"},
        "ablation-losses": {"preset": "paper", "losses": "cls+div+dis"},
        "sensitivity-extractors": {"num_extractors": 22, "dim": 16},
        "sensitivity-threshold": {"threshold_atomic": 0.3},
        "sensitivity-losses": {"alpha": 1.0, "beta": 1.0},
        "visualization": {"preset": "paper"},
    }
    hashes = set()
    for name, label in whole.items():
        (case,) = (case for case in EXPERIMENTS[name].cases(digits) if case.label == label)
        assert settings(case).get_params() == PaperHPN().get_params()
        hashes.add(with_cell(base, case.cell, case.settings).short_hash())
    assert len(hashes) == 1


def test_what_only_knows_a_case_by(digits: Graph) -> None:
    words = {name: {case.words for case in found.cases(digits)} for name, found in EXPERIMENTS.items()}
    assert {("ewc",), ("ncm",), ("hpn", "paper"), ("hpn", "best")} <= words["comparison"]
    assert ("hpn", "small") in words["memory"]
    assert words["visualization"] == {("hpn", "paper"), ("hpn", "best")}
    for name in ("ablation-levels", "ablation-losses", "sensitivity-losses", "sensitivity-extractors"):
        assert words[name] == {("hpn", "paper")}


def test_what_the_ablations_leave_out(digits: Graph) -> None:
    for case in EXPERIMENTS["ablation-levels"].cases(digits):
        assert settings(case).levels == case.label["levels"]
        assert {**settings(case).get_params(), "levels": "ANC"} == PaperHPN().get_params()
    for case in EXPERIMENTS["ablation-losses"].cases(digits):
        found = settings(case)
        assert found.use_cls
        assert (found.alpha > 0) == ("div" in case.label["losses"])
        assert (found.beta > 0) == ("dis" in case.label["losses"])
        assert {**found.get_params(), "alpha": 1.0, "beta": 1.0} == PaperHPN().get_params()


def test_the_sweeps_are_the_papers(digits: Graph) -> None:
    swept = [settings(case).threshold_atomic for case in EXPERIMENTS["sensitivity-threshold"].cases(digits)]
    assert swept == [0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4]
    pairs = [
        (settings(case).alpha, settings(case).beta)
        for case in EXPERIMENTS["sensitivity-losses"].cases(digits)
    ]
    powers = [10.0**k for k in range(-4, 4)]
    assert sorted(beta for alpha, beta in pairs if alpha == 1) == pytest.approx(powers)
    assert sorted(alpha for alpha, beta in pairs if beta == 1) == pytest.approx(powers)


def test_large_graphs_have_the_papers_settings_for_them(digits: Graph) -> None:
    large = replace(digits, name="large")
    object.__setattr__(large, "x", digits.x.repeat(LARGE_GRAPH // digits.num_nodes + 1, 1))
    assert large.num_nodes >= LARGE_GRAPH
    for case in EXPERIMENTS["ablation-levels"].cases(large):
        assert settings(case).drawn == "1"
    (small,) = (case for case in EXPERIMENTS["memory"].cases(large) if case.label["preset"] == "small")
    assert (settings(small).dim, settings(small).drawn) == (2, "1")


def test_names() -> None:
    assert choose_experiments(["all"]) == ALL
    assert [found.name for found in choose_experiments(["dynamics", "comparison", "dynamics"])] == [
        "comparison",
        "dynamics",
    ]
    with pytest.raises(ConfigError, match="unknown experiment 'dynamic'; did you mean 'dynamics'"):
        choose_experiments(["dynamic"])
    with pytest.raises(ConfigError, match="no experiment given"):
        choose_experiments([])
