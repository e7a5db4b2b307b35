"""Tests of claims about HPN beside its rivals, and about what it has to keep."""

from __future__ import annotations

from hpn.metrics import Summary
from hpn.report.comparison_table import row_label
from hpn.report.format import count, decimal, is_number, spread
from hpn.reproduction.claim_numbers import Case, Finding, Section, cannot_tell, decide, find_case, read
from hpn.reproduction.experiments import LARGE_GRAPH

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
    nodes = section.get("nodes")
    if ours is None or len(known) < len(joint) or not is_number(nodes) or nodes >= LARGE_GRAPH:
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
    cases = [case for case in section["cases"] if case.get("method") == "hpn" and not case["error"]]
    found = {case["case"].get("preset"): most for case in cases if (most := _most_held(case))}
    if not found:
        return None
    texts = [
        f"{preset} {', '.join(f'{count(held)} of {count(bound)} {what}' for what, held, bound in most)}"
        for preset, most in found.items()
    ]
    holds = all(held <= bound for most in found.values() for _, held, bound in most)
    return decide(section, holds, f"The most after any task, of the bound: {'; '.join(texts)}.")


def _most_held(case: Case) -> list[tuple[str, float, float]]:
    """What is held, the most of it after any task, and its bound; nothing if a number is missing.

    Parameters are left out where they have no bound.
    """
    growth, bounds, limit = (case.get(key) for key in ("growth", "bounds", "parameter_bound"))
    if not growth or not bounds:
        return []
    held = [] if limit is None else [("parameters", [entry["parameters"] for entry in growth], limit)]
    for level, bound in bounds.items():
        counts = [(entry["most_prototypes"] or {}).get(level) for entry in growth]
        held.append((f"{level} prototypes", counts, bound))
    if any(value is None for _, values, bound in held for value in [*values, bound]):
        return []
    return [(what, max(values), bound) for what, values, bound in held]


def keeps_less(section: Section) -> Finding | None:
    """Whether HPN keeps fewer numbers than most rivals; those without a result may leave it open."""
    ours = find_case(section, method="hpn") or {}
    rivals = _cases(section, *RIVALS)
    stored = {
        label: value for label, case in rivals.items() if is_number(value := (case or {}).get("stored"))
    }
    if not stored or not is_number(ours.get("stored")):
        return None
    num_heavier = sum(value > ours["stored"] for value in stored.values())
    least = min(stored, key=lambda label: stored[label])
    numbers = (
        f"Numbers kept: hpn {count(ours['stored'])}, more in {num_heavier} of {len(rivals)} rivals, "
        f"the least {count(stored[least])} in {least}{_parameters(ours, rivals)}."
    )
    num_missing = len(rivals) - len(stored)
    if num_missing:
        numbers += f" No result of {num_missing} of them."
    if num_heavier <= len(rivals) / 2 < num_heavier + num_missing:
        return cannot_tell(section, numbers)
    return decide(section, num_heavier > len(rivals) / 2, numbers)


def _parameters(ours: Case, rivals: dict[str, Case | None]) -> str:
    known = {
        label: case["parameters"]
        for label, case in rivals.items()
        if case and is_number(case.get("parameters"))
    }
    if not known:
        return ""
    least = min(known, key=lambda label: known[label])
    return (
        f"; parameters alone: hpn {count(ours.get('parameters'))}, the least {count(known[least])} in {least}"
    )


def _cases(section: Section, *methods: str) -> dict[str, Case | None]:
    """Every backbone of the methods by label, ``None`` if there is no result."""
    names = [{"method": method, "backbone": backbone} for method in methods for backbone in BACKBONES]
    return {row_label(name): find_case(section, **name) for name in names}


def _best(known: dict[str, Summary]) -> tuple[str, Summary]:
    return max(known.items(), key=lambda item: item[1].mean)


def _listed(labels: list[str]) -> str:
    return ", ".join(labels) or "none"
