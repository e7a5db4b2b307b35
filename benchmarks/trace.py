"""The way of ``hpn run cora`` through the package: its files, and how often things are decided.

``python -m benchmarks.trace [DATASET]`` lists the files by the number of calls in them.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import hpn
from benchmarks.rows import Row

PACKAGE = str(Path(hpn.__file__).parent) + "/"
DECISIONS = ("resolve_config", "resolve_params", "plan_tasks", "split_nodes", "make_stream")


@dataclass
class Trace:
    """Calls of functions of the package.

    Attributes:
        files: Calls by file.
        decisions: Calls of the functions that decide what a run is.
        moves: Calls from a file in one folder to a file in another.
    """

    files: Counter[str] = field(default_factory=Counter)
    decisions: Counter[str] = field(default_factory=Counter)
    moves: int = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Count a call; what runs on import, bodies of modules and classes and what they call, aside."""
        code, caller = frame.f_code, frame.f_back
        is_function = code.co_flags & inspect.CO_OPTIMIZED
        if event != "call" or not is_function or not code.co_filename.startswith(PACKAGE):
            return
        if caller is not None and _imports(caller):
            return
        file = code.co_filename.removeprefix(PACKAGE)
        self.files[file] += 1
        self.decisions[code.co_name] += code.co_name in DECISIONS
        if caller is not None and caller.f_code.co_filename.startswith(PACKAGE):
            source = caller.f_code.co_filename.removeprefix(PACKAGE)
            self.moves += Path(source).parent != Path(file).parent


def _imports(caller: FrameType) -> bool:
    """Whether a frame is the body of a module or class, or the import system."""
    code = caller.f_code
    return not code.co_flags & inspect.CO_OPTIMIZED or code.co_filename.startswith("<frozen importlib")


def trace_run(dataset: str = "cora") -> Trace:
    """Run the command in this process, and count."""
    from hpn.cli import main

    trace, words = Trace(), sys.argv
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        sys.argv = ["hpn", "run", dataset, "--out", folder, "--fresh", "--quiet", "--json"]
        sys.setprofile(trace)
        try:
            main()
        except SystemExit:
            pass
        finally:
            sys.setprofile(None)
            sys.argv = words
    return trace


def trace(work: Path) -> Iterator[Row]:  # noqa: ARG001
    """Files of the package that ``hpn run cora`` passes through, and how often configuration and splits are made."""
    found = trace_run()
    yield Row("files that `hpn run cora` passes through", len(found.files), "files", most=40)
    yield Row("calls into another folder", found.moves, "calls")
    yield Row("configuration resolved", found.decisions["resolve_config"], "times", most=1)
    yield Row("nodes split", found.decisions["split_nodes"], "times", most=1)


if __name__ == "__main__":
    found = trace_run(*sys.argv[1:2])
    for name, calls in found.files.most_common():
        print(f"{calls:7,} {name}", file=sys.stderr)
    decided = ", ".join(f"{name} {found.decisions[name]}" for name in DECISIONS)
    print(f"{len(found.files)} files, {found.moves:,} calls into another folder; {decided}", file=sys.stderr)
