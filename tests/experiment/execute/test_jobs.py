from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
import torch

from hpn.errors import ConfigError
from hpn.experiment.execute import Batch, choose_job_device, jobs, open_executor
from hpn.experiment.execute.jobs import JobEnd, run_job
from hpn.experiment.run.config import resolve_config
from hpn.experiment.run.runner import Job, run
from hpn.experiment.watch import TrialsProgress, Watcher
from hpn.learners import NCM

DATA = {"data.num_nodes": 120, "data.num_links": 400, "data.num_classes": 4}


@pytest.fixture
def job(tmp_path: Path) -> Job:
    config, graph = resolve_config("synthetic", method="ncm", settings=DATA)
    return Job(config, 0, tmp_path / "seed-0", graph=graph)


def test_a_process_loads_the_graph_once_and_refuses_one_that_has_changed(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = mock.Mock(wraps=jobs.find_loader)
    monkeypatch.setattr(jobs, "find_loader", load)
    jobs._load.cache_clear()
    assert run_job(replace(job, is_trial=True), job.graph).error is None
    assert load.call_count == 0, "this process has it"
    assert [run_job(replace(job, is_trial=True, seed=seed)).error for seed in range(2)] == [None, None]
    assert load.call_count == 1
    other = replace(job, config=replace(job.config, data_sha256="other"))
    assert run_job(other).error == "synthetic has changed since the command began; start it again"


def test_a_trial_gives_a_value_and_a_run_its_files(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = replace(job, is_trial=True)
    end = run_job(trial, job.graph)
    assert 0 <= (end.value or -1) <= 100
    assert end.seconds > 0
    assert (run_job(job, job.graph).value, job.is_finished()) == (None, True)
    monkeypatch.setattr(NCM, "_state", lambda _: {"deep": {"weights": torch.tensor([1.0, torch.nan])}})
    end = run_job(trial, job.graph)
    assert (end.error or "").startswith("FloatingPointError: what was learned is not a number (runner.py:")
    assert end.is_numerical
    assert str(job) == "ncm seed 0"
    assert str(replace(job, name="cora ncm")) == "cora ncm seed 0"


@pytest.mark.parametrize(
    ("error", "line", "is_numerical"),
    [
        (FloatingPointError("overflow in\nsome step"), "FloatingPointError: overflow in some step (mock.py:N)", True),
        (torch.linalg.LinAlgError("singular"), "_LinAlgError: singular (mock.py:N)", True),
        (ValueError("Input contains NaN."), "ValueError: Input contains NaN. (mock.py:N)", True),
        (ValueError("a shape is wrong"), "ValueError: a shape is wrong (mock.py:N)", False),
        (ConfigError("wrong \x1b[31m"), "wrong ?[31m", False),
    ],
)
def test_failures_are_one_line(
    job: Job, monkeypatch: pytest.MonkeyPatch, error: Exception, line: str, is_numerical: bool
) -> None:
    monkeypatch.setattr(NCM, "_learn", mock.Mock(side_effect=error))
    end = run_job(job, job.graph)
    assert (re.sub(r":\d+\)", ":N)", end.error or ""), end.is_numerical) == (line, is_numerical)


def test_warnings_of_learners_are_not_shown_between_jobs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = {**DATA, "preset": "paper", "num_extractors": 1, "epochs": 1}
    config, graph = resolve_config("synthetic", settings=settings)
    assert run_job(Job(config, 0, tmp_path / "seed-0"), graph).error is None
    assert not caplog.records
    run("synthetic", settings=settings, out=tmp_path / "alone")
    assert "shares the extractors of earlier tasks" in caplog.text, "a run by itself shows it"


class Scripted:
    """Ends jobs in a given order, some with an error."""

    def __init__(self, order: Sequence[int], errors: Sequence[int] = ()) -> None:
        self.order, self.errors = order, errors
        self.seen: list[str] = []
        self.is_closed = False

    num_workers = 2

    def run(self, jobs: Sequence[Job]) -> Generator[tuple[int, JobEnd], None, None]:
        self.seen += map(str, jobs)
        try:
            for index in self.order:
                yield index, JobEnd("no memory" if index in self.errors else None, 4.0)
        finally:
            self.is_closed = True


def test_progress_of_many_jobs(job: Job) -> None:
    watcher, ended, seen = Watcher(), {}, []
    watcher.jobs_moved = seen.append  # type: ignore[method-assign]
    trials = TrialsProgress(3, 9)
    batch = Batch(Scripted([1, 0, 2, 3], [0]), watcher, total=8, done=2, trials=lambda: trials)
    batch.run([replace(job, seed=seed) for seed in range(4)], lambda job, end: ended.update({job.seed: end.error}))
    assert [(progress.done, progress.total, progress.trials) for progress in seen] == [
        (done, 8, trials) for done in (2, 3, 4, 5, 6)
    ]
    assert [progress.running for progress in seen[:2]] == [("ncm seed 0", "ncm seed 1"), ("ncm seed 0", "ncm seed 2")]
    assert [progress.error for progress in seen] == [None, None, "no memory", None, None]
    assert [progress.last for progress in seen][:3] == [None, "ncm seed 1", "ncm seed 0"]
    assert [progress.remaining for progress in seen[:2]] == [None, 10], "five jobs of 4 seconds with two workers"
    assert ended == {0: "no memory", 1: None, 2: None, 3: None}


def test_long_jobs_come_first() -> None:
    found = []
    for method, settings in (
        ("finetune", {"backbone": "gcn", "epochs": 2}),
        ("hpn", {"preset": "paper", "epochs": 1, "batch_size": 4000}),
        ("finetune", {"backbone": "gat", "epochs": 2}),
        ("joint", {"backbone": "gat", "epochs": 2}),
    ):
        config, graph = resolve_config("synthetic", method=method, settings={**DATA, **settings}, recipe=None)
        found.append(Job(config, 0, graph=graph))
    executor = Scripted([])
    Batch(executor, Watcher(), total=4).run(found, lambda *_: None)
    assert executor.seen == ["joint gat seed 0", "finetune gat seed 0", "finetune gcn seed 0", "hpn seed 0"]


def test_an_error_of_the_watcher_ends_the_jobs_under_way(job: Job) -> None:
    executor = Scripted([0, 1])
    with pytest.raises(KeyboardInterrupt):
        Batch(executor, Watcher(), total=2).run([job, replace(job, seed=1)], mock.Mock(side_effect=KeyboardInterrupt))
    assert executor.is_closed


def test_where_jobs_run_and_on_what() -> None:
    with pytest.raises(ConfigError, match="workers must be at least 1, got 0"):
        open_executor(0, None, "cpu")
    assert open_executor(3, None, "cpu").num_workers == 3
    assert [choose_job_device(word, ray="auto") for word in ("cuda", "auto")] == ["cuda", "cpu"]
    for word in ("cuda:1", "mps", "gpu"):
        message = f"^device '{word}' is not available on a Ray cluster; choose cpu, cuda or auto$"
        with pytest.raises(ConfigError, match=message):
            choose_job_device(word, ray="auto")
