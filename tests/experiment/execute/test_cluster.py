from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpn.datasets import Graph
from hpn.errors import CheckpointError, ConfigError, DataError
from hpn.experiment.execute import ray_calls
from hpn.experiment.execute import remote as away
from hpn.experiment.execute.cluster import Cluster, open_cluster
from hpn.experiment.execute.graphs import graphs
from hpn.experiment.execute.jobs import Job, JobEnd, run_job
from hpn.experiment.execute.local import WorkerError
from hpn.experiment.execute.ray_calls import check_address, quiet
from hpn.experiment.execute.remote import read_files, run_there, write_files
from hpn.experiment.run.checkpoint import load_checkpoint
from hpn.experiment.run.config import RunConfig, resolve_config
from hpn.experiment.run.runner import is_finished, run_seed
from hpn.experiment.tune import trials
from hpn.experiment.tune.trials import Job as Trial
from hpn.experiment.tune.trials import evaluate_job
from hpn.experiment.watch import Watcher
from hpn.nn.device import one_thread

TASKS = [[0, 1], [2, 3], [4, 5]]


class Interrupted(BaseException): ...


def interrupt(*_: Any) -> None:
    raise Interrupted


@pytest.fixture(scope="module")
def resolved() -> tuple[RunConfig, Graph]:
    return resolve_config("digits", method="ncm", tasks=TASKS)


@pytest.fixture(autouse=True)
def _graphs(resolved: tuple[RunConfig, Graph]) -> Iterator[None]:
    graphs.clear()
    graphs[resolved[0].data_sha256] = resolved[1]
    yield
    graphs.clear()


@pytest.fixture
def job(resolved: tuple[RunConfig, Graph], tmp_path: Path) -> Job:
    (tmp_path / "run").mkdir()
    return Job(resolved[0], 0, tmp_path / "run" / "seed-0", None)


def no_graph() -> Graph:
    pytest.fail("the graph is there already")


def numbers(files: dict[str, bytes]) -> dict[str, Any]:
    """What does not depend on time and memory."""
    tensors = {name: content for name, content in files.items() if name.endswith(".safetensors")}
    result = {
        k: v for k, v in json.loads(files["result.json"]).items() if k not in {"seconds", "peak_rss_mb"}
    }
    return {"names": sorted(files), "result": result, "tensors": tensors}


def run_here(job: Job, name: str) -> dict[str, bytes]:
    """The files that a worker process of this machine writes."""
    folder = job.folder.parent.parent / name
    folder.mkdir()
    with one_thread():
        assert run_job(replace(job, folder=folder / job.folder.name)).error is None
    return read_files(folder / job.folder.name)


def interrupted(job: Job, graph: Graph) -> dict[str, bytes]:
    """The files of a seed that was stopped after its first task."""

    class Stop(Watcher):
        def step_finished(self, *_: Any) -> None:
            raise Interrupted

    with contextlib.suppress(Interrupted):
        run_seed(job.config, graph, job.seed, job.folder, Stop())
    assert not is_finished(job.folder, views=False)
    return read_files(job.folder)


def test_a_worker_gives_the_files_of_a_local_run_bit_for_bit(job: Job) -> None:
    end, files = run_there(job, {}, no_graph)
    assert end.error is None
    assert end.seconds > 0
    assert numbers(files) == numbers(run_here(job, "here"))
    assert {"result.json", "checkpoint.json", "log.jsonl"} < set(files)
    assert not job.folder.exists()


def test_a_worker_gets_the_graph_once(job: Job, resolved: tuple[RunConfig, Graph]) -> None:
    graphs.clear()
    calls: list[int] = []

    def load() -> Graph:
        calls.append(1)
        return resolved[1]

    for seed in (0, 1):
        assert run_there(replace(job, seed=seed), {}, load)[0].error is None
    assert len(calls) == 1


def test_a_worker_goes_on_from_the_files_sent_along(job: Job, resolved: tuple[RunConfig, Graph]) -> None:
    sent = interrupted(job, resolved[1])
    end, files = run_there(job, sent, no_graph)
    assert end.error is None
    events = [json.loads(line) for line in files["log.jsonl"].splitlines()]
    assert [event["task"] for event in events if event["event"] == "resumed"] == [1]
    assert numbers(files) == numbers(run_here(job, "here"))


def test_other_versions_on_a_machine_fail_the_job(job: Job) -> None:
    other = replace(job, config=replace(job.config, versions={**job.config.versions, "torch": "1.0"}))
    end, files = run_there(other, {}, no_graph)
    assert files == {}
    assert end.error is not None
    assert f"torch {job.config.versions['torch']} there, 1.0 here" in end.error
    assert "numpy" not in end.error


def test_a_job_that_fails_says_why_and_gives_no_files(job: Job) -> None:
    end, files = run_there(job, {"checkpoint.json": b"{"}, no_graph)
    assert files == {}
    assert end.error is not None
    assert f"{job.folder / 'checkpoint.json'} is damaged" in end.error  # not the folder of the worker
    assert "\n" not in end.error


def test_a_stop_while_files_are_written_leaves_a_seed_that_can_go_on(
    job: Job, resolved: tuple[RunConfig, Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = interrupted(job, resolved[1])
    _, files = run_there(job, before, no_graph)
    write = away.write_atomic
    for allowed in range(len(files)):
        shutil.rmtree(job.folder)
        write_files(job.folder, before)
        left = iter(range(allowed))

        def stopped(path: Path, content: bytes, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise Interrupted
            write(path, content)

        monkeypatch.setattr(away, "write_atomic", stopped)
        with pytest.raises(Interrupted):
            write_files(job.folder, files)
        monkeypatch.setattr(away, "write_atomic", write)
        assert not is_finished(job.folder, views=False)
        saved = load_checkpoint(job.folder)
        assert saved is not None
        assert len(saved["rows"]) in {1, len(TASKS)}
        assert run_job(job).error is None
        assert numbers(read_files(job.folder)) == numbers(files)
    write_files(job.folder, files)
    assert read_files(job.folder) == files


def test_half_written_files_stay_behind(tmp_path: Path) -> None:
    assert read_files(tmp_path / "none") == {}
    (tmp_path / "log.jsonl").write_bytes(b"{}")
    (tmp_path / ".log.jsonl.7.part").write_bytes(b"{")
    (tmp_path / "folder").mkdir()
    assert read_files(tmp_path) == {"log.jsonl": b"{}"}


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"--ray needs Ray: pip install 'hpn\[ray\]'"), Cluster("auto"):
        pass


def test_nobody_listens() -> None:
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
def test_nobody_answers(monkeypatch: pytest.MonkeyPatch, probe: str, wait: float, message: str) -> None:
    monkeypatch.setattr(ray_calls, "PROBE", probe)
    with pytest.raises(ConfigError, match=message):
        check_address("auto", wait)


def test_jobs_begin_in_order_a_few_at_a_time_and_one_graph_is_sent(fake: Any, job: Job) -> None:
    jobs = [replace(job, seed=seed, folder=job.folder.with_name(f"seed-{seed}")) for seed in range(7)]
    jobs[2] = replace(jobs[2], config=replace(job.config, tasks=((0, 99),)))
    ends: dict[int, JobEnd] = {}
    handler = signal.getsignal(signal.SIGTERM)
    with Cluster("local") as there:
        assert signal.getsignal(signal.SIGTERM) is handler
        assert there.num_jobs == 1
        assert fake.needs == {"num_cpus": 1, "max_retries": 2}
        there(jobs, on_done=ends.__setitem__)
        there(jobs[:1], on_done=ends.__setitem__)
        with pytest.raises(ConfigError, match="in use in this process"), Cluster("local"):
            pass
    assert not fake.connected
    assert [given[0].seed for given in fake.begun] == [0, 1, 2, 3, 4, 5, 6, 0]
    assert fake.most == 4
    assert len(fake.stored) == 1
    assert sorted(index for index, end in ends.items() if end.error) == [2]
    assert all(is_finished(jobs[index].folder, views=False) for index in ends if index != 2)
    assert not jobs[2].folder.exists()
    assert set(fake.begun[0][1]) == set()
    assert "result.json" in fake.begun[-1][1]  # what was there by then went along
    assert fake.options["address"] == "local"
    assert {path or str(Path.cwd()) for path in sys.path} == set(fake.places)
    assert "RAY_task_oom_retries" not in os.environ


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("WorkerCrashedError", r"worker or machine that it ran on died \(WorkerCrashedError\)"),
        ("OutOfMemoryError", "too little memory"),
        ("RayTaskError", "No module named 'hpn'; every machine of the cluster needs hpn"),
    ],
)
def test_a_worker_that_dies_fails_its_job_alone(fake: Any, job: Job, kind: str, message: str) -> None:
    ends: dict[int, JobEnd] = {}
    fake.dies = getattr(fake.exceptions, kind)

    def done(index: int, end: JobEnd) -> None:
        ends[index] = end
        fake.dies = None

    with Cluster("local") as there:
        there([job, replace(job, seed=1, folder=job.folder.with_name("seed-1"))], on_done=done)
    errors = [end.error for end in ends.values()]
    assert errors[1:] == [None]
    with pytest.raises(ConfigError, match=message):
        raise ConfigError(errors[0])


def test_what_cannot_be_sent_or_written_fails_its_job_alone(fake: Any, job: Job, tmp_path: Path) -> None:
    lost = replace(job, folder=tmp_path / "no run" / "seed-0")
    other = replace(job, config=replace(job.config, data_sha256="other"))
    ends: dict[int, JobEnd] = {}
    with Cluster("local") as there:
        there([other, lost, job], on_done=ends.__setitem__)
    assert "digits has changed" in (ends[0].error or "")
    assert "FileNotFoundError" in (ends[1].error or "")
    assert ends[1].seconds > 0
    assert ends[2].error is None


def test_an_exception_here_cancels_what_runs(fake: Any, job: Job) -> None:
    def stop(*_: Any) -> None:
        raise Interrupted

    fake.cpus = 2
    with pytest.raises(Interrupted), Cluster("local") as there:
        there([job] * 20, on_done=stop)
    assert len(fake.begun) == 8
    assert fake.cancelled == 7
    assert not fake.connected


def test_a_cluster_that_is_lost_is_told_on_one_line(fake: Any, job: Job) -> None:
    def gone(*_: Any, **__: Any) -> Any:
        raise ConnectionError("client is\ndisconnected")

    fake.wait = gone
    message = r"^lost the Ray cluster local \(ConnectionError: client is disconnected\)$"
    with pytest.raises(ConfigError, match=message), Cluster("local") as there:
        there([job], on_done=lambda *_: None)


def test_a_job_takes_a_gpu_if_the_cluster_is_told_so(fake: Any, job: Job) -> None:
    message = "^the Ray cluster local has no GPU; leave the device to it, or say cpu$"
    with pytest.raises(ConfigError, match=message), open_cluster("local", "cuda"):
        pass
    assert not fake.connected
    fake.gpus, fake.cpus = 2, 8
    with open_cluster("local", "cuda") as there:
        assert there is not None
        assert there.num_jobs == 2
    assert fake.needs == {"num_cpus": 1, "num_gpus": 1, "max_retries": 2}
    with open_cluster(None, "cuda") as there:
        assert there is None


def test_a_function_gives_its_results_or_the_first_error_and_folders_travel(fake: Any, job: Job) -> None:
    results: dict[int, Any] = {}
    trial = Trial(job.config, 0, None)
    final = Trial(job.config, 0, None, job.folder)
    with Cluster("local") as there:
        there.run(evaluate_job, [trial, replace(trial, seed=1)], on_done=results.__setitem__)
        assert [results[seed].am for seed in (0, 1)] == [
            evaluate_job(replace(trial, seed=seed)).am for seed in (0, 1)
        ]
        there.run(trials.run_job, [final], on_done=results.__setitem__)
        assert numbers(read_files(job.folder)) == numbers(run_here(job, "here"))
        for kind, error in {
            "OutOfMemoryError": "too little memory",
            "WorkerCrashedError": "it ran on died",
        }.items():
            fake.dies = getattr(fake.exceptions, kind)
            with pytest.raises(WorkerError, match=error):
                there.run(evaluate_job, [trial], on_done=results.__setitem__)
        fake.dies = lambda _: fake.exceptions.RayTaskError(DataError("no such node"))
        with pytest.raises(DataError, match=r"^no such node$"):
            there.run(evaluate_job, [trial], on_done=results.__setitem__)
        fake.dies = None
        (job.folder / "checkpoint.json").write_text("{")
        (job.folder / "result.json").unlink()
        with pytest.raises(CheckpointError, match=str(job.folder / "checkpoint.json")):
            there.run(trials.run_job, [final], on_done=results.__setitem__)


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_a_call_of_ray_is_raised_after_it(kind: signal.Signals) -> None:
    steps: list[str] = []

    def call() -> None:
        os.kill(os.getpid(), kind)
        steps.append("the call goes on")

    before = signal.signal(kind, interrupt)
    try:
        with pytest.raises(Interrupted), quiet():
            call()
        assert signal.getsignal(kind) is interrupt
    finally:
        signal.signal(kind, before)
    assert steps == ["the call goes on"]


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_signal_that_the_handler_of_ray_takes_is_raised_all_the_same() -> None:
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        with pytest.raises(Interrupted), quiet():
            sys.exit(15)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_ray_may_be_called_from_any_thread() -> None:
    done: list[bool] = []

    def call() -> None:
        with quiet():
            warnings.warn("not shown", FutureWarning, stacklevel=1)
        done.append(True)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert done


@pytest.mark.slow
def test_a_cluster_gives_the_results_of_this_machine_and_ends(job: Job, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    psutil = pytest.importorskip("psutil")
    config, _ = resolve_config(
        "digits", method="finetune", backbone="gcn", tasks=TASKS, settings={"epochs": 5}, recipe=None
    )
    (tmp_path / "finetune").mkdir()
    jobs = [
        job,
        replace(job, config=replace(config, tasks=((0, 99),)), folder=tmp_path / "finetune" / "seed-7"),
        replace(job, config=config, folder=tmp_path / "finetune" / "seed-0"),
        replace(job, config=config, seed=1, folder=tmp_path / "finetune" / "seed-1"),
    ]
    ends: dict[int, JobEnd] = {}
    processes: set[Any] = set()
    others = set(psutil.Process().children(recursive=True))

    def done(index: int, end: JobEnd) -> None:
        ends[index] = end
        processes.update({*psutil.Process().children(recursive=True)} - others)

    with Cluster("local") as there:
        assert there.num_jobs >= 1
        there(jobs, on_done=done)
    assert "no class 99" in (ends.pop(1).error or "")
    assert {index: end.error for index, end in ends.items()} == {0: None, 2: None, 3: None}
    for index in ends:
        assert numbers(read_files(jobs[index].folder)) == numbers(run_here(jobs[index], f"here-{index}"))
    assert len(processes) > 2
    _, alive = psutil.wait_procs(processes, timeout=30)
    assert alive == []


PROGRAM = """
import signal, sys
from pathlib import Path
from hpn.experiment.execute.cluster import Cluster
from hpn.experiment.run.config import resolve_config
from hpn.experiment.execute.jobs import Job

class Interrupted(BaseException): ...

def interrupt(*_):
    raise Interrupted

for kind in (signal.SIGINT, signal.SIGTERM):
    signal.signal(kind, interrupt)
config, _ = resolve_config("digits", method="finetune", backbone="gcn", settings={"epochs": 10**6})
try:
    with Cluster("local") as there:
        print("go", flush=True)
        folders = [Path(sys.argv[1], f"seed-{seed}") for seed in range(9)]
        there([Job(config, seed, folder, None) for seed, folder in enumerate(folders)], on_done=print)
except Interrupted:
    print("interrupted")
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_ends_a_cluster_without_a_word(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "go\n", program.communicate()
    time.sleep(2)  # some jobs are under way, or about to be
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does: everybody is told
    out, err = program.communicate(timeout=120)  # until everybody has closed the pipes
    assert (out, err) == ("interrupted\n", "")
    assert list(tmp_path.iterdir()) == []
