"""What has to be kept: tables of numbers, and HPN's growth under its bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hpn.experiment.published import published_memory, published_parameters
from hpn.report.format import MISSING, count, decimal
from hpn.report.growth import GrowthLine, bound_text, growth_svg
from hpn.reproduction.page_cells import (
    case_label,
    failure,
    safe_label,
)
from hpn.reproduction.page_parts import Figures, table
from hpn.reproduction.results import CaseResult, Section
from hpn.theory.memory import LEVELS

NUMBERS = "parameters"
_DRAWN = ("small", "paper", "best")


@dataclass(frozen=True)
class Bounded:
    """What may not pass a bound: prototypes of a level, or all numbers.

    Args:
        name: The level, or ``parameters``.
        values: After each task; prototypes are the most of any seed, parameters the mean.
        bound: The most that any stream could lead to.
    """

    name: str
    values: Sequence[float]
    bound: int

    def share(self, value: float) -> Fraction:
        """How much of the bound is taken; bounds may be larger than any float."""
        return Fraction(value) / self.bound


def memory_table(section: Section) -> str:
    """Parameters and stored numbers of every method, the paper's amount beside."""
    rows = []
    methods = [case.method for case in section.cases]
    for case in sorted(section.cases, key=lambda case: methods.index(case.method)):
        paper = published_parameters(case.method, case.backbone)
        amounts = [failure(case), MISSING] if case.error else [count(getattr(case, key)) for key in _AMOUNTS]
        rows.append([safe_label(case), *amounts, count(paper)])
    return table(["method", *_AMOUNTS.values(), "the paper (OGB-Products)"], rows)


_AMOUNTS = {"parameters": "parameters", "stored": "stored (numbers)"}


def bounds_table(section: Section) -> str:
    """For each kind of HPN: what it came to, and the bound; empty if nothing is known."""
    rows = [
        [
            safe_label(case),
            part.name,
            count(part.values[-1]),
            count(max(part.values)),
            bound_text(part.bound),
            _percent(part.share(max(part.values))),
        ]
        for case in section.measured
        for part in bounded_parts(case)
    ]
    heads = ["", "", "at the end", "most after any task", "bound", "largest share of the bound (%)"]
    return table(heads, rows, align="ll") if rows else ""


def largest_share(section: Section) -> str:
    """A sentence: how close any bound was to being reached; empty if nothing is known."""
    found = [
        (part.share(value), case, part, after)
        for case in section.measured
        for part in bounded_parts(case)
        for after, value in enumerate(part.values)
    ]
    if not found:
        return ""
    share, case, part, after = max(found, key=lambda entry: entry[0])
    return (
        f"The largest share of a bound that was ever reached: {_percent(share)} % "
        f"({safe_label(case)}, {part.name}, after task {after + 1})."
    )


def paper_memory() -> str:
    """A sentence: what the paper says HPN came to, and under which bound."""
    memory = published_memory()
    return (
        f"The paper, on {memory['dataset']}: {count(memory['hpn'])} parameters at the end, "
        f"under a bound of {count(memory['bound'])}."
    )


def growth_figures(figures: Figures, section: Section) -> list[str]:
    """Prototypes of each level and all numbers, task by task, of the smallest HPN that there is."""
    hpns = {case.preset: case for case in section.measured if case.growth}
    chosen = next((hpns[preset] for preset in _DRAWN if preset in hpns), None)
    if chosen is None:
        return []
    name, dataset = case_label(chosen.label), section.dataset
    parts = list(bounded_parts(chosen))
    kinds = {
        "prototypes": ("most of any seed", [part for part in parts if part.name in LEVELS]),
        NUMBERS: ("mean over seeds", [part for part in parts if part.name == NUMBERS]),
    }
    shown = []
    for kind, (unit, members) in kinds.items():
        if not members:
            continue
        growths = [GrowthLine(part.name, part.values, part.bound) for part in members]
        title = f"{kind.capitalize()} of {name} on {dataset}"
        ends = ", ".join(
            f"{part.name} {count(part.values[-1])} of at most {bound_text(part.bound)}" for part in members
        )
        svg = growth_svg(growths, title=title, y_label=f"{kind}, {unit}")
        alt = f"{title}, task by task, with their bounds; at the end {ends}"
        shown.append(figures.add(f"{dataset}-{kind}", svg, alt))
    return shown


def bounded_parts(case: CaseResult) -> Iterator[Bounded]:
    """What of a case grows under a bound."""
    growth = case.growth or []
    if not growth:
        return
    for level in LEVELS:
        bound = (case.bounds or {}).get(level)
        found = [(step.most_prototypes or step.prototypes or {}).get(level) for step in growth]
        counts = [value for value in found if value is not None]
        if bound and len(counts) == len(growth):
            yield Bounded(level, counts, bound)
    if case.parameter_bound:
        yield Bounded(NUMBERS, [step.parameters for step in growth], case.parameter_bound)


def _percent(share: Fraction) -> str:
    """A share in per cent, with two digits where it is small.

    Example:
        >>> _percent(Fraction(1, 3)), _percent(Fraction(1, 40)), _percent(Fraction(1, 10**400))
        ('33.3', '2.50', 'under 0.01')
    """
    percent = float(100 * share)
    if 0 < share < Fraction(1, 10_000):
        return "under 0.01"
    return decimal(percent, 1 if percent >= 10 else 2)
