"""Errors that are the user's to mend: one line that says what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


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
