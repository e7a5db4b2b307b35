"""A board in shared memory, on which processes of one machine write to each other.

A small exchange through sockets takes a millisecond or more on some machines, as long as a step itself; here
it takes microseconds. Every process has a place on the board and a counter of what it has written; a process
that has written reads the others' places as soon as their counters show that they have, too. There are two
sets of places, used in turn: nobody writes to one before everybody has read what was there.

Counters tell others of what was written before them only if the processor keeps the order of writes, which
those of the x86 family do; elsewhere there is no board.
"""

from __future__ import annotations

import mmap
import os
import platform
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

PLACE = 1 << 22
"""Bytes of a place; what is larger has to be sent otherwise."""
LINE = 64
"""Bytes of a counter, so that no two share what processors send each other."""
SPINS = 2_000
"""How often to look before waiting in between."""
PAUSE, LOOK_AFTER, GIVE_UP_AFTER = 1e-4, 0.5, 1800.0
"""Seconds of a wait, after how many to ask whether the others are there, and after how many to give up."""


def is_possible() -> bool:
    """Whether this machine keeps the order of writes."""
    return platform.machine().lower() in {"x86_64", "amd64"}


def make_file(size: int) -> Path:
    """Make a file for the board of ``size`` processes; it can be removed when all have opened it."""
    folder = Path("/dev/shm")  # noqa: S108  (memory, where there is such a folder)
    handle, name = tempfile.mkstemp(prefix="hpn-", dir=folder if os.access(folder, os.W_OK) else None)
    os.ftruncate(handle, size * (LINE + 2 * PLACE))
    os.close(handle)
    return Path(name)


class Board:
    """One process's access to the board.

    Args:
        path: The file.
        rank: Number of the process.
        size: Number of processes.
    """

    def __init__(self, path: Path, rank: int, size: int) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self.rank = rank
        self.size = size
        self._round = 0
        lines = np.frombuffer(self._memory, dtype=np.int64, count=size * LINE // 8).reshape(size, -1)
        self._counters, self._pids, self._left = lines[:, 0], lines[:, 1], lines[:, 2]
        places = np.frombuffer(self._memory, dtype=np.uint8, offset=size * LINE)
        self._places = places.reshape(2, size, PLACE)
        self._pids[rank] = os.getpid()

    def exchange(self, mine: np.ndarray) -> np.ndarray:
        """Write an array, and read those of all processes ``[size, *mine.shape]``; see :meth:`write`."""
        self.write(mine)
        return self.read(mine)

    def write(self, mine: np.ndarray) -> None:
        """Write an array; all must be of the same type and shape, of at most :data:`PLACE` bytes."""
        self._wait()  # in case the last one was not read: others may still be reading the one before
        self._round += 1
        flat = np.ascontiguousarray(mine).reshape(-1).view(np.uint8)
        self._places[self._round % 2][self.rank, : len(flat)] = flat
        self._counters[self.rank] = self._round

    def read(self, like: np.ndarray) -> np.ndarray:
        """Read what all processes have written, of the type and shape of what this one wrote.

        Raises:
            RuntimeError: If another process has ended.
        """
        self._wait()
        everyones = self._places[self._round % 2][:, : like.nbytes].copy().view(like.dtype)
        return np.asarray(everyones.reshape(self.size, *like.shape))

    def leave(self) -> None:
        """Tell the others that nothing more will be written here."""
        self._left[self.rank] = 1

    def _wait(self) -> None:
        spins, began = 0, time.monotonic()
        asked = began
        while self._counters.min() < self._round:
            spins += 1
            if spins < SPINS:
                continue
            time.sleep(PAUSE)
            if time.monotonic() - asked > LOOK_AFTER:
                asked = time.monotonic()
                self._check_company(asked - began)

    def _check_company(self, waited: float) -> None:
        for rank, pid in enumerate(self._pids.tolist()):
            is_late = self._counters[rank] < self._round
            if is_late and (self._left[rank] or not is_running(pid)):
                raise RuntimeError(f"process {rank} is gone")
        if waited > GIVE_UP_AFTER:
            raise RuntimeError(f"nothing was heard for {waited:.0f} seconds")


def is_running(pid: int) -> bool:
    """Whether there is a process of this number on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    with suppress(OSError, IndexError):  # one that has ended and whose end nobody has noticed yet
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return True
