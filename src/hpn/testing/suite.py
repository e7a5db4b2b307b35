"""Checks and their verdicts."""

from __future__ import annotations

import contextlib
import inspect
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal
from unittest import SkipTest  # which pytest reports as skipped

from hpn.errors import HPNError, find_place


class ContractError(AssertionError):
    """A contract that is not kept; states in one line what was expected and what was found."""


@dataclass(frozen=True)
class Verdict:
    """How a check ended.

    Args:
        name: Name of the check.
        outcome: ``passed``, ``failed`` or ``skipped``.
        reason: Why it failed or was skipped, on one line.
        about: What the check demands.
        seconds: How long it took.
    """

    name: str
    outcome: Literal["passed", "failed", "skipped"]
    reason: str
    about: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.outcome:<7}  {self.name}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True)
class Check:
    """A check of one object: call it to raise on failure, :meth:`run` it for a verdict.

    Args:
        name: Its name, which is also how it is shown.
        about: What it demands.
        function: Raises :class:`ContractError` if the contract is broken, ``SkipTest`` if it does not apply.
        subject: What the function is called with.
    """

    name: str
    about: str
    function: Callable[[Any], None]
    subject: Any

    def __call__(self) -> None:
        """Run the check; what it raises gets past."""
        self.function(self.subject)

    def __str__(self) -> str:
        return self.name

    def run(self) -> Verdict:
        """Run the check; no exception gets past."""
        start = time.perf_counter()
        outcome: Literal["passed", "failed", "skipped"] = "passed"
        reason = ""
        try:
            self()
        except SkipTest as skip:
            outcome, reason = "skipped", str(skip)
        except Exception as error:  # whatever the object does
            outcome, reason = "failed", describe_error(error)
        return Verdict(self.name, outcome, reason, self.about, time.perf_counter() - start)


def find_checks(module: str, case: Any) -> list[Check]:
    """Checks of one case: the functions of a module whose only parameter is ``case``.

    A function's name and the first line of its docstring are shown.
    """
    functions = [one for one in vars(sys.modules[module]).values() if inspect.isfunction(one)]
    chosen = [one for one in functions if list(inspect.signature(one).parameters) == ["case"]]
    return [Check(one.__name__, (one.__doc__ or "").partition("\n")[0], one, case) for one in chosen]


def run_checks(checks: Iterable[Check], *, raise_on_failure: bool = False) -> dict[str, Verdict]:
    """Verdicts by the names of the checks.

    Raises:
        ContractError: At the first failure, if that is requested.
    """
    verdicts = {}
    for check in checks:
        verdict = verdicts[check.name] = check.run()
        if raise_on_failure and verdict.outcome == "failed":
            raise ContractError(f"{verdict.name}: {verdict.reason}")
    return verdicts


def describe_error(error: Exception) -> str:
    """An error on one line: one that is meant for people as it is, any other with its kind and place."""
    if isinstance(error, ContractError | HPNError):
        return " ".join(str(error).split())
    return " ".join(f"raised {type(error).__name__}: {error} at {find_place(error)}".split())


def expect(holds: bool, message: str) -> None:
    """Raise :class:`ContractError` with a message unless something holds."""
    if not holds:
        raise ContractError(message)


@contextlib.contextmanager
def expect_error(kind: type[Exception], words: str, when: str) -> Iterator[None]:
    """Demand that an error of some kind, with some words in its message, is raised inside."""
    try:
        yield
    except kind as error:
        expect(words in str(error), f"{when}: the error should state {words!r}, got {str(error)!r}")
    else:
        raise ContractError(f"{when}: expected {kind.__name__}, but nothing was raised")
