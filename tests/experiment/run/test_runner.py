from __future__ import annotations

import errno
import importlib
import json
import sys
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
from hpn.experiment.run.result import RunResult
from hpn.experiment.run.runner import run
from hpn.experiment.run.seed import load_learner
from hpn.experiment.watch import Watcher
from hpn.learners import NCM, Progress
from hpn.streams import TaskStream

SETTINGS = {"epochs": 12, "data.num_nodes": 200, "data.num_links": 800, "data.num_classes": 6}
NOT_COMPARED = {"seconds", "peak_rss_mb", "out", "command"}


def quick(out: Path, **changes: Any) -> RunResult:
    return run("synthetic", **{"method": "finetune", "settings": SETTINGS, "out": out, **changes})


def numbers(result: RunResult) -> dict[str, Any]:
    return {key: value for key, value in result.to_json().items() if key not in NOT_COMPARED}


def _lines(folder: Path, seed: int) -> list[str]:
    return (folder / f"seed-{seed}" / "log.jsonl").read_text().splitlines()


def test_the_folder_holds_everything(tmp_path: Path) -> None:
    result = quick(tmp_path, seeds=2)
    assert json.loads((tmp_path / "result.json").read_text()) == result.to_json()
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["params"]["epochs"] == 12
    assert config["versions"]["torch"] == torch.__version__
    for seed in range(2):
        names = {path.name.partition("-")[0] for path in (tmp_path / f"seed-{seed}").iterdir()}
        assert names == {"result.json", "checkpoint.json", "state", "log.jsonl"}
        events = [json.loads(line) for line in _lines(tmp_path, seed)]
        assert [event["event"] for event in events].count("epoch") == 3 * 12
        tasks = [event["accuracy"] for event in events if event["event"] == "step"]
        assert tasks == result["matrices"][seed]


def test_same_seed_same_numbers_and_other_seed_others(tmp_path: Path) -> None:
    first, second = (quick(tmp_path / name, seeds=[4]) for name in ("a", "b"))
    assert numbers(first) == numbers(second)
    assert quick(tmp_path / "c", seeds=[5])["matrices"] != first["matrices"]


def test_growth_is_told_task_by_task(tmp_path: Path) -> None:
    result = quick(tmp_path, method="hpn", settings={**SETTINGS, "preset": "paper", "epochs": 2}, seeds=2)
    growth = result["growth"]
    assert len(growth) == 3
    assert growth[-1]["parameters"] == result["parameters"]
    assert growth[-1]["stored"] == result["stored"]
    assert growth[-1]["prototypes"] == result["prototypes"]
    assert growth[0]["parameters"] < growth[1]["parameters"] < growth[2]["parameters"]
    assert result["parameters"] < result["parameter_bound"]
    other = quick(tmp_path / "finetune", settings={**SETTINGS, "epochs": 2})
    assert [step["prototypes"] for step in other["growth"]] == [None] * 3
    assert other["parameter_bound"] is None


def test_seeds_do_not_depend_on_each_other(tmp_path: Path) -> None:
    both = quick(tmp_path / "both", seeds=2)
    alone = quick(tmp_path / "alone", seeds=[1])
    assert both["matrices"][1] == alone["matrices"][0]


def test_the_callers_random_state_threads_and_settings_are_left_alone(tmp_path: Path) -> None:
    rng, threads = torch.get_rng_state(), torch.get_num_threads()
    quick(tmp_path)
    assert torch.equal(torch.get_rng_state(), rng)
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()


class Break(Watcher):
    """Stops the run at a chosen event, as a crash would."""

    def __init__(self, at: int) -> None:
        self.left = at

    def _tick(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

    def epoch_finished(self, seed: int, progress: Progress) -> None:
        self._tick()

    def step_finished(self, seed: int, task: int, row: Row) -> None:
        self._tick()


@pytest.mark.parametrize("method", ["finetune", "joint", "probe", "ncm"])
@pytest.mark.parametrize("scenario", ["task", "class"])
def test_interrupted_anywhere_it_ends_with_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, scenario: str
) -> None:
    monkeypatch.setattr(seed_run, "CHECKPOINT_SHARE", 1e9)  # a checkpoint after every epoch
    settings = {key: value for key, value in SETTINGS.items() if key != "epochs" or method in ("finetune", "joint")}
    choices = {"method": method, "scenario": scenario, "settings": settings, "seeds": 2}
    whole = quick(tmp_path / "whole", **choices)
    breaks = 0
    for at in (1, 2, 5, 9, 12, 14, 20, 3, 30, 2):
        try:
            broken = quick(tmp_path / "broken", watcher=Break(at), **choices)
            break
        except KeyboardInterrupt:
            breaks += 1
    else:
        broken = quick(tmp_path / "broken", **choices)
    assert breaks >= 3
    assert numbers(broken) == numbers(whole)


def test_a_resumed_run_does_not_do_finished_epochs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seed_run, "CHECKPOINT_SHARE", 1e9)
    with pytest.raises(KeyboardInterrupt):
        quick(tmp_path, watcher=Break(6))

    class Count(Watcher):
        started: tuple[int, int] | None = None
        steps = 0

        def seed_started(self, seed: int, first_task: int, first_epoch: int) -> None:
            self.started = (first_task, first_epoch)

        def epoch_finished(self, seed: int, progress: Progress) -> None:
            self.steps += 1

    count = Count()
    quick(tmp_path, watcher=count)
    assert count.started == (0, 5)
    assert count.steps == 3 * 12 - 5
    events = [json.loads(line) for line in _lines(tmp_path, 0)]
    steps = [(event["step"], event["done"]) for event in events if event["event"] == "epoch"]
    assert steps == [(task, done) for task in range(3) for done in range(1, 13)], "no epoch twice in the log"


def test_what_a_crash_left_half_written_goes(tmp_path: Path) -> None:
    (tmp_path / "seed-0").mkdir()
    (tmp_path / "config.json").write_text(
        json.dumps(resolve_config("synthetic", method="finetune", settings=SETTINGS)[0].to_json())
    )
    (tmp_path / "seed-0" / ".checkpoint.json.123.part").write_text("{")
    quick(tmp_path)
    assert not list(tmp_path.rglob("*.part"))


def test_a_finished_run_is_not_run_again_but_may_get_more_seeds(tmp_path: Path) -> None:
    first = quick(tmp_path)

    class Reused(Watcher):
        seeds: list[tuple[int, bool]] = []  # noqa: RUF012

        def seed_finished(self, seed: int, *, reused: bool) -> None:
            self.seeds.append((seed, reused))

    watcher = Reused()
    more = quick(tmp_path, seeds=2, watcher=watcher)
    assert watcher.seeds == [(0, True), (1, False)]
    assert more["matrices"][0] == first["matrices"][0]


def test_a_checkpoint_that_does_not_fit_is_named(tmp_path: Path) -> None:
    quick(tmp_path)
    (tmp_path / "seed-0" / "result.json").unlink()
    content = load_checkpoint(tmp_path / "seed-0")
    assert content is not None
    del content["learner"]["network"]
    save_checkpoint(tmp_path / "seed-0", content)
    with pytest.raises(CheckpointError, match="does not fit this method"):
        quick(tmp_path)


@pytest.mark.parametrize("seeds", [0, -1, [], [1, 1], [-1]])
def test_seeds_that_cannot_be(tmp_path: Path, seeds: Any) -> None:
    with pytest.raises(ConfigError, match="seeds must be"):
        quick(tmp_path / "x", seeds=seeds)
    assert not (tmp_path / "x").exists()


def test_nothing_is_written_when_an_argument_is_wrong(tmp_path: Path) -> None:
    for wrong in ({"settings": {"epochs": 0}}, {"method": "nope"}, {"tasks": "0,0"}, {"edges": "no"}):
        with pytest.raises(ConfigError):
            quick(tmp_path / "x", **wrong)
    assert not (tmp_path / "x").exists()


def test_a_learner_can_be_loaded_and_asked(tmp_path: Path) -> None:
    result = quick(tmp_path, seeds=2)
    learner = load_learner(tmp_path, seed=1)
    config, graph = resolve_config("synthetic", method="finetune", settings=SETTINGS)
    stream = TaskStream(graph, tasks=config.tasks, seed=1)
    row = hpn.evaluate(learner, stream, after=2, mode="oracle")
    assert row.accuracy == result["matrices"][1][-1]
    with pytest.raises(RunFolderError, match="no checkpoint of seed 7"):
        load_learner(tmp_path, seed=7)
    with pytest.raises(RunFolderError, match="not a run folder"):
        load_learner(tmp_path / "seed-0")


class Mine(NCM):
    """A learner from outside the package."""


def test_a_method_may_be_a_class_or_its_name_and_is_loaded_again(tmp_path: Path) -> None:
    settings = {key: value for key, value in SETTINGS.items() if key != "epochs"}
    result = quick(tmp_path / "mine", method=Mine, settings=settings)
    plain = quick(tmp_path / "ncm", method="ncm", settings=settings)
    assert result.matrices == plain.matrices
    assert result.method == f"{Mine.__module__}:Mine"
    assert f"--method {Mine.__module__}:Mine" in (result.command or "")
    if Mine.__module__ in sys.modules:
        assert isinstance(load_learner(tmp_path / "mine"), Mine)
    with pytest.raises(ConfigError, match=r"subclass of hpn\.Learner, got dict"):
        quick(tmp_path / "no", method=dict)
    with pytest.raises(ConfigError, match="cannot be imported"):
        quick(tmp_path / "no", method="no_such_module:Learner")


def test_a_learner_of_ones_own_runs_again_when_its_code_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "from hpn.learners import NCM\nclass Own(NCM):\n  def _scores(self, query):\n    return {}{}"
    settings = {key: value for key, value in SETTINGS.items() if key != "epochs"}
    means = []
    for sign in ("", "-"):
        (tmp_path / "own_learner.py").write_text(code.format(sign, "super()._scores(query)"))
        monkeypatch.delitem(sys.modules, "own_learner", raising=False)
        importlib.invalidate_caches()
        result = run("synthetic", method="own_learner:Own", settings=settings)
        means.append(result.am.mean)  # type: ignore[union-attr]
    assert means[0] > means[1]

    class Local(NCM):
        """Not to be imported by its name."""

    assert quick(tmp_path / "local", method=Local, settings=settings).am is not None
    (tmp_path / "broken.py").write_text("x = (")
    for method, message in (("broken:Own", "SyntaxError"), (":Own", "unknown method"), (3, "unknown method")):
        with pytest.raises(ConfigError, match=message):
            quick(tmp_path / "no", method=method)
    with pytest.raises(TypeError, match=r"hpn\.run has no argument 'backbon'; did you mean 'backbone'"):
        run("digits", backbon="gcn")


def test_tasks_to_come_are_asked_about_where_that_is_possible(tmp_path: Path) -> None:
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
    best = quick(tmp_path / "joint", method="joint", seeds=2)
    result = quick(tmp_path / "mine", seeds=2, reference=tmp_path / "joint")
    gaps = [sum(a[j][j] - b[j][j] for j in range(3)) / 3 for a, b in zip(best.matrices, result.matrices, strict=True)]
    assert result.metrics["intransigence"].values == pytest.approx(gaps)  # type: ignore[union-attr]
    assert result.reference == str(tmp_path / "joint")
    assert quick(tmp_path / "mine", seeds=2).metrics["intransigence"] is None
    with pytest.raises(DataError, match="has no seed 2"):
        quick(tmp_path / "more", seeds=3, reference=tmp_path / "joint")
    with pytest.raises(DataError, match="has edges within, this run seen"):
        quick(tmp_path / "seen", seeds=2, edges="seen", reference=tmp_path / "joint")
    changed = {**SETTINGS, "data.graph_seed": 1}
    with pytest.raises(DataError, match="has data_sha256"):
        quick(tmp_path / "data", seeds=2, settings=changed, reference=tmp_path / "joint")
    assert result.command is not None
    assert result.command.endswith(f"--reference {tmp_path / 'joint'}")
    with pytest.raises(DataError, match="other steps"):
        quick(tmp_path / "less", tasks="0,1;2,3", reference=tmp_path / "joint")


def test_a_single_class_to_choose_from_is_not_measured(tmp_path: Path) -> None:
    settings = {key: value for key, value in SETTINGS.items() if key != "epochs"}
    result = quick(tmp_path / "a", method="ncm", settings=settings, tasks="0;1")
    assert result.is_trivial
    assert not any(result.metrics.values())
    global_ = quick(tmp_path / "b", method="ncm", settings=settings, tasks="0;1", scenario="class")
    assert not global_.is_trivial
    assert global_.am is not None


def test_a_full_disk_is_reported_with_what_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[int] = []

    def save(folder: Path, content: dict[str, Any]) -> None:
        if len(content["rows"]) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        saved.append(len(content["rows"]))
        save_checkpoint(folder, content)

    monkeypatch.setattr("hpn.experiment.run.seed.save_checkpoint", save)
    with pytest.raises(RunFolderError, match=r"no space left to write .*; 1 of 3 steps of seed 0 are kept"):
        quick(tmp_path / "a")
    monkeypatch.undo()
    resumed = quick(tmp_path / "a")
    assert numbers(resumed) == numbers(quick(tmp_path / "b"))
