"""The figures by name, each measured in a process of its own."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.rows import Row

Figure = Callable[[Path], Iterator[Row]]
"""Takes the work folder."""

FIGURES = {
    "startup": "commands:startup",
    "commands": "commands:commands",
    "trace": "trace:trace",
    "authors": "paper:authors",
    "arxiv": "paper:arxiv",
    "estimator": "solved:estimator",
    "growth": "solved:growth",
    "predict": "commands:predict",
    "import": "commands:import_",
    "ray": "solved:ray",
    "products": "commands:products",
    "baselines": "commands:baselines",
}
"""Module and function of each, the quick ones first."""


def find_figure(name: str) -> Figure:
    """The function that measures a figure."""
    module, function = FIGURES[name].split(":")
    figure: Figure = getattr(importlib.import_module(f"benchmarks.{module}"), function)
    return figure


def measure(name: str, work: Path) -> list[Row]:
    """Measure a figure in a process of its own, so that neither memory nor imports of another count."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measure_here, name, work).result()


def _measure_here(name: str, work: Path) -> list[Row]:
    return list(find_figure(name)(work))
