"""Tests of claims about the parts of HPN, what it retains, and its representations."""

from __future__ import annotations

from collections.abc import Sequence

from hpn.metrics import METRICS, Summary
from hpn.report.format import decimal, spread
from hpn.reproduction.claim_numbers import (
    Finding,
    decide,
    difference,
    find_case,
    gain_text,
    is_clear,
    one_seed,
    read,
)
from hpn.reproduction.results import CaseResult, Section

LEVEL_STEPS = (("A", "AN"), ("AN", "ANC"))
LOSS_STEPS = (
    ("cls", "cls+div"),
    ("cls", "cls+dis"),
    ("cls+dis", "cls+div+dis"),
    ("cls+div", "cls+div+dis"),
)
LONG_STREAM = 5
FLAT = 1.0
MOST_NEIGHBORS = 80.0


def levels_help(section: Section) -> Finding | None:
    """Whether AM rises with each level of prototypes, and clearly from the first to the last."""
    return _steps_help(section, "levels", LEVEL_STEPS)


def losses_help(section: Section) -> Finding | None:
    """Whether AM rises with each loss, whatever other is there, and clearly from one to all."""
    return _steps_help(section, "losses", LOSS_STEPS)


def _steps_help(section: Section, part: str, steps: Sequence[tuple[str, str]]) -> Finding | None:
    scores: dict[str, Summary] = {}
    for conf in dict.fromkeys(conf for step in steps for conf in step):
        score = read(find_case(section, **{part: conf}), "am")
        if score is None:
            return None
        scores[conf] = score
    first, last = steps[0][0], steps[-1][1]
    total = difference(scores[last], scores[first])
    if total is None:
        return None
    if len(total.values) < 2:
        return one_seed(section)
    gains = {step: scores[step[1]].mean - scores[step[0]].mean for step in steps}
    numbers = (
        f"AM: {', '.join(f'{conf} {spread(score)}' for conf, score in scores.items())}; "
        f"{', '.join(f'{a} to {b} {decimal(gain, 2, signed=True)}' for (a, b), gain in gains.items())}, "
        f"{first} to {last} {gain_text(total)}."
    )
    return decide(section, all(gain > 0 for gain in gains.values()) and is_clear(total), numbers)


def retains_where_twp_forgets(section: Section) -> Finding | None:
    """Whether the ARS of HPN stays flat over a long stream and that of GAT with TWP falls."""
    ours = _retained(section, find_case(section, method="hpn"))
    rival = _retained(section, find_case(section, method="twp", backbone="gat"))
    if ours is None or rival is None:
        return None
    change, rival_change = (difference(scores[-1], scores[0]) for scores in (ours, rival))
    gain = difference(change, rival_change) if change and rival_change else None
    if change is None or rival_change is None or gain is None:
        return None
    if len(gain.values) < 2:
        return one_seed(section)
    numbers = (
        f"ARS after task 2 and after task {len(section.tasks)}: "
        f"hpn {spread(ours[0])} and {spread(ours[-1])}, a change of {spread(change, signed=True)}; "
        f"twp · gat {spread(rival[0])} and {spread(rival[-1])}, a change of "
        f"{spread(rival_change, signed=True)}; hpn − twp · gat {gain_text(gain)}."
    )
    is_flat, falls = change.mean >= -FLAT, rival_change.mean < 0
    return decide(section, is_flat and falls and is_clear(gain), numbers)


def twp_retains_more(section: Section) -> Finding | None:
    """Whether GAT with TWP ends a long stream with a clearly higher ARS than GAT alone."""
    twp = _retained(section, find_case(section, method="twp", backbone="gat"))
    plain = _retained(section, find_case(section, method="finetune", backbone="gat"))
    gain = difference(twp[-1], plain[-1]) if twp and plain else None
    if not twp or not plain or gain is None:
        return None
    if len(gain.values) < 2:
        return one_seed(section)
    numbers = (
        f"ARS after task {len(section.tasks)}: finetune · gat {spread(plain[-1])}, "
        f"twp · gat {spread(twp[-1])}, difference {gain_text(gain)}."
    )
    return decide(section, is_clear(gain), numbers)


def _retained(section: Section, case: CaseResult | None) -> list[Summary] | None:
    """ARS after each task from the second on, in per cent; ``None`` for a short stream."""
    if case is None or not case.matrices or len(section.tasks) < LONG_STREAM:
        return None
    return [ars for ars in section.result(case).curve(METRICS["ars"]) if ars is not None] or None


def stays_separated(section: Section) -> Finding | None:
    """Whether test nodes still lie among their own class after the last task."""
    case = find_case(section, method="hpn")
    steps = (case and case.separation) or []
    if not steps or steps[-1].after != len(section.tasks) - 1:
        return None
    known = [(step.neighbors, step.silhouette) for step in steps if step.neighbors and step.silhouette]
    if len(known) < len(steps):
        return None
    texts = [
        f"{spread(neighbors)} % and {spread(silhouette, 2)} after task {step.after + 1}"
        for step, (neighbors, silhouette) in zip(steps, known, strict=True)
    ]
    neighbors, silhouette = known[-1]
    holds = neighbors.mean >= MOST_NEIGHBORS and silhouette.mean > 0
    numbers = f"Nodes among their own class and silhouette: {', '.join(texts)}."
    if within := steps[-1].neighbors_within:
        numbers += f" With others of their own task only, {spread(within)} % after the last."
    return decide(section, holds, numbers)
