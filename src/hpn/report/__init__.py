"""Tables, plots, HTML: reads result files only, never trains."""

from hpn.report.figures import accuracy_svg, cost_svg, final_svg, retaining_svg
from hpn.report.heatmap import matrix_svg
from hpn.report.html import render_page, write_report
from hpn.report.results import load_result

__all__ = [
    "accuracy_svg",
    "cost_svg",
    "final_svg",
    "load_result",
    "matrix_svg",
    "render_page",
    "retaining_svg",
    "write_report",
]
