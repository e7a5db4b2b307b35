from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import silhouette_score
from torch import Tensor

from hpn.datasets import load_dataset
from hpn.errors import ConfigError
from hpn.evaluation import Row
from hpn.experiment.run import views
from hpn.experiment.run.runner import run
from hpn.experiment.run.views import make_view
from hpn.experiment.watch import Watcher
from hpn.learners import LEARNERS
from hpn.streams import Query, TaskStream

DATA = {"data.num_nodes": 200, "data.num_links": 800, "data.num_classes": 6, "data.noise": 0.3}
SOLVED, PAPER = {**DATA, "width": 100}, {**DATA, "preset": "paper", "epochs": 2, "warmup_epochs": 1}


def quick(out: Path, **changes: Any) -> dict[str, Any]:
    return run("synthetic", **{"method": "hpn", "settings": SOLVED, "out": out, **changes})


class Fixed(LEARNERS["ncm"]):  # type: ignore[misc]
    """Represents nodes by a function."""

    def __init__(self, represented: Any) -> None:
        super().__init__(seed=0)
        self._represented = represented

    def represent(self, query: Query) -> Tensor:
        return self._represented(query)  # type: ignore[no-any-return]


@pytest.fixture
def stream() -> TaskStream:
    return TaskStream(load_dataset("digits"))


def _answers(stream: TaskStream, after: int) -> dict[int, Tensor]:
    return {task: stream.query(step=task, after=after, evaluate="oracle")[1].y for task in range(after + 1)}


def test_classes_that_separate_and_classes_that_do_not(stream: TaskStream) -> None:
    y = _answers(stream, 1)
    noise = torch.Generator().manual_seed(0)

    def apart(query: Query) -> Tensor:
        own = y[query.task]  # type: ignore[index]
        return torch.nn.functional.one_hot(own, 10) + 0.01 * torch.randn(len(own), 10, generator=noise)

    def together(query: Query) -> Tensor:  # the first class of every task is the same, and the second
        own = y[query.task] - 2 * query.task  # type: ignore[index, operator]
        return torch.nn.functional.one_hot(own, 2) + 0.01 * torch.randn(len(own), 2, generator=noise)

    view = make_view(Fixed(apart), stream, 1)
    assert view.silhouette > 0.9
    assert view.neighbors == view.neighbors_within == 100.0
    assert silhouette_score(view.points, view.classes) > 0.5, "the picture keeps them apart"

    view = make_view(Fixed(together), stream, 1)
    assert view.neighbors_within == 100.0
    assert view.neighbors < 80.0
    assert view.silhouette < 0.1


@pytest.mark.parametrize("width", [1, 3])
def test_nodes_represented_alike(stream: TaskStream, width: int) -> None:
    view = make_view(Fixed(lambda query: torch.ones(len(query.nodes), width)), stream, 0)
    assert len({tuple(point) for point in view.points}) == 1
    assert np.isfinite(view.silhouette)


def test_of_many_nodes_every_view_has_the_same_share(stream: TaskStream, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[np.ndarray] = []

    def plane(x: np.ndarray, seed: int) -> np.ndarray:
        seen.append(x)
        return np.zeros((len(x), 2))

    monkeypatch.setattr(views, "MAX_NODES", 50)
    monkeypatch.setattr(views, "draw_tsne", plane)
    learner = Fixed(lambda query: torch.arange(len(query.nodes)).double().unsqueeze(1))
    assert [len(make_view(learner, stream, after).classes) for after in (0, 1)] == [10, 20]
    assert np.array_equal(seen[1][:10], seen[0])


class Break(Watcher):
    def step_finished(self, seed: int, task: int, row: Row) -> None:
        if task == 1:
            raise KeyboardInterrupt


@pytest.mark.parametrize("settings", [SOLVED, PAPER], ids=["best", "paper"])
def test_a_run_with_views_interrupted_or_requested_later(
    tmp_path: Path, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With points that depend on all numbers and on the seed, as those of t-SNE do, but take no time."""
    monkeypatch.setattr(
        views, "draw_tsne", lambda x, seed: x @ np.random.default_rng(seed).normal(size=(x.shape[1], 2))
    )
    result = quick(tmp_path / "once", seeds=2, settings=settings, views=True)
    for folder, with_views in (("twice", True), ("twice without", False)):
        with pytest.raises(KeyboardInterrupt):
            quick(tmp_path / folder, seeds=2, settings=settings, views=with_views, watcher=Break())
        quick(tmp_path / folder, seeds=2, settings=settings, views=True)
    plain = quick(tmp_path / "later", seeds=2, settings=settings)
    assert plain["matrices"] == result["matrices"], "drawing changes nothing"
    assert not (tmp_path / "later" / "views.json").exists()
    quick(tmp_path / "later", seeds=2, settings=settings, views=True)
    names = ("once", "twice", "twice without", "later")
    once, *others = (json.loads((tmp_path / name / "views.json").read_text()) for name in names)
    assert others == [once] * 3
    assert once["seeds"] == [0, 1]
    assert once["views"][0] != once["views"][1]
    for of_seed in once["views"]:
        assert [view["after"] for view in of_seed] == [0, 1, 2]
        assert {*of_seed[-1]["classes"]} == {label for task in result["tasks"] for label in task}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "finetune", "settings": DATA}, "finetune has no representations to view; use hpn"),
        ({"evaluate": "global"}, "evaluate 'global' does not give"),
    ],
)
def test_a_run_without_views_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        quick(tmp_path / "out", views=True, **changes)
    assert not (tmp_path / "out").exists()
