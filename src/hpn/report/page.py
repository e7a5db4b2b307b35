"""Pages: one self-contained HTML file each, written completely or not at all."""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import altair as alt
import jinja2

from hpn.errors import DataError, HPNError
from hpn.experiment.compare.result import Comparison
from hpn.experiment.run.folder import write_atomic
from hpn.experiment.run.result import RunResult
from hpn.metrics import Metric
from hpn.report.comparison import PARAMETERS_REMARK, compared_metrics, row_label, table_columns, table_notes
from hpn.report.figures import FIGURES, WIDTH, chart_spec, comparison_charts
from hpn.report.format import MISSING, bound_text, clean, count, decimal, metric_text, plural, quantity, spread
from hpn.report.results import (
    Run,
    RunGroup,
    best_value,
    find_results,
    group_runs,
    metric_of,
    shown_metrics,
    step_noun,
    step_text,
)
from hpn.report.theme import DARK, DASHES, LIGHT, MARKERS
from hpn.report.wording import (
    EDGES,
    EVALUATIONS,
    NOT_MEASURED,
    STORED_TERM,
    TERMS,
    describe_exploration,
    explanation,
    headline,
    lead,
    metric_terms,
    setting,
    terms,
)

if TYPE_CHECKING:
    from hpn.experiment.exploration import Exploration

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TableCell:
    """A cell of a table: its text, the value it is sorted by, and smaller lines below."""

    text: str
    value: float | str | None = None
    sub: Sequence[str] = ()
    is_best: bool = False
    href: str = ""
    css: str = ""
    span: int = 1


@dataclass(frozen=True)
class Body:
    """Rows of a table, under a title of their own if they have one."""

    rows: Sequence[Sequence[TableCell]]
    title: str = ""
    sub: str = ""


@dataclass(frozen=True)
class Grid:
    """A table: heads and rows."""

    heads: Sequence[TableCell]
    bodies: Sequence[Body]


def write_report(
    runs: Sequence[Path | str], out: Path | str, *, on_skip: Callable[[str], object] = log.warning
) -> Path:
    """Write one self-contained HTML page about finished runs.

    Args:
        runs: Folders of runs, comparisons and tuning, or their JSON files; one named twice counts once.
        out: The file to write. An earlier report is replaced in one step and stays intact if writing fails.
        on_skip: Receives one line about each folder without a result; by default it is logged.

    Returns:
        ``out``.

    Raises:
        DataError: If no run has finished, a path does not exist or a file is damaged.
        HPNError: If ``out`` cannot be written.
    """
    skipped = list[str]()
    found = find_results(map(Path, runs), skipped.append)
    if not found.runs and not found.comparisons:
        first = f" ({skipped[0].removesuffix('; skipped')})" if skipped else ""
        raise DataError(f"there is nothing to report on; name at least one folder of a finished run{first}")
    for line in skipped:
        on_skip(line)
    return write_page(lambda: render_page(list(found.runs.values()), list(found.comparisons.values())), Path(out))


def write_page(render: Callable[[], str], out: Path) -> Path:
    """Write a page in place of what was there.

    Raises:
        HPNError: If it cannot be written.
    """
    if out.is_dir():
        raise HPNError(f"out is a folder, {out}: name a file, such as {out / 'report.html'}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(out, render().encode())
    except OSError as error:
        raise HPNError(f"{out} cannot be written ({error.strerror}): name another file") from error
    return out


def render_page(runs: Sequence[Run], comparisons: Sequence[Comparison] = ()) -> str:
    """Build the page of runs and comparisons."""
    groups, ids, numbers = group_runs(runs), _chart_ids(), itertools.count(1)
    modes, edges = (
        " ".join(f"{name.capitalize()}: {meaning}." for name, meaning in words.items())
        for words in (EVALUATIONS, EDGES)
    )
    is_bold = any(len(group.runs) > 1 for group in groups)
    shown = [_group_data(group, ids, [f"run-{next(numbers)}" for _ in group.runs]) for group in groups]
    return render_template(
        "report.html.j2",
        over="hpn report",
        title=headline([*(run.result for run in runs), *comparisons]),
        lead=lead(len(runs), len(groups)),
        summary=_summary(groups) if runs else None,
        summary_note="Bold: the best mean among runs of the same setting." if is_bold else "",
        comparisons=[_comparison_data(comparison) for comparison in comparisons],
        groups=shown,
        explorers=[explorer_data(run.exploration, n) for n, run in enumerate(runs, 1) if run.exploration],
        terms=[*terms(runs), ("Evaluation", f"What is known about a test node. {modes}"), ("Edges", edges)],
    )


def _chart_ids() -> Iterator[str]:
    return (f"chart-{number}" for number in itertools.count(1))


def comparison_page(comparison: Comparison) -> str:
    """Build the page of what :func:`hpn.compare` gives."""
    rows = comparison.rows
    methods, ids = plural(len({row.method for row in rows}), "method"), _chart_ids()
    return render_template(
        "comparison.html.j2",
        over="hpn comparison",
        title=f"Methods compared on {comparison.dataset}",
        lead=f"{plural(len(rows), 'cell')} of {methods}, {plural(len(comparison.seeds), 'seed')} each: "
        "accuracy, retention and cost.",
        explanation=explanation(comparison),
        comparison=_comparison_data(comparison),
        pictures=[_picture(chart, next(ids)) for chart in comparison_charts(comparison)],
        command=comparison.command,
        terms=[*metric_terms(compared_metrics(comparison)), TERMS[-1], STORED_TERM],
    )


def explorer_page(exploration: Exploration, title: str) -> str:
    """Build the page of a model and a graph: the node explorer alone."""
    explorers = [explorer_data(exploration)]
    return render_template("explorer.html.j2", over="hpn report", title=title, lead="", explorers=explorers)


def explorer_data(exploration: Exploration, number: int = 1) -> dict[str, Any]:
    """The values of the explorer's template; ``number`` distinguishes several on a page."""
    caption = describe_exploration(exploration)
    return {"id": f"explorer-{number}", "data": exploration.to_json(), "caption": caption}


def render_template(name: str, **content: Any) -> str:
    """Fill a template, and add what every page has: policy, style and scripts."""
    has_explorer = bool(content.get("explorers"))
    style = _asset("page.css") + (_asset("explorer.css") if has_explorer else "")
    scripts = ["" if name == "explorer.html.j2" else _asset("vega.js"), _asset("page.js")]
    scripts += [_asset("explorer.js")] if has_explorer else []
    policy = (
        f"default-src 'none'; style-src 'sha256-{_digest(style)}'; "
        f"script-src {' '.join(f'{chr(39)}sha256-{_digest(script)}{chr(39)}' for script in scripts)}"
    )
    return (
        _environment()
        .get_template(name)
        .render(
            policy=policy,
            style=style,
            scripts=scripts,
            themes={"light": LIGHT.config(), "dark": DARK.config()},
            markers=list(MARKERS.values()),
            dashes=[" ".join(map(str, dash)) for dash in DASHES],
            **content,
        )
    )


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("hpn.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: clean(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@functools.cache
def _asset(name: str) -> str:
    text = (files("hpn.report") / "templates" / name).read_text(encoding="utf-8")
    if name == "page.css":
        series = [
            "".join(f".s{i}{{color:{colour}}}" for i, colour in enumerate(theme.series)) for theme in (LIGHT, DARK)
        ]
        text = text.replace("@SERIES", f"{series[0]}\n@media screen and (prefers-color-scheme:dark){{{series[1]}}}")
    return text


@functools.cache
def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _picture(chart: alt.TopLevelMixin, number: str) -> dict[str, Any]:
    """A chart on a page: its caption, and its specification without title and legend, which the page shows."""
    spec = chart_spec(chart)
    title = spec.pop("title")
    is_wide = isinstance(spec.get("width"), (int, float)) and spec["width"] > WIDTH
    if spec.get("width") == WIDTH:
        spec |= {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
    _drop_run_legends(spec)
    name = re.sub(r"[^a-z0-9]+", "-", title["text"].lower()).strip("-")
    about = title.get("subtitle", "")
    return {"id": number, "title": title["text"], "about": about, "spec": spec, "is_wide": is_wide, "file_name": name}


def _drop_run_legends(spec: Any) -> None:
    """Remove the legends of runs, which the page shows once above all charts."""
    if isinstance(spec, dict) and spec.get("field") == "run" and "legend" in spec:
        spec["legend"] = None
    for part in spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else ():
        _drop_run_legends(part)


def _group_data(group: RunGroup, ids: Iterator[str], run_ids: Sequence[str]) -> dict[str, Any]:
    def pictures(scope: str, of: RunGroup) -> list[dict[str, Any]]:
        figures = [figure for figure in FIGURES.values() if figure.scope == scope]
        return [_picture(chart, next(ids)) for figure in figures for chart in figure.draw(of)]

    result = group.results[0]
    return {
        "dataset": result.dataset,
        "setting": setting(result),
        "explanation": explanation(result),
        "pictures": pictures("group", group),
        "studies": pictures("study", group),
        "runs": [
            {
                **_run_data(run.result),
                "id": run_ids[i],
                "label": label,
                "style": group.domain.index(label),
                "pictures": pictures("run", group.single(i)),
            }
            for i, (run, label) in enumerate(zip(group.runs, group.labels, strict=True))
        ],
    }


def _run_data(result: RunResult) -> dict[str, Any]:
    found = [(metric, metric_of(result, metric)) for metric in shown_metrics([result])]
    return {
        "note": NOT_MEASURED[:1].upper() + NOT_MEASURED[1:] if result.is_trivial else "",
        "metrics": [(metric.label, metric_text(metric, value), metric.unit) for metric, value in found],
        "steps_title": f"{step_noun(result).capitalize()}s",
        "steps": _steps(result),
        "command": result.command,
        "facts": [
            ("Settings", " · ".join(f"{name} {value}" for name, value in result.params.items())),
            ("Seeds", ", ".join(map(str, result.seeds))),
            ("Folder", result.out),
            ("Versions", " · ".join(f"{name} {version}" for name, version in result.versions.items())),
        ],
    }


def _steps(result: RunResult) -> Grid:
    matrix, rows = result.mean_matrix(), []
    for j in range(len(matrix)):
        learned, last = matrix[j][j], matrix[-1][j]
        change = last.mean - learned.mean if learned and last else None
        rows.append(
            [
                TableCell(str(j + 1), j + 1),
                TableCell(step_text(result, j), css="text"),
                TableCell(spread(learned), learned.mean if learned else ""),
                TableCell(spread(last), last.mean if last else ""),
                TableCell(decimal(change, signed=True), "" if change is None else change),
            ]
        )
    return Grid([TableCell(text) for text in ("#", "Classes", "Learned", "End", "Change")], [Body(rows)])


def _summary(groups: Sequence[RunGroup]) -> Grid:
    """One row per run; seconds are per seed, as in the charts."""
    metrics = shown_metrics(result for group in groups for result in group.results)
    heads = [TableCell("Run"), *(TableCell(metric.label, sub=metric.unit) for metric in metrics)]
    costs = {"Parameters": "", "Prototypes": "of at most", "Fit": "s per seed", "Predict": "s per seed"}
    heads += [TableCell(text, sub=sub) for text, sub in {**costs, "Memory": "peak, MB"}.items()]
    numbers = itertools.count(1)
    bodies = []
    for group in groups:
        best = {m.name: best_value(m, [metric_of(result, m) for result in group.results]) for m in metrics}
        rows = [
            _summary_row(result, label, f"#run-{next(numbers)}", metrics, best)
            for result, label in zip(group.results, group.labels, strict=True)
        ]
        result = group.results[0]
        bodies.append(Body(rows, result.dataset, " · ".join(setting(result))))
    return Grid(heads, bodies)


def _summary_row(
    result: RunResult, label: str, href: str, metrics: Iterable[Metric], best: dict[str, float | None]
) -> list[TableCell]:
    cells = [TableCell(label, label, sub=[plural(len(result.seeds), "seed")], href=href)]
    for metric in metrics:
        value = metric_of(result, metric)
        is_best = value is not None and value.mean == best[metric.name]
        cells.append(TableCell(metric_text(metric, value), value.mean if value else "", is_best=is_best))
    limit = [] if result.parameter_bound is None else [f"≤ {bound_text(result.parameter_bound)}"]
    cells.append(TableCell(count(result.parameters), result.parameters or "", limit))
    bounds = result.bounds or {}
    levels = [
        f"{level} {count(num)}" + (f" / {bound_text(bounds[level])}" if level in bounds else "")
        for level, num in (result.prototypes or {}).items()
    ]
    total = sum((result.prototypes or {}).values())
    cells.append(TableCell("" if levels else MISSING, total or "", levels, css="num proto"))
    seconds = result.seconds_per_seed()
    amounts = [*((seconds.fit, seconds.predict) if seconds else (None, None)), result.peak_rss_mb]
    return [*cells, *(TableCell(quantity(amount), "" if amount is None else amount) for amount in amounts)]


def _comparison_data(comparison: Comparison) -> dict[str, Any]:
    columns = table_columns(comparison)
    rows = []
    for number, row in enumerate(comparison.rows):
        cells = [TableCell(row_label(row), row_label(row))]
        if row.error:
            cells.append(TableCell(f"failed: {row.error}", "", css="text", span=len(columns)))
        else:
            cells += [TableCell(c.cell(row), c.number(row), is_best=number in c.best) for c in columns]
        rows.append(cells)
    heads = [TableCell("Method"), *(TableCell(column.head, sub=column.unit) for column in columns)]
    return {
        "dataset": comparison.dataset,
        "setting": setting(comparison),
        "table": Grid(heads, [Body(rows)]),
        "notes": [*table_notes(comparison), PARAMETERS_REMARK],
    }
