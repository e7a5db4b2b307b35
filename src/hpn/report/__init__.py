"""Tables, charts and pages: reads result files only, never trains. Names are imported when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpn.report.comparison import write_comparison
    from hpn.report.figures import FIGURES, chart_spec, chart_svg
    from hpn.report.page import render_page, write_report
    from hpn.report.results import Run, RunGroup, load_run

_NAMES = {
    "comparison": ("write_comparison",),
    "figures": ("FIGURES", "chart_spec", "chart_svg"),
    "page": ("render_page", "write_report"),
    "results": ("Run", "RunGroup", "load_run"),
}

__all__ = [
    "FIGURES",
    "Run",
    "RunGroup",
    "chart_spec",
    "chart_svg",
    "load_run",
    "render_page",
    "write_comparison",
    "write_report",
]


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names:
            return getattr(import_module(f"hpn.report.{module}"), name)
    raise AttributeError(f"module 'hpn.report' has no attribute {name!r}")
