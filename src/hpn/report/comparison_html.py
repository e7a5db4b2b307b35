"""The page of a comparison: one HTML file that needs nothing else."""

from __future__ import annotations

import math

from hpn.experiment.compare.result import Comparison, ComparisonRow
from hpn.metrics import Metric
from hpn.report.cards import figure_card, plot_box, swatch_icon
from hpn.report.comparison_chart import STYLES, Interval, intervals_svg
from hpn.report.comparison_table import (
    PARAMETERS_REMARK,
    Column,
    compared_metrics,
    paper_value,
    row_label,
    table_columns,
    table_notes,
)
from hpn.report.format import esc
from hpn.report.page import frame_page
from hpn.report.wording import STORED_TERM, TERMS, explanation, metric_terms, plural, setting


def comparison_html(comparison: Comparison) -> str:
    """Build the page from what :func:`hpn.compare` gives."""
    rows = comparison.rows
    title = f"Methods compared on {comparison.dataset}"
    chips = "".join(f"<li>{esc(text)}</li>" for text in setting(comparison))
    lead = (
        f"{plural(len(rows), 'cell')} of {plural(len({row.method for row in rows}), 'method')}, "
        f"{plural(len(comparison.seeds), 'seed')} each: what each learned, what it kept, and what it cost."
    )
    body = (
        f'<header><p class="over">hpn comparison</p><h1>{esc(title)}</h1><p class="lead">{esc(lead)}</p>'
        f'<ul class="chips">{chips}</ul><p class="note">{esc(explanation(comparison))}</p></header>'
        f'<main><section aria-labelledby="table"><h2 id="table">Table</h2>{_table(comparison, "table")}'
        f"</section>{_charts(comparison)}{_again(comparison)}{_terms(comparison)}</main>"
    )
    return frame_page(title, body)


def comparison_section(comparison: Comparison, name: str) -> str:
    """The table as a section of another page, under a name of its own."""
    chips = "".join(f"<li>{esc(text)}</li>" for text in setting(comparison))
    return (
        f'<section aria-labelledby="{name}"><h2 id="{name}">Methods compared on {esc(comparison.dataset)}'
        f'</h2><ul class="chips">{chips}</ul>{_table(comparison, name)}</section>'
    )


def _table(comparison: Comparison, name: str) -> str:
    columns = table_columns(comparison)
    head = "".join(
        f'<th scope="col" class="num">{esc(column.head)}<small>{esc(column.unit)}</small></th>'
        for column in columns
    )
    groups: dict[str, list[str]] = {}
    for number, row in enumerate(comparison.rows):
        groups.setdefault(row.method, []).append(_row(row, number, columns))
    bodies = "".join(f"<tbody>{''.join(rows)}</tbody>" for rows in groups.values())
    notes = "".join(
        f'<p class="note">{esc(note)}</p>' for note in (*table_notes(comparison), PARAMETERS_REMARK)
    )
    return (
        f'<div class="sum card scroll" tabindex="0" role="region" aria-labelledby="{name}">'
        f'<table><thead><tr><th scope="col">Method</th>{head}</tr></thead>{bodies}</table></div>{notes}'
    )


def _row(row: ComparisonRow, number: int, columns: list[Column]) -> str:
    if row.error:
        cells = f'<td colspan="{len(columns)}">failed: {esc(row.error)}</td>'
    else:
        cells = "".join(
            f'<td class="num{" best" if number in column.best else ""}">{esc(column.cell(row))}</td>'
            for column in columns
        )
    return f'<tr><th scope="row">{esc(row_label(row))}</th>{cells}</tr>'


def _charts(comparison: Comparison) -> str:
    figures = "".join(_figure(comparison, metric) for metric in compared_metrics(comparison))
    if not figures:
        return ""
    backbones = {row.backbone for row in comparison.rows}
    key = "".join(
        f"<li>{swatch_icon(style)}{esc(name or 'no backbone')}</li>"
        for name, style in STYLES.items()
        if name in backbones
    )
    return (
        f'<section><h2>Charts</h2><ul class="key">{key}</ul><div class="grid">{figures}</div>'
        '<p class="note">Lines are ± one standard deviation over seeds.</p></section>'
    )


def _figure(comparison: Comparison, metric: Metric) -> str:
    intervals = [
        Interval(row_label(row), row.backbone, row.metrics.get(metric.name), paper_value(row, metric))
        for row in comparison.rows
    ]
    known = [interval for interval in intervals if interval.ours or interval.paper]
    head = f"{metric.label}, {metric.unit}"
    sub = f"{metric.definition}; {'right' if metric.higher_is_better else 'left'} is better"
    if any(interval.paper for interval in known):
        sub += "; filled: ours, hollow: the paper’s"
    ceiling = 100.0 if metric.name == "am" else math.inf
    svg = intervals_svg(known, title=head, ceiling=ceiling, standalone=False)
    return figure_card(head, sub, plot_box(svg, head))


def _again(comparison: Comparison) -> str:
    return (
        '<section><h2>Run it again</h2><div class="again">'
        f"<pre><code>{esc(comparison.command)}</code></pre></div></section>"
    )


def _terms(comparison: Comparison) -> str:
    known = [*metric_terms(compared_metrics(comparison)), TERMS[-1], STORED_TERM]
    rows = "".join(f"<dt>{esc(term)}</dt><dd>{esc(meaning)}</dd>" for term, meaning in known)
    return f'<section><h2>How to read this</h2><dl class="terms card">{rows}</dl></section>'
