"""The figures that were asked for, beside what was measured; whether they are met is computed here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.scale.plan import AUTHORS_BATCH, AUTHORS_CELLS, AUTHORS_FIRST, LARGE, node_counts
from hpn.report.format import decimal, quantity

Results = Mapping[str, Mapping[str, Any]]
Judge = Callable[[Results], tuple[str, bool]]
GB = 1000.0
"""MB of a GB."""

BATCH = LARGE["batch_size"]
FLATNESS = 1.15


@dataclass(frozen=True)
class Asked:
    """One figure.

    Args:
        what: What it is about.
        asked: What was asked for.
        needs: Cells it is computed from.
        judge: Makes of their results what was measured, in words, and whether that is enough.
    """

    what: str
    asked: str
    needs: tuple[str, ...]
    judge: Judge

    def row(self, results: Results, quick: bool) -> tuple[str, str, str, str]:
        """What, asked, measured, and the verdict, which tiny sizes do not allow."""
        if not all(name in results for name in self.needs):
            return self.what, self.asked, "not measured", "–"
        measured, is_met = self.judge(results)
        verdict = "–" if quick else "met" if is_met else "**not met**"
        return self.what, self.asked, measured, verdict


def list_asked(threads: int, quick: bool) -> list[Asked]:
    """All figures, in the order of the page."""
    products = "products-like"
    sizes = tuple(f"growth/nodes-{count}" for count in node_counts(quick))
    small, large = f"tasks/batch-{AUTHORS_BATCH}", f"tasks/batch-{BATCH}"
    accuracies = tuple(f"accuracy/{name}" for name in AUTHORS_CELLS)
    run, imported = f"run/{products}", f"import/{products}"
    asked = [
        Asked(f"{products}, the whole run", "under 6 minutes", (run,), _below(run, "seconds", 360, "s")),
        Asked(f"{products}, peak memory of the run", "under 5 GB", (run,), _below(run, "peak_mb", 5 * GB)),
    ]
    phases = {f"{threads} threads": f"fit/{products}"} if threads > 1 else {}
    for words, name in {**phases, "1 thread": f"fit-1-thread/{products}"}.items():
        what = f"{products}, prototype phase, {words}"
        for how, key in {"`x[rows]`": "indexing_ratio", "`index_select`": "ratio"}.items():
            share = f"at least 25 % of a pure gather by {how}"
            asked.append(Asked(what, share, (name,), _share_of_gather(name, key, 0.25)))
    return [
        *asked,
        Asked(
            f"arxiv-like, batch {AUTHORS_BATCH}",
            "at least 2 × the authors’ speed",
            (small,),
            _times_authors(small, 2),
        ),
        Asked(
            f"arxiv-like, batch {AUTHORS_BATCH}, flat",
            f"first three tasks at most {FLATNESS} × as fast as the last three",
            (small,),
            _flat(small),
        ),
        Asked(
            f"arxiv-like, batch {BATCH:,}",
            "at least 20 × the authors’ speed",
            (large,),
            _times_authors(large, 20),
        ),
        Asked(
            f"arxiv-like, AM at batch {BATCH:,}",
            f"no less than at batch {AUTHORS_BATCH}, but for one standard deviation of the seeds",
            accuracies,
            _as_accurate(*accuracies),
        ),
        Asked("seconds an epoch over training nodes", "exponent from 0.9 to 1.1", sizes, _linear(sizes)),
        Asked(
            "seconds a task over tasks seen",
            f"last three at most {FLATNESS} × the first three",
            ("growth/tasks",),
            _below("growth/tasks", "ratio", FLATNESS, "×", is_inclusive=True),
        ),
        Asked(
            f"{products}, answers for a million nodes",
            "under 10 s",
            (f"predict/{products}",),
            _below(f"predict/{products}", "million_seconds", 10, "s"),
        ),
        Asked(
            f"{products}, import from Parquet",
            "under 3 minutes",
            (imported,),
            _below(imported, "seconds", 180, "s"),
        ),
        Asked(
            f"{products}, peak memory of the import",
            "under 6 GB",
            (imported,),
            _below(imported, "peak_mb", 6 * GB),
        ),
    ]


def fit_exponent(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """Exponent and factor of the power law that is nearest in logarithms, by least squares."""
    logs = [(math.log(x), math.log(y)) for x, y in zip(xs, ys, strict=True)]
    mean_x, mean_y = (sum(column) / len(logs) for column in zip(*logs, strict=True))
    over = sum((x - mean_x) * (y - mean_y) for x, y in logs)
    exponent = over / sum((x - mean_x) ** 2 for x, _ in logs)
    return exponent, math.exp(mean_y - exponent * mean_x)


def nodes_curve(results: Results, quick: bool) -> tuple[list[float], list[float]]:
    """Training nodes and seconds an epoch, of the sizes that were measured."""
    found = [results[name] for name in (f"growth/nodes-{n}" for n in node_counts(quick)) if name in results]
    return [entry["nodes"] for entry in found], [entry["seconds"] for entry in found]


def gigabytes(megabytes: float) -> str:
    """Memory in words."""
    return f"{decimal(megabytes / GB, 2)} GB"


def _below(cell: str, key: str, most: float, unit: str = "GB", *, is_inclusive: bool = False) -> Judge:
    def judge(results: Results) -> tuple[str, bool]:
        value = results[cell][key]
        words = gigabytes(value) if key == "peak_mb" else f"{quantity(value)} {unit}"
        return words, value <= most if is_inclusive else value < most

    return judge


def _share_of_gather(cell: str, key: str, least: float) -> Judge:
    def judge(results: Results) -> tuple[str, bool]:
        ratio = results[cell][key]
        return f"{quantity(100 * ratio)} %", ratio >= least

    return judge


def _times_authors(cell: str, least: float) -> Judge:
    def judge(results: Results) -> tuple[str, bool]:
        times = results[cell]["nodes_per_second"] / AUTHORS_FIRST
        return f"{quantity(times)} ×", times >= least

    return judge


def _flat(cell: str) -> Judge:
    def judge(results: Results) -> tuple[str, bool]:
        ratio = results[cell]["first"] / results[cell]["last"]
        return f"{quantity(ratio)} ×", ratio <= FLATNESS

    return judge


def _as_accurate(*cells: str) -> Judge:
    """The last against the best of the others."""

    def judge(results: Results) -> tuple[str, bool]:
        *others, here = (results[cell]["am"] for cell in cells)
        there = max(others, key=lambda am: am["mean"])
        words = f"{decimal(here['mean'])} %, to {decimal(there['mean'])} ± {decimal(there['std'])} %"
        return words, here["mean"] >= there["mean"] - there["std"]

    return judge


def _linear(cells: Sequence[str]) -> Judge:
    def judge(results: Results) -> tuple[str, bool]:
        found = [results[name] for name in cells]
        exponent, _ = fit_exponent([entry["nodes"] for entry in found], [entry["seconds"] for entry in found])
        return decimal(exponent, 2), 0.9 <= exponent <= 1.1

    return judge
