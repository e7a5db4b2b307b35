"""Writing files so that a crash leaves the old one or the new one, never half of one."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any


def write_atomic(path: Path, content: bytes) -> None:
    """Write next to ``path``, bring it to disk, and rename it into place."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    _sync_folder(path.parent)


def write_json(path: Path, content: Any) -> None:
    """Write JSON atomically; a number that is not finite is an error, since JSON has none."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    write_atomic(path, (text + "\n").encode())


def _sync_folder(folder: Path) -> None:
    # A rename is durable once its folder is on disk; not every system can open a folder.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
