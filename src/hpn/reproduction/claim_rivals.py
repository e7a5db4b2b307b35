"""Tests of claims about HPN beside its rivals, and about what it has to keep."""

from __future__ import annotations

from collections.abc import Mapping

from hpn.metrics import Summary
from hpn.report.format import count, decimal, spread
from hpn.report.results import method_name
from hpn.reproduction.claim_numbers import Finding, cannot_tell, decide, find_case, read
from hpn.reproduction.experiments import LARGE_GRAPH
from hpn.reproduction.results import CaseResult, Section

BACKBONES = ("gcn", "gat", "gin")
RIVALS = ("finetune", "ewc", "lwf", "gem", "mas", "ergnn", "twp")
COMPARABLE = 2.0


def beats_rivals(section: Section) -> Finding | None:
    """Whether the AM of HPN is above that of every rival; a rival without a result leaves it open."""
    ours = read(find_case(section, method="hpn"), "am")
    rivals = {label: read(case, "am") for label, case in _cases(section, *RIVALS).items()}
    known = {label: am for label, am in rivals.items() if am}
    if ours is None or not known:
        return None
    above = [f"{label} {spread(am)}" for label, am in known.items() if am.mean >= ours.mean]
    top, best = _best(known)
    numbers = (
        f"AM: hpn {spread(ours)}, the best rival {top} {spread(best)}; at or above hpn: {_listed(above)}."
    )
    missing = [label for label in rivals if label not in known]
    if missing:
        numbers += f" No result of {_listed(missing)}."
        if not above:
            return cannot_tell(section, numbers)
    return decide(section, not above, numbers)


def matches_joint(section: Section) -> Finding | None:
    """Whether HPN comes near the best joint training on a small graph, or exceeds it."""
    ours = read(find_case(section, method="hpn"), "am")
    joint = {label: read(case, "am") for label, case in _cases(section, "joint").items()}
    known = {label: am for label, am in joint.items() if am}
    if ours is None or len(known) < len(joint) or section.nodes >= LARGE_GRAPH:
        return None
    top, best = _best(known)
    gap = ours.mean - best.mean
    numbers = (
        f"AM: hpn {spread(ours)}, the best joint training {top} {spread(best)}; "
        f"hpn − joint {decimal(gap, 2, signed=True)}."
    )
    return decide(section, gap >= -COMPARABLE, numbers)


def memory_is_bounded(section: Section) -> Finding | None:
    """Whether no HPN ever has more prototypes of a level, or more parameters, than its bound."""
    cases = [case for case in section.measured if case.method == "hpn"]
    found = {case.preset: most for case in cases if (most := _most_held(case))}
    if not found:
        return None
    texts = [
        f"{preset} {', '.join(f'{count(held)} of {count(bound)} {what}' for what, held, bound in most)}"
        for preset, most in found.items()
    ]
    holds = all(held <= bound for most in found.values() for _, held, bound in most)
    return decide(section, holds, f"The most after any task, of the bound: {'; '.join(texts)}.")


def _most_held(case: CaseResult) -> list[tuple[str, float, float]]:
    """What is held, the most of it after any task, and its bound; nothing if a number is missing.

    Parameters are left out where they have no bound.
    """
    if not case.growth or not case.bounds:
        return []
    held: list[tuple[str, list[float | None], float | None]] = []
    if case.parameter_bound is not None:
        held.append(("parameters", [entry.parameters for entry in case.growth], case.parameter_bound))
    for level, bound in case.bounds.items():
        counts = [(entry.most_prototypes or {}).get(level) for entry in case.growth]
        held.append((f"{level} prototypes", counts, bound))
    most = [
        (what, max(value for value in values if value is not None), bound)
        for what, values, bound in held
        if bound is not None and None not in values
    ]
    return most if len(most) == len(held) else []


def keeps_less(section: Section) -> Finding | None:
    """Whether HPN keeps fewer numbers than most rivals; those without a result may leave it open."""
    ours = find_case(section, method="hpn")
    rivals = _cases(section, *RIVALS)
    stored = {
        label: case.stored for label, case in rivals.items() if case is not None and case.stored is not None
    }
    if not stored or ours is None or ours.stored is None:
        return None
    num_heavier = sum(value > ours.stored for value in stored.values())
    least = min(stored, key=lambda label: stored[label])
    numbers = (
        f"Numbers kept: hpn {count(ours.stored)}, more in {num_heavier} of {len(rivals)} rivals, "
        f"the least {count(stored[least])} in {least}{_parameters(ours, rivals)}."
    )
    num_missing = len(rivals) - len(stored)
    if num_missing:
        numbers += f" No result of {num_missing} of them."
    if num_heavier <= len(rivals) / 2 < num_heavier + num_missing:
        return cannot_tell(section, numbers)
    return decide(section, num_heavier > len(rivals) / 2, numbers)


def _parameters(ours: CaseResult, rivals: Mapping[str, CaseResult | None]) -> str:
    known = {
        label: case.parameters
        for label, case in rivals.items()
        if case is not None and case.parameters is not None
    }
    if not known:
        return ""
    least = min(known, key=lambda label: known[label])
    return f"; parameters alone: hpn {count(ours.parameters)}, the least {count(known[least])} in {least}"


def _cases(section: Section, *methods: str) -> dict[str, CaseResult | None]:
    """Every backbone of the methods by label, ``None`` if there is no result."""
    return {
        method_name(method, backbone): find_case(section, method=method, backbone=backbone)
        for method in methods
        for backbone in BACKBONES
    }


def _best(known: dict[str, Summary]) -> tuple[str, Summary]:
    return max(known.items(), key=lambda item: item[1].mean)


def _listed(labels: list[str]) -> str:
    return ", ".join(labels) or "none"
