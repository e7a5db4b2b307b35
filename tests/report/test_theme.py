import itertools

import pytest

from hpn.report.svg import colour, dash, marker
from hpn.report.theme import (
    RAMP_DARK,
    RAMP_LIGHT,
    SERIES_DARK,
    SERIES_LIGHT,
    contrast,
    ink_on,
    luminance,
    ramp,
    shade,
    svg_css,
)


@pytest.mark.parametrize("anchors", [RAMP_LIGHT, RAMP_DARK])
def test_every_cell_is_readable(anchors):
    assert min(contrast(ink_on(shade), shade) for shade in ramp(anchors)) >= 4.5


@pytest.mark.parametrize(("anchors", "sign"), [(RAMP_LIGHT, -1), (RAMP_DARK, 1)])
def test_lightness_changes_steadily(anchors, sign):
    levels = [sign * luminance(shade) for shade in ramp(anchors)]
    assert all(low < high for low, high in itertools.pairwise(levels))


@pytest.mark.parametrize(("series", "ground"), [(SERIES_LIGHT, "#ffffff"), (SERIES_DARK, "#161c24")])
def test_runs_stand_out_from_the_ground(series, ground):
    assert len(set(series)) == 8
    assert all(contrast(colour, ground) > 2.1 for colour in series)


def test_twenty_runs_look_different():
    looks = {(colour(i), dash(i), marker(0, 0, i).replace(f"f{colour(i)}", "")) for i in range(20)}
    assert len(looks) == 20
    assert len({(marker(0, 0, i), "") for i in range(20)}) == 20, "colour and marker alone, as dots"


def test_shade_stays_on_the_scale():
    assert (shade(-3), shade(0), shade(100), shade(140)) == (0, 0, 19, 19)


def test_drawings_style_nothing_but_themselves():
    rules = svg_css().replace("@media screen and (prefers-color-scheme:dark){", "")
    selectors = [part.split("{")[0] for part in rules.split("}") if "{" in part]
    assert len(selectors) > 50
    assert all(s.startswith(".hpn") for part in selectors for s in part.split(","))
