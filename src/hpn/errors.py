"""Errors that users can fix: one line states what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
import errno
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path


class HPNError(Exception):
    """Base of every error with a one-line message meant for people (exit code 2)."""


class DataError(HPNError):
    """A data set that is missing, damaged, or does not say what it should."""


class ConfigError(HPNError):
    """An argument, hyper-parameter or task list that cannot be used."""


class RunFolderError(HPNError):
    """A run folder that cannot be written, is in use, or belongs to another configuration."""


class CheckpointError(HPNError):
    """A checkpoint that is damaged, of another configuration, or of a newer version."""


class NotFittedError(HPNError, ValueError):
    """``predict`` was called before the first task was learned."""


def disk_full(error: BaseException | None) -> bool:
    """Whether something failed because the disk, or the user's share of it, is full.

    Example:
        >>> disk_full(OSError(errno.ENOSPC, "No space left on device")), disk_full(OSError("no such file"))
        (True, False)
    """
    is_full = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}
    return is_full or "No space left on device" in str(error)  # DuckDB has errors of its own


def describe_disk_full(path: Path, kept: str) -> str:
    """The message about it: where, what is there now, and what to do."""
    return f"no space left to write {path}; {kept}, free some space and run the same command again"


def find_place(error: BaseException) -> str:
    """File and line of an error: the last line of a caller's own code, else the last one; empty if not raised."""
    frames = traceback.extract_tb(error.__traceback__)
    others = (str(Path(__file__).parent), sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"))
    own = [frame for frame in frames if not frame.filename.startswith((*others, "<"))]
    return "".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in (own or frames)[-1:])


def nearest(word: str, known: Iterable[str]) -> str:
    """Name the known word closest to ``word``, as a hint to put behind an error message.

    Example:
        >>> nearest("epoch", ["epochs", "lr"])
        "did you mean 'epochs'? "
        >>> nearest("zzz", ["epochs", "lr"])
        ''
    """
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}? " if close else ""
