"""Where tables are printed."""

from __future__ import annotations

import sys

from rich.console import Console


def open_console(width: int = 120) -> Console:
    """Standard output: as wide as the terminal, or ``width`` outside of one."""
    # Outside a terminal there is no width to fit into, and wrapped lines are a nuisance.
    return Console() if sys.stdout.isatty() else Console(width=width)
