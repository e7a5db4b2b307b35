from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from hpn.datasets import Graph
from hpn.errors import ConfigError, DataError
from hpn.experiment.execute import open_executor
from hpn.experiment.execute import ray as ray_module
from hpn.experiment.execute.jobs import JobEnd, run_job
from hpn.experiment.execute.ray import RayExecutor, check_address, quiet, run_there, write_files
from hpn.experiment.run.config import RunConfig, resolve_config
from hpn.experiment.run.runner import Job

SETTINGS = {"data.num_nodes": 120, "data.num_links": 400, "data.num_classes": 6}


class Interrupted(BaseException): ...


def interrupt(*_: Any) -> None:
    raise Interrupted


@pytest.fixture(scope="module")
def resolved() -> tuple[RunConfig, Graph]:
    return resolve_config("synthetic", method="ncm", settings=SETTINGS)


@pytest.fixture
def job(resolved: tuple[RunConfig, Graph], tmp_path: Path) -> Job:
    (tmp_path / "run").mkdir()
    return Job(resolved[0], 0, tmp_path / "run" / "seed-0", graph=resolved[1])


@pytest.fixture
def stored(fake: Any, job: Job) -> list[Any]:
    """The graph in the object store."""
    return [fake.put(job.graph)]


def numbers(files: dict[str, bytes]) -> dict[str, Any]:
    """The part that does not depend on time and memory."""
    tensors = {name: content for name, content in files.items() if name.endswith(".safetensors")}
    result = {k: v for k, v in json.loads(files["result.json"]).items() if k not in {"seconds", "peak_rss_mb"}}
    return {"names": sorted(files), "result": result, "tensors": tensors}


def read_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def run_here(job: Job, name: str = "here") -> dict[str, bytes]:
    """The files that a worker process of this machine writes."""
    folder = job.folder.parent.parent / name
    folder.mkdir()
    assert run_job(replace(job, folder=folder / job.folder.name), job.graph).error is None
    return read_files(folder / job.folder.name)


def broken_config(config: RunConfig) -> RunConfig:
    """A run that cannot begin: its plan has a class that the data does not."""
    steps = (replace(config.plan.steps[0], classes=(0, 99)),)
    return replace(config, plan=replace(config.plan, steps=steps))


def seeds_of(job: Job, count: int) -> list[Job]:
    return [replace(job, seed=seed, folder=job.folder.with_name(f"seed-{seed}")) for seed in range(count)]


def test_a_worker_gives_the_files_of_a_local_run_bit_for_bit(job: Job, fake: Any, stored: list[Any]) -> None:
    end, files = run_there(job, stored)
    assert (end.error, end.seconds > 0) == (None, True)
    assert numbers(files) == numbers(run_here(job))
    assert {"result.json", "checkpoint.json", "log.jsonl"} < set(files)
    assert not job.folder.exists()
    assert numbers(run_there(job, stored)[1]) == numbers(files)
    assert fake.fetched == 1, "a worker gets the graph once"


def test_a_job_that_fails_states_why_and_gives_no_files(
    job: Job, stored: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(job, config=replace(job.config, versions={**job.config.versions, "torch": "1.0"}))
    there = re.escape(job.config.versions["torch"])
    with pytest.raises(ConfigError, match=f"has other versions: torch: {there} there, 1.0 here$"):
        run_there(other, stored)

    def fail(job: Job, *_: Any) -> None:
        raise DataError(f"{job.folder} is\nfull")

    monkeypatch.setattr(Job, "run", fail)
    end, files = run_there(job, stored)
    assert (end.error, files) == (f"{job.folder} is full", {}), "not the folder of the worker"


def test_a_stop_while_files_are_written_leaves_a_seed_that_can_be_resumed(
    job: Job, stored: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, files = run_there(job, stored)
    write = ray_module.write_atomic
    for allowed in range(len(files)):
        left = iter(range(allowed))

        def stopped(path: Path, content: bytes, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise Interrupted
            write(path, content)

        with monkeypatch.context() as patch:
            patch.setattr(ray_module, "write_atomic", stopped)
            with pytest.raises(Interrupted):
                write_files(job.folder, files)
        assert not job.is_finished()
        assert run_job(job, job.graph).error is None
        assert numbers(read_files(job.folder)) == numbers(files)
    (job.folder / ".log.jsonl.7.part").write_bytes(b"{")
    write_files(job.folder, files)
    assert read_files(job.folder) == files, "without what was there before"


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"--ray needs Ray: pip install 'hpn\[ray\]'"), RayExecutor("auto"):
        pass


def test_an_address_where_nothing_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for form in (address, f"ray://{address}"):
            with pytest.raises(ConfigError, match=f"cannot reach the Ray cluster {form} .*refused"):
                check_address(form, 1.0)


@pytest.mark.parametrize(
    ("probe", "wait", "message"),
    [
        ("import time; time.sleep(600)", 0.5, r"auto \(no answer in"),
        ("import sys; sys.exit('noise\\nConnectionError: why')", 60.0, r"auto \(ConnectionError: why\)"),
        ("import os; os._exit(6)", 60.0, r"auto \(exit code 6\)"),
        ("import sys; sys.exit('InvalidAuthToken: missing\\nConnectionError')", 60.0, "RAY_AUTH_MODE=token"),
    ],
)
def test_a_cluster_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, probe: str, wait: float, message: str) -> None:
    monkeypatch.setattr(ray_module, "PROBE", probe)
    with pytest.raises(ConfigError, match=message):
        check_address("auto", wait)


def test_jobs_begin_in_order_a_few_at_a_time_and_one_graph_is_sent(fake: Any, job: Job) -> None:
    jobs = seeds_of(job, 7)
    jobs[2].config = broken_config(job.config)
    handler = signal.getsignal(signal.SIGTERM)
    with RayExecutor("local") as there:
        assert signal.getsignal(signal.SIGTERM) is handler
        assert (there.num_workers, fake.needs) == (1, {"num_cpus": 1, "max_retries": 2})
        ends = dict(there.run(jobs))
        with pytest.raises(ConfigError, match="in use in this process"), RayExecutor("local"):
            pass
    assert [given[0].seed for given in fake.begun] == list(range(7))
    assert {given[0].graph for given in fake.begun} == {None}
    assert (fake.most, len(fake.stored), fake.connected) == (4, 1, False)
    assert sorted(index for index, end in ends.items() if end.error) == [2]
    assert [job.is_finished() for job in jobs] == [index != 2 for index in range(7)]
    assert not jobs[2].folder.exists()
    assert {path or str(Path.cwd()) for path in sys.path} == set(fake.places)
    assert "RAY_task_oom_retries" not in os.environ


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("WorkerCrashedError", "worker or machine that it ran on died (WorkerCrashedError)"),
        ("OutOfMemoryError", "too little memory"),
        ("RayTaskError", "No module named 'hpn'; every machine of the cluster needs hpn"),
    ],
)
def test_a_worker_that_dies_fails_its_job_alone(fake: Any, job: Job, kind: str, message: str) -> None:
    fake.dies = getattr(fake.exceptions, kind)
    errors = []
    with RayExecutor("local") as there:
        for _, end in there.run(seeds_of(job, 2)):
            errors.append(end.error)
            fake.dies = None
    assert errors[1:] == [None]
    assert message in errors[0]


def test_other_failures_of_one_job(fake: Any, job: Job, tmp_path: Path) -> None:
    lost, trial = replace(job, folder=tmp_path / "no run" / "seed-0"), replace(job, is_trial=True)
    with RayExecutor("local") as there:
        ends = dict(there.run([lost, job, trial]))
        assert "FileNotFoundError" in (ends[0].error or "")
        assert ends[0].seconds > 0
        assert (ends[1].error, ends[2].value) == (None, run_job(trial, job.graph).value)
        fake.dies = lambda _: fake.exceptions.RayTaskError(DataError("no such node"))
        assert [end.error for _, end in there.run([job])] == ["no such node"]
        with pytest.raises(DataError, match=r"^no such node$"):
            there.get(object())


def test_closing_cancels_running_jobs_and_a_cluster_that_is_lost_is_one_line(fake: Any, job: Job) -> None:
    def gone(*_: Any, **__: Any) -> Any:
        raise ConnectionError("client is\ndisconnected")

    fake.cpus = 2
    with RayExecutor("local") as there, contextlib.closing(there.run(seeds_of(job, 20))) as ends:
        next(ends)
    assert (len(fake.begun), fake.cancelled, fake.connected) == (9, 8, False)
    fake.wait = gone
    message = r"^lost the Ray cluster local \(ConnectionError: client is disconnected\)$"
    with RayExecutor("local") as there, pytest.raises(ConfigError, match=message):
        list(there.run([job]))


def test_a_job_takes_a_gpu_if_the_device_is_cuda(fake: Any) -> None:
    message = "^the Ray cluster local has no GPU; choose --device auto or cpu$"
    with pytest.raises(ConfigError, match=message), open_executor(1, "local", "cuda"):
        pass
    assert not fake.connected
    fake.gpus, fake.cpus = 2, 8
    with open_executor(1, "local", "cuda") as there:
        assert there.num_workers == 2
    assert fake.needs == {"num_cpus": 1, "num_gpus": 1, "max_retries": 2}


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_a_call_of_ray_is_raised_after_it(kind: signal.Signals) -> None:
    steps: list[str] = []

    def call() -> None:
        os.kill(os.getpid(), kind)
        steps.append("the call continues")

    before = signal.signal(kind, interrupt)
    try:
        with pytest.raises(Interrupted), quiet():
            call()
        assert signal.getsignal(kind) is interrupt
        assert steps == ["the call continues"]
        if kind is signal.SIGTERM:
            with pytest.raises(Interrupted), quiet():
                sys.exit(15)  # as the handler of Ray does
    finally:
        signal.signal(kind, before)


@pytest.mark.slow
def test_a_cluster_gives_the_results_of_this_machine_and_ends(job: Job, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    choices = {"method": "finetune", "backbone": "gcn", "settings": {**SETTINGS, "epochs": 5}, "recipe": None}
    config, _ = resolve_config("synthetic", **choices)
    jobs = [job, *(replace(job, config=config, folder=job.folder.with_name(f"tuned-{n}"), seed=n) for n in range(2))]
    broken = replace(job, config=broken_config(config), folder=job.folder.with_name("seed-7"))
    others, processes, ends = set(psutil.Process().children(recursive=True)), set[Any](), dict[int, JobEnd]()
    with RayExecutor("local") as there:
        for index, end in there.run([*jobs, broken]):
            ends[index] = end
            processes.update({*psutil.Process().children(recursive=True)} - others)
    assert "99" in (ends.pop(3).error or "")
    assert {index: end.error for index, end in ends.items()} == {0: None, 1: None, 2: None}
    for number, one in enumerate(jobs):
        assert numbers(read_files(one.folder)) == numbers(run_here(one, f"here-{number}"))
    assert len(processes) > 2
    assert psutil.wait_procs(processes, timeout=30)[1] == []
