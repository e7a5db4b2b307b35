"""Sensitivity: runs of one method that differ in one or two numeric hyper-parameters and nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from hpn.experiment.run.result import RunResult
from hpn.report.format import is_number
from hpn.report.results import differing, method_name, setting_key, variant_names

_MIN_POINTS = 3


@dataclass(frozen=True)
class Study:
    """Runs of a method over one hyper-parameter, or over two."""

    method: str  # with its backbone
    names: tuple[str, ...]  # of the hyper-parameters
    lines: list[tuple[str, list[RunResult]]]  # runs that agree in all others, each with a name


def find_studies(results: Sequence[RunResult]) -> list[Study]:
    """Find the runs that show the effect of one or two hyper-parameters; those of two come first."""
    methods: dict[str, list[RunResult]] = {}
    for result in results:
        methods.setdefault(method_name(result.method, result.backbone), []).append(result)
    return [study for method, runs in methods.items() for study in _of_method(method, runs)]


def _of_method(method: str, runs: Sequence[RunResult]) -> list[Study]:
    varied = differing([run.params for run in runs])
    grids = [
        Study(method, pair, [("", part)])
        for pair in itertools.combinations(varied, 2)
        for part in _alike(runs, pair)
        if _fills_square(part, pair)
    ]
    sweeps = []
    for name in varied:
        inside = [{id(run) for _, part in grid.lines for run in part} for grid in grids if name in grid.names]
        lines = [part for part in _alike(runs, (name,)) if len(part) >= _MIN_POINTS]
        lines = [part for part in lines if not any(ids >= set(map(id, part)) for ids in inside)]
        if lines:
            named = variant_names([{k: v for k, v in part[0].params.items() if k != name} for part in lines])
            titles = [text or f"setting {i}" for i, text in enumerate(named, 1)]
            sweeps.append(Study(method, (name,), list(zip(titles, lines, strict=True))))
    return [*grids, *sweeps]


def _alike(runs: Sequence[RunResult], names: tuple[str, ...]) -> list[list[RunResult]]:
    """Split runs into those that agree in all but some numeric settings; of equal ones the first counts."""
    parts: dict[tuple[tuple[str, str], ...], dict[tuple[float, ...], RunResult]] = {}
    for run in runs:
        params = run.params
        if all(is_number(params.get(name)) for name in names):
            place = tuple(float(params[name]) for name in names)
            parts.setdefault(setting_key(params, without=names), {}).setdefault(place, run)
    return [list(part.values()) for part in parts.values()]


def _fills_square(part: Sequence[RunResult], pair: tuple[str, ...]) -> bool:
    """Whether two values of one setting were both run with the same two of the other."""
    rows: dict[float, set[float]] = {}
    for run in part:
        first, second = (float(run.params[name]) for name in pair)
        rows.setdefault(first, set()).add(second)
    return any(len(one & other) > 1 for one, other in itertools.combinations(rows.values(), 2))
