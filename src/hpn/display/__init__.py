"""What people see of a command: tables on standard output, progress on standard error."""

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
