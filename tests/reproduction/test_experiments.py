from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hpn.datasets import CATALOG
from hpn.errors import ConfigError
from hpn.experiment.compare.cells import with_cell
from hpn.experiment.run.config import resolve_config
from hpn.learners import LEARNERS
from hpn.learners.hpn import PaperHPN
from hpn.reproduction.experiments import EXPERIMENTS, choose_experiments

SMALL: Any = SimpleNamespace(num_nodes=19_999)
LARGE: Any = SimpleNamespace(num_nodes=20_000)


def settings(case: Any) -> Any:
    return LEARNERS["hpn"](**case.settings)


def test_every_case_is_a_run_of_its_own(experiment: str) -> None:
    base, _ = resolve_config("digits", recipe=None)
    cases = EXPERIMENTS[experiment].cases(SMALL)
    assert len({tuple(case.label.items()) for case in cases}) == len(cases)
    assert len({with_cell(base, case.cell, case.settings).short_hash() for case in cases}) == len(cases)
    assert {*EXPERIMENTS[experiment].datasets} <= {*CATALOG}


def test_the_whole_preset_is_one_run_in_every_experiment() -> None:
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
        (case,) = (case for case in EXPERIMENTS[name].cases(SMALL) if case.label == label)
        assert settings(case).get_params() == PaperHPN().get_params()
        hashes.add(with_cell(base, case.cell, case.settings).short_hash())
    assert len(hashes) == 1


def test_what_the_ablations_leave_out() -> None:
    levels, losses = (EXPERIMENTS[f"ablation-{part}"].cases(SMALL) for part in ("levels", "losses"))
    for case in levels:
        assert settings(case).levels == case.label["levels"]
        assert {**settings(case).get_params(), "levels": "ANC"} == PaperHPN().get_params()
    for case in losses:
        found = settings(case)
        assert found.use_cls
        assert (found.alpha > 0, found.beta > 0) == tuple(t in case.label["losses"] for t in ("div", "dis"))
        assert {**found.get_params(), "alpha": 1.0, "beta": 1.0} == PaperHPN().get_params()


def test_the_sweeps_are_the_papers() -> None:
    thresholds, weights, sizes = (
        [settings(case) for case in EXPERIMENTS[f"sensitivity-{name}"].cases(SMALL)]
        for name in ("threshold", "losses", "extractors")
    )
    assert [one.threshold_atomic for one in thresholds] == [0.01, *(round(0.05 * k, 2) for k in range(1, 9))]
    powers = [10.0**k for k in range(-4, 4)]
    assert sorted(one.beta for one in weights if one.alpha == 1) == pytest.approx(powers)
    assert sorted(one.alpha for one in weights if one.beta == 1) == pytest.approx(powers)
    assert {(one.num_extractors, one.dim) for one in sizes} == {
        (num, dim) for num in (1, 2, 4, 8, 22) for dim in (2, 4, 8, 16)
    }


@pytest.mark.parametrize(("graph", "large"), [(SMALL, {}), (LARGE, {"drawn": "1", "batch_size": 1000})])
def test_large_graphs_have_the_papers_settings_for_them(graph: Any, large: dict[str, Any]) -> None:
    cases = {case.label["preset"]: case for case in EXPERIMENTS["memory"].cases(graph)}
    assert cases["paper"].settings == {"preset": "paper", **large}
    assert cases["small"].settings == {"preset": "paper", "dim": 2, **large}
    assert cases["best"].settings == {}
    assert cases[None].settings == {}, "other methods have no presets"


def test_names() -> None:
    assert choose_experiments(["all"]) == list(EXPERIMENTS.values())
    chosen = choose_experiments(["dynamics", "comparison", "dynamics"])
    assert [found.name for found in chosen] == ["comparison", "dynamics"]
    with pytest.raises(ConfigError, match=r"unknown experiment 'dynamic'; did you mean 'dynamics'.* all$"):
        choose_experiments(["dynamic"])
    with pytest.raises(ConfigError, match="no experiment given"):
        choose_experiments([])
