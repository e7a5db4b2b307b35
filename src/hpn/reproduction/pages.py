"""The pages: tables as data, rendered by ``templates/*.md.j2``. The same JSON always gives the same page."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from html import escape
from itertools import chain, pairwise, takewhile
from typing import Any

import altair as alt
import jinja2
from altair.utils.schemapi import debug_mode

from hpn.experiment.published import Spread, published_memory, published_parameters
from hpn.learners import LEARNERS
from hpn.metrics import METRICS, Summary
from hpn.report.comparison import PARAMETERS_REMARK
from hpn.report.format import MISSING, bound_text, count, decimal, metric_text, plain, plural, quantity, spread
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
_HEADS = {
    "case": "method",
    "stored": "stored (numbers)",
    "seconds": "seconds (per seed)",
    "paper parameters": "the paper (OGB-Products)",
}


@dataclass(frozen=True)
class Page:
    """A page and its figures."""

    name: str  # of its file, without the suffix
    markdown: str
    figures: dict[str, alt.TopLevelMixin]  # the chart of each SVG file that the text links


@dataclass(frozen=True)
class Block:
    """A part of a section, all in Markdown: a table, a figure or a heading, with text below it."""

    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    align: str = ""
    file: str = ""
    alt: str = ""
    heading: str = ""
    text: str = ""


@dataclass(frozen=True)
class CaseColumns:
    """Neighbouring columns of a table of cases: their headings, and their texts for a case."""

    heads: Sequence[str]
    cells: Callable[[CaseResult], Sequence[str]]
    is_measured: bool = True  # whether they are empty for a case that failed
    align: str = "r"  # "l" for text


@dataclass
class SectionView:
    """A section of a page, with the paper's numbers, and the parts that the page shows."""

    experiment: str
    section: Section
    figures: dict[str, alt.TopLevelMixin]
    judged: list[Judged] = field(init=False)

    def __post_init__(self) -> None:
        self.judged = judge_section(self.experiment, self.section)

    def find(self, case: CaseResult, metric: str) -> Judged | None:
        """The verdict on a number, if the paper has one for it."""
        return next((one for one in self.judged if one.metric == metric and one.case == case.label), None)

    def paper(self, case: CaseResult, metric: str) -> Spread | None:
        """The paper's number, also where the case failed here."""
        found: Spread | None = getattr(published(self.experiment, self.section, case), metric, None)
        return found

    def has_paper(self, metric: str) -> bool:
        """Whether the paper reports this metric of any case."""
        return any(self.paper(case, metric) for case in self.section.cases)

    def blocks(self) -> Iterator[Block]:
        """The parts of the section, as ``experiments.yaml`` lists them."""
        for show in EXPERIMENTS[self.experiment].shows if self.section.cases else ():
            if show.columns:
                yield self.cases(show)
            elif show.figures:
                for figure in FIGURES[show.figures](self.experiment, self.section):
                    yield self.figure(figure)
            else:
                yield from TABLES[str(show.table)](self)

    def figure(self, figure: PageFigure) -> Block:
        """A figure, which gets a file name of its own."""
        file = add_figure(self.figures, self.experiment, figure)
        return Block(file=file, alt=figure.title, text=_safe(figure.caption))

    def cases(self, show: Show) -> Block:
        """A table with one row per case, cases of one method next to each other."""
        columns = [self.columns(spec, show) for spec in show.columns]
        first = sum(len(column.heads) for column in takewhile(lambda column: not column.is_measured, columns))
        methods = [case.method for case in self.section.cases]
        rows = []
        for case in sorted(self.section.cases, key=lambda case: methods.index(case.method)):
            parts = [
                [MISSING] * len(column.heads) if case.error and column.is_measured else column.cells(case)
                for column in columns
            ]
            row = list(chain.from_iterable(parts))
            if case.error:
                row[first] = failure(case)
            rows.append(row)
        heads = [head for column in columns for head in column.heads]
        return Block(heads, rows, "".join(column.align * len(column.heads) for column in columns))

    def columns(self, spec: str, show: Show) -> CaseColumns:
        """The columns that a word of ``experiments.yaml`` stands for."""
        heads = [_safe(show.heads.get(spec, _HEADS.get(spec, spec)))]
        if spec == "case":
            return CaseColumns(heads, lambda case: [_safe(case.name)], is_measured=False, align="l")
        if spec in METRICS:
            metric, best = METRICS[spec], self.best(spec) if show.bold == spec else {}
            return CaseColumns(
                [show.heads.get(spec, f"{metric.label} ({metric.unit})")],
                lambda case: [best.get(case.name) or metric_text(metric, case.metrics.get(spec))],
            )
        if (name := spec.removesuffix(" paper")) in METRICS:
            return CaseColumns(
                _PAPER_HEADS if self.has_paper(name) else (),
                lambda case: (
                    [metric_text(METRICS[name], self.paper(case, name)), *verdict_texts(self.find(case, name))]
                    if self.has_paper(name)
                    else []
                ),
                is_measured=False,
            )
        if spec == "ars curve":
            num_tasks, ars = len(self.section.tasks), METRICS["ars"]
            shown = [task for task in sorted({2, num_tasks // 2 + 1, num_tasks}) if 2 <= task <= num_tasks]
            return CaseColumns(
                [f"ARS after task {task} (%)" for task in shown],
                lambda case: [spread(self.section.result(case).curve(ars)[task - 1]) for task in shown],
            )
        if spec == "prototypes":
            return CaseColumns(LEVELS, lambda case: [count((case.prototypes or {}).get(level)) for level in LEVELS])
        if spec == "seconds":
            return CaseColumns(
                heads, lambda case: [quantity(case.seconds.fit + case.seconds.predict if case.seconds else None)]
            )
        if spec == "paper parameters":
            found = published_parameters
            return CaseColumns(heads, lambda case: [count(found(case.method, case.backbone))], is_measured=False)
        if spec in {"parameters", "stored"}:
            return CaseColumns(heads, lambda case: [count(getattr(case, spec))])
        is_text = isinstance(self.section.cases[0].label[spec], str)
        write: Callable[[Any], str] = _safe if is_text else plain
        align = "l" if is_text else "r"
        return CaseColumns(heads, lambda case: [write(case.label[spec])], is_measured=False, align=align)

    def best(self, metric: str) -> dict[str, str]:
        """The best value of the methods that do not see earlier tasks again, in bold, by case."""
        found = {
            case.name: score
            for case in self.section.measured
            if (score := case.metrics.get(metric)) and not getattr(LEARNERS.get(case.method), "sees_past", False)
        }
        best = best_value(METRICS[metric], found.values())
        bold = {name: f"**{metric_text(METRICS[metric], score)}**" for name, score in found.items()}
        return {name: text for name, text in bold.items() if found[name].mean == best}


def matrices_blocks(view: SectionView) -> Iterator[Block]:
    """Accuracy on each task after each task, the paper's next to ours, and a figure, per case."""
    for case in view.section.cases:
        if case.error:
            yield Block(heading=_safe(case.name), text=failure(case))
            continue
        ours, paper = (view.section.result(case).mean_matrix(), paper_matrix(view.experiment, view.section, case))
        heads, rows = ["after task"], []
        for task in range(len(ours)):
            heads += [f"task {task + 1}", *(_PAPER_HEADS if paper else ())]
        for after, accuracies in enumerate(ours):
            row = [str(after + 1)]
            for task in range(after + 1):
                row.append(spread(accuracies[task]))
                if paper:
                    judged = view.find(case, f"task {task + 1} after task {after + 1}")
                    row += [decimal(paper[after][task], 2), *verdict_texts(judged)]
            rows.append([*row, *[""] * (len(heads) - len(row))])
        yield Block(heading=_safe(case.name))
        yield Block(heads, rows, "l")
        yield view.figure(matrix(view.section, case))


def steps_blocks(view: SectionView) -> Iterator[Block]:
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
    yield Block(heads, rows, "l")


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


def bounds_blocks(view: SectionView) -> Iterator[Block]:
    """The prototypes and parameters of each kind of HPN with their bounds, and the largest share that was reached."""
    found = [(case, part) for case in view.section.measured for part in case.bounded()]
    if not found:
        return
    rows = [
        [
            *(_safe(case.name), part.name, count(part.values[-1]), count(max(part.values))),
            *(bound_text(part.bound), percent(part.share(max(part.values)))),
        ]
        for case, part in found
    ]
    share, case, part, after = max(
        ((part.share(value), case, part, at) for case, part in found for at, value in enumerate(part.values)),
        key=lambda entry: entry[0],
    )
    text = f"The largest share of a bound that was reached: {percent(share)} % "
    yield Block(
        ["", "", "at the end", "most after any task", "bound", "largest share of the bound (%)"],
        *(rows, "ll"),
        text=f"{text}({_safe(case.name)}, {part.name}, after task {after + 1}).",
    )


def percent(share: Fraction) -> str:
    """A share in percent, with two digits where it is small."""
    value = float(100 * share)
    return "under 0.01" if 0 < share < Fraction(1, 10_000) else decimal(value, 1 if value >= 10 else 2)


def separation_blocks(view: SectionView) -> Iterator[Block]:
    """How well the classes are separated after each task, and the cases that failed."""
    shown = [(case, case.separation) for case in view.section.measured if case.separation]
    heads, rows = ["after task"], []
    for case, _ in shown:
        heads += [f"{_safe(case.name)} silhouette", "neighbours (%)", "within a task (%)"]
    for after in sorted({step.after for _, steps in shown for step in steps}):
        row = [str(after + 1)]
        for _, steps in shown:
            step = next((step for step in steps if step.after == after), Separation(after=after))
            row += [spread(step.silhouette, 2), spread(step.neighbors), spread(step.neighbors_within)]
        rows.append(row)
    if shown:
        yield Block(heads, rows, "l")
    for case in view.section.cases:
        if case.error:
            yield Block(text=f"{_safe(case.name)} {failure(case)}")


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
    digits = 1 if one.paper_std is not None else 2  # as the paper prints them
    signed = one.metric in METRICS and METRICS[one.metric].is_signed
    paper = decimal(one.paper_mean, digits, signed=signed)
    deviation = "" if one.paper_std is None else f" ± {decimal(one.paper_std)}"
    return [spread(one.ours, signed=signed), paper + deviation, *verdict_texts(one)]


def add_figure(files: dict[str, alt.TopLevelMixin], page: str, figure: PageFigure) -> str:
    """Add a figure under a file name that no other has; returns the name."""
    own = re.sub(r"[^a-z0-9._-]+", "-", figure.stem.lower()).strip("-.") or "graph"
    file, number = f"{page}-{own}.svg", 1
    while file in files:
        number += 1
        file = f"{page}-{own}-{number}.svg"
    files[file] = figure.chart
    return file


def render_page(content: Content) -> Page:
    """Make the page of an experiment from its JSON.

    ``render_page(content).figures`` has the Altair chart of each SVG file of the page, by file name.
    """
    name, figures = content.experiment, dict[str, alt.TopLevelMixin]()
    experiment = EXPERIMENTS[name]
    views = [SectionView(name, section, figures) for section in content.sections]
    overview: list[Block] = []
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
            ((case.name, _versions(case.again.versions)), section.dataset)
            for section in content.sections
            for case in section.cases
            if case.again
        ),
        rerun_commands=[command for section in content.sections for command in section.commands[1:]],
    )
    return Page(name, markdown, figures)


def _judged_groups(judged: Sequence[Judged]) -> Iterator[tuple[str, int, str, Sequence[str]]]:
    """Verdict, how many, which numbers, and why, in groups that share their reasons."""
    for verdict in _VERDICTS:
        found = ((find_notes(one), one) for one in judged if one.verdict == verdict)
        for reasons, members in _grouped(found).items():
            cells: dict[str, dict[str, list[str]]] = {}
            for one in members:
                names = cells.setdefault(one.dataset, {}).setdefault(case_name(one.case), [])
                names.append(metric_name(one.metric))
            which = "; ".join(
                f"{_safe(dataset)}: "
                + ", ".join(f"{_safe(case)} ({', '.join(metrics)})" for case, metrics in cases.items())
                for dataset, cases in cells.items()
            )
            yield verdict, len(members), which, reasons


def _grouped(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _settings(section: Section) -> str:
    return f"seeds {', '.join(map(str, section.seeds))}; {_versions(section.versions)}"


def render_summary(pages: Mapping[str, Content]) -> Page:
    """Make the page about all experiments from the JSON of those that were run."""
    judged = judge_all(pages)
    cells = [one for found in judged.values() for one in found]
    of_hpn = [one for one in cells if is_hpn(one) and one.verdict != "within"]
    of_others = [one for one in cells if not is_hpn(one) and one.verdict == "worse"]
    found = dict.fromkeys(text for one in (*of_hpn, *of_others) for text in find_notes(one))
    reasons = {text: number for number, text in enumerate(found, 1)}
    groups = {
        "all": cells,
        "HPN, preset `paper`": [one for one in cells if is_hpn(one, "paper")],
        "HPN, preset `best`": [one for one in cells if is_hpn(one, "best")],
        "other methods": [one for one in cells if not is_hpn(one)],
    }
    counts = [[name, *map(str, (len(one), *count_verdicts(one).values()))] for name, one in groups.items()]
    claims = weigh_claims(pages)
    missing = {
        name: [dataset for dataset in experiment.datasets if dataset not in _datasets(pages, name)]
        for name, experiment in EXPERIMENTS.items()
    }
    markdown = _render(
        "summary.md.j2",
        command=_command(pages),
        experiments=Block(
            ["experiment", "in the paper", "run on", *_VERDICTS],
            [_experiment_row(pages, judged, name) for name in EXPERIMENTS],
            "lll",
        ),
        counts=Block(["", "numbers of the paper", *_VERDICTS], counts, "l"),
        claims=claims,
        claims_table=Block(
            ["claim", "verdict", "holds on", "does not hold on"],
            [
                [
                    _safe(result.claim.statement),
                    verdict_words(result.verdict),
                    *(
                        _safe(", ".join(one.dataset for one in result.counted if one.verdict == verdict)) or MISSING
                        for verdict in ("holds", "does not hold")
                    ),
                ]
                for result in claims
            ],
            "llll",
        ),
        of_hpn=_cell_table(of_hpn, reasons),
        of_others=_cell_table(of_others, reasons),
        reasons=reasons,
        missing={name: datasets for name, datasets in missing.items() if datasets},
    )
    return Page("README", markdown, {})


def _datasets(pages: Mapping[str, Content], name: str) -> list[str]:
    return [section.dataset for section in pages[name].sections] if name in pages else []


def _experiment_row(pages: Mapping[str, Content], judged: Mapping[str, Sequence[Judged]], name: str) -> list[str]:
    experiment, found = EXPERIMENTS[name], judged.get(name)
    return [
        f"[{name}]({name}.md): {_safe(experiment.title)}" if name in pages else _safe(name),
        _safe(experiment.paper),
        ", ".join(map(_safe, _datasets(pages, name))) or "not run",
        *(str(num) if found else MISSING for num in count_verdicts(found or ()).values()),
    ]


def _cell_table(cells: Sequence[Judged], reasons: Mapping[str, int]) -> Block:
    heads = ["experiment", "data set", "case", "number", "ours", "the paper", "Δ", "verdict", "why"]
    rows = [
        [
            f"[{one.experiment}]({one.experiment}.md)",
            *(_safe(one.dataset), _safe(case_name(one.case)), metric_name(one.metric)),
            *judged_texts(one),
            ", ".join(f"({number})" for number in sorted(map(reasons.__getitem__, find_notes(one)))) or "not known",
        ]
        for one in cells
    ]
    return Block(heads, rows, "llllrrrll")


def _command(pages: Mapping[str, Content]) -> str:
    """The command for everything, with the seeds of the section that has most."""
    seeds = [section.seeds for content in pages.values() for section in content.sections]
    longest: list[int] = max(seeds, key=len, default=[])
    if longest != list(range(len(longest))):
        return " ".join(["hpn reproduce all", *(f"--seed {seed}" for seed in longest)])
    return f"hpn reproduce all --seeds {len(longest)}" if longest else "hpn reproduce all"


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


def listed(names: Sequence[str]) -> str:
    """Names in a sentence."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def bullet(text: str, mark: str = "-") -> str:
    """An item of a list."""
    return prose(f"{mark} {text}", " " * (len(mark) + 1))


def _rules(block: Block) -> str:
    """The line below the head of a table; columns without a letter hold numbers."""
    letters = block.align.ljust(len(block.heads), "r")
    return "|".join("---" if letter == "l" else "--:" for letter in letters)


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
    environment.filters |= {
        **{"md": _safe, "esc": escape, "prose": prose, "bullet": bullet, "code": code},
        **{"listed": listed, "plural": plural, "verdict": verdict_words, "rules": _rules},
    }
    return environment


def _render(template: str, **values: Any) -> str:
    text = _environment().get_template(template).render(**values)
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).strip() + "\n"
    text = re.sub(r"\n{3,}", "\n\n", text)
    return text.encode("utf-8", "replace").decode()  # a file name may hold what UTF-8 cannot
