"""A fake of the parts of Ray that experiments use, for tests that have no time for the real one."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest


class RayError(Exception): ...


class RayTaskError(RayError):
    def __init__(self, cause: Exception | str) -> None:
        super().__init__(str(cause))
        self.cause = cause


class OutOfMemoryError(RayError): ...


class WorkerCrashedError(RayError): ...


KINDS = (RayError, RayTaskError, OutOfMemoryError, WorkerCrashedError)


class FakeRay:
    """Ray that runs a task when its answer is waited for, the latest first."""

    exceptions = SimpleNamespace(**{kind.__name__: kind for kind in KINDS})

    def __init__(self) -> None:
        self.cpus, self.gpus, self.connected = 1, 0, False
        self.most = self.fetched = self.cancelled = 0
        self.needs: dict[str, Any] = {}
        self.options: dict[str, Any] = {}
        self.begun: list[Any] = []
        self.places: list[str] = []
        self.stored: list[Any] = []
        self.answers: dict[object, Callable[[], Any]] = {}
        self.references: dict[object, Any] = {}
        self.dies: Callable[[str], Exception] | None = None

    def is_initialized(self) -> bool:
        return self.connected

    def init(self, **options: Any) -> SimpleNamespace:
        warnings.warn("Tip: in future versions …", FutureWarning, stacklevel=1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.options, self.connected = options, True
        self.places = os.environ["PYTHONPATH"].split(os.pathsep)
        return SimpleNamespace(address_info={"session_dir": "no such folder"})

    def shutdown(self) -> None:
        self.connected = False

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": float(self.cpus), **({"GPU": float(self.gpus)} if self.gpus else {})}

    def put(self, thing: Any) -> object:
        self.stored.append(thing)
        reference = object()
        self.references[reference] = thing
        return reference

    def remote(self, **options: Any) -> Callable[[Any], SimpleNamespace]:
        self.needs = options
        return lambda function: SimpleNamespace(remote=lambda *given: self._begin(function, given))

    def _begin(self, function: Callable[..., Any], given: tuple[Any, ...]) -> object:
        answer = object()
        self.begun.append(given)
        self.answers[answer] = lambda: function(*given)
        self.most = max(self.most, len(self.answers))
        return answer

    def wait(self, answers: list[object], **_: Any) -> tuple[list[object], list[object]]:
        return answers[-1:], answers[:-1]

    def get(self, answer: Any) -> Any:
        if answer in self.references:
            self.fetched += 1
            return self.references[answer]
        task = self.answers.pop(answer, None)
        if self.dies:
            raise self.dies("first line\nModuleNotFoundError: No module named 'hpn'")
        try:
            return task()  # type: ignore[misc]
        except Exception as error:
            raise RayTaskError(error) from error

    def cancel(self, answer: object, *, force: bool) -> None:
        assert force
        del self.answers[answer]
        self.cancelled += 1


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    ray = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    return ray
