"""Joining the processes that ``torchrun`` started, and how an error leaves a job of several."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch

from hpn.errors import HPNError, ProcessesError, SaidElsewhereError
from hpn.nn.board import is_running
from hpn.nn.processes import ALONE, WHAT_NOW, JoinedProcesses, Processes, told_of_the_end

PATIENCE = timedelta(minutes=30)
"""How long to wait for another process; rank 0 may be solving or writing meanwhile."""


@contextmanager
def join_processes() -> Iterator[Processes]:
    """Join the other processes that ``torchrun`` started, or be alone if it did not start this one.

    Collectives of tensors on a CPU go through Gloo, those on a GPU through NCCL.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "RANK" not in os.environ:
        yield ALONE
        return
    import torch.distributed as dist

    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    with told_of_the_end():
        dist.init_process_group(backend, timeout=PATIENCE)
    joined: JoinedProcesses | None = None
    try:
        joined = JoinedProcesses()
        with _speaking_up(joined.rank, *joined.lead(lambda: (socket.gethostname(), os.getpid()))):
            yield joined
    finally:
        if joined is not None:
            joined.leave()
        if "TORCHELASTIC_RUN_ID" not in os.environ:  # else the end of the process closes all connections
            dist.destroy_process_group()


@contextmanager
def _speaking_up(rank: int, host: str, pid: int) -> Iterator[None]:
    """Make an error that this process has to tell of what process 0, ``pid`` on ``host``, cannot.

    ``torchrun`` ends all processes if one was killed. If that was process 0, nobody would say what to do.
    """
    try:
        yield
    except (ProcessesError, SaidElsewhereError):
        raise
    except HPNError as error:
        if rank > 0:
            raise ProcessesError(str(error)) from error
        raise
    except BaseException as error:
        if rank > 0 and host == socket.gethostname() and not is_running(pid):
            raise ProcessesError(f"process 0 of this job ended; {WHAT_NOW}") from error
        raise
