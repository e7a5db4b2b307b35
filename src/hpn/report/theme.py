"""Colours, markers and dashes, and the style sheet a drawing carries with it.

Runs are told apart by the colours of Okabe and Ito (2008), which people with any colour vision can
separate, and never by colour alone: the marker and the dash change too. Accuracies use one blue
whose lightness changes steadily. The style sheet holds plain values rather than custom properties,
so that viewers other than browsers draw the same picture.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

FONT = 'system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif'
DARK = "@media screen and (prefers-color-scheme:dark)"

# Blue, vermilion, green, orange, purple, sky, black, yellow. Black turns white on a dark ground and
# yellow is deepened on a light one; the blues move apart where the dark would pull them together.
SERIES_LIGHT = (
    *("#0072b2", "#d55e00", "#009e73", "#e69f00"),
    *("#cc79a7", "#56b4e9", "#1a1a1a", "#b5a800"),
)
SERIES_DARK = (
    *("#2e8bc9", "#e36a0c", "#0fae82", "#e69f00"),
    *("#cc79a7", "#8fd0f7", "#e8ecf1", "#f0e442"),
)
DASHES = ("", "7 4", "2 3")

NUM_SHADES = 20
RAMP_LIGHT = ("#e6eef6", "#a9cbe8", "#4f93cc", "#1c5fa3", "#0a2c58")
RAMP_DARK = ("#202b38", "#234868", "#2f6ea3", "#5fa8dc", "#d3eafc")

INK_ON_LIGHT, INK_ON_DARK = "#050b12", "#ffffff"


def shade(percent: float) -> int:
    """Shade of an accuracy, from 0 (0 %) to ``NUM_SHADES − 1`` (100 %).

    Example:
        >>> shade(0.0), shade(52.0), shade(100.0)
        (0, 10, 19)
    """
    return max(0, min(NUM_SHADES - 1, int(percent / 100 * NUM_SHADES)))


def ramp(anchors: Sequence[str], num: int = NUM_SHADES) -> list[str]:
    """Colours evenly spaced along a line through the anchors.

    Example:
        >>> ramp(["#000000", "#ffffff"], 3)
        ['#000000', '#808080', '#ffffff']
    """
    colours = []
    for i in range(num):
        place = i / (num - 1) * (len(anchors) - 1)
        k = min(int(place), len(anchors) - 2)
        low, high = _channels(anchors[k]), _channels(anchors[k + 1])
        mixed = [round(a + (b - a) * (place - k)) for a, b in zip(low, high, strict=True)]
        colours.append("#{:02x}{:02x}{:02x}".format(*mixed))
    return colours


def luminance(colour: str) -> float:
    """Relative luminance of a ``#rrggbb`` colour (WCAG 2).

    Example:
        >>> luminance("#000000"), luminance("#ffffff")
        (0.0, 1.0)
    """
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (channel / 255 for channel in _channels(colour))
    ]
    return round(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2], 6)


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours (WCAG 2), from 1 to 21.

    Example:
        >>> contrast("#000000", "#ffffff")
        21.0
    """
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def ink_on(colour: str) -> str:
    """The text colour that reads best on a shade."""
    return max((INK_ON_LIGHT, INK_ON_DARK), key=lambda ink: contrast(ink, colour))


@functools.cache
def svg_css() -> str:
    """Style sheet of the drawings, light and dark; every rule starts at ``.hpn``."""
    light = _rules(
        ink="#16202c",
        muted="#5b6776",
        grid="#e1e6ec",
        ground="#ffffff",
        series=SERIES_LIGHT,
        anchors=RAMP_LIGHT,
    )
    dark = _rules(
        ink="#e6ebf1",
        muted="#9aa7b5",
        grid="#2c3641",
        ground="#161c24",
        series=SERIES_DARK,
        anchors=RAMP_DARK,
    )
    return (
        f".hpn{{font-family:{FONT};font-size:12px;font-variant-numeric:tabular-nums}}"
        ".hpn .head{font-size:14px;font-weight:600}.hpn .strong{font-weight:600}"
        ".hpn .small{font-size:11px}"
        ".hpn .line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}"
        ".hpn .whisker{fill:none;stroke-width:1.3}.hpn .band{stroke:none;opacity:.13}"
        ".hpn .dot .marker{stroke:none}.hpn .faint{opacity:.06}"
        ".hpn .hit{fill:transparent;stroke:none}"
        ".hpn .bound{fill:none;stroke-width:1.4;stroke-dasharray:5 4}.hpn .cloud path{opacity:.75}"
        f"{light}{DARK}{{{dark}}}"
    )


def _rules(
    *, ink: str, muted: str, grid: str, ground: str, series: Sequence[str], anchors: Sequence[str]
) -> str:
    rules = [
        f".hpn text{{fill:{muted}}}.hpn .head,.hpn .ink{{fill:{ink}}}",
        f".hpn .grid{{stroke:{grid};stroke-width:1}}.hpn .axis{{stroke:{muted};stroke-width:1}}",
        f".hpn .ground{{fill:{ground};stroke:{grid};rx:8px}}.hpn .stripe{{fill:{grid};opacity:.4}}",
        f".hpn .marker{{stroke:{ground};stroke-width:1}}.hpn .frame{{fill:none;stroke:{grid}}}",
        f".hpn .halo{{paint-order:stroke;stroke:{ground};stroke-width:3px;stroke-linejoin:round}}",
    ]
    for i, colour in enumerate(series):
        rules.append(f".hpn .f{i}{{fill:{colour}}}.hpn .s{i}{{stroke:{colour}}}")
    for i, colour in enumerate(ramp(anchors)):
        rules.append(f".hpn .h{i}{{fill:{colour}}}.hpn .v{i}{{fill:{ink_on(colour)}}}")
    return "".join(rules)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
