"""The pages: tables as data, rendered by ``templates/*.md.j2``. The same JSON always gives the same page."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from html import escape
from itertools import chain, pairwise
from typing import Any, NamedTuple

import altair as alt
import jinja2
from altair.utils.schemapi import debug_mode

from hpn.experiment.published import Spread, published_memory, published_parameters
from hpn.experiment.run.config import seed_words
from hpn.learners import LEARNERS
from hpn.metrics import METRICS, Summary
from hpn.report.comparison import PARAMETERS_REMARK
from hpn.report.format import (
    MISSING,
    bound_text,
    count,
    decimal,
    listed,
    markdown_table,
    metric_text,
    pairs,
    plain,
    plural,
    quantity,
    spread,
)
from hpn.report.format import plain_markdown as _safe
from hpn.report.results import best_value
from hpn.reproduction.content import CaseResult, Content, Section, Separation, case_name
from hpn.reproduction.experiments import EXPERIMENTS, Show
from hpn.reproduction.figures import FIGURES, OVERVIEWS, PageFigure, matrix
from hpn.reproduction.rules import difference, standard_error
from hpn.reproduction.verdicts import (
    Judged,
    count_verdicts,
    find_notes,
    is_hpn,
    judge_all,
    judge_section,
    paper_matrix,
    published,
    weigh_claims,
)
from hpn.theory.memory import LEVELS

WIDTH = 120
_VERDICTS = {"within": "within 2 sd", "better": "better", "worse": "worse"}
_PAPER_HEADS = ("the paper", "Δ", "verdict")


@dataclass(frozen=True)
class Page:
    """A page and its figures."""

    name: str  # of its file, without the suffix
    markdown: str
    figures: dict[str, alt.TopLevelMixin]  # the chart of each SVG file that the text links


class CaseColumn(NamedTuple):
    """A column of a table of cases: its heading, and its text for a case."""

    head: str
    cell: Callable[[CaseResult], str]
    is_measured: bool = True  # whether it is empty for a case that failed
    align: str = "r"  # "l" for text


_COSTS = {
    "parameters": CaseColumn("parameters", lambda case: count(case.parameters)),
    "stored": CaseColumn("stored (numbers)", lambda case: count(case.stored)),
    "seconds": CaseColumn(
        "seconds (per seed)", lambda case: quantity(case.seconds.fit + case.seconds.predict if case.seconds else None)
    ),
    "paper parameters": CaseColumn(
        "the paper (OGB-Products)", lambda case: count(published_parameters(case.method, case.backbone)), False
    ),
}


class SectionView:
    """A section of a page with the paper's numbers: its tables and figures, in Markdown."""

    def __init__(self, experiment: str, section: Section, figures: dict[str, alt.TopLevelMixin]) -> None:
        self.experiment, self.section, self.figures = experiment, section, figures
        self.judged = judge_section(experiment, section)

    def verdict(self, case: CaseResult, metric: str) -> list[str]:
        """The difference from the paper's number and the verdict on it, if the paper has one."""
        found = (one for one in self.judged if one.metric == metric and one.case == case.label)
        return verdict_texts(next(found, None))

    def paper(self, case: CaseResult, metric: str) -> Spread | None:
        """The paper's number, also where the case failed here."""
        found: Spread | None = getattr(published(self.experiment, self.section, case), metric, None)
        return found

    def has_paper(self, metric: str) -> bool:
        """Whether the paper reports this metric of any case."""
        return any(self.paper(case, metric) for case in self.section.cases)

    def blocks(self) -> Iterator[str]:
        """The parts of the section, as ``experiments.yaml`` lists them."""
        for show in EXPERIMENTS[self.experiment].shows if self.section.cases else ():
            if show.columns:
                yield self.cases(show)
            elif show.figures:
                yield from map(self.figure, FIGURES[show.figures](self.experiment, self.section))
            else:
                yield from TABLES[str(show.table)](self)

    def figure(self, figure: PageFigure) -> str:
        """A figure, which gets a file name of its own, and its caption."""
        file = add_figure(self.figures, self.experiment, figure)
        return f"![{_safe(figure.title)}]({file})\n\n{prose(_safe(figure.caption))}"

    def cases(self, show: Show) -> str:
        """A table with one row per case, cases of one method next to each other."""
        columns = [column for spec in show.columns for column in self.columns(spec, show)]
        first = [column.is_measured for column in columns].index(True)
        methods = [case.method for case in self.section.cases]
        rows = []
        for case in sorted(self.section.cases, key=lambda case: methods.index(case.method)):
            row = [MISSING if case.error and column.is_measured else column.cell(case) for column in columns]
            if case.error:
                row[first] = failure(case)
            rows.append(row)
        return markdown_table([column.head for column in columns], rows, "".join(column.align for column in columns))

    def columns(self, spec: str, show: Show) -> Iterator[CaseColumn]:
        """The columns that a word of ``experiments.yaml`` stands for."""
        if spec == "case":
            yield CaseColumn("method", lambda case: _safe(case.name), is_measured=False, align="l")
        elif spec in _COSTS:
            yield _COSTS[spec]
        elif spec in LEVELS:
            yield CaseColumn(spec, lambda case: count((case.prototypes or {}).get(spec)))
        elif spec in METRICS:
            metric, best = METRICS[spec], self.best(spec) if show.bold == spec else {}
            head = show.heads.get(spec, f"{metric.label} ({metric.unit})")
            yield CaseColumn(head, lambda case: best.get(case.name) or metric_text(metric, case.metrics.get(spec)))
        elif (name := spec.removesuffix(" paper")) in METRICS:
            texts: Sequence[Callable[[CaseResult], str]] = (
                lambda case: metric_text(METRICS[name], self.paper(case, name)),
                *(lambda case: self.verdict(case, name)[0], lambda case: self.verdict(case, name)[1]),
            )
            for head, text in zip(_PAPER_HEADS if self.has_paper(name) else (), texts, strict=False):
                yield CaseColumn(head, text, is_measured=False)
        elif spec == "ars curve":
            num = len(self.section.tasks)
            for task in sorted({task for task in (2, num // 2 + 1, num) if 2 <= task <= num}):
                yield CaseColumn(f"ARS after task {task} (%)", partial(self.retained, task))
        else:
            is_text = isinstance(self.section.cases[0].label[spec], str)
            write: Callable[[Any], str] = _safe if is_text else plain
            head = _safe(show.heads.get(spec, spec))
            yield CaseColumn(head, lambda case: write(case.label[spec]), False, "l" if is_text else "r")

    def retained(self, task: int, case: CaseResult) -> str:
        """ARS after a task."""
        return spread(self.section.result(case).curve(METRICS["ars"])[task - 1])

    def best(self, metric: str) -> dict[str, str]:
        """The best value of the methods that do not see earlier tasks again, in bold, by case."""
        found = {
            case.name: score
            for case in self.section.measured
            if (score := case.metrics.get(metric)) and not getattr(LEARNERS.get(case.method), "sees_past", False)
        }
        best = best_value(METRICS[metric], found.values())
        return {name: f"**{metric_text(METRICS[metric], one)}**" for name, one in found.items() if one.mean == best}


def matrices_blocks(view: SectionView) -> Iterator[str]:
    """Accuracy on each task after each task, the paper's next to ours, and a figure, per case."""
    for case in view.section.cases:
        yield f"### {_safe(case.name)}"
        if case.error:
            yield prose(failure(case))
            continue
        ours, paper = view.section.result(case).mean_matrix(), paper_matrix(view.experiment, view.section, case)
        heads, rows = ["after task"], []
        for task in range(len(ours)):
            heads += [f"task {task + 1}", *(_PAPER_HEADS if paper else ())]
        for after, accuracies in enumerate(ours):
            row = [str(after + 1)]
            for task in range(after + 1):
                row.append(spread(accuracies[task]))
                if paper:
                    verdict = view.verdict(case, f"task {task + 1} after task {after + 1}")
                    row += [decimal(paper[after][task], 2), *verdict]
            rows.append([*row, *[""] * (len(heads) - len(row))])
        yield markdown_table(heads, rows, "l")
        yield view.figure(matrix(view.section, case))


def steps_blocks(view: SectionView) -> Iterator[str]:
    """What each step of an ablation adds, seed by seed; the paper's between its means."""
    key = "levels" if "levels" in view.section.cases[0].label else "losses"
    metrics = [metric for metric in ("am", "fm") if view.has_paper(metric)]
    heads = ["step", "AM, ours", "FM, ours", *(f"{METRICS[name].label}, the paper" for name in metrics)]
    cases = {case.label[key]: case for case in view.section.cases}
    rows = []
    for before, after in ablation_steps([*cases]):
        ends = cases[before], cases[after]
        row = [f"{_safe(before)} → {_safe(after)}"]
        row += [paired_difference(*(case.metrics.get(metric) for case in ends)) for metric in ("am", "fm")]
        for metric in metrics:
            low, high = (view.paper(case, metric) for case in ends)
            row.append(decimal(high.mean - low.mean if low and high else None, signed=True))
        rows.append(row)
    yield markdown_table(heads, rows, "l")


def ablation_steps(confs: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs to compare: levels are added one after the other; losses to the first alone, and to each other."""
    if not any("+" in conf for conf in confs):
        return list(pairwise(confs)) + ([(confs[0], confs[-1])] if len(confs) > 2 else [])
    terms = {conf: set(conf.split("+")) for conf in confs}
    return [(a, b) for a in confs for b in confs if terms[a] < terms[b]]


def paired_difference(before: Summary | None, after: Summary | None) -> str:
    """After − before, seed by seed: mean ± standard error, which one seed does not have."""
    steps = difference(after, before)
    mean = decimal(steps.mean if steps else None, signed=True)
    return f"{mean} ± {decimal(standard_error(steps))}" if steps and len(steps.values) > 1 else mean


def bounds_blocks(view: SectionView) -> Iterator[str]:
    """The prototypes and parameters of each kind of HPN with their bounds, and the largest share that was reached."""
    rows, shares = [], []
    for case in view.section.measured:
        for part in case.bounded():
            most = max(part.values)
            numbers = count(part.values[-1]), count(most), bound_text(part.bound), percent(part.share(most))
            rows.append([_safe(case.name), part.name, *numbers])
            shares.append(
                (part.share(most), f"({_safe(case.name)}, {part.name}, after task {part.values.index(most) + 1})")
            )
    if rows:
        heads = ["", "", "at the end", "most after any task", "bound", "largest share of the bound (%)"]
        share, place = max(shares, key=lambda entry: entry[0])
        yield markdown_table(heads, rows, "ll")
        yield prose(f"The largest share of a bound that was reached: {percent(share)} % {place}.")


def percent(share: Fraction) -> str:
    """A share in percent, with two digits where it is small."""
    value = float(100 * share)
    return "under 0.01" if 0 < share < Fraction(1, 10_000) else decimal(value, 1 if value >= 10 else 2)


def separation_blocks(view: SectionView) -> Iterator[str]:
    """How well the classes are separated after each task, and the cases that failed."""
    shown = {case.name: {step.after: step for step in case.separation or []} for case in view.section.measured}
    shown = {name: steps for name, steps in shown.items() if steps}
    heads = ["after task"]
    for name in shown:
        heads += [f"{_safe(name)} silhouette", "neighbours (%)", "within a task (%)"]
    rows = []
    for after in sorted({after for steps in shown.values() for after in steps}):
        found = [steps.get(after, Separation(after=after)) for steps in shown.values()]
        cells = [(spread(one.silhouette, 2), spread(one.neighbors), spread(one.neighbors_within)) for one in found]
        rows.append([str(after + 1), *chain(*cells)])
    if shown:
        yield markdown_table(heads, rows, "l")
    for case in view.section.cases:
        if case.error:
            yield prose(f"{_safe(case.name)} {failure(case)}")


TABLES = {"matrices": matrices_blocks, "steps": steps_blocks, "bounds": bounds_blocks, "separation": separation_blocks}


def failure(case: CaseResult) -> str:
    """The text in place of the numbers of a case that failed, in Markdown."""
    return f"failed: {_safe(case.error)}"


def metric_name(metric: str) -> str:
    """The label of a metric; entries of a matrix are their own."""
    return METRICS[metric].label if metric in METRICS else metric


def verdict_texts(judged: Judged | None) -> list[str]:
    """The difference, ours − paper, and the verdict."""
    if judged is None:
        return [MISSING, MISSING]
    return [decimal(judged.difference, signed=True), _VERDICTS[judged.verdict]]


def judged_texts(one: Judged) -> list[str]:
    """A number that was judged: ours, the paper's, difference, verdict."""
    signed = one.metric in METRICS and METRICS[one.metric].is_signed
    if one.paper_std is None:  # a single run, which the paper prints with two digits
        paper = decimal(one.paper_mean, 2)
    else:
        paper = spread(Spread(one.paper_mean, one.paper_std), signed=signed)
    return [spread(one.ours, signed=signed), paper, *verdict_texts(one)]


def add_figure(files: dict[str, alt.TopLevelMixin], page: str, figure: PageFigure) -> str:
    """Add a figure under a file name that no other has; returns the name."""
    own = re.sub(r"[^a-z0-9._-]+", "-", figure.stem.lower()).strip("-.") or "graph"
    names = chain([f"{page}-{own}.svg"], (f"{page}-{own}-{number}.svg" for number in range(2, len(files) + 3)))
    file = next(name for name in names if name not in files)
    files[file] = figure.chart
    return file


def render_page(content: Content) -> Page:
    """Make the page of an experiment from its JSON.

    ``render_page(content).figures`` has the Altair chart of each SVG file of the page, by file name.
    """
    name, figures = content.experiment, dict[str, alt.TopLevelMixin]()
    experiment = EXPERIMENTS[name]
    views = [SectionView(name, section, figures) for section in content.sections]
    overview: list[str] = []
    with debug_mode(False):  # definitions of charts are validated by the tests, not in every page
        sections = [(view.section, list(view.blocks())) for view in views]
        if experiment.overview and views:
            drawn = OVERVIEWS[str(experiment.overview.figures)](content.sections)
            overview = [views[0].figure(figure) for figure in drawn]
    judged = [one for view in views for one in view.judged]
    values = {"memory": published_memory(), "parameters_remark": PARAMETERS_REMARK}
    markdown = _render(
        "experiment.md.j2",
        experiment=experiment,
        remarks=[remark.format(**values) for remark in experiment.remarks],
        sections=sections,
        overview=overview,
        counts=count_verdicts(judged) if judged else None,
        groups=list(_judged_groups(judged)),
        claims=[found for found in weigh_claims({name: content}) if found.claim.experiment == name],
        settings=_grouped((_settings(section), section.dataset) for section in content.sections),
        reruns=_grouped(
            ((case.name, pairs(case.again.versions, between=", ")), section.dataset)
            for section in content.sections
            for case in section.cases
            if case.again
        ),
        rerun_commands=[command for section in content.sections for command in section.commands[1:]],
    )
    return Page(name, markdown, figures)


def _judged_groups(judged: Sequence[Judged]) -> Iterator[str]:
    """Verdict, how many, which numbers, and why, in groups that share their reasons."""
    ordered = sorted(judged, key=lambda one: [*_VERDICTS].index(one.verdict))
    for (verdict, reasons), members in _grouped(((one.verdict, find_notes(one)), one) for one in ordered).items():
        places = []
        for dataset, found in _grouped((one.dataset, one) for one in members).items():
            cases = _grouped((case_name(one.case), metric_name(one.metric)) for one in found)
            names = ", ".join(f"{_safe(case)} ({', '.join(metrics)})" for case, metrics in cases.items())
            places.append(f"{_safe(dataset)}: {names}")
        why = "" if verdict == "within" else " ".join(reasons) or "The reason is not known."
        yield f"**{verdict}** ({len(members):,}): {'; '.join(places)}. {why}"


def _grouped(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _settings(section: Section) -> str:
    return f"seeds {', '.join(map(str, section.seeds))}; {pairs(section.versions, between=', ')}"


def render_summary(pages: Mapping[str, Content]) -> Page:
    """Make the page about all experiments from the JSON of those that were run."""
    judged = judge_all(pages)
    cells = list(chain(*judged.values()))
    hpn, others = ([one for one in cells if is_hpn(one) == wanted] for wanted in (True, False))
    unlike = {
        "Numbers of HPN that are not within": [one for one in hpn if one.verdict != "within"],
        "Numbers of other methods that are worse": [one for one in others if one.verdict == "worse"],
    }
    reasons = dict.fromkeys(text for one in chain(*unlike.values()) for text in find_notes(one))
    datasets = {name: [section.dataset for section in content.sections] for name, content in pages.items()}
    missing = {
        name: [dataset for dataset in experiment.datasets if dataset not in datasets.get(name, ())]
        for name, experiment in EXPERIMENTS.items()
    }
    markdown = _render(
        "summary.md.j2",
        command=_command(pages),
        experiments=EXPERIMENTS,
        datasets=datasets,
        judged=judged,
        groups={
            "all": cells,
            "HPN, preset `paper`": [one for one in hpn if is_hpn(one, "paper")],
            "HPN, preset `best`": [one for one in hpn if is_hpn(one, "best")],
            "other methods": others,
        },
        claims=weigh_claims(pages),
        unlike=unlike,
        reasons={text: number for number, text in enumerate(reasons, 1)},
        missing={name: left for name, left in missing.items() if left},
    )
    return Page("README", markdown, {})


def _command(pages: Mapping[str, Content]) -> str:
    """The command for everything, with the seeds of the section that has most."""
    seeds = [section.seeds for content in pages.values() for section in content.sections]
    return " ".join(["hpn reproduce all", *(seed_words(max(seeds, key=len)) if seeds else ())])


def verdict_words(verdict: str) -> str:
    """A verdict on a claim, in italics."""
    return f"*{verdict} data sets*" if verdict == "holds on some" else f"*{verdict}*"


def prose(text: str, indent: str = "") -> str:
    """Wrap a paragraph so that no line starts like a list, a heading or a quotation."""
    joined = re.sub(r" (?=(?:[-+*=#>]+|\\[*>]|\d+[.)])(?:\s|$))", "\0", " ".join(text.split()))
    lines = textwrap.wrap(joined, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


def code(lines: Iterable[str]) -> str:
    """A code block, with a fence that none of its lines can close."""
    text = "\n".join(lines)
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall(r"`{3,}", text))])
    return f"{fence}\n{text}\n{fence}"


def bullet(text: str, mark: str = "-") -> str:
    """An item of a list."""
    return prose(f"{mark} {text}", " " * (len(mark) + 1))


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hpn.reproduction"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  (Markdown; names from data go through plain_markdown)
    )
    filters = (prose, bullet, code, listed, plural, verdict_words, metric_name, judged_texts, case_name)
    environment.filters |= {one.__name__: one for one in (*filters, count_verdicts, find_notes)}
    environment.filters |= {"md": _safe, "esc": escape}
    return environment


def _render(template: str, **values: Any) -> str:
    text = _environment().get_template(template).render(**values)
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).strip() + "\n"
    text = re.sub(r"\n{3,}", "\n\n", text)
    return text.encode("utf-8", "replace").decode()  # a file name may hold what UTF-8 cannot
