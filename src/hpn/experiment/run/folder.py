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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hpn.errors import RunFolderError

FORMAT = 1
CONFIG, RESULT, LOCK = "config.json", "result.json", ".lock"
VIEWS, EXPLORER = "views.json", "explorer.json"
START_OVER = "use --fresh to start over, or choose another --out"


@contextlib.contextmanager
def open_run_folder(path: Path, config: Mapping[str, Any], *, fresh: bool = False) -> Iterator[Path]:
    """Create or open the folder of a run with this configuration, and lock it."""
    from filelock import FileLock, Timeout  # slow to import, and not needed to read a folder

    _check_kind(path)
    lock = FileLock(path / LOCK)
    with _writing(path):
        path.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise RunFolderError(f"{path} is in use by another run; wait for it, or choose another --out") from error
    try:
        for entry in path.iterdir() if fresh else ():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name != LOCK:
                entry.unlink()
        _check_config(path, config)
        with _writing(path):
            write_json(path / CONFIG, config)
        yield path
    finally:
        lock.release()


def make_folder(path: Path) -> None:
    """Create a folder for tables or pages, unless it exists."""
    with _writing(path):
        path.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunFolderError(f"cannot write {path} ({error.strerror or error}); choose another --out") from error


def read_json(path: Path) -> Any:
    """Read a file of the run folder; ``None`` if there is none."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise RunFolderError(f"{path} cannot be read ({error}); {START_OVER}") from error


def read_config(folder: Path) -> dict[str, Any]:
    """Read the configuration of a run folder."""
    found = read_json(folder / CONFIG)
    if found is None:
        raise RunFolderError(f"{folder} is not a run folder ({CONFIG} is missing)")
    if not isinstance(found, dict):
        raise RunFolderError(f"{folder / CONFIG} is damaged; {START_OVER}")
    return found


def _check_kind(path: Path) -> None:
    """Refuse anything but a run folder or an empty one, before touching it."""
    if path.exists() and not path.is_dir():
        raise RunFolderError(f"{path} is a file; choose another --out")
    if path.is_dir() and not (path / CONFIG).exists():
        others = [entry.name for entry in path.iterdir() if entry.name != LOCK]
        if not all(name.endswith(".part") for name in others):
            raise RunFolderError(f"{path} is not empty and holds no run ({min(others)}, …); choose another --out")


def _check_config(path: Path, config: Mapping[str, Any]) -> None:
    if not (path / CONFIG).exists():
        return
    found = read_config(path)
    if found.get("format", 0) > FORMAT:
        raise RunFolderError(
            f"{path} was made by a newer version of hpn (format {found['format']}, this one knows "
            f"{FORMAT}); upgrade hpn, or choose another --out"
        )
    if differences := list(list_differences(found, config, "now")):
        raise RunFolderError(
            f"{path} holds a run of another configuration ({'; '.join(differences[:3])}); "
            "choose another --out, or use --fresh to replace it"
        )


def list_differences(found: Mapping[str, Any], wanted: Mapping[str, Any], here: str) -> Iterator[str]:
    """Where two configurations differ: what is found there, and what is here or now."""
    for key in sorted({*found, *wanted}):
        old, new = found.get(key), wanted.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from list_differences(old, new, here)
        elif old != new:
            yield "the data has changed" if key == "data_sha256" else f"{key}: {old} there, {new} {here}"


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all: beside ``path``, to disk, and renamed into place."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    # A rename is durable once its folder is on disk; not every system can open a folder.
    with contextlib.suppress(OSError):
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def append_json(path: Path, entry: Mapping[str, Any], *, sync: bool = False) -> None:
    """Append a line of JSON to a file; with ``sync`` it is on disk when this returns."""
    with path.open("ab") as file:
        file.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
        if sync:
            file.flush()
            os.fsync(file.fileno())


def write_json(path: Path, content: Any) -> None:
    """Write JSON atomically; a number that is not finite is an error, since JSON has none."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    write_atomic(path, (text + "\n").encode())
