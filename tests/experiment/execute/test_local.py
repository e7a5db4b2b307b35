from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from joblib.externals.loky.process_executor import BrokenProcessPool

from hpn.experiment.execute.jobs import JobEnd
from hpn.experiment.execute.local import LocalExecutor, _in_turn

PROGRAM = """
import signal, sys
sys.path.insert(0, sys.argv[1])
from eval_jobs import make_jobs
from hpn.experiment.execute.local import LocalExecutor
from hpn.experiment.execute.ray import RayExecutor

class Interrupted(BaseException): ...

def interrupt(*_):
    raise Interrupted

signal.signal(signal.SIGINT, interrupt)
code = "(Path(%r, str(os.getpid())).touch(), time.sleep(600))" % sys.argv[2]
try:
    with eval(sys.argv[3]) as executor:
        print("go", flush=True)
        print(list(executor.run(make_jobs(code, code, code))))
except Interrupted:
    print("interrupted")
"""


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import eval_jobs

    return eval_jobs.make_jobs


def values(executor: LocalExecutor, jobs: list[Any]) -> list[Any]:
    ends = dict(executor.run(jobs))
    assert [end.error for end in ends.values()] == [None] * len(jobs)
    return [ends[index].value for index in range(len(jobs))]


def test_workers_from_the_first_job_to_the_end_of_the_block(jobs: Any, tmp_path: Path) -> None:
    codes = [f"({number} ** 2, graph.fingerprint(), job.seed)" for number in range(5)]
    who = "(time.sleep(0.2), os.getpid(), torch.get_num_threads(), os.environ['OMP_NUM_THREADS'])[1:]"
    begun = tmp_path / "begun"
    waits = f"[time.sleep(0.02) for _ in iter(Path({str(begun)!r}).exists, True)]"
    dies = f"(Path({str(begun)!r}).touch(), time.sleep(0.5), os._exit(7))"
    endless = f"(Path({str(tmp_path)!r}, str(os.getpid())).touch(), time.sleep(600))"
    with LocalExecutor(2) as pool, LocalExecutor(1) as alone:
        # They give the results of one process, and stay.
        assert values(pool, jobs(*codes)) == values(alone, jobs(*codes))
        workers = {*values(pool, jobs(*[who] * 4)), *values(pool, jobs(*[who] * 4))}
        assert len(workers) == 2
        assert {(threads, limit) for _, threads, limit in workers} == {(1, "1")}
        pids = {pid for pid, *_ in workers}
        assert all(map(is_alive, pids))
        assert os.getpid() not in pids
        # One that dies fails the jobs under way, and the others run.
        ends = dict(pool.run(jobs("1", "1 / 0", dies, f"({waits}, time.sleep(600))", "4", "5")))
        assert [ends[index].value for index in (0, 4, 5)] == [1, 4, 5]
        assert (ends[1].error or "").startswith("ZeroDivisionError: division by zero (eval_jobs.py:")
        assert ends[1].is_numerical
        assert all("a worker process was killed" in (ends[index].error or "") for index in (2, 3))
        # Jobs that are not waited for end with the workers.
        begun.unlink()
        with contextlib.closing(pool.run(jobs("1", endless, endless))) as some:
            next(some)
            wait_for_files(tmp_path, 2)
    assert not any(is_alive(pid) for pid in (*pids, *(int(path.name) for path in tmp_path.iterdir())))


def test_one_worker_is_this_process_with_one_thread(jobs: Any) -> None:
    torch.set_num_threads(2)
    try:
        code = "(os.getpid(), torch.get_num_threads())"
        assert values(LocalExecutor(1), jobs(code)) == [(os.getpid(), 1)]
        assert values(LocalExecutor(4), jobs(code)) == [(os.getpid(), 1)], "one job needs no worker"
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert list(LocalExecutor(4).run([])) == []


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize(
    ("kind", "is_begun", "executor"),
    [
        (signal.SIGINT, False, "LocalExecutor(2)"),
        pytest.param(signal.SIGKILL, False, "LocalExecutor(2)", marks=pytest.mark.slow),
        (signal.SIGKILL, True, "LocalExecutor(2)"),
        pytest.param(signal.SIGINT, True, "RayExecutor('local', num_cpus=2)", marks=pytest.mark.slow),
    ],
)
def test_the_end_of_the_parent_is_the_end_of_the_workers(
    tmp_path: Path, kind: signal.Signals, is_begun: bool, executor: str
) -> None:
    if "Ray" in executor:
        pytest.importorskip("ray", reason="Ray is not installed")
    words = [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), str(tmp_path), executor]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    parent: Any = subprocess.Popen(words, start_new_session=True, **pipes)
    assert parent.stdout.readline() == "go\n"
    if is_begun:
        wait_for_files(tmp_path, 2)
    else:
        time.sleep(0.7)  # the workers are about to import
    children = psutil.Process(parent.pid).children(recursive=True)
    if kind is signal.SIGINT:
        os.killpg(parent.pid, kind)  # as a terminal does: every process gets it
    else:
        parent.send_signal(kind)
    out, err = parent.communicate(timeout=60)  # until all have closed the pipes
    if kind is signal.SIGINT:
        assert (out, err) == ("interrupted\n", "")
    assert psutil.wait_procs(children, timeout=60)[1] == []


def test_jobs_take_turns_at_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [_in_turn("cuda", index) for index in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert (_in_turn("cpu", 1), _in_turn("cuda:1", 0)) == ("cpu", "cuda:1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert _in_turn("cuda", 1) == "cuda"


def test_a_seed_that_had_ended_is_not_lost_with_a_worker(tmp_path: Path, jobs: Any) -> None:
    (job,) = jobs("1", folder=tmp_path)
    answer = Future[JobEnd]()
    answer.set_exception(BrokenProcessPool())
    assert "killed" in (LocalExecutor(2)._end(job, answer).error or "")
    (tmp_path / "result.json").touch()
    assert LocalExecutor(2)._end(job, answer) == JobEnd()


def wait_for_files(folder: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(list(folder.iterdir())) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
