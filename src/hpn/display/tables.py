"""The console that tables are printed to, and their style."""

from __future__ import annotations

import sys
from collections.abc import Collection

from rich.console import Console
from rich.table import Table
from rich.text import Text


def open_console(title: str = "", about: str = "", *, width: int = 120) -> Console:
    """Standard output, as wide as the terminal or, outside of one, ``width``; prints the title."""
    # Outside a terminal there is no width to fit into. Names come from data: what looks like markup is text.
    wide = None if sys.stdout.isatty() else width
    console = Console(width=wide, markup=False, emoji=False, highlight=False)
    if title:
        console.print(*filter(None, (Text(title, style="bold"), about)))
    return console


def make_table(*heads: str, text: Collection[str] | None = None) -> Table:
    """A table without lines; columns other than ``text``, by default the first, are numbers."""
    table = Table(box=None, pad_edge=False, show_header=bool(heads), title_justify="left")
    for head in heads:
        if head in (heads[:1] if text is None else text):
            table.add_column(head, overflow="fold")
        else:
            table.add_column(head, justify="right")
    return table
