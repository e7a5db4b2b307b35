"""A run folder: who may write it, and what it holds.

::

    config.json              the resolved configuration, versions included
    result.json              the result over all seeds (the JSON of ``hpn run --json``)
    request.json             what was requested, and a stamp of the files that the result depends on
    views.json               with --views: pictures of the test nodes after each step
    seed-0/result.json       matrices and costs of one finished seed
    seed-0/checkpoint.json   where an unfinished seed resumes; the final state of a finished one
    seed-0/state-….safetensors
    seed-0/log.jsonl         one line per epoch and step
    seed-0/explorer.json     with --views, of the first seed: its test nodes as the node explorer shows them
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from hpn.errors import RunFolderError

FORMAT = 1
CONFIG, RESULT, LOCK = "config.json", "result.json", ".lock"
VIEWS, EXPLORER = "views.json", "explorer.json"


class Configuration(Protocol):
    """What a folder is bound to."""

    def to_json(self) -> dict[str, Any]:
        """The configuration as it stands in ``config.json``."""


@contextlib.contextmanager
def open_run_folder(path: Path, config: Configuration, *, fresh: bool = False) -> Iterator[Path]:
    """Make or enter a run folder, and keep every other run out of it.

    Args:
        path: The folder.
        config: What is to run in it.
        fresh: Delete an earlier run in it first.

    Raises:
        RunFolderError: If it cannot be written, is in use, or holds something else.
    """
    from filelock import FileLock, Timeout  # takes a while, and reading a folder does not need it

    _check_kind(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path / LOCK)
        lock.acquire(timeout=0)
    except Timeout as error:
        raise RunFolderError(f"{path} is in use by another run; wait for it, or choose another --out") from error
    except OSError as error:
        raise RunFolderError(f"cannot write {path} ({error.strerror or error}); choose another --out") from error
    try:
        if fresh:
            _clear(path)
        _check_config(path, config)
        try:
            write_json(path / CONFIG, config.to_json())
        except OSError as error:
            raise RunFolderError(f"cannot write {path} ({error.strerror or error}); choose another --out") from error
        yield path
    finally:
        lock.release()


def make_folder(path: Path) -> None:
    """Make a folder for tables or pages, if it is not there.

    Raises:
        RunFolderError: If it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunFolderError(f"cannot write {path} ({error.strerror or error}); choose another --out") from error


def read_json(path: Path) -> Any:
    """Read a file of the run folder; ``None`` if it is not there.

    Raises:
        RunFolderError: If it is damaged.
    """
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise RunFolderError(
            f"{path} cannot be read ({error}); use --fresh to start over, or choose another --out"
        ) from error


def read_config(folder: Path) -> dict[str, Any]:
    """Read the configuration of a run folder.

    Raises:
        RunFolderError: If it is not a run folder, or the file is damaged.
    """
    found = read_json(folder / CONFIG)
    if found is None:
        raise RunFolderError(f"{folder} is not a run folder ({CONFIG} is missing)")
    if not isinstance(found, dict):
        raise RunFolderError(f"{folder / CONFIG} is damaged; use --fresh to start over, or choose another --out")
    return found


def _check_kind(path: Path) -> None:
    """Refuse anything but a run folder or an empty one, before touching it."""
    if path.exists() and not path.is_dir():
        raise RunFolderError(f"{path} is a file; choose another --out")
    if path.is_dir() and not (path / CONFIG).exists():
        others = [entry.name for entry in path.iterdir() if entry.name != LOCK]
        if others and not all(name.endswith(".part") for name in others):
            raise RunFolderError(f"{path} is not empty and holds no run ({min(others)}, …); choose another --out")


def _check_config(path: Path, config: Configuration) -> None:
    if not (path / CONFIG).exists():
        return
    found = read_config(path)
    if found.get("format", 0) > FORMAT:
        raise RunFolderError(
            f"{path} was made by a newer version of hpn (format {found['format']}, this one knows "
            f"{FORMAT}); upgrade hpn, or choose another --out"
        )
    differences = list(_differences(found, config.to_json()))
    if differences:
        raise RunFolderError(
            f"{path} holds a run of another configuration ({'; '.join(differences[:3])}); "
            "choose another --out, or use --fresh to replace it"
        )


def _differences(found: dict[str, Any], wanted: dict[str, Any]) -> Iterator[str]:
    for key in sorted({*found, *wanted}):
        old, new = found.get(key), wanted.get(key)
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(old, new)
        elif key == "data_sha256":
            yield "the data has changed"
        else:
            yield f"{key}: {old} there, {new} now"


def _clear(path: Path) -> None:
    for entry in path.iterdir():
        if entry.name == LOCK:
            continue
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


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
