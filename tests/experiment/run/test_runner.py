from __future__ import annotations

import errno
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import hpn
from hpn.errors import CheckpointError, ConfigError, DataError, RunFolderError
from hpn.evaluation import Row
from hpn.experiment.run import seed as seed_run
from hpn.experiment.run.checkpoint import load_checkpoint, save_checkpoint
from hpn.experiment.run.config import resolve_config
from hpn.experiment.run.environment import Stopwatch
from hpn.experiment.run.result import RunResult
from hpn.experiment.run.runner import run
from hpn.experiment.run.seed import load_learner
from hpn.experiment.watch import Watcher
from hpn.learners import NCM, Progress
from hpn.streams import TaskStream

DATA = {"data.num_nodes": 200, "data.num_links": 800, "data.num_classes": 6}
SETTINGS = {**DATA, "epochs": 6}
NOT_COMPARED = {"seconds", "peak_rss_mb", "out", "command"}


def quick(out: Path, **changes: Any) -> RunResult:
    return run("synthetic", **{"method": "finetune", "settings": SETTINGS, "out": out, **changes})


def numbers(result: RunResult) -> dict[str, Any]:
    return {key: value for key, value in result.to_json().items() if key not in NOT_COMPARED}


def events(folder: Path, seed: int = 0) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"seed-{seed}" / "log.jsonl").read_text().splitlines()]


class Break(Watcher):
    """Stops the run at a chosen event, as a crash would; counts epochs."""

    def __init__(self, at: int = 10**6) -> None:
        self.left, self.epochs = at, 0
        self.started: tuple[int, int] | None = None
        self.seeds: list[tuple[int, bool]] = []

    def seed_started(self, seed: int, first_task: int, first_epoch: int) -> None:
        self.started = (first_task, first_epoch)

    def epoch_finished(self, seed: int, progress: Progress) -> None:
        self.epochs += 1
        self._tick()

    def step_finished(self, seed: int, task: int, row: Row) -> None:
        self._tick()

    def seed_finished(self, seed: int, *, reused: bool) -> None:
        self.seeds.append((seed, reused))

    def _tick(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_the_folder_holds_everything_and_seeds_are_independent(tmp_path: Path) -> None:
    rng, threads = torch.get_rng_state(), torch.get_num_threads()
    result = quick(tmp_path / "both", seeds=2)
    assert json.loads((tmp_path / "both" / "result.json").read_text()) == result.to_json()
    config = json.loads((tmp_path / "both" / "config.json").read_text())
    assert (config["params"]["epochs"], config["versions"]["torch"]) == (6, torch.__version__)
    for seed in range(2):
        names = {path.name.partition("-")[0] for path in (tmp_path / "both" / f"seed-{seed}").iterdir()}
        assert names == {"result.json", "checkpoint.json", "state", "log.jsonl"}
        logged = events(tmp_path / "both", seed)
        assert [event["event"] for event in logged].count("epoch") == 3 * 6
        assert [event["accuracy"] for event in logged if event["event"] == "step"] == result["matrices"][seed]
    assert result["matrices"][0] != result["matrices"][1]
    alone = quick(tmp_path / "alone", seeds=[1])
    assert alone["matrices"][0] == result["matrices"][1]
    assert torch.equal(torch.get_rng_state(), rng), "the caller's state is not changed"
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()


def test_growth_is_reported_per_task(tmp_path: Path) -> None:
    settings = {**DATA, "preset": "paper", "epochs": 2, "warmup_epochs": 1}
    result = quick(tmp_path, method="hpn", settings=settings, seeds=2)
    growth = result["growth"]
    assert len(growth) == 3
    assert all(growth[-1][key] == result[key] for key in ("parameters", "stored", "prototypes"))
    assert growth[0]["parameters"] < growth[1]["parameters"] < growth[2]["parameters"]
    assert result["parameters"] < result["parameter_bound"]
    assert 50 < result["peak_rss_mb"] < 100_000
    other = quick(tmp_path / "finetune", settings={**DATA, "epochs": 1})
    assert [step["prototypes"] for step in other["growth"]] == [None] * 3
    assert other["parameter_bound"] is None


@pytest.mark.parametrize(
    ("method", "scenario"), [("finetune", "task"), ("joint", "class"), ("probe", "class"), ("ncm", "task")]
)
def test_interrupted_anywhere_it_ends_with_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, scenario: str
) -> None:
    monkeypatch.setattr(seed_run, "CHECKPOINT_SHARE", 1e9)  # a checkpoint after every epoch
    settings = SETTINGS if method in {"finetune", "joint"} else DATA
    choices = {"method": method, "scenario": scenario, "settings": settings, "seeds": 2}
    for at in (1, 2, 1) if settings is DATA else (1, 2, 5, 9, 3):
        with pytest.raises(KeyboardInterrupt):
            quick(tmp_path / "broken", watcher=Break(at), **choices)
    assert numbers(quick(tmp_path / "broken", **choices)) == numbers(quick(tmp_path / "whole", **choices))


def test_a_resumed_run_does_not_repeat_finished_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seed_run, "CHECKPOINT_SHARE", 1e9)
    with pytest.raises(KeyboardInterrupt):
        quick(tmp_path, watcher=Break(4))
    (tmp_path / "seed-0" / ".checkpoint.json.123.part").write_text("{")
    with (tmp_path / "seed-0" / "log.jsonl").open("a") as log:
        log.write('{"event": "st')  # a crash in the middle of a line
    watcher = Break()
    first = quick(tmp_path, watcher=watcher)
    assert (watcher.started, watcher.epochs) == ((0, 3), 3 * 6 - 3)
    steps = [(event["step"], event["done"]) for event in events(tmp_path) if event["event"] == "epoch"]
    assert steps == [(task, done) for task in range(3) for done in range(1, 7)], "no epoch twice in the log"
    assert not list(tmp_path.rglob("*.part")), "half-written files are deleted"
    more = quick(tmp_path, seeds=2, watcher=watcher)
    assert watcher.seeds == [(0, False), (0, True), (1, False)], "a finished seed is not run again"
    assert more["matrices"][0] == first["matrices"][0]


def test_seconds_add_up_over_a_crash() -> None:
    watch = Stopwatch({"fit": 10.0, "predict": 1.0, "total": 12.0})
    time.sleep(0.02)
    first, second = watch.lap("fit"), watch.lap("predict")
    assert 10.015 < first["fit"] == second["fit"] < 11
    assert 1.0 < second["predict"] < 1.01
    assert second["total"] == pytest.approx(1 + second["fit"] + second["predict"])


def test_a_checkpoint_that_does_not_fit_is_named(tmp_path: Path) -> None:
    quick(tmp_path)
    (tmp_path / "seed-0" / "result.json").unlink()
    content = load_checkpoint(tmp_path / "seed-0")
    assert content is not None
    learned = content["learner"]
    earlier = {**content, "learner": {**learned, "rng": learned["rng"]["cpu"]}}  # of one generator, as it once was
    for damaged in ({**content, "rows": [{"accuracy": []}]}, {**content, "learner": {"tasks": []}}, earlier):
        save_checkpoint(tmp_path / "seed-0", damaged)
        with pytest.raises(CheckpointError, match="does not fit this method") as error:
            quick(tmp_path)
        assert "\n" not in str(error.value)
    with pytest.raises(CheckpointError, match=r"or this version of it .*use --fresh"):
        load_learner(tmp_path)


@pytest.mark.parametrize("seeds", [0, -1, [], [1, 1], [-1]])
def test_nothing_is_written_when_seeds_are_wrong(tmp_path: Path, seeds: Any) -> None:
    with pytest.raises(ConfigError, match="seeds must be"):
        quick(tmp_path / "x", seeds=seeds)
    assert not (tmp_path / "x").exists()


def test_a_learner_can_be_loaded_and_evaluated(tmp_path: Path) -> None:
    result = quick(tmp_path, seeds=2)
    learner = load_learner(tmp_path, seed=1)
    config, graph = resolve_config("synthetic", method="finetune", settings=SETTINGS)
    stream = TaskStream(graph, tasks=config.tasks, seed=1)
    assert hpn.evaluate(learner, stream, after=2, mode="oracle").accuracy == result["matrices"][1][-1]
    with pytest.raises(RunFolderError, match="no checkpoint of seed 7"):
        load_learner(tmp_path, seed=7)
    with pytest.raises(RunFolderError, match="not a run folder"):
        load_learner(tmp_path / "seed-0")


class Mine(NCM):
    """A learner from outside the package."""


def test_a_method_may_be_a_class_or_its_name_and_is_loaded_again(tmp_path: Path) -> None:
    result, plain = (quick(tmp_path / str(method), method=method, settings=DATA) for method in (Mine, "ncm"))
    assert result.matrices == plain.matrices
    assert result.method == f"{Mine.__module__}:Mine"
    assert f"--method {Mine.__module__}:Mine" in (result.command or "")
    if Mine.__module__ in sys.modules:
        assert isinstance(load_learner(tmp_path / str(Mine)), Mine)
    with pytest.raises(ConfigError, match=r"subclass of hpn\.Learner, got dict"):
        quick(tmp_path / "no", method=dict)
    with pytest.raises(ConfigError, match="cannot be imported"):
        quick(tmp_path / "no", method="no_such_module:Learner")
    with pytest.raises(TypeError, match=r"hpn\.run has no argument 'backbon'; did you mean 'backbone'"):
        run("digits", backbon="gcn")


def test_a_learner_of_ones_own_runs_again_when_its_code_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "from hpn.learners import NCM\nclass Own(NCM):\n  def _scores(self, query):\n    return {}{}"
    means = []
    for sign in ("", "-"):
        (tmp_path / "own_learner.py").write_text(code.format(sign, "super()._scores(query)"))
        monkeypatch.delitem(sys.modules, "own_learner", raising=False)
        importlib.invalidate_caches()
        means.append(run("synthetic", method="own_learner:Own", settings=DATA).am.mean)  # type: ignore[union-attr]
    assert means[0] > means[1]

    class Local(NCM):
        """Cannot be imported by its name."""

    assert quick(tmp_path / "local", method=Local, settings=DATA).am is not None
    (tmp_path / "broken.py").write_text("x = (")
    for method, message in (("broken:Own", "SyntaxError"), (":Own", "unknown method"), (3, "unknown method")):
        with pytest.raises(ConfigError, match=message):
            quick(tmp_path / "no", method=method)


def test_later_tasks_are_evaluated_where_that_is_possible(tmp_path: Path) -> None:
    plain, ahead = quick(tmp_path / "a"), quick(tmp_path / "b", evaluate_ahead=True)
    assert [len(row) for row in ahead.matrices[0]] == [3, 3, 3]
    assert [row[: i + 1] for i, row in enumerate(ahead.matrices[0])] == plain.matrices[0]
    assert (plain.metrics["fwt"], ahead.metrics["am"]) == (None, plain.metrics["am"])
    expected = sum(ahead.matrices[0][i][i + 1] - 50 for i in range(2)) / 2
    assert ahead.metrics["fwt"].mean == pytest.approx(expected)  # type: ignore[union-attr]
    for choice in ({"scenario": "class"}, {"method": "ncm", "settings": {}}):
        with pytest.raises(ConfigError, match="classes that it has not seen"):
            quick(tmp_path / "no", evaluate_ahead=True, **choice)


def test_intransigence_refers_to_another_run(tmp_path: Path) -> None:
    joint = tmp_path / "joint"
    best = quick(joint, method="joint", seeds=2)
    result = quick(tmp_path / "mine", seeds=2, reference=joint)
    gaps = [sum(a[j][j] - b[j][j] for j in range(3)) / 3 for a, b in zip(best.matrices, result.matrices, strict=True)]
    assert result.metrics["intransigence"].values == pytest.approx(gaps)  # type: ignore[union-attr]
    assert result.reference == str(joint)
    assert (result.command or "").endswith(f"--reference {joint}")
    assert quick(tmp_path / "mine", seeds=2).metrics["intransigence"] is None
    for changes, message in (
        ({"seeds": 3}, "has no seed 2"),
        ({"edges": "seen"}, "has edges within, this run seen"),
        ({"settings": {**SETTINGS, "data.graph_seed": 1}}, "has data_sha256"),
        ({"tasks": "0,1;2,3"}, "other steps"),
    ):
        with pytest.raises(DataError, match=message):
            quick(tmp_path / "no", reference=joint, **changes)


def test_a_single_class_to_choose_from_is_not_measured(tmp_path: Path) -> None:
    choices = {"method": "ncm", "settings": DATA, "tasks": "0;1"}
    result = quick(tmp_path / "a", **choices)
    assert result.is_trivial
    assert not any(result.metrics.values())
    global_ = quick(tmp_path / "b", **choices, scenario="class")
    assert not global_.is_trivial
    assert global_.am is not None


def test_a_full_disk_is_reported_with_what_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(folder: Path, content: dict[str, Any]) -> None:
        if len(content["rows"]) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        save_checkpoint(folder, content)

    with monkeypatch.context() as patch:
        patch.setattr(seed_run, "save_checkpoint", save)
        with pytest.raises(RunFolderError, match=r"no space left to write .*; 1 of 3 steps of seed 0 are kept"):
            quick(tmp_path / "a")
    assert numbers(quick(tmp_path / "a")) == numbers(quick(tmp_path / "b"))
