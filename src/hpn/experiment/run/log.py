"""The log of one seed: a JSON object a line, consistent with the checkpoint beside it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any


class EventLog:
    """Appends events; after a crash it is cut back to what the checkpoint knows of.

    Args:
        path: The file.
        keep: Bytes that are known to be good; what is behind them belongs to work that is done again.
    """

    def __init__(self, path: Path, keep: int) -> None:
        self._file = path.open("ab")
        self._file.truncate(min(keep, self._file.tell()))  # a power cut may have taken more

    def write(self, event: str, **details: Any) -> None:
        """Append one event."""
        entry = {"time": round(time.time(), 3), "event": event, **details}
        self._file.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
        self._file.flush()

    def size(self) -> int:
        """Bytes written so far."""
        return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
