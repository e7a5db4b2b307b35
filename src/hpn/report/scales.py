"""Scales of the charts over numbers, linear or logarithmic: ranges that fit the values, and their ticks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hpn.report.format import decimal
from hpn.report.svg import nice_step, text_width

PHONE = 14.0
"""Size of the letters on a narrow page, for which labels must leave room."""

_MAX_LINEAR = 30  # largest over smallest, beyond which the small ones would lie on the axis
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

Tick = tuple[float, str]


@dataclass(frozen=True)
class Scale:
    """Places of numbers along an axis: ``low`` is drawn at ``start``, ``high`` at ``end``."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """Place of a number; what lies outside the range is drawn on the edge."""
        inside = max(self.low, min(self.high, value))
        low, high, at = (math.log10(n) if self.is_log else n for n in (self.low, self.high, inside))
        share = (at - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)


def fit_range(
    values: Iterable[float], *, least: float = 0.0, ceiling: float = math.inf
) -> tuple[float, float]:
    """Range of whole steps around the values, at least ``least`` wide; it reaches past 0 only if they do.

    Example:
        >>> fit_range([83.1, 83.4], least=4.0, ceiling=100.0), fit_range([-31.0, -2.5]), fit_range([0.0])
        ((81.0, 86.0), (-40.0, 0.0), (0.0, 1.0))
    """
    known = list(values) or [0.0]
    low, high = min(known), min(ceiling, max(known))
    floor = 0.0 if low >= 0 else -math.inf
    roof = 0.0 if high <= 0 and low < 0 else ceiling
    span = max(high - low, least) or abs(high) / 10 or 1.0
    low, high = (low + high - span) / 2, (low + high + span) / 2
    shift = max(floor - low, 0.0) or min(roof - high, 0.0)
    low, high = low + shift, high + shift
    for _ in range(2):  # widening may call for a longer step
        step = nice_step(high - low)
        low, high = (math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step)
    return low, min(ceiling, high)


def log_range(values: Iterable[float]) -> tuple[float, float]:
    """Range from 1, 2 or 5 times a power of ten to another around the positive values, ten times or more.

    Example:
        >>> log_range([3.0, 4200.0]), log_range([70.0]), log_range([0.0, 100.0])
        ((2.0, 5000.0), (10.0, 100.0), (100.0, 1000.0))
    """
    known = [value for value in values if value > 0]
    low = max(n for n in _round_numbers(min(known)) if n <= min(known) * (1 + 1e-9))
    high = min(n for n in _round_numbers(max(known)) if n >= max(known) * (1 - 1e-9))
    if high < 10 * low:
        low = 10.0 ** math.floor(math.log10(min(known)) + 1e-9)
        high = max(10 * low, 10.0 ** math.ceil(math.log10(max(known)) - 1e-9))
    return low, high


def is_wide_range(values: Sequence[float]) -> bool:
    """Whether a logarithmic scale serves numbers better than a linear one.

    Example:
        >>> is_wide_range([1e-4, 1.0]), is_wide_range([0.1, 0.5]), is_wide_range([0.0, 100.0])
        (True, False, False)
    """
    return bool(values) and min(values) > 0 and max(values) / min(values) > _MAX_LINEAR


def _round_numbers(near: float) -> list[float]:
    exponent = math.floor(math.log10(near))
    return [m * 10.0**e for e in range(exponent - 1, exponent + 2) for m in (1.0, 2.0, 5.0)]


def plain(value: float) -> str:
    """Write a setting as short as it can be, a very small or large one with a power of ten.

    Example:
        >>> plain(0.05), plain(1500), plain(0.0001), plain(2.5e-6), plain(-0.5), plain(1e12)
        ('0.05', '1,500', '0.0001', '2.5 × 10⁻⁶', '−0.5', '10¹²')
    """
    if value == 0 or 1e-4 <= abs(value) < 1e9:
        return f"{value + 0.0:,.6g}".replace("-", "−") if abs(value) < 1e6 else f"{value:,.0f}"
    digits, exponent = f"{value:.2e}".split("e")
    short, power = digits.rstrip("0").removesuffix("."), _power(int(exponent))
    return power if short == "1" else f"{short} × {power}".replace("-", "−")


def value_ticks(scale: Scale) -> list[Tick]:
    """Numbers to write along a vertical axis, about five."""
    if scale.is_log:
        return log_ticks(scale, 7)
    step = nice_step(scale.high - scale.low)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    first, last = math.ceil(scale.low / step - 1e-9), math.floor(scale.high / step + 1e-9)
    return [(k * step, decimal(k * step, digits)) for k in range(first, last + 1)]


def log_ticks(scale: Scale, most: int) -> list[Tick]:
    """Powers of ten in the range, at most so many; 1, 2 and 5 times them where they are too few.

    Example:
        >>> [name for _, name in log_ticks(Scale(1e-4, 1e3, 0, 1, is_log=True), 4)]
        ['10⁻⁴', '10⁻²', '10⁰', '10²']
        >>> [name for _, name in log_ticks(Scale(2, 50, 0, 1, is_log=True), 7)]
        ['2', '5', '10', '20', '50']
    """
    low, high = scale.low * (1 - 1e-9), scale.high * (1 + 1e-9)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    powers = [e for e in exponents if low <= 10.0**e <= high]
    values = [10.0**e for e in powers]
    if len(powers) < 3:
        rounds = [m * 10.0**e for e in exponents for m in (1.0, 2.0, 5.0) if low <= m * 10.0**e <= high]
        if len(rounds) <= most:
            powers, values = [], rounds
    step = max(1, math.ceil(len(values) / most))
    if values and (not powers or 1 <= values[0] <= values[-1] <= 100_000):
        return [(value, plain(value)) for value in values[::step]]
    return [(value, _power(e)) for value, e in zip(values[::step], powers[::step], strict=True)]


def number_ticks(xs: Sequence[float], scale: Scale) -> list[Tick]:
    """Numbers to write along a horizontal axis: the settings themselves where they fit, else round ones."""
    own = [(x, plain(x)) for x in xs]
    if not scale.is_log and len(own) <= 12 and _do_fit(own, scale):
        return own
    if not scale.is_log:
        steps = (nice_step(scale.high - scale.low, parts) for parts in (8, 6, 5, 4, 3, 2))
        choices = [_multiples(scale, step) for step in steps]
    else:
        choices = [log_ticks(scale, most) for most in range(10, 1, -1)]
        if len(choices[0]) < 2:
            choices.insert(0, own)
    return next((ticks for ticks in choices if ticks and _do_fit(ticks, scale)), own[:1])


def _multiples(scale: Scale, step: float) -> list[Tick]:
    first, last = math.ceil(scale.low / step - 1e-9), math.floor(scale.high / step + 1e-9)
    return [(k * step, plain(k * step)) for k in range(first, last + 1)]


def _do_fit(ticks: Sequence[Tick], scale: Scale) -> bool:
    """Whether labels keep their distance, in letters as large as a phone shows them."""
    spans = [(scale.place(value), text_width(name, PHONE) / 2) for value, name in ticks]
    return all(b - half_b - (a + half_a) >= 4 for (a, half_a), (b, half_b) in itertools.pairwise(spans))


def _power(exponent: int) -> str:
    return f"10{str(exponent).translate(_SUPERSCRIPT)}"
