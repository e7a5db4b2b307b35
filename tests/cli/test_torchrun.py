"""``torchrun`` starts the same command several times: one result, and one that speaks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hpn.cli import app as module
from hpn.errors import ConfigError, HPNError, ProcessesError, SaidElsewhereError
from hpn.experiment import run

Cli = Callable[..., tuple[int, str, str]]
WHAT_NOW = "; the same command goes on from the last checkpoint"
NOT_COMPARED = {"seconds", "peak_rss_mb", "out", "processes"}
LONG = {
    **{"data.num_nodes": 400, "data.num_links": 2000, "data.num_classes": 4},
    **{"preset": "paper", "piece_size": 64, "epochs": 40, "warmup_epochs": 15},
}


def words_of(settings: dict[str, Any]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def torchrun(processes: int, *words: str, **environment: str) -> subprocess.Popen[str]:
    """Start ``hpn run`` several times; with ``HPN_DEBUG`` it asserts that all hold the same prototypes."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    return subprocess.Popen(
        [sys.executable, *launcher, "-m", "hpn", "run", *words, "--json", "--quiet"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )


def finish(job: subprocess.Popen[str]) -> dict[str, Any]:
    """The one JSON object that a job prints."""
    out, err = job.communicate(timeout=600)
    assert job.returncode == 0, err
    assert out.count("\n") == 1
    result: dict[str, Any] = json.loads(out)
    return result


def said(err: str) -> list[str]:
    """What the command itself says, among the lines of ``torchrun``."""
    return [line for line in err.splitlines() if line.startswith("hpn: ")]


def numbers(result: dict[str, Any]) -> dict[str, Any]:
    assert result["matrices"]
    assert result["prototypes"]["atomic"] > 0
    return {key: value for key, value in result.items() if key not in NOT_COMPARED}


def last_state(folder: Path) -> bytes:
    """Every tensor of the finished learner."""
    (path,) = (folder / "seed-0").glob("state-*.safetensors")
    return path.read_bytes()


def test_two_processes_give_the_result_of_one(tmp_path: Path) -> None:
    tasks, settings = "0,1;2,3", {"preset": "paper", "piece_size": 16, "epochs": 3, "warmup_epochs": 1}
    job = torchrun(
        2, "digits", "--tasks", tasks, *words_of(settings), "--out", str(tmp_path / "two"), HPN_DEBUG="1"
    )
    one = run("digits", tasks=tasks, settings=settings, out=tmp_path / "one")
    two = finish(job)
    assert (one["processes"], two["processes"]) == (1, 2)
    assert numbers(two) == numbers(json.loads(json.dumps(one)))
    assert last_state(tmp_path / "two") == last_state(tmp_path / "one")


@pytest.mark.slow
@pytest.mark.parametrize(
    "preset", [{"preset": "large"}, {"preset": "paper", "epochs": 20, "warmup_epochs": 10}]
)
def test_three_processes_give_the_result_of_one_on_cora(
    preset: dict[str, Any], tmp_path: Path, data_root: Path
) -> None:
    if not (data_root / "Cora").is_dir():
        pytest.skip(f"no Cora in {data_root}")
    settings = {"piece_size": 16, **preset}
    words = ["cora", "--data-root", str(data_root), "--no-recipe", *words_of(settings)]
    three = finish(torchrun(3, *words, "--out", str(tmp_path / "three"), HPN_DEBUG="1"))
    one = run("cora", data_root=data_root, recipe=None, settings=settings, out=tmp_path / "one")
    assert numbers(three) == numbers(json.loads(json.dumps(one)))
    assert last_state(tmp_path / "three") == last_state(tmp_path / "one")


def processes_of(job: subprocess.Popen[str]) -> dict[int, int]:
    """Process ids by rank."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            variables = (folder / "environ").read_text().split("\0") if parent == job.pid else []
        except OSError:  # it ended meanwhile
            continue
        ranks = [int(entry.removeprefix("RANK=")) for entry in variables if entry.startswith("RANK=")]
        found.update(dict.fromkeys(ranks, int(folder.name)))
    return found


def wait_for_checkpoint(job: subprocess.Popen[str], folder: Path) -> None:
    while not (folder / "seed-0" / "checkpoint.json").exists():
        assert job.poll() is None, job.communicate()
        time.sleep(0.05)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], bytes]:
    """Result and last state of the long run, in one process."""
    folder = tmp_path_factory.mktemp("undisturbed")
    result = run("synthetic", settings=LONG, out=folder)
    return numbers(json.loads(json.dumps(result))), last_state(folder)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes in /proc")
@pytest.mark.parametrize(
    ("who", "kind"),
    [(1, signal.SIGKILL), (0, signal.SIGKILL), (None, signal.SIGINT), (None, signal.SIGTERM)],
)
def test_a_job_that_was_cut_short_says_so_and_goes_on(
    who: int | None, kind: signal.Signals, tmp_path: Path, undisturbed: tuple[dict[str, Any], bytes]
) -> None:
    words = ["synthetic", *words_of(LONG), "--out", str(tmp_path / "run")]
    job = torchrun(2, *words)
    wait_for_checkpoint(job, tmp_path / "run")
    ranks = processes_of(job)
    assert sorted(ranks) == [0, 1]
    os.kill(job.pid if who is None else ranks[who], kind)
    out, err = job.communicate(timeout=60)
    assert (job.returncode != 0, out) == (True, "")
    assert said(err), err
    assert all(line.endswith(WHAT_NOW) for line in said(err))
    assert "[rank" not in err  # where a traceback of a process would be
    if who is None:
        assert f"hpn: interrupted{WHAT_NOW}" in said(err)
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks.values())

    result = finish(torchrun(2, *words))
    assert (numbers(result), last_state(tmp_path / "run")) == undisturbed
    log = (tmp_path / "run" / "seed-0" / "log.jsonl").read_text()
    assert "resumed" in log


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--nonsense"], "hpn: No such option: --nonsense"),
        (["--set", "epochz=3"], "hpn: hpn has no 'epochz'"),
        (["--method", "ewc"], "hpn: ewc runs in one process"),
        ([], "hpn: hpn with the preset best learns in one process"),
        (["--set", "preset=paper", "--out", __file__], f"hpn: {__file__} is a file; choose another --out"),
    ],
    ids=["option", "setting", "method", "preset", "folder"],
)
def test_a_wrong_argument_is_told_once(words: list[str], line: str, tmp_path: Path) -> None:
    job = torchrun(2, "synthetic", *words, *([] if "--out" in words else ["--out", str(tmp_path / "run")]))
    out, err = job.communicate(timeout=60)
    assert (job.returncode != 0, out) == (True, "")
    assert [told[: len(line)] for told in said(err)] == [line]
    assert "[rank" not in err
    assert not list(tmp_path.iterdir())


@pytest.fixture
def process(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Run a command as process RANK, the LOCAL_RANK-th of its machine, of a job of four."""
    monkeypatch.setenv("WORLD_SIZE", "4")

    def call(rank: int, local_rank: int, *words: str) -> tuple[int, str, str]:
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("LOCAL_RANK", str(local_rank))
        stdout = sys.stdout
        handlers = {kind: signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)}
        try:
            return cli(*words)
        finally:
            for kind, handler in handlers.items():
                signal.signal(kind, handler)
            if sys.stdout is not stdout:
                sys.stdout.close()
                sys.stdout = stdout

    return call


def ends_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("hpn.experiment.run", fail)


@pytest.mark.parametrize(
    ("rank", "local_rank", "error", "expected"),
    [
        (0, 0, ConfigError("wrong"), (2, "hpn: wrong\n")),
        (1, 1, ConfigError("wrong"), (2, "hpn: wrong\n")),  # the first one said nothing
        (2, 0, ConfigError("wrong"), (2, "hpn: wrong\n")),  # another machine, perhaps another command
        (1, 1, ProcessesError("gone"), (1, "hpn: gone\n")),  # the first one may be gone too
        (0, 0, SaidElsewhereError("by 1"), (2, "")),
        (1, 1, module.Interrupted(), (1, "")),
        (0, 0, module.Interrupted(), (1, f"hpn: interrupted{WHAT_NOW}\n")),
    ],
)
def test_one_process_speaks_for_all(
    rank: int,
    local_rank: int,
    error: BaseException,
    expected: tuple[int, str],
    process: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    ends_with(error, monkeypatch)
    code, out, err = process(rank, local_rank, "run", "digits", "--quiet")
    assert (code, err, out) == (*expected, "")


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("error", [ConfigError("wrong"), SaidElsewhereError("by 0")])
def test_what_the_first_process_says_is_not_said_again(
    error: HPNError, process: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_with(error, monkeypatch)
    waits_until_ended(monkeypatch)
    assert process(1, 1, "run", "digits", "--quiet") == (2, "", "")


def waits_until_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """``torchrun`` ends a process that waits, because the first one has ended."""
    monkeypatch.setattr(module.time, "sleep", lambda seconds: signal.raise_signal(signal.SIGTERM))


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_unknown_option_is_told_once_a_machine(process: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    waits_until_ended(monkeypatch)
    told = [process(rank, local, "run", "digits", "--nonsense") for rank, local in ((1, 1), (2, 0))]
    assert [(code, err.count("hpn: No such option")) for code, _, err in told] == [(2, 0), (2, 1)]


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_slow_first_process_is_waited_for(tmp_path: Path) -> None:
    """Only ``torchrun`` itself shows that the first process gets to say it, however late it starts."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, time\nif os.environ.get('RANK') == '0':\n    time.sleep(3)\n"
    )
    job = torchrun(2, "synthetic", "--nonsense", PYTHONPATH=str(tmp_path))
    _, err = job.communicate(timeout=60)
    (line,) = said(err)
    assert line.startswith("hpn: No such option: --nonsense")


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_the_last_word_is_not_interrupted(process: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    ends_with(ProcessesError("gone"), monkeypatch)
    fail = module.fail

    def interrupted(message: str, code: int) -> int:
        signal.raise_signal(signal.SIGTERM)  # as torchrun does when another process has ended
        return fail(message, code)

    monkeypatch.setattr(module, "fail", interrupted)
    code, _, err = process(0, 0, "run", "digits", "--quiet")
    assert (code, err) == (1, "hpn: gone\n")
