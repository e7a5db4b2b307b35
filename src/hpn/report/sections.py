"""Parts of the page: the summary table, the charts of a group, the details of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpn.experiment.run.result import RunResult
from hpn.metrics import Metric
from hpn.report.cards import figure_card, plot_box, swatch_icon
from hpn.report.figures import views_svg
from hpn.report.format import MISSING, count, decimal, esc, metric_text, quantity, spread
from hpn.report.group_charts import group_charts
from hpn.report.growth import bound_text
from hpn.report.heatmap import MAX_ROOMY, matrix_svg
from hpn.report.results import Run, best_value, label_results, metric_of, shown_metrics, step_noun, step_text
from hpn.report.studies import sensitivity_block
from hpn.report.wording import NOT_MEASURED, explanation, plural, setting

_COSTS = {
    "Parameters": "",
    "Prototypes": "of at most",
    "Fit": "s",
    "Predict": "s",
    "Total": "s",
    "Memory": "peak, MB",
}


@dataclass(frozen=True)
class Group:
    """Comparable runs with their names, and the number of the first one on the page."""

    runs: Sequence[Run]
    first: int

    @property
    def results(self) -> list[RunResult]:
        """Their results."""
        return [run.result for run in self.runs]

    @property
    def labels(self) -> list[str]:
        """Their names."""
        return label_results(self.results)


def summary_section(groups: Sequence[Group]) -> str:
    """Build the table with one row per run."""
    metrics = shown_metrics(result for group in groups for result in group.results)
    heads = {metric.label: metric.unit for metric in metrics} | _COSTS
    head = "".join(
        f'<th scope="col" class="num">{esc(name)}{f"<small>{esc(unit)}</small>" if unit else ""}</th>'
        for name, unit in heads.items()
    )
    bodies = "".join(_summary_body(group, metrics) for group in groups)
    bold = any(len(group.runs) > 1 for group in groups)
    note = "Bold: the best mean among runs of the same setting." if bold else ""
    return (
        '<section aria-labelledby="summary"><h2 id="summary">Summary</h2>'
        '<div class="sum card scroll" tabindex="0" role="region" aria-labelledby="summary">'
        f'<table><thead><tr><th scope="col">Run</th>{head}</tr></thead>{bodies}</table></div>'
        f'<p class="note">{note}</p></section>'
    )


def group_section(group: Group) -> str:
    """Build the charts of comparable runs, and the details of each."""
    result = group.results[0]
    chips = "".join(f"<li>{esc(text)}</li>" for text in setting(result))
    key = "".join(
        f'<li>{swatch_icon(style)}<a href="#run-{group.first + style}">{esc(label)}</a></li>'
        for style, label in enumerate(group.labels)
    )
    runs = "".join(
        _run(run, label, style, group.first + style)
        for style, (run, label) in enumerate(zip(group.runs, group.labels, strict=True))
    )
    return (
        f'<section><h2>{esc(result.dataset)}</h2><ul class="chips">{chips}</ul>'
        f'<p class="note">{esc(explanation(result))}</p>'
        f'<ul class="key">{key}</ul><div class="grid">{group_charts(group.results)}</div>'
        f"{sensitivity_block(group.results)}{runs}</section>"
    )


def _summary_body(group: Group, metrics: Sequence[Metric]) -> str:
    best = {
        metric.name: best_value(metric, [metric_of(result, metric) for result in group.results])
        for metric in metrics
    }
    result = group.results[0]
    rows = "".join(
        _summary_row(result, label, group.first + i, metrics, best)
        for i, (result, label) in enumerate(zip(group.results, group.labels, strict=True))
    )
    return (
        f'<tbody><tr><th class="set" scope="rowgroup" colspan="{1 + len(metrics) + len(_COSTS)}"><span>'
        f"<b>{esc(result.dataset)}</b> · {esc(' · '.join(setting(result)))}</span></th></tr>"
        f"{rows}</tbody>"
    )


def _summary_row(
    result: RunResult, label: str, number: int, metrics: Sequence[Metric], best: Mapping[str, float | None]
) -> str:
    cells = []
    for metric in metrics:
        value = metric_of(result, metric)
        mark = " best" if value is not None and value.mean == best[metric.name] else ""
        cells.append(f'<td class="num{mark}">{metric_text(metric, value)}</td>')
    seconds = result.seconds
    numbers = [quantity(getattr(seconds, part, None)) for part in ("fit", "predict", "total")]
    limit = (
        "" if result.parameter_bound is None else f"<br><small>≤ {bound_text(result.parameter_bound)}</small>"
    )
    cells.append(f'<td class="num">{count(result.parameters)}{limit}</td>')
    cells.append(f'<td class="num proto">{_prototypes(result)}</td>')
    cells += [f'<td class="num">{text}</td>' for text in (*numbers, quantity(result.peak_rss_mb))]
    return (
        f'<tr><th scope="row"><a href="#run-{number}">{esc(label)}</a>'
        f"<small>{plural(len(result.seeds), 'seed')}</small></th>{''.join(cells)}</tr>"
    )


def _prototypes(result: RunResult) -> str:
    lines = []
    for level, num in (result.prototypes or {}).items():
        limit = f" / {bound_text(result.bounds[level])}" if result.bounds and level in result.bounds else ""
        lines.append(f"<small>{esc(level)}</small> {count(num)}{limit}")
    return "<br>".join(lines) or MISSING


def _run(run: Run, label: str, style: int, number: int) -> str:
    result = run.result
    num_steps = len(result.steps)
    title = f"Accuracy matrix, {label} on {result.dataset}"
    svg = matrix_svg(result, title=title, standalone=False)
    matrix = plot_box(svg, title, keeps_size=num_steps > MAX_ROOMY)
    sub = "per cent, mean over seeds"
    if len(result.matrices[0][0]) > 1:
        sub += f"; outlined: {step_noun(result)}s still to come"
    tall = " tall" if num_steps > MAX_ROOMY else ""
    return (
        f'<article class="run card" id="run-{number}"><header>{swatch_icon(style)}<h3>{esc(label)}</h3>'
        f'<p>{_metrics(result)}</p></header><div class="two{tall}">'
        f"{figure_card('Accuracy matrix', sub, matrix, css='')}{_steps(result)}</div>"
        f"{_views(run, label)}{_command(result)}{_facts(result)}</article>"
    )


def _metrics(result: RunResult) -> str:
    if result.is_trivial:
        return esc(NOT_MEASURED[:1].upper() + NOT_MEASURED[1:])
    return " · ".join(
        f"{esc(metric.label)} <b>{metric_text(metric, metric_of(result, metric))}</b> {esc(metric.unit)}"
        for metric in shown_metrics([result])
    )


def _views(run: Run, label: str) -> str:
    views = run.first_views
    if not views or run.views is None:
        return ""
    sub = (
        f"t-SNE, seed {run.views.seeds[0]}; at the end: silhouette {decimal(views[-1].silhouette, 2)}, "
        f"{decimal(views[-1].neighbors)} % of the nodes among their own class"
    )
    title = f"t-SNE of the test nodes, {label}"
    box = plot_box(views_svg(run, title=title, standalone=False), title)
    return f'<div class="views">{figure_card("Test nodes as the learner sees them", sub, box, css="")}</div>'


def _steps(result: RunResult) -> str:
    matrix = result.mean_matrix()
    rows = []
    for j in range(len(matrix)):
        learned, last = matrix[j][j], matrix[-1][j]
        change = last.mean - learned.mean if learned and last else None
        rows.append(
            f'<tr><th scope="row" class="num">{j + 1}</th><td>{esc(step_text(result, j))}</td>'
            f'<td class="num">{spread(learned)}</td><td class="num">{spread(last)}</td>'
            f'<td class="num">{decimal(change, signed=True)}</td></tr>'
        )
    name = f"{step_noun(result).capitalize()}s"
    return (
        f"<div><h4>{name}<span>accuracy just after learning and at the end, per cent</span></h4>"
        f'<div class="tasks" tabindex="0" role="region" aria-label="{name}"><table><thead><tr>'
        '<th scope="col" class="num">#</th><th scope="col">Classes</th>'
        '<th scope="col" class="num">Learned</th><th scope="col" class="num">End</th>'
        f'<th scope="col" class="num">Change</th></tr></thead><tbody>{"".join(rows)}</tbody>'
        "</table></div></div>"
    )


def _command(result: RunResult) -> str:
    if not result.command:
        return ""
    return f'<div class="again"><h4>Run it again</h4><pre><code>{esc(result.command)}</code></pre></div>'


def _facts(result: RunResult) -> str:
    facts = (
        ("Settings", " · ".join(f"{name} {value}" for name, value in result.params.items())),
        ("Seeds", ", ".join(map(str, result.seeds))),
        ("Folder", result.out),
        ("Versions", " · ".join(f"{name} {version}" for name, version in result.versions.items())),
    )
    rows = "".join(f"<dt>{name}</dt><dd>{esc(value)}</dd>" for name, value in facts if value)
    return f'<dl class="facts">{rows}</dl>'
