"""Numbers and names as text: rounding, units, and characters that files cannot hold."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TypeGuard

from hpn.experiment.published import Spread
from hpn.metrics import Metric, Summary

MISSING = "–"

# What XML 1.0 cannot hold, not even as an entity: one such character makes an SVG unreadable.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def clean(text: str) -> str:
    r"""Replace characters that HTML, SVG and UTF-8 cannot hold.

    Example:
        >>> clean("a\x00b") == "a\ufffdb"
        True
    """
    return _UNPRINTABLE.sub("\ufffd", text)


def plain_markdown(value: object) -> str:
    r"""Make a value text that Markdown shows as it is, on one line and inside a table's cell.

    Example:
        >>> print(plain_markdown("a_b | <c>"))
        a\_b \| \<c\>
    """
    return re.sub(r"([\\`*_~\[\]<>|&])", r"\\\1", " ".join(clean(str(value)).split()))


def decimal(value: float | None, digits: int = 1, *, signed: bool = False) -> str:
    """Write a number with fixed digits and a true minus sign.

    Example:
        >>> decimal(-33.08), decimal(1.25, 2, signed=True), decimal(None)
        ('−33.1', '+1.25', '–')
    """
    if not is_number(value):
        return MISSING
    rounded = round(float(value), digits) + 0.0  # −0.0 + 0.0 is 0.0
    sign = "+" if signed and rounded > 0 else ""
    return f"{sign}{rounded:,.{digits}f}".replace("-", "−")


def spread(value: Summary | Spread | None, digits: int = 1, *, signed: bool = False) -> str:
    """Write mean ± standard deviation; a single seed has no deviation to show.

    Example:
        >>> spread(Summary(78.31, 0.62, [77.9, 78.7])), spread(Spread(-9.0, 1.0), signed=True)
        ('78.3 ± 0.6', '−9.0 ± 1.0')
        >>> spread(Summary(78.31, 0.0, [78.31]), 2), spread(None)
        ('78.31', '–')
    """
    if value is None:
        return MISSING
    mean = decimal(value.mean, digits, signed=signed)
    if isinstance(value, Summary) and len(value.values) < 2:
        return mean
    return f"{mean} ± {decimal(value.std, digits)}"


def metric_text(metric: Metric, value: Summary | Spread | None) -> str:
    """Write the value of a metric, with its sign if it is a difference."""
    return spread(value, signed=metric.is_signed)


def count(value: float | None) -> str:
    """Write a count with separators, and from 10¹² on (bounds can be that large) as a power of ten.

    Example:
        >>> count(123456), count(3.2e45), count(10**400), count(None), count(float("inf"))
        ('123,456', '3.2 × 10⁴⁵', '1.0 × 10⁴⁰⁰', '–', '∞')
    """
    if value is None or value != value:  # noqa: PLR0124 - only NaN differs from itself
        return MISSING
    if value in (math.inf, -math.inf):
        return "∞"
    if abs(value) < 1e12:
        return f"{round(value):,}"
    # Decimal, because an integer may exceed the range of a float.
    digits, power = f"{Decimal(value):.1e}".split("e")
    return f"{digits} × 10{str(int(power)).translate(_SUPERSCRIPT)}"


def quantity(value: float | None) -> str:
    """Write a measured quantity (seconds, megabytes) with about three digits.

    Example:
        >>> quantity(0.0421), quantity(83.25), quantity(1204.4), quantity(None)
        ('0.042', '83.2', '1,204', '–')
    """
    if not is_number(value):
        return MISSING
    size = abs(value)
    digits = 0 if size >= 100 or size == 0 else 1 if size >= 10 else 2 if size >= 0.1 else 3
    return decimal(value, digits)


def plain(value: float) -> str:
    """Write a setting as short as it can be, a very small or large one with a power of ten.

    Example:
        >>> plain(0.05), plain(1500), plain(0.0001), plain(2.5e-6), plain(-0.5), plain(1e12)
        ('0.05', '1,500', '0.0001', '2.5 × 10⁻⁶', '−0.5', '10¹²')
    """
    if value == 0 or 1e-4 <= abs(value) < 1e9:
        return f"{value + 0.0:,.6g}".replace("-", "−") if abs(value) < 1e6 else f"{value:,.0f}"
    digits, exponent = f"{value:.2e}".split("e")
    short, power = digits.rstrip("0").removesuffix("."), f"10{str(int(exponent)).translate(_SUPERSCRIPT)}"
    return power if short == "1" else f"{short} × {power}".replace("-", "−")


def bound_text(bound: float | None, before: str = "") -> str:
    """Write a bound, unless there is none or it is so large that it bounds nothing.

    Example:
        >>> bound_text(4096, "bound "), bound_text(10**15), bound_text(10**19), bound_text(None)
        ('bound 4,096', '1.0 × 10¹⁵', 'no useful bound', 'no useful bound')
    """
    from hpn.theory.memory import NO_BOUND  # with NumPy, which a terminal's tables do without

    return "no useful bound" if bound is None or bound >= NO_BOUND else f"{before}{count(bound)}"


def plural(num: int, noun: str) -> str:
    """Count a noun.

    Example:
        >>> plural(1, "task"), plural(5, "task")
        ('1 task', '5 tasks')
    """
    return f"{num:,} {noun}" if num == 1 else f"{num:,} {noun}s"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    Example:
        >>> listed(["cora", "actor", "digits"]), listed(["cora"])
        ('cora, actor and digits', 'cora')
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def pairs(settings: Mapping[str, object], link: str = " ", between: str = " · ") -> str:
    """Names and values on one line.

    Example:
        >>> pairs({"lr": 0.1, "epochs": 5}, "=", ", ")
        'lr=0.1, epochs=5'
    """
    return between.join(f"{name}{link}{value}" for name, value in settings.items())


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> str:
    """A table in Markdown; columns without a letter in ``align`` hold numbers."""
    rule = "|".join("---" if letter == "l" else "--:" for letter in align.ljust(len(heads), "r"))
    head, *lines = (f"| {' | '.join(row)} |" for row in (heads, *rows))
    return "\n".join([head, f"|{rule}|", *lines])


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a finite number (``True`` and ``False`` are not).

    Example:
        >>> is_number(3), is_number(float("nan")), is_number("3"), is_number(True)
        (True, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) <= sys.float_info.max  # not NaN, and no integer beyond the range of a float


_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
