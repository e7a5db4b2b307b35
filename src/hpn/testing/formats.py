"""The contract of a data format: a function that reads files and gives what it reads to a sink."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from hpn.datasets import Graph
from hpn.datasets.graph import list_arrays
from hpn.datasets.store import StoreWriter
from hpn.errors import HPNError
from hpn.testing.suite import Check, Verdict, expect, find_checks, run_checks

Reader = Callable[..., Graph]
NUM_DAMAGES = 20
"""Damaged copies that are read."""


class FormatCase:
    """A reader, ``reader(path, sink=None, **options)``, and a file or folder that it can read."""

    def __init__(self, reader: Reader, path: Path, options: dict[str, Any]) -> None:
        self.reader, self.path, self.options = reader, path, options

    def read(self, *place: Any) -> Graph:
        """Read the files, or others in their place; into a sink, if one is given."""
        return self.reader(*(place or (self.path,)), **self.options)


def format_checks(reader: Reader, path: Path | str, /, **options: Any) -> list[Check]:
    """The checks of a reader on a file or folder, to be called one by one; see :func:`check_format`."""
    return find_checks(__name__, FormatCase(reader, Path(path), options))


def check_format(
    reader: Reader, path: Path | str, /, *, raise_on_failure: bool = False, **options: Any
) -> dict[str, Verdict]:
    """Check a reader of a data format; verdicts by check.

    Args:
        reader: Called as ``reader(path, sink, **options)``; appends arrays to a
            :class:`~hpn.datasets.sink.Sink` and returns the graph that it makes of them. Without a sink, the
            graph is read into memory.
        path: A small file or folder that it can read.
        raise_on_failure: Whether the first failure is raised.
        options: Options of the reader.

    Raises:
        ContractError: At the first failure, if that is requested.
    """
    return run_checks(format_checks(reader, path, **options), raise_on_failure=raise_on_failure)


def graph_is_read_alike_twice(case: FormatCase) -> None:
    """Reading twice gives the same graph, and leaves the files as they are."""
    before = _contents(case.path)
    one, other = case.read(), case.read()
    expect(one.fingerprint() == other.fingerprint(), "two readings of the same files give different graphs")
    expect(_contents(case.path) == before, "reading changes the files")


def store_equals_memory(case: FormatCase) -> None:
    """Through a store on disk comes the same graph as into memory."""
    whole = case.read()
    with TemporaryDirectory() as folder, StoreWriter(Path(folder) / "store") as store:
        stored = case.read(case.path, store)
        one, other = list_arrays(whole), list_arrays(stored)
        expect(one.keys() == other.keys(), f"in memory: arrays {sorted(one)}; in a store: {sorted(other)}")
        changed = [name for name, array in one.items() if not torch.equal(array, torch.as_tensor(other[name][:]))]
        expect(not changed, f"{', '.join(changed)} differ between memory and a store")
        expect(whole.class_names == stored.class_names, "class names differ between memory and a store")
        expect(whole.fingerprint() == stored.fingerprint(), "fingerprints differ between memory and a store")


def missing_files_are_named(case: FormatCase) -> None:
    """A path without files is refused with an error that names it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / case.path.name
        try:
            case.read(path)
        except HPNError as error:
            expect(case.path.name in str(error), f"the error should name {case.path.name}, got {str(error)!r}")
        else:
            expect(False, "a path without files is read without an error")


def damaged_files_give_a_graph_or_an_error(case: FormatCase) -> None:
    """Damaged bytes give one of our errors, on one line, or a graph; no other exception."""
    draw = random.Random(0)  # noqa: S311  (damage need not be unpredictable)
    for number in range(NUM_DAMAGES):
        with TemporaryDirectory() as folder:
            copied = Path(folder) / case.path.name
            (shutil.copytree if case.path.is_dir() else shutil.copy)(case.path, copied)
            file = draw.choice(sorted(_contents(copied)))
            content = bytearray(file.read_bytes())
            at = draw.randrange(len(content))
            if number % 2:
                del content[at:]
            else:
                content[at] ^= 1 << draw.randrange(8)
            file.write_bytes(content)
            try:
                case.read(copied)
            except HPNError as error:
                expect("\n" not in str(error), f"an error should be one line, got {str(error)!r}")
            except Exception as error:  # whatever a reader raises
                kind = "cut" if number % 2 else "changed"
                expect(False, f"{file.name} {kind} at byte {at} raises {type(error).__name__}, not an error of hpn")


def _contents(path: Path) -> dict[Path, bytes]:
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    return {file: file.read_bytes() for file in files}
