"""Tables, plots, HTML: reads result files only, never trains. Names are imported when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpn.report.figures import (
        accuracy_svg,
        cost_svg,
        final_svg,
        prototypes_svg,
        retaining_svg,
        stored_svg,
        views_svg,
    )
    from hpn.report.grid import grid_svg
    from hpn.report.growth import GrowthLine, growth_svg
    from hpn.report.heatmap import matrix_svg
    from hpn.report.html import render_page, write_report
    from hpn.report.metrics import metrics_table
    from hpn.report.results import Run, load_run
    from hpn.report.scatter import Panel, scatter_svg
    from hpn.report.sweeps import Sweep, sweep_svg

_HOMES = {
    "GrowthLine": "growth",
    "Panel": "scatter",
    "Run": "results",
    "Sweep": "sweeps",
    "accuracy_svg": "figures",
    "cost_svg": "figures",
    "final_svg": "figures",
    "grid_svg": "grid",
    "growth_svg": "growth",
    "load_run": "results",
    "matrix_svg": "heatmap",
    "metrics_table": "metrics",
    "prototypes_svg": "figures",
    "render_page": "html",
    "retaining_svg": "figures",
    "scatter_svg": "scatter",
    "stored_svg": "figures",
    "sweep_svg": "sweeps",
    "views_svg": "figures",
    "write_report": "html",
}

__all__ = [
    "GrowthLine",
    "Panel",
    "Run",
    "Sweep",
    "accuracy_svg",
    "cost_svg",
    "final_svg",
    "grid_svg",
    "growth_svg",
    "load_run",
    "matrix_svg",
    "metrics_table",
    "prototypes_svg",
    "render_page",
    "retaining_svg",
    "scatter_svg",
    "stored_svg",
    "sweep_svg",
    "views_svg",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"hpn.report.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'hpn.report' has no attribute {name!r}")
