"""Results of experiments that were never run: all the fields, numbers that differ from case to case."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hpn.metrics import METRICS, Measured, summarize
from hpn.reproduction.experiments import EXPERIMENTS

Content = dict[str, Any]
LEVELS = ("atomic", "node", "class")
FAILED = {
    **dict.fromkeys(("am", "fm", "ars", "matrices", "parameters", "stored", "prototypes", "bounds")),
    **dict.fromkeys(("parameter_bound", "growth", "seconds", "params", "views", "separation")),
    "error": "out of | memory\n<b>",
}


def build_case(
    label: Mapping[str, Any],
    method: str = "hpn",
    backbone: str | None = None,
    *,
    level: float = 90.0,
    loss: float = 2.0,
    num_tasks: int = 3,
    num_seeds: int = 2,
    has_views: bool = False,
    **fields: Any,
) -> Content:
    """A case whose tasks are learned at ``level`` and lose ``loss`` points with each further task."""
    matrices = [
        [[level - loss * (i - j) - j + 0.4 * seed * (j + 1) for j in range(i + 1)] for i in range(num_tasks)]
        for seed in range(num_seeds)
    ]
    forgets = method != "joint"
    hpn = method == "hpn"
    prototypes = {name: 4.0 * (k + 1) for k, name in enumerate(LEVELS)}
    case = {
        "case": dict(label),
        "method": method,
        "backbone": backbone,
        **{
            name: summarize([METRICS[name](Measured(matrix, forgets=forgets)) for matrix in matrices])
            for name in ("am", "fm", "ars")
        },
        "matrices": matrices,
        "parameters": 1234.5,
        "stored": 98765.0,
        "prototypes": prototypes if hpn else None,
        "bounds": {"atomic": 40, "node": 10**9, "class": 10**400} if hpn else None,
        "parameter_bound": 5000 if hpn else None,
        "growth": [
            {
                "parameters": 400.0 * (i + 1),
                "stored": 500.0 * (i + 1),
                "prototypes": {name: num * (i + 1) / num_tasks for name, num in prototypes.items()},
                "most_prototypes": dict(prototypes),
            }
            for i in range(num_tasks)
        ]
        if hpn
        else None,
        "seconds": {"fit": 12.5, "predict": 0.25},
        "params": {"lr": 0.01},
        "views": [_view(i) for i in range(num_tasks)] if has_views else None,
        "separation": [_separation(i, num_seeds) for i in range(num_tasks)] if has_views else None,
        "command": f"hpn run cora --method {method}",
        "error": None,
    }
    return {**case, **fields}


def _view(after: int) -> Content:
    classes = [c for c in range(2 * after + 2) for _ in range(12)]
    points = [[10.0 * c + (k * 7 % 5), 8.0 * (c % 2) + (k * 3 % 7)] for k, c in enumerate(classes)]
    return {"after": after, "points": points, "classes": classes, "silhouette": 0.62, "neighbors": 91.0}


def _separation(after: int, num_seeds: int) -> Content:
    return {
        "after": after,
        "silhouette": summarize([0.5 - 0.02 * after + 0.01 * seed for seed in range(num_seeds)]),
        "neighbors": summarize([90.0 - after + seed for seed in range(num_seeds)]),
        "neighbors_within": summarize([97.0 + seed for seed in range(num_seeds)]),
    }


def build_section(
    experiment: str,
    dataset: str = "cora",
    *,
    num_tasks: int = 3,
    num_seeds: int = 2,
    nodes: int = 2708,
    is_paper: bool = True,
) -> Content:
    """All cases that the experiment has, with numbers that rise from one to the next."""
    graph: Any = SimpleNamespace(num_nodes=nodes)
    cases = EXPERIMENTS[experiment].cases(graph)
    return {
        "dataset": dataset,
        "nodes": nodes,
        "classes": {str(c): f"topic {c}" for c in range(2 * num_tasks)},
        "tasks": [[2 * i, 2 * i + 1] for i in range(num_tasks)],
        "seeds": list(range(num_seeds)),
        "is_paper_protocol": is_paper,
        "command": f"hpn reproduce {experiment} --datasets {dataset} --seeds {num_seeds}",
        "versions": {"python": "3.11.7", "hpn": "0.1.0"},
        "cases": [
            build_case(
                *(case.label, case.cell.method, case.cell.backbone),
                level=70.0 + 27.0 * (k + 1) / len(cases),
                loss=3.0 if case.cell.method != "hpn" else 0.1,
                num_tasks=num_tasks,
                num_seeds=num_seeds,
                has_views=case.views,
            )
            for k, case in enumerate(cases)
        ],
    }


def build_content(experiment: str, *sections: Content, **options: Any) -> Content:
    """The JSON of an experiment; without sections, one on Cora."""
    found = list(sections) or [build_section(experiment, **options)]
    return {"schema": 1, "experiment": experiment, "sections": found}


def fail_case(section: Content, number: int) -> None:
    section["cases"][number] |= FAILED


def write_graph_file(path: Path, num_nodes: int, num_classes: int, noise: float) -> Path:
    """A ring of nodes, each next to nodes of its own class, as an ``.npz`` file."""
    labels = np.arange(num_nodes) % num_classes
    features = np.eye(num_classes)[labels]
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        path,
        adj_indptr=np.arange(num_nodes + 1),
        adj_indices=(np.arange(num_nodes) + num_classes) % num_nodes,
        adj_shape=np.array([num_nodes, num_nodes]),
        attr_matrix=features + noise * np.random.default_rng(0).normal(size=features.shape),
        labels=labels,
    )
    return path


def read_results(folder: Path) -> dict[str, Any]:
    """The JSON files of a folder without times, which no two runs share."""
    found = {path.name: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    for content in found.values():
        for case in (case for section in content["sections"] for case in section["cases"]):
            del case["seconds"]
    return found


@pytest.fixture
def write_graph() -> Callable[..., Path]:
    return lambda path, num_nodes=80, num_classes=4, noise=0.3: write_graph_file(path, num_nodes, num_classes, noise)


@pytest.fixture
def results_of() -> Callable[[Path], dict[str, Any]]:
    return read_results


@pytest.fixture(params=list(EXPERIMENTS))
def experiment(request: pytest.FixtureRequest) -> str:
    """Each experiment in turn."""
    return str(request.param)


@pytest.fixture
def make_section() -> Callable[..., Content]:
    return build_section


@pytest.fixture
def make_content() -> Callable[..., Content]:
    return build_content


@pytest.fixture
def fail() -> Callable[[Content, int], None]:
    return fail_case
