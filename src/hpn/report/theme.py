"""The look of charts: colours, markers and dashes, and the Vega configuration of a light and a dark page.

Runs have the colours of Okabe and Ito (2008), which people with any colour vision can distinguish,
and never by colour alone: marker and dash change too. Accuracies use one blue of steadily changing lightness.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FONT = 'system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif'
FILE_FONT = "Liberation Sans, Arial, sans-serif"
DASHES = ([1, 0], [7, 4], [2, 3], [10, 3, 2, 3])
MARKERS = {
    "circle": "M13-4a4 4 0 1 0 .01 0z",
    "square": "M9.5-3.5h7v7h-7z",
    "triangle-up": "M13-4.5l4.5 8h-9z",
    "diamond": "M13-5l4 5-4 5-4-5z",
    "triangle-down": "M13 4.5l4.5-8h-9z",
    "cross": "M11.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
    "triangle-right": "M17.5 0l-8 4.5v-9z",
}
"""Names of Vega's markers, and the path of each in the key of a page."""


@dataclass(frozen=True)
class Theme:
    """Colours of a page and the charts on it."""

    ink: str  # titles and values
    muted: str  # axes, labels and captions
    grid: str  # lines in the background
    series: tuple[str, ...]  # one colour per run
    ramp: tuple[str, ...]  # from 0 to 100 percent
    on_ramp: tuple[str, str]  # text on the lower and on the upper half of the ramp

    def config(self, *, background: str = "transparent", font: str = FONT) -> dict[str, Any]:
        """Configuration of Vega-Lite; specifications themselves name no colour."""
        text = {"labelColor": self.muted, "titleColor": self.muted, "labelFontSize": 12, "titleFontSize": 12}
        lines = {"gridColor": self.grid, "domainColor": self.muted, "tickColor": self.grid}
        return {
            "background": background,
            "font": font,
            "axis": {**text, **lines, "titleFontWeight": "normal", "titlePadding": 8, "labelLimit": 200},
            "legend": {**text, "labelColor": self.ink, "labelLimit": 260, "symbolSize": 80, "symbolOpacity": 1},
            "header": {"labelColor": self.ink, "labelFontSize": 12},
            "title": {
                **{"anchor": "start", "color": self.ink, "subtitleColor": self.muted, "offset": 14},
                **{"fontSize": 14, "subtitleFontSize": 12, "fontWeight": 600},
            },
            "view": {"stroke": None},
            "text": {"color": self.ink},
            "rule": {"color": self.muted},
            "range": {
                "category": list(self.series),
                "heatmap": list(self.ramp),
                "ordinal": list(self.on_ramp),
                "symbol": list(MARKERS),
            },
        }


LIGHT = Theme(
    ink="#16202c",
    muted="#5b6776",
    grid="#e1e6ec",
    series=("#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7", "#56b4e9", "#1a1a1a", "#b5a800"),
    ramp=("#e6eef6", "#a9cbe8", "#4f93cc", "#1c5fa3", "#0a2c58"),
    on_ramp=("#050b12", "#ffffff"),
)
DARK = Theme(
    ink="#e6ebf1",
    muted="#9aa7b5",
    grid="#2c3641",
    series=("#2e8bc9", "#e36a0c", "#0fae82", "#e69f00", "#cc79a7", "#8fd0f7", "#e8ecf1", "#f0e442"),
    ramp=("#202b38", "#234868", "#2f6ea3", "#5fa8dc", "#d3eafc"),
    on_ramp=("#ffffff", "#050b12"),
)
