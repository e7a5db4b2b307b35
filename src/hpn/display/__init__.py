"""What people see of a command: tables on standard output, progress on standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpn.display.runs import (
        print_comparison,
        print_dataset,
        print_datasets,
        print_experiments,
        print_recipes,
        print_reproduction,
        print_result,
        print_tuned,
    )

__all__ = [
    "print_comparison",
    "print_dataset",
    "print_datasets",
    "print_experiments",
    "print_recipes",
    "print_reproduction",
    "print_result",
    "print_tuned",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'hpn.display' has no attribute {name!r}")
    from hpn.display import runs  # which progress does not need

    return getattr(runs, name)
