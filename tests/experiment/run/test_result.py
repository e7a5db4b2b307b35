from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpn.experiment.run.config import resolve_config
from hpn.experiment.run.result import SeedResult, combine_seeds

CONTRACT = {
    *("schema", "dataset", "method", "backbone", "scenario", "evaluate", "edges", "tasks", "seeds", "am", "fm", "ars"),
    *("matrices", "parameters", "prototypes", "bounds", "seconds", "peak_rss_mb", "versions", "out"),
}
TWO_TASKS = [[80.0], [60.0, 90.0]]


def seed_result(matrix: list[list[float]], **changes: Any) -> SeedResult:
    content = {
        **{"seed": 0, "matrix": matrix, "balanced": matrix, "chance": [[50.0] * len(row) for row in matrix]},
        **{"parameters": 10, "stored": 20, "growth": [{"parameters": 10, "stored": 20}] * len(matrix)},
        **{"seconds": {"fit": 1.0, "predict": 0.5, "total": 2.0}, "peak_rss_mb": 100.0},
    }
    return SeedResult.model_validate({**content, **changes})


def combine(method: str, *finished: SeedResult) -> dict[str, Any]:
    tasks = "0,1;2,3" if len(finished[0].matrix) == 2 else "0,1"
    config, graph = resolve_config("digits", method=method, tasks=tasks)
    seeds = [result.model_copy(update={"seed": seed}) for seed, result in enumerate(finished)]
    return combine_seeds(config, graph.class_names, seeds, command="hpn run", out=Path("x")).to_json()


def test_the_contract_and_its_numbers() -> None:
    other = [[90.0], [90.0, 70.0]]
    result = combine("ncm", seed_result(TWO_TASKS), seed_result(other, parameters=11, peak_rss_mb=300.0))
    assert result.keys() >= CONTRACT
    assert result["am"] == {"mean": 77.5, "std": pytest.approx(3.5355339), "values": [75.0, 80.0]}
    assert (result["fm"]["values"], result["ars"]["values"]) == ([-20.0, 0.0], [75.0, 100.0])
    assert result["matrices"] == [TWO_TASKS, other]
    assert (result["parameters"], result["stored"], result["peak_rss_mb"]) == (10.5, 20, 300.0)
    assert result["seconds"] == {"fit": 2.0, "predict": 1.0, "total": 4.0}
    assert (result["backbone"], result["prototypes"], result["bounds"]) == (None, None, None)


def test_metrics_that_do_not_apply_are_null() -> None:
    joint, one_task = combine("joint", seed_result(TWO_TASKS)), combine("ncm", seed_result([[80.0]]))
    assert (joint["fm"], joint["ars"], joint["balanced"]["fm"]) == (None, None, None)
    assert joint["am"]["mean"] == 75.0
    assert (one_task["fm"], one_task["ars"]) == (None, None)


def test_growth_is_the_mean_and_the_most_over_seeds() -> None:
    def seed(*steps: tuple[int, int]) -> SeedResult:
        growth = [{"parameters": p, "stored": 2 * p, "prototypes": {"atomic": atomic}} for p, atomic in steps]
        return seed_result(TWO_TASKS, growth=growth, prototypes={"atomic": steps[-1][1]}, parameter_bound=99)

    result = combine("hpn", seed((10, 1), (20, 3)), seed((12, 2), (30, 7)))
    assert result["parameter_bound"] == 99
    means = {"parameters": 25, "stored": 50, "prototypes": {"atomic": 5}, "most_prototypes": {"atomic": 7}}
    assert result["growth"][1] == means
