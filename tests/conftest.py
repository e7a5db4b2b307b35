"""Fixtures that every folder of tests may use."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from threadpoolctl import threadpool_limits

from hpn.datasets import Graph, load_dataset
from hpn.experiment.compare.result import Comparison
from hpn.experiment.run.result import RunResult
from hpn.metrics import METRICS, Measured, summarize
from hpn.streams import TaskStream

REPO = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Tests run side by side: with more threads than cores, small products take many times as long."""
    torch.set_num_threads(1)
    threadpool_limits(1)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """Real data: ``HPN_DATA``, else a folder beside the repository."""
    root = Path(os.environ.get("HPN_DATA", REPO.parent / "shared" / "data"))
    if not root.is_dir():
        pytest.skip(f"no real data: set HPN_DATA (looked in {root})")
    return root


@pytest.fixture(scope="session")
def graph() -> Graph:
    """A small graph whose tasks can be learned."""
    return load_dataset("synthetic", num_nodes=300, num_links=1200, num_features=12, num_classes=6)


@pytest.fixture
def stream(graph: Graph) -> TaskStream:
    return TaskStream(graph, seed=0)


def build_content(num_tasks: int = 3, num_seeds: int = 2, **fields: Any) -> dict[str, Any]:
    """A result file whose accuracies differ from cell to cell and from seed to seed."""
    matrices = [
        [[90.0 - 7 * (i - j) - j - 2 * seed for j in range(i + 1)] for i in range(num_tasks)]
        for seed in range(num_seeds)
    ]
    scores = {name: summarize([METRICS[name](matrix) for matrix in matrices]) for name in ("am", "fm", "ars")}
    return {
        "schema": 1,
        "dataset": "cora",
        "method": "finetune",
        "backbone": "gcn",
        "scenario": "class",
        "evaluate": "global",
        "edges": "within",
        "steps": [{"name": f"{2 * i},{2 * i + 1}", "classes": [2 * i, 2 * i + 1]} for i in range(num_tasks)],
        "seeds": list(range(num_seeds)),
        **scores,
        "matrices": matrices,
        "parameters": 92231,
        "prototypes": None,
        "bounds": None,
        "seconds": {"fit": 30.5, "predict": 0.75, "total": 33.0},
        "peak_rss_mb": 623.4,
        "versions": {"hpn": "0.1.0", "torch": "2.5.1"},
        "out": "runs/finetune",
        "balanced": {**scores, "matrices": matrices},
        "class_names": {"0": "Theory", "1": "Rule learning"},
        "params": {"lr": 0.01, "epochs": 200},
        "command": "hpn run cora --method finetune --seeds 2",
        **fields,
    }


def build_result(num_tasks: int = 3, num_seeds: int = 2, **fields: Any) -> RunResult:
    return RunResult.model_validate(build_content(num_tasks, num_seeds, **fields))


def build_time_result(**fields: Any) -> RunResult:
    """A stream by time: classes repeat, and every row also has the next step."""
    matrices = [[[80.0, 60.0], [78.0, 85.0, 65.0], [75.0, 84.0, 90.0]]] * 2
    steps = [{"name": f"time {time}", "classes": [0, 1, 2][: time - 2001]} for time in (2003, 2004, 2007)]
    chance = [[[50.0] * len(row) for row in matrices[0]]] * 2
    measured = [Measured(matrix, chance=chance[0]) for matrix in matrices]
    scores = {name: summarize([metric(seed) for seed in measured]) for name, metric in METRICS.items()}
    return build_result(
        **{"stream": "time", "steps": steps, "edges": "seen", "matrices": matrices, "chance": chance},
        **{"balanced": None, **scores, **fields},
    )


def build_row(
    method: str, backbone: str | None, am: float, *, paper: float | None = None, **fields: Any
) -> dict[str, Any]:
    published = {"am": {"mean": paper, "std": 0.5}, "fm": {"mean": -7.0, "std": 1.0}} if paper else None
    return {
        "name": f"{method}-{backbone}" if backbone else method,
        "method": method,
        "backbone": backbone,
        "am": summarize([am - 1, am + 1]),
        "fm": summarize([-3.0, -5.0]),
        "ars": summarize([94.0, 96.0]),
        "parameters": 1234,
        "stored": 98765,
        "seconds": {"fit": 12.5, "predict": 0.25},
        "published": published,
        "difference": am - paper if paper else None,
        "run": f"runs/{method}",
        "command": f"hpn run cora --method {method}",
        **fields,
    }


def build_comparison(rows: Mapping[int, Mapping[str, Any]] | None = None, **fields: Any) -> Comparison:
    """Five cells, one of which failed; ``rows`` changes fields of some of them."""
    none = dict.fromkeys(("am", "fm", "ars", "parameters", "stored", "seconds", "difference"))
    found = [
        build_row("ewc", "gcn", 63.3, paper=63.1),
        build_row("ewc", "gat", 70.0, paper=72.2, recipe="cora/ewc-gat"),
        build_row("twp", "gin", 1.0, paper=73.7) | none | {"error": "out of | memory <b>"},
        build_row("joint", "gcn", 95.0, sees_past=True, fm=None, ars=None),
        build_row("hpn", None, 94.0, prototypes={"atomic": 12, "class": 4.5}),
    ]
    for number, changes in (rows or {}).items():
        found[number] |= changes
    return Comparison.model_validate(
        {
            "dataset": "cora",
            "scenario": "task",
            "evaluate": "oracle",
            "edges": "within",
            "tasks": [[0, 1], [2, 3]],
            "seeds": [0, 1],
            "rows": found,
            "published_source": "the table",
            "published_parameters": {"dataset": "ogbn-products", "values": {"ewc-gcn": 46720}},
            "command": "hpn compare cora --methods all",
            "out": "runs/compare-cora",
            **fields,
        }
    )


@pytest.fixture
def make_result() -> Callable[..., RunResult]:
    return build_result


@pytest.fixture
def make_time_result() -> Callable[..., RunResult]:
    return build_time_result


@pytest.fixture
def make_comparison() -> Callable[..., Comparison]:
    return build_comparison


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    def make(name: str = "run", **fields: Any) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps(build_content(**fields), default=asdict))
        return folder

    return make
