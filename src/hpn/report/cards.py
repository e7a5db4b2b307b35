"""Pieces of a page that hold a drawing: the card with its caption, the box, the sign of a style."""

from __future__ import annotations

from hpn.report.format import esc
from hpn.report.svg import swatch


def figure_card(head: str, sub: str, body: str, *, is_wide: bool = False, css: str = "card") -> str:
    """A figure with its caption, on a card of its own; ``body`` is markup."""
    classes = " ".join(filter(None, (css, "wide" if is_wide else "")))
    opened = f'<figure class="{classes}">' if classes else "<figure>"
    return f"{opened}<figcaption>{esc(head)}<span>{esc(sub)}</span></figcaption>{body}</figure>"


def plot_box(svg: str, name: str, *, keeps_size: bool = False) -> str:
    """Put a drawing in a box it fills, or, at its own size, in one that scrolls where it must."""
    if not keeps_size:
        return f'<div class="fill">{svg}</div>'
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{esc(name)}">{svg}</div>'


def swatch_icon(style: int) -> str:
    """The line and marker of a style, beside its name."""
    return (
        '<svg class="hpn" aria-hidden="true" width="26" height="14" viewBox="0 -7 26 14">'
        f"{swatch(style)}</svg>"
    )
