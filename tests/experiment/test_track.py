from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hpn.errors import ConfigError
from hpn.experiment import track
from hpn.experiment.run.result import RunResult
from hpn.experiment.run.runner import run
from hpn.experiment.track import track_run
from hpn.experiment.watch import Watcher

Points = dict[str, list[tuple[int, float]]]
DATA = {"data.num_nodes": 120, "data.num_links": 400, "data.num_features": 6, "data.num_classes": 6}


def learn(out: Path, epochs: int = 3, **choices: Any) -> RunResult:
    settings = {**DATA, "epochs": epochs}
    return run("synthetic", method="finetune", settings=settings, seeds=2, out=out, recipe=None, **choices)


def read_tensorboard(folder: Path) -> Points:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def read_mlflow(folder: Path) -> Points:
    from mlflow import MlflowClient

    client = MlflowClient()
    entry = track.read_json(folder / ".mlflow")["run"]
    names = client.get_run(entry).data.metrics
    return {name: [(m.step, m.value) for m in client.get_metric_history(entry, name)] for name in names}


def status(folder: Path) -> str:
    from mlflow import MlflowClient

    return str(MlflowClient().get_run(track.read_json(folder / ".mlflow")["run"]).info.status)


READERS = {"tensorboard": read_tensorboard, "mlflow": read_mlflow}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where MLflow keeps what the tests of this file send: making its tables takes seconds."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow') / 'mlflow.db'}"


@pytest.fixture(params=sorted(READERS))
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, database: str) -> str:
    pytest.importorskip(request.param)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", database)
    return str(request.param)


@pytest.fixture
def read(name: str) -> Callable[[Path], Points]:
    return READERS[name]


pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of TensorBoard, MLflow and SQLAlchemy
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def check_sent(folder: Path, result: RunResult, read: Callable[[Path], Points]) -> None:
    for seed, matrix in zip(result.seeds, result.matrices, strict=True):
        points = read(folder / f"seed-{seed}")
        last = matrix[-1]
        assert [step for step, _ in points["am"]] == [1, 2, 3]
        assert points["am"][-1][1] == pytest.approx(sum(last) / len(last), rel=1e-6)
        for j, value in enumerate(last):
            assert points[f"accuracy/step-{j + 1:02d}"][-1] == (3, pytest.approx(value, rel=1e-6))
            assert len(points[f"accuracy/step-{j + 1:02d}"]) == 3 - j
        assert [step for step, _ in points["epoch/loss"]] == list(range(1, 10))
    am = result.metrics["am"]
    assert am is not None
    summary = read(folder)
    assert summary["am_mean"] == [(3, pytest.approx(am.mean, rel=1e-6))]
    assert summary["am_std"] == [(3, pytest.approx(am.std, rel=1e-6))]


def test_a_run_is_sent_and_tracking_changes_nothing(name: str, read: Callable[[Path], Points], tmp_path: Path) -> None:
    result = learn(tmp_path / "run", track=name)
    check_sent(tmp_path / "run", result, read)
    assert result.matrices == learn(tmp_path / "untracked").matrices


def test_a_resumed_run_is_sent_once(name: str, read: Callable[[Path], Points], tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    class StopsLater(Watcher):
        def epoch_finished(self, seed: int, progress: Any) -> None:
            if progress.task == 1 and progress.done == 2:
                raise Stop

    with pytest.raises(Stop):
        learn(tmp_path / "run", track=name, watcher=StopsLater())
    if name == "mlflow":
        assert [status(tmp_path / "run" / part) for part in (".", "seed-0")] == ["KILLED", "KILLED"]
    check_sent(tmp_path / "run", learn(tmp_path / "run", track=name), read)


def test_a_finished_run_is_sent_completely_and_again_without_repetitions(
    name: str, read: Callable[[Path], Points], tmp_path: Path
) -> None:
    result = learn(tmp_path / "run")
    for _ in range(2):
        track_run(tmp_path / "run", name)
        check_sent(tmp_path / "run", result, read)


def test_many_quick_epochs_are_few_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard")
    sizes: list[int] = []
    send = track.TensorBoard.send

    def count(self: track.TensorBoard, points: Any) -> None:
        sizes.append(len(points))
        send(self, points)

    monkeypatch.setattr(track.TensorBoard, "send", count)
    monkeypatch.setattr(track, "INTERVAL", 1e9)
    check_sent(tmp_path / "run", learn(tmp_path / "run", track="tensorboard"), read_tensorboard)
    assert sizes == [4, 4, 4, 4, 4, 4, 1], "three epochs and a step each, and the summary"


def test_a_tracker_that_fails_does_not_stop_a_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise OSError("the server is gone")

    monkeypatch.setattr(track.TRACKERS[name], "send", fail)
    with caplog.at_level(logging.WARNING):
        learn(tmp_path / "run", track=name)
    assert "tracking stopped (the server is gone)" in caplog.text


def test_what_cannot_be_used_is_one_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"unknown tracker 'tensorbord'; did you mean 'tensorboard'"):
        learn(tmp_path / "run", track="tensorbord")
    monkeypatch.setattr(track.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=rf"install it with: pip install 'hpn\[{name}\]'"):
        learn(tmp_path / "run", track=name)
    assert not (tmp_path / "run").exists()
