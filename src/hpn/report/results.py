"""Result files: read and checked, grouped into what may be compared, reduced to curves."""

from __future__ import annotations

import json
import reprlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, TypeGuard

from hpn.errors import DataError
from hpn.metrics import Summary, accuracy_means, average_retainings, summarize
from hpn.report.format import is_number

SCHEMA = 1
FILE_NAME = "result.json"

Result = Mapping[str, Any]

_TEXTS = ("dataset", "method", "scenario", "evaluate", "edges")
_SUMMARIES = ("fm", "ars")
_NUMBERS = ("parameters", "peak_rss_mb")
_NUMBER_MAPS = ("prototypes", "bounds", "seconds")
_MAPS = ("versions", "balanced", "class_names", "params")
_OPTIONAL = ("backbone", *_SUMMARIES, *_NUMBERS, *_NUMBER_MAPS, *_MAPS, "command")


def load_result(path: Path) -> dict[str, Any]:
    """Read the result of a finished run.

    Args:
        path: A run folder, or the ``result.json`` in it.

    Returns:
        The result as stored; optional fields that are absent are ``None``.

    Raises:
        DataError: The run has not finished, or the file is not a result this version reads.
    """
    file = path / FILE_NAME if path.is_dir() else path
    result = _parse(_read(file), file)
    if result.get("schema") != SCHEMA:
        raise _error(
            f"{file} has schema {reprlib.repr(result.get('schema'))}, expected {SCHEMA}: "
            "read it with the hpn version that wrote it, or run its command again with this one"
        )
    for name in _OPTIONAL:
        result.setdefault(name, None)
    if result.get("out") is None:
        result["out"] = str(file.parent)
    fault = next(_faults(result), None)
    if fault is not None:
        raise _error(f"{file} is damaged ({fault}): run its command again")
    return result


def group_results(results: Iterable[Result]) -> list[list[Result]]:
    """Split results into groups that may share a chart, in the order they first appear.

    Results are comparable when data set, scenario, evaluation, edges and tasks agree.
    """
    groups: dict[tuple[object, ...], list[Result]] = {}
    for result in results:
        tasks = tuple(tuple(task) for task in result["tasks"])
        key = (*(result[name] for name in ("dataset", "scenario", "evaluate", "edges")), tasks)
        groups.setdefault(key, []).append(result)
    return list(groups.values())


def label_results(results: Sequence[Result]) -> list[str]:
    """Name each result by method and backbone; where two agree, by run folder or number as well.

    Example:
        >>> hpn = {"method": "hpn", "backbone": None, "out": "runs/a"}
        >>> label_results([hpn, {"method": "ewc", "backbone": "gcn", "out": "runs/b"}])
        ['hpn', 'ewc · gcn']
        >>> label_results([hpn, {**hpn, "out": "runs/b"}, {**hpn, "out": "runs/b"}])
        ['hpn (a)', 'hpn (b)', 'hpn (b) #2']
    """
    labels = [" · ".join(filter(None, (r["method"], r.get("backbone")))) for r in results]
    shared = Counter(labels)
    for i, result in enumerate(results):
        folder = PurePath(str(result.get("out") or "")).name
        if shared[labels[i]] > 1 and folder:
            labels[i] = f"{labels[i]} ({folder})"
    seen: Counter[str] = Counter()
    for i, label in enumerate(labels):
        seen[label] += 1
        if seen[label] > 1:
            labels[i] = f"{label} #{seen[label]}"
    return labels


def class_names(result: Result, task: int) -> list[str]:
    """Names of the classes of a task, ``class 3`` where a class has none.

    Example:
        >>> class_names({"tasks": [[0, 1]], "class_names": {"0": "Theory"}}, 0)
        ['Theory', 'class 1']
    """
    names = result.get("class_names") or {}
    return [str(names.get(str(label), f"class {label}")) for label in result["tasks"][task]]


def accuracy_curve(result: Result) -> list[Summary | None]:
    """AM after each task, in per cent, over seeds."""
    return _over_seeds([accuracy_means(matrix) for matrix in result["matrices"]])


def retaining_curve(result: Result) -> list[Summary | None]:
    """ARS after each task, in per cent, over seeds; ``None`` after the first.

    Where the result has no ARS, as for a learner that sees the past again and cannot forget it, the
    curve has none either.
    """
    if result.get("ars") is None:
        return [None] * len(result["tasks"])
    return _over_seeds(
        [
            [None if ratio is None else 100 * ratio for ratio in average_retainings(matrix)]
            for matrix in result["matrices"]
        ]
    )


def mean_matrix(result: Result) -> list[list[Summary | None]]:
    """The accuracy matrix over seeds."""
    num_tasks = len(result["tasks"])
    return [_over_seeds([m[i] for m in result["matrices"]]) for i in range(num_tasks)]


def _over_seeds(rows: Sequence[Sequence[float | None]]) -> list[Summary | None]:
    return [summarize(column) for column in zip(*rows, strict=True)]


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        if file.name == FILE_NAME and file.parent.is_dir():
            raise _error(
                f"{file.parent} has no {FILE_NAME}, so the run has not finished: "
                "start its command again and let it end"
            ) from None
        raise _error(f"{file} does not exist: name a run folder or its {FILE_NAME}") from None
    except OSError as error:
        raise _error(f"{file} cannot be read ({error.strerror}): check its permissions") from None
    except UnicodeDecodeError:
        raise _not_json(file, "not UTF-8") from None


def _parse(text: str, file: Path) -> dict[str, Any]:
    try:
        result = json.loads(text)
    except json.JSONDecodeError as error:
        raise _not_json(file, f"line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise _not_json(file, str(error)) from None
    if not isinstance(result, dict):
        raise _not_json(file, f"expected an object, got {type(result).__name__}")
    return result


def _not_json(file: Path, why: str) -> DataError:
    return _error(f"{file} is not a JSON result ({why}): name a run folder, or run its command again")


def _error(message: str) -> DataError:
    return DataError(" ".join(message.split()))


def _faults(result: Result) -> Iterator[str]:
    """Say what is wrong with the fields the report reads, most telling first."""
    for name in _TEXTS:
        if not isinstance(result.get(name), str):
            yield f"{name} must be a text, got {reprlib.repr(result.get(name))}"
    if not isinstance(result["backbone"], (str, type(None))):
        yield f"backbone must be a text or null, got {reprlib.repr(result['backbone'])}"
    tasks, seeds, matrices = (result.get(name) for name in ("tasks", "seeds", "matrices"))
    if not _is_filled(tasks) or not all(_is_task(task) for task in tasks):
        yield "tasks must be a list of lists of classes"
    elif not _is_filled(seeds) or not isinstance(matrices, list) or len(matrices) != len(seeds):
        yield "matrices must hold one matrix a seed"
    elif not all(_is_matrix(matrix, len(tasks)) for matrix in matrices):
        yield "matrices must be lower triangular, one row of numbers a task"
    if not _is_summary(result.get("am")):
        yield "am must hold mean, std and values"
    yield from _optional_faults(result)


def _optional_faults(result: Result) -> Iterator[str]:
    for name in _SUMMARIES:
        if result[name] is not None and not _is_summary(result[name]):
            yield f"{name} must hold mean, std and values, or be null"
    for name in (*_NUMBER_MAPS, *_MAPS):
        if not isinstance(result[name], (dict, type(None))):
            yield f"{name} must be an object or null"
    numbers = {name: result[name] for name in _NUMBERS}
    for name in _NUMBER_MAPS:
        if isinstance(result[name], dict):
            numbers |= {f"{name}.{key}": value for key, value in result[name].items()}
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, (int, float, type(None))):
            yield f"{reprlib.repr(name)} must be a number or null, got {reprlib.repr(value)}"
    balanced = result["balanced"]
    am = balanced.get("am") if isinstance(balanced, dict) else None
    if am is not None and not _is_summary(am):
        yield "balanced.am must hold mean, std and values, or be null"


def _is_filled(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list) and len(value) > 0


def _is_task(value: object) -> bool:
    return _is_filled(value) and all(isinstance(label, int) for label in value)


def _is_matrix(value: object, num_tasks: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) == num_tasks
        and all(
            isinstance(row, list) and len(row) == i + 1 and all(is_number(cell) for cell in row)
            for i, row in enumerate(value)
        )
    )


def _is_summary(value: object) -> bool:
    return (
        isinstance(value, dict)
        and is_number(value.get("mean"))
        and is_number(value.get("std"))
        and _is_filled(value.get("values"))
    )
