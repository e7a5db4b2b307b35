"""A finished run, found again by the command that made it, without loading data or PyTorch.

A run keeps beside its result what was requested and a stamp of every file that the result depends on. Where
both are as they were, the result is given as it is; in any doubt the run is resolved from its data.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpn.errors import DataError
from hpn.experiment.run.environment import installed_versions
from hpn.experiment.run.folder import RESULT, VIEWS, write_json
from hpn.experiment.run.result import RunResult, load_result
from hpn.experiment.watch import Watcher

REQUEST = "request.json"
MOST_FILES = 1000
"""Data in more files is not stamped, so that looking for a finished run stays quick."""
PACKAGE = Path(__file__).parents[2]

Request = Mapping[str, Any]


def find_finished(request: Request, out: Path | str | None = None, watcher: Watcher | None = None) -> RunResult | None:
    """The result of a finished run, if the same was requested and nothing has changed since.

    Args:
        request: The arguments of :func:`hpn.run` that determine the result.
        out: Run folder; by default all of ``runs/`` that the request may have made.
        watcher: Is told what was found.
    """
    wanted = _written(request)
    name = f"{Path(str(request['dataset'])).stem}-{request.get('method', 'hpn')}-*"
    for folder in [Path(out)] if out else sorted(Path("runs").glob(name)):
        result = _read_finished(folder, wanted)
        if result is not None:
            watcher = watcher or Watcher()
            watcher.run_started(folder, len(result.seeds), len(result.steps))
            for seed in result.seeds:
                watcher.seed_finished(seed, reused=True)
            return result
    return None


def keep_request(folder: Path, request: Request, inputs: Sequence[Path], *, since: int) -> None:
    """Keep what was requested beside the finished result, unless an input has changed meanwhile.

    Args:
        folder: The run folder.
        request: The arguments of :func:`hpn.run` that determine the result.
        inputs: Files and folders that were read.
        since: When the run started, in nanoseconds.
    """
    read = [path.absolute() for path in inputs]
    own = [path for path in sorted(folder.glob("*.json")) if path.name != REQUEST]
    own += [path for name in (RESULT, VIEWS) for path in sorted(folder.glob(f"seed-*/{name}"))]
    try:
        has_changed = any(max(_times(file)) > since for file in (*_code(), *read))
        stamp = _stamp([*read, *own])
    except OSError:  # a file is gone
        has_changed, stamp = True, ""
    if has_changed:
        (folder / REQUEST).unlink(missing_ok=True)
        return
    files = [str(file) for file in read], [str(file.relative_to(folder)) for file in own]
    write_json(folder / REQUEST, {"request": _written(request), "inputs": files[0], "own": files[1], "stamp": stamp})


def _read_finished(folder: Path, wanted: Any) -> RunResult | None:
    """The result in a run folder, if it is what is wanted and still true."""
    try:
        kept = json.loads((folder / REQUEST).read_bytes())
        files = [*map(Path, kept["inputs"]), *(folder / name for name in kept["own"])]
        is_wanted = kept["request"] == wanted and kept["stamp"] == _stamp(files)
        return load_result(folder) if is_wanted else None
    except (OSError, ValueError, KeyError, TypeError, DataError):  # a file is gone or damaged
        return None


def _written(request: Request) -> Any:
    """A request as JSON, with what it depends on besides its arguments."""
    surroundings = {
        "folder": str(Path.cwd()),
        "data": [os.environ.get(name) for name in ("HPN_DATA", "XDG_CACHE_HOME", "HOME")],
        "versions": installed_versions(),
    }
    given = {"reference": None, **request, **surroundings}
    return json.loads(json.dumps(given, default=str))


def _stamp(files: Sequence[Path]) -> str:
    """A hash over sizes and times of change of files, the code of the package included.

    Raises:
        OSError: If one is missing, or there are too many.
    """
    if len(files) > MOST_FILES:
        raise OSError(f"more than {MOST_FILES} files")
    digest = hashlib.sha256()
    for file in [*_code(), *files]:
        digest.update(f"{file.absolute()}\0{file.stat().st_size} {_times(file)}\n".encode())
    return digest.hexdigest()


def _code() -> list[Path]:
    """The files of this package."""
    return [file for kind in ("*.py", "*.yaml") for file in sorted(PACKAGE.rglob(kind))]


def _times(file: Path) -> tuple[int, int]:
    """When the content and when the entry of a file changed."""
    about = file.stat()
    return about.st_mtime_ns, about.st_ctime_ns
