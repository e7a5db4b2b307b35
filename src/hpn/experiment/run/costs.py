"""What a run costs: seconds and memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Adds up seconds by name; what was measured before a crash is added to."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = {"fit": 0.0, "predict": 0.0, "total": 0.0, **seconds}
        self._earlier = dict(self.seconds)
        self._start = time.perf_counter()
        self._running: tuple[str, float] | None = None

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Add the time spent inside to ``name``."""
        self._running = (name, time.perf_counter())
        try:
            yield
        finally:
            name, start = self._running
            self.seconds[name] += time.perf_counter() - start
            self._running = None

    def read(self) -> dict[str, float]:
        """Seconds so far, a measurement under way included."""
        now = time.perf_counter()
        seconds = dict(self.seconds)
        if self._running:
            name, start = self._running
            seconds[name] += now - start
        seconds["total"] = self._earlier["total"] + now - self._start
        return seconds


def peak_rss_mb() -> float | None:
    """Largest resident memory of this process so far, in MB; ``None`` where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20) if sys.platform == "darwin" else peak / (1 << 10)
