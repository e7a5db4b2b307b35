"""A finished run, found again by the command that made it, without loading data or PyTorch.

A run keeps beside its result what was requested and a stamp of every file that the result depends on. If both
are unchanged, the result is read as it is; otherwise the run is resolved from its data.
"""

from __future__ import annotations

import contextlib
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
# Data in more files is not stamped, so that looking for a finished run stays quick.
MOST_FILES = 1000
PACKAGE = Path(__file__).parents[2]

Request = Mapping[str, Any]


def find_finished(request: Request, out: Path | str | None = None, watcher: Watcher | None = None) -> RunResult | None:
    """The result of a finished run, if the same was requested and nothing has changed since."""
    wanted, watcher = _written(request), watcher or Watcher()
    name = f"{Path(str(request['dataset'])).stem}-{request.get('method', 'hpn')}-*"
    for folder in [Path(out)] if out else sorted(Path("runs").glob(name)):
        try:
            kept = json.loads((folder / REQUEST).read_bytes())
            if kept["request"] != wanted or kept["stamp"] != _stamp(folder, kept["inputs"]):
                continue
            result = load_result(folder)
        except (OSError, ValueError, KeyError, TypeError, DataError):  # a file is missing or damaged
            continue
        watcher.run_started(folder, len(result.seeds), len(result.steps))
        for seed in result.seeds:
            watcher.seed_finished(seed, reused=True)
        return result
    return None


def keep_request(folder: Path, request: Request, inputs: Sequence[Path], *, since: int) -> None:
    """Keep the request beside the finished result, unless an input has changed ``since`` the run began (ns)."""
    (folder / REQUEST).unlink(missing_ok=True)
    files = [str(path.absolute()) for path in inputs]
    with contextlib.suppress(OSError):  # a file is missing, or there are too many
        if all(max(_times(file)) <= since for file in (*_code(), *inputs)):
            write_json(
                folder / REQUEST, {"request": _written(request), "inputs": files, "stamp": _stamp(folder, files)}
            )


def _written(request: Request) -> Any:
    """A request as JSON, with what it depends on besides its arguments."""
    surroundings = {
        "folder": str(Path.cwd()),
        "data": [os.environ.get(name) for name in ("HPN_DATA", "XDG_CACHE_HOME", "HOME")],
        "versions": installed_versions(),
    }
    return json.loads(json.dumps({"reference": None, **request, **surroundings}, default=str))


def _stamp(folder: Path, inputs: Sequence[str]) -> str:
    """A hash over sizes and times of change of the inputs, of the run's own files and of the code of the package."""
    if len(inputs) > MOST_FILES:
        raise OSError(f"more than {MOST_FILES} files")
    own = (sorted(folder.glob(name)) for name in ("*.json", f"seed-*/{RESULT}", f"seed-*/{VIEWS}"))
    files = [*_code(), *map(Path, inputs), *(path for part in own for path in part if path.name != REQUEST)]
    about = [f"{file.absolute()}\0{file.stat().st_size} {_times(file)}\n" for file in files]
    return hashlib.sha256("".join(about).encode()).hexdigest()


def _code() -> list[Path]:
    return [file for kind in ("*.py", "*.yaml") for file in sorted(PACKAGE.rglob(kind))]


def _times(file: Path) -> tuple[int, int]:
    """When the content and when the directory entry of a file changed."""
    about = file.stat()
    return about.st_mtime_ns, about.st_ctime_ns
