"""Parts of the page: the summary table, the charts of a group, the details of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpn.report.cards import figure_card, plot_box, swatch_icon
from hpn.report.figures import views_svg
from hpn.report.format import MISSING, count, decimal, esc, quantity, spread
from hpn.report.group_charts import group_charts
from hpn.report.heatmap import MAX_ROOMY, matrix_svg
from hpn.report.results import Result, class_names, first_views, label_results, mean_matrix
from hpn.report.studies import sensitivity_block
from hpn.report.wording import explanation, plural, setting

_SUMMARIES: tuple[tuple[str, Callable[[Result], Mapping[str, Any] | None]], ...] = (
    ("AM", lambda result: result["am"]),
    ("FM", lambda result: result["fm"]),
    ("ARS", lambda result: result["ars"]),
    ("Balanced AM", lambda result: (result["balanced"] or {}).get("am")),
)
_HEAD = (
    '<thead><tr><th scope="col">Run</th>'
    '<th scope="col" class="num">AM<small>%</small></th>'
    '<th scope="col" class="num">FM<small>points</small></th>'
    '<th scope="col" class="num">ARS<small>%</small></th>'
    '<th scope="col" class="num">Balanced<small>AM, %</small></th>'
    '<th scope="col" class="num">Parameters</th>'
    '<th scope="col" class="num">Prototypes<small>of at most</small></th>'
    '<th scope="col" class="num">Fit<small>s</small></th>'
    '<th scope="col" class="num">Predict<small>s</small></th>'
    '<th scope="col" class="num">Total<small>s</small></th>'
    '<th scope="col" class="num">Memory<small>peak, MB</small></th></tr></thead>'
)


@dataclass(frozen=True)
class Group:
    """Comparable results with their names, and the number of the first one on the page."""

    results: Sequence[Result]
    first: int

    @property
    def labels(self) -> list[str]:
        """Names of the results."""
        return label_results(self.results)


def summary_section(groups: Sequence[Group]) -> str:
    """Build the table with one row a run."""
    bodies = "".join(_summary_body(group) for group in groups)
    bold = any(len(group.results) > 1 for group in groups)
    note = "Bold: the highest mean among runs of the same setting." if bold else ""
    return (
        '<section aria-labelledby="summary"><h2 id="summary">Summary</h2>'
        '<div class="sum card scroll" tabindex="0" role="region" aria-labelledby="summary">'
        f'<table>{_HEAD}{bodies}</table></div><p class="note">{note}</p></section>'
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
        _run(result, label, style, group.first + style)
        for style, (result, label) in enumerate(zip(group.results, group.labels, strict=True))
    )
    return (
        f'<section><h2>{esc(result["dataset"])}</h2><ul class="chips">{chips}</ul>'
        f'<p class="note">{esc(explanation(result))}</p>'
        f'<ul class="key">{key}</ul><div class="grid">{group_charts(group.results)}</div>'
        f"{sensitivity_block(group.results)}{runs}</section>"
    )


def _summary_body(group: Group) -> str:
    tops = {
        name: max((s["mean"] for r in group.results if (s := get(r)) is not None), default=None)
        for name, get in _SUMMARIES
    }
    result = group.results[0]
    rows = "".join(
        _summary_row(result, label, group.first + i, tops if len(group.results) > 1 else {})
        for i, (result, label) in enumerate(zip(group.results, group.labels, strict=True))
    )
    return (
        f'<tbody><tr><th class="set" scope="rowgroup" colspan="11"><span>'
        f"<b>{esc(result['dataset'])}</b> · {esc(' · '.join(setting(result)))}</span></th></tr>"
        f"{rows}</tbody>"
    )


def _summary_row(result: Result, label: str, number: int, tops: Mapping[str, float | None]) -> str:
    cells = []
    for name, get in _SUMMARIES:
        summary = get(result)
        best = " best" if summary is not None and summary["mean"] == tops.get(name) else ""
        cells.append(f'<td class="num{best}">{spread(summary, signed=name == "FM")}</td>')
    seconds = result["seconds"] or {}
    numbers = [quantity(seconds.get(part)) for part in ("fit", "predict", "total")]
    numbers.append(quantity(result["peak_rss_mb"]))
    cells.append(f'<td class="num">{_parameters(result)}</td>')
    cells.append(f'<td class="num proto">{_prototypes(result)}</td>')
    cells += [f'<td class="num">{text}</td>' for text in numbers]
    return (
        f'<tr><th scope="row"><a href="#run-{number}">{esc(label)}</a>'
        f"<small>{plural(len(result['seeds']), 'seed')}</small></th>{''.join(cells)}</tr>"
    )


def _parameters(result: Result) -> str:
    bound = result.get("parameter_bound")
    limit = "" if bound is None else f"<br><small>≤ {count(bound)}</small>"
    return count(result["parameters"]) + limit


def _prototypes(result: Result) -> str:
    bounds = result["bounds"] or {}
    lines = []
    for level, num in (result["prototypes"] or {}).items():
        bound = bounds.get(level)
        limit = "" if bound is None else f" / {count(bound)}"
        lines.append(f"<small>{esc(level)}</small> {count(num)}{limit}")
    return "<br>".join(lines) or MISSING


def _run(result: Result, label: str, style: int, number: int) -> str:
    num_tasks = len(result["tasks"])
    title = f"Accuracy matrix, {label} on {result['dataset']}"
    svg = matrix_svg(result, title=title, standalone=False)
    matrix = plot_box(svg, title, keeps_size=num_tasks > MAX_ROOMY)
    tall = " tall" if num_tasks > MAX_ROOMY else ""
    return (
        f'<article class="run card" id="run-{number}"><header>{swatch_icon(style)}<h3>{esc(label)}</h3>'
        f"<p>AM <b>{spread(result['am'])}</b> % · FM <b>{spread(result['fm'], signed=True)}</b> · "
        f'ARS <b>{spread(result["ars"])}</b> %</p></header><div class="two{tall}">'
        f"{figure_card('Accuracy matrix', 'per cent, mean over seeds', matrix, css='')}{_tasks(result)}</div>"
        f"{_views(result, label)}{_command(result)}{_facts(result)}</article>"
    )


def _views(result: Result, label: str) -> str:
    views = first_views(result)
    if not views:
        return ""
    seed, silhouette = result["views"]["seeds"][0], decimal(views[-1].get("silhouette"), 2)
    sub = (
        f"t-SNE, seed {seed}; at the end: silhouette {silhouette}, "
        f"{decimal(views[-1].get('neighbors'))} % of the nodes among their own class"
    )
    title = f"t-SNE of the test nodes, {label}"
    box = plot_box(views_svg(result, title=title, standalone=False), title)
    return f'<div class="views">{figure_card("Test nodes as the learner sees them", sub, box, css="")}</div>'


def _tasks(result: Result) -> str:
    matrix = mean_matrix(result)
    rows = []
    for j in range(len(matrix)):
        learned, last = matrix[j][j], matrix[-1][j]
        change = last["mean"] - learned["mean"] if learned and last else None
        names = ", ".join(class_names(result, j))
        rows.append(
            f'<tr><th scope="row" class="num">{j + 1}</th><td>{esc(names)}</td>'
            f'<td class="num">{spread(learned)}</td><td class="num">{spread(last)}</td>'
            f'<td class="num">{decimal(change, signed=True)}</td></tr>'
        )
    return (
        "<div><h4>Tasks<span>accuracy just after learning and at the end, per cent</span></h4>"
        '<div class="tasks" tabindex="0" role="region" aria-label="Tasks"><table><thead><tr>'
        '<th scope="col" class="num">#</th><th scope="col">Classes</th>'
        '<th scope="col" class="num">Learned</th><th scope="col" class="num">End</th>'
        f'<th scope="col" class="num">Change</th></tr></thead><tbody>{"".join(rows)}</tbody>'
        "</table></div></div>"
    )


def _command(result: Result) -> str:
    if not result["command"]:
        return ""
    code = esc(str(result["command"]))
    return f'<div class="again"><h4>Run it again</h4><pre><code>{code}</code></pre></div>'


def _facts(result: Result) -> str:
    versions = (f"{name} {version}" for name, version in (result["versions"] or {}).items())
    params = (f"{name} {value}" for name, value in (result.get("params") or {}).items())
    facts = (
        ("Settings", " · ".join(params)),
        ("Seeds", ", ".join(str(seed) for seed in result["seeds"])),
        ("Folder", result["out"]),
        ("Versions", " · ".join(versions)),
    )
    rows = "".join(f"<dt>{name}</dt><dd>{esc(value)}</dd>" for name, value in facts if value)
    return f'<dl class="facts">{rows}</dl>'
