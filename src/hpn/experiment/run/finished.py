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

from hpn.experiment.run.files import write_json
from hpn.experiment.run.folder import CONFIG, RESULT, VIEWS
from hpn.experiment.run.seeds import check_seeds
from hpn.experiment.run.versions import installed_versions
from hpn.experiment.watch import Watcher

REQUEST = "request.json"
MOST_FILES = 1000
"""Data in more files is not stamped, so that looking for a finished run stays quick."""
PACKAGE = Path(__file__).parents[1]

Request = Mapping[str, Any]


def find_finished(
    request: Request, out: Path | str | None = None, watcher: Watcher | None = None
) -> dict[str, Any] | None:
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
            watcher.run_started(folder, len(result["seeds"]), len(result["tasks"]))
            for seed in result["seeds"]:
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
    try:
        has_changed = any(max(_times(file)) > since for file in (*_code(), *read))
        stamp = _stamp([*read, *_own_files(folder, request["seeds"], request["views"])])
    except OSError:  # a file is gone
        has_changed, stamp = True, ""
    if has_changed:
        (folder / REQUEST).unlink(missing_ok=True)
        return
    kept = {"request": _written(request), "inputs": [str(file) for file in read], "stamp": stamp}
    write_json(folder / REQUEST, kept)


def _read_finished(folder: Path, wanted: Any) -> dict[str, Any] | None:
    """The result in a run folder, if it is what is wanted and still true."""
    try:
        kept = json.loads((folder / REQUEST).read_bytes())
        own = _own_files(folder, wanted["seeds"], wanted["views"])
        if kept["request"] != wanted or kept["stamp"] != _stamp([*map(Path, kept["inputs"]), *own]):
            return None
        result: dict[str, Any] = json.loads((folder / RESULT).read_bytes())
    except (OSError, ValueError, KeyError, TypeError):  # a file is gone or damaged
        return None
    return result


def _written(request: Request) -> Any:
    """A request as JSON, with what it depends on besides its arguments."""
    surroundings = {
        "folder": str(Path.cwd()),
        "data": [os.environ.get(name) for name in ("HPN_DATA", "XDG_CACHE_HOME", "HOME")],
        "versions": installed_versions(),
    }
    return json.loads(json.dumps({**request, **surroundings}, default=str))


def _own_files(folder: Path, seeds: int | Sequence[int], views: bool) -> list[Path]:
    """The files of a run folder that its result was made from."""
    folder = folder.absolute()
    made = [folder / f"seed-{seed}" / RESULT for seed in check_seeds(seeds)]
    return [folder / CONFIG, folder / RESULT, *made, *([folder / VIEWS] if views else [])]


def _stamp(files: Sequence[Path]) -> str:
    """A hash over sizes and times of change of files, the code of the package included.

    Raises:
        OSError: If one is missing, or there are too many.
    """
    if len(files) > MOST_FILES:
        raise OSError(f"more than {MOST_FILES} files")
    digest = hashlib.sha256()
    for file in [*_code(), *files]:
        digest.update(f"{file}\0{file.stat().st_size} {_times(file)}\n".encode())
    return digest.hexdigest()


def _code() -> list[Path]:
    """The files of this package."""
    return [file for kind in ("*.py", "*.yaml") for file in sorted(PACKAGE.rglob(kind))]


def _times(file: Path) -> tuple[int, int]:
    """When the content and when the entry of a file changed."""
    about = file.stat()
    return about.st_mtime_ns, about.st_ctime_ns
