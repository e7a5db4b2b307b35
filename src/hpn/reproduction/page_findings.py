"""What agrees with the paper and what does not, and what became of its claims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hpn.report.format import plain_markdown
from hpn.report.wording import plural
from hpn.reproduction.claims import ClaimResult, weigh_claims
from hpn.reproduction.notes import find_notes, find_remark
from hpn.reproduction.page_cells import case_label, metric_name
from hpn.reproduction.page_parts import bullets
from hpn.reproduction.results import Content
from hpn.reproduction.verdicts import Judged, count_verdicts

RULE = (
    "A number is *within* if it differs from the paper’s by at most two standard deviations of the paper’s "
    "repetitions. Of the accuracies on single tasks it prints one run: there the deviation of that method’s "
    "AM in its Table 1 counts, or ours if it is larger. Otherwise a number is *better* or *worse*; more is "
    "better, of AM, FM and accuracies alike."
)
_UNJUDGED = {
    "accuracy-matrices": (
        "No number here can be judged: the paper has none to stand beside it, or with one seed nothing tells "
        "how far two single runs may lie apart."
    ),
    "memory": "The amounts are not judged: the paper’s and ours do not count the same things, as said above.",
}
UNKNOWN = "The reason is not known."
CLAIM_VERDICTS = {"holds on some": "holds on some data sets"}


def agreement(judged: Sequence[Judged], experiment: str) -> list[str]:
    """How many numbers are the paper's, which are not, and why."""
    if not judged:
        return [_UNJUDGED.get(experiment, "No number here has one of the paper’s to stand beside.")]
    counts = count_verdicts(judged)
    blocks = [
        f"Of {plural(len(judged), 'number')} that the paper prints, {counts['within']:,} are within two "
        f"standard deviations, {counts['better']:,} are better and {counts['worse']:,} worse.",
        RULE,
    ]
    items = []
    for verdict in ("within", "better", "worse"):
        groups: dict[tuple[str, ...], list[Judged]] = {}
        for one in judged:
            if one.verdict == verdict:
                groups.setdefault(tuple(find_notes(one)), []).append(one)
        for reasons, members in groups.items():
            why = "" if verdict == "within" else f" {' '.join(reasons) or UNKNOWN}"
            items.append(f"**{verdict}** ({len(members):,}): {_cells(members)}.{why}")
    return [*blocks, bullets(items)]


def _cells(judged: Iterable[Judged]) -> str:
    """Which numbers, data set by data set.

    Each case is named once, with its metrics in brackets.
    """
    datasets: dict[str, dict[str, list[str]]] = {}
    for one in judged:
        cases = datasets.setdefault(one.dataset, {})
        cases.setdefault(case_label(one.case), []).append(metric_name(one.metric))
    return "; ".join(
        f"{plain_markdown(dataset)}: "
        + ", ".join(f"{plain_markdown(case)} ({', '.join(metrics)})" for case, metrics in cases.items())
        for dataset, cases in datasets.items()
    )


def claims_of(content: Content) -> list[ClaimResult]:
    """What became of the claims that are tested on this experiment."""
    name = content.experiment
    return [result for result in weigh_claims({name: content}) if result.claim.experiment == name]


def claim_blocks(results: Iterable[ClaimResult]) -> list[str]:
    """Each claim with its verdict, its criterion, and the numbers that decide."""
    blocks = []
    for result in results:
        claim = result.claim
        blocks += [
            f"### {plain_markdown(claim.name)}",
            f"{verdict_words(result.verdict)}: {plain_markdown(f'{claim.statement} ({claim.where})')}",
            f"Criterion: {plain_markdown(claim.criterion)}",
            bullets(_findings(result)) or "No data set here has the numbers.",
            find_remark(claim.name, result.verdict) or "",
        ]
    return [block for block in blocks if block]


def claim_numbers(result: ClaimResult) -> list[str]:
    """What was found on each data set and decides."""
    return _findings(replace(result, findings=tuple(f for f in result.findings if f.counts)))


def _findings(result: ClaimResult) -> list[str]:
    return [
        f"{plain_markdown(found.dataset)}: {verdict_words(found.verdict)}. {plain_markdown(found.numbers)}"
        for found in result.findings
    ]


def verdict_words(verdict: str) -> str:
    """A verdict on a claim, in italics.

    Example:
        >>> verdict_words("holds"), verdict_words("holds on some")
        ('*holds*', '*holds on some data sets*')
    """
    return f"*{CLAIM_VERDICTS.get(verdict, verdict)}*"
