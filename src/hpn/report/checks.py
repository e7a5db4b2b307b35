"""What must hold in the files the report reads, so that a damaged one is named and never drawn."""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from hpn.report.format import is_number

_TEXTS = ("dataset", "method", "scenario", "evaluate", "edges")
_SUMMARIES = ("fm", "ars")
_NUMBERS = ("parameters", "stored", "parameter_bound", "peak_rss_mb")
_NUMBER_MAPS = ("prototypes", "bounds", "seconds")
_MAPS = ("versions", "balanced", "class_names", "params")

OPTIONAL = ("backbone", *_SUMMARIES, *_NUMBERS, *_NUMBER_MAPS, *_MAPS, "growth", "command")
"""Fields of a result that may be absent."""


def result_faults(result: Mapping[str, Any]) -> Iterator[str]:
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
    elif not _is_growth(result["growth"], len(tasks)):
        yield "growth must be null or hold the numbers of parameters, stored and prototypes after each task"
    if not _is_summary(result.get("am")):
        yield "am must hold mean, std and values"
    yield from _optional_faults(result)


def view_faults(views: Mapping[str, Any], num_tasks: int) -> Iterator[str]:
    """Say what is wrong with the views of a run, a list of them for each seed."""
    seeds, lists = views.get("seeds"), views.get("views")
    if not _is_filled(lists) or not all(isinstance(made, list) for made in lists):
        yield "views must hold a list of views for each seed"
        return
    if not isinstance(seeds, list) or len(seeds) != len(lists):
        yield "seeds must be those of the views"
    for view in itertools.chain(*lists):
        after = view.get("after") if isinstance(view, dict) else None
        if not isinstance(after, int) or not 0 <= after < num_tasks:
            yield f"after must be a task from 0 to {num_tasks - 1}, got {reprlib.repr(after)}"
        elif not _is_cloud(view.get("points"), view.get("classes")):
            yield "points must be pairs of numbers, and classes a number for each"
        elif not all(_is_amount(view.get(name)) for name in ("silhouette", "neighbors")):
            yield "silhouette and neighbors must be numbers or null"


def _optional_faults(result: Mapping[str, Any]) -> Iterator[str]:
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
        if not _is_amount(value):
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


def _is_growth(value: object, num_tasks: int) -> bool:
    if value is None:
        return True
    return isinstance(value, list) and len(value) == num_tasks and all(_is_grown(entry) for entry in value)


def _is_grown(value: object) -> bool:
    return (
        isinstance(value, dict)
        and all(_is_amount(value.get(name)) for name in ("parameters", "stored"))
        and all(_is_amounts(value.get(name)) for name in ("prototypes", "most_prototypes"))
    )


def _is_amounts(value: object) -> bool:
    return value is None or (isinstance(value, dict) and all(map(_is_amount, value.values())))


def _is_amount(value: object) -> bool:
    """Whether it is a number of any size, which :func:`is_number` does not take, or absent."""
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _is_cloud(points: object, classes: object) -> bool:
    return (
        isinstance(points, list)
        and isinstance(classes, list)
        and len(points) == len(classes)
        and all(isinstance(p, list) and len(p) == 2 and all(map(is_number, p)) for p in points)
        and all(isinstance(label, int) for label in classes)
    )
