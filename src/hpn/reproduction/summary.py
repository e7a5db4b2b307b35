"""The page over all experiments: what was repeated, how near the numbers are, what became of the claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hpn.report.format import MISSING, plain_markdown
from hpn.reproduction.claims import ClaimResult, weigh_claims
from hpn.reproduction.experiments import EXPERIMENTS
from hpn.reproduction.notes import find_notes, find_remark
from hpn.reproduction.page_cells import case_label, judged_texts, metric_name
from hpn.reproduction.page_findings import RULE, claim_numbers, verdict_words
from hpn.reproduction.page_parts import Page, bullets, code, finish_page, listed, table
from hpn.reproduction.results import Content
from hpn.reproduction.verdicts import Judged, count_verdicts, is_hpn, judge_all

NAME = "README"

About = Mapping[str, str]


def render_summary(pages: Mapping[str, Content], abouts: Mapping[str, About]) -> Page:
    """Make the page over all experiments.

    Args:
        pages: The JSON of each experiment that was run, by its name.
        abouts: For each experiment, also those not run, its ``title``, where it is in the ``paper``, and in
            a sentence what it is ``about``.
    """
    judged = judge_all(pages)
    cells = [one for found in judged.values() for one in found]
    of_hpn = [one for one in cells if is_hpn(one) and one.verdict != "within"]
    of_others = [one for one in cells if not is_hpn(one) and one.verdict == "worse"]
    reasons = _number_reasons([*of_hpn, *of_others])
    claims = weigh_claims(pages)
    return finish_page(
        NAME,
        [
            "# The paper’s experiments, repeated",
            "The tables and figures of the experiments in the paper and its supplement, made again. One "
            "command does it for all data sets that are on disk, and runs nothing twice:",
            code(_command(pages)),
            _experiments(pages, abouts, judged),
            "## How near the numbers are",
            RULE,
            _counts(cells),
            "A number that the paper prints more than once counts each time: the whole HPN stands in the "
            "comparison and, with the preset `paper`, in both ablations.",
            "## What the paper says",
            "Each claim has a criterion, which the page of the experiment tells. The preset `paper` decides; "
            "that page also tells what was found for the others.",
            _claims(claims),
            "### The numbers",
            *_claim_details(claims),
            "## Numbers of HPN that are not within",
            _cell_table(of_hpn, reasons),
            "## Numbers of other methods that are worse",
            _cell_table(of_others, reasons),
            "## Why" if reasons else "",
            "\n".join(f"{number}. {text}" for text, number in reasons.items()),
            "## What is not here",
            _absent(pages),
        ],
    )


def _command(pages: Mapping[str, Content]) -> str:
    """The command for everything, with the seeds of the section that has most."""
    seeds = [section.seeds for content in pages.values() for section in content.sections]
    longest: list[int] = max(seeds, key=len, default=[])
    if longest != list(range(len(longest))):
        return " ".join(["hpn reproduce all", *(f"--seed {seed}" for seed in longest)])
    return f"hpn reproduce all --seeds {len(longest)}" if longest else "hpn reproduce all"


def _experiments(
    pages: Mapping[str, Content], abouts: Mapping[str, About], judged: Mapping[str, Sequence[Judged]]
) -> str:
    rows = []
    for name, about in abouts.items():
        content = pages.get(name)
        datasets = [plain_markdown(section.dataset) for section in content.sections] if content else []
        counts = count_verdicts(judged.get(name, []))
        rows.append(
            [
                f"[{name}]({name}.md): {plain_markdown(about['title'])}" if content else plain_markdown(name),
                plain_markdown(about["paper"]),
                ", ".join(datasets) or "not run",
                *(str(num) if judged.get(name) else MISSING for num in counts.values()),
            ]
        )
    return table(["experiment", "in the paper", "run on", *counts_heads()], rows, align="lll")


def counts_heads() -> list[str]:
    """Heads of the columns that count verdicts."""
    return list(count_verdicts([]))


def _counts(cells: Sequence[Judged]) -> str:
    groups = {
        "all": cells,
        "HPN, preset `paper`": [one for one in cells if is_hpn(one, "paper")],
        "HPN, preset `best`": [one for one in cells if is_hpn(one, "best")],
        "other methods": [one for one in cells if not is_hpn(one)],
    }
    rows = [
        [name, *map(str, (len(group), *count_verdicts(group).values()))] for name, group in groups.items()
    ]
    return table(["", "numbers of the paper", *counts_heads()], rows)


def _number_reasons(cells: Iterable[Judged]) -> dict[str, int]:
    """Number the reasons that apply, in the order they are met: many numbers share one."""
    found = dict.fromkeys(text for one in cells for text in find_notes(one))
    return {text: number for number, text in enumerate(found, 1)}


def _cell_table(cells: Sequence[Judged], reasons: Mapping[str, int]) -> str:
    rows = [
        [
            f"[{one.experiment}]({one.experiment}.md)",
            plain_markdown(one.dataset),
            plain_markdown(case_label(one.case)),
            metric_name(one.metric),
            *judged_texts(one),
            ", ".join(f"({number})" for number in sorted(map(reasons.__getitem__, find_notes(one))))
            or "not known",
        ]
        for one in cells
    ]
    heads = ["experiment", "data set", "case", "number", "ours", "the paper", "Δ", "verdict", "why"]
    return table(heads, rows, align="llllrrrll") if rows else "None."


def _claims(results: Sequence[ClaimResult]) -> str:
    rows = [
        [
            plain_markdown(result.claim.statement),
            verdict_words(result.verdict),
            *(_datasets(result, verdict) for verdict in ("holds", "does not hold")),
        ]
        for result in results
    ]
    return table(["claim", "verdict", "holds on", "does not hold on"], rows, align="llll")


def _datasets(result: ClaimResult, verdict: str) -> str:
    found = [one.dataset for one in result.findings if one.counts and one.verdict == verdict]
    return plain_markdown(", ".join(found)) or MISSING


def _claim_details(results: Sequence[ClaimResult]) -> list[str]:
    """The numbers of each claim that was tested, data set by data set, and what we make of them."""
    blocks = []
    for result in results:
        numbers = claim_numbers(result)
        if not numbers:
            continue
        claim = result.claim
        remark = find_remark(claim.name, result.verdict)
        blocks += [
            f"**{plain_markdown(claim.name)}** ([{claim.experiment}]({claim.experiment}.md)): "
            f"{verdict_words(result.verdict)}.{f' {remark}' if remark else ''}",
            bullets(numbers),
        ]
    return blocks


def _absent(pages: Mapping[str, Content]) -> str:
    """Which data sets of an experiment have no section, and so no numbers here."""
    items = []
    for name, experiment in EXPERIMENTS.items():
        found = {section.dataset for section in pages[name].sections} if name in pages else set()
        missing = [dataset for dataset in experiment.datasets if dataset not in found]
        if missing:
            items.append(f"{name}: {listed(missing)}")
    if not items:
        return "Every data set of every experiment is here."
    return (
        "These data sets were not on disk, or not asked for; once they are on disk the command above adds "
        f"them.\n\n{bullets(items)}"
    )
