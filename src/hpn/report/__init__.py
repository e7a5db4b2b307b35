"""Tables, plots, HTML: reads result files only, never trains."""

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
from hpn.report.growth import Growth, growth_svg
from hpn.report.heatmap import matrix_svg
from hpn.report.html import render_page, write_report
from hpn.report.results import load_result
from hpn.report.scatter import Panel, scatter_svg
from hpn.report.sweeps import Sweep, sweep_svg

__all__ = [
    "Growth",
    "Panel",
    "Sweep",
    "accuracy_svg",
    "cost_svg",
    "final_svg",
    "grid_svg",
    "growth_svg",
    "load_result",
    "matrix_svg",
    "prototypes_svg",
    "render_page",
    "retaining_svg",
    "scatter_svg",
    "stored_svg",
    "sweep_svg",
    "views_svg",
    "write_report",
]
