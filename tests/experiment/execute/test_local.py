"""The jobs are strings for ``eval``: a worker process can import that, whatever runs the tests."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from hpn.errors import ConfigError
from hpn.experiment.execute.local import WorkerError, Workers, _pickled_error, default_workers, run_parallel

PROGRAM = """
import signal, sys
from hpn.experiment.execute.local import run_parallel

class Interrupted(BaseException): ...

def interrupt(*_):
    raise Interrupted

signal.signal(signal.SIGINT, interrupt)
here = "__import__('pathlib').Path(%r, str(__import__('os').getpid())).touch()" % sys.argv[1]
print("go", flush=True)
try:
    run_parallel(eval, ["(%s, __import__('time').sleep(600))" % here] * 3, workers=2, on_done=print)
except Interrupted:
    print("interrupted")
"""


def collect(jobs: list[str], workers: int) -> list[Any]:
    results: dict[int, Any] = {}
    run_parallel(eval, jobs, workers=workers, on_done=results.__setitem__)
    return [results[index] for index in range(len(jobs))]


def test_workers_give_the_results_of_one_process_are_numbered_stay_and_end_when_a_job_fails() -> None:
    jobs = [f"{number} ** 2" for number in range(7)]
    who = "(__import__('os').getpid(), __import__('torch').get_num_threads())"
    number = "__import__('hpn.experiment.execute.local').experiment.execute.local.worker_number()"
    wrong = "exec('from hpn.errors import ConfigError; raise ConfigError(\"no such thing\")')"
    results: dict[int, Any] = {}
    workers: set[tuple[int, int]] = set()
    numbers: set[int] = set()
    start = time.monotonic()
    with Workers(2) as pool:
        pool.run(eval, jobs, on_done=results.__setitem__)
        assert [results[index] for index in range(7)] == collect(jobs, 1) == [i**2 for i in range(7)]
        for _ in range(2):
            pool.run(eval, [who] * 4, on_done=lambda _, answer: workers.add(answer))
        assert 1 <= len(workers) <= 2
        assert os.getpid() not in {pid for pid, _ in workers}
        assert {threads for _, threads in workers} == {1}
        slowly = f"(__import__('time').sleep(0.2), {number})[1]"
        pool.run(eval, [slowly] * 4, on_done=lambda _, answer: numbers.add(answer))
        assert numbers == {0, 1}
        assert collect([number], 1) == [0]
        with pytest.raises(ConfigError, match="no such thing") as error:
            pool.run(eval, ["__import__('time').sleep(600)", wrong], on_done=lambda *_: None)
        assert "in a worker process" in str(error.value.__cause__)
        assert not any(alive(pid) for pid, _ in workers)
    assert time.monotonic() - start < 120


def test_threads_are_as_before() -> None:
    torch.set_num_threads(2)
    try:
        assert collect(["__import__('torch').get_num_threads()"], 1) == [1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_no_jobs_no_processes() -> None:
    run_parallel(eval, [], workers=4, on_done=lambda *_: pytest.fail("nothing to do"))


def test_a_worker_that_dies_is_named() -> None:
    with pytest.raises(WorkerError, match=r"without an answer \(exit code 7\)"), Workers(2) as pool:
        pool.run(eval, ["__import__('os')._exit(7)"], on_done=lambda *_: None)


def test_errors_that_cannot_be_pickled_are_told_in_words() -> None:
    class Local(Exception): ...

    index, result, error, _ = pickle.loads(_pickled_error(3, Local("why")))
    assert (index, result, str(error)) == (3, None, "Local: why")


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGKILL])
def test_the_end_of_the_parent_is_the_end_of_the_workers(tmp_path: Path, kind: signal.Signals) -> None:
    words = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    parent = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "go\n"
    pids = []
    if kind is signal.SIGINT:
        time.sleep(0.5)  # the workers are about to import
        os.killpg(parent.pid, kind)  # as a terminal does: everybody is told
    else:
        pids = wait_for_files(tmp_path, 2, parent)
        parent.send_signal(kind)
    out, err = parent.communicate(timeout=30)  # until everybody has closed the pipes
    assert (out, err) == ("interrupted\n" if kind is signal.SIGINT else "", "")
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.02)


def test_default_workers() -> None:
    assert 1 <= default_workers() <= (os.cpu_count() or 1)


def wait_for_files(folder: Path, count: int, process: subprocess.Popen[str]) -> list[int]:
    while len(found := list(folder.iterdir())) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    return [int(path.name) for path in found]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
