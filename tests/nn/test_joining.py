from __future__ import annotations

import socket

import pytest

from hpn.errors import ConfigError, ProcessesError, SaidElsewhereError
from hpn.nn import joining as module
from hpn.nn.joining import join_processes
from hpn.nn.processes import ALONE


@pytest.mark.parametrize("given", [{}, {"WORLD_SIZE": "1", "RANK": "0"}, {"WORLD_SIZE": "8"}])
def test_without_torchrun_a_process_is_alone(monkeypatch: pytest.MonkeyPatch, given: dict[str, str]) -> None:
    for name in ("WORLD_SIZE", "RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with join_processes() as processes:
        assert processes is ALONE


def speak_up(rank: int, error: BaseException, *, host: str = "", pid: int = 0) -> BaseException:
    """What becomes of an error on its way out of a job."""
    with pytest.raises(BaseException) as raised, module._speaking_up(rank, host or socket.gethostname(), pid):
        raise error
    return raised.value


def test_a_process_says_what_the_first_cannot_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "is_running", lambda pid: pid == 1)
    fault, interrupt = ConfigError("no such device"), KeyboardInterrupt()
    told = speak_up(1, fault)
    assert (type(told), str(told)) == (ProcessesError, "no such device")
    for elsewhere in (SaidElsewhereError("by 0"), ProcessesError("gone")):
        assert speak_up(1, elsewhere) is elsewhere
    orphaned = speak_up(1, interrupt, pid=2)
    assert isinstance(orphaned, ProcessesError)
    assert str(orphaned) == "process 0 of this job ended; the same command goes on from the last checkpoint"
    assert speak_up(1, interrupt, pid=1) is interrupt
    assert speak_up(1, interrupt, host="elsewhere", pid=2) is interrupt  # nothing is known of pids there
    assert speak_up(0, interrupt, pid=2) is interrupt
    assert speak_up(0, fault) is fault
