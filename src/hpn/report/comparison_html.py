"""The page of a comparison: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hpn.report.comparison_chart import STYLES, Interval, intervals_svg
from hpn.report.comparison_table import (
    PARAMETERS_REMARK,
    Column,
    Comparison,
    Row,
    best_rows,
    row_label,
    table_columns,
    table_notes,
)
from hpn.report.format import esc
from hpn.report.page import frame_page
from hpn.report.svg import swatch
from hpn.report.wording import TERMS, explanation, plural, setting

_TERMS = (
    *(term for term in TERMS if term[0] in {"AM", "FM", "ARS", "±"}),
    (
        "Stored",
        "Every number a method must keep between tasks: weights, importances, old copies, buffers, "
        "prototypes; for joint training all the data seen.",
    ),
)


def comparison_html(comparison: Comparison) -> str:
    """Build the page from what :func:`hpn.compare` gives."""
    rows = comparison["rows"]
    title = f"Methods compared on {comparison['dataset']}"
    chips = "".join(f"<li>{esc(text)}</li>" for text in setting(comparison))
    lead = f"{plural(len(rows), 'cell')} of {plural(len({row['method'] for row in rows}), 'method')}, "
    lead += (
        f"{plural(len(comparison['seeds']), 'seed')} each: what each learned, what it kept, and what it cost."
    )
    body = (
        f'<header><p class="over">hpn comparison</p><h1>{esc(title)}</h1><p class="lead">{esc(lead)}</p>'
        f'<ul class="chips">{chips}</ul><p class="note">{esc(explanation(comparison))}</p></header>'
        f"<main>{_table(comparison)}{_charts(comparison)}{_again(comparison)}{_terms()}</main>"
    )
    return frame_page(title, body)


def _table(comparison: Comparison) -> str:
    columns = table_columns(comparison)
    best = best_rows(comparison)
    head = "".join(
        f'<th scope="col" class="num">{esc(column.head)}<small>{esc(column.unit)}</small></th>'
        for column in columns
    )
    groups: dict[str, list[str]] = {}
    for number, row in enumerate(comparison["rows"]):
        groups.setdefault(row["method"], []).append(_row(row, columns, is_best=number in best))
    bodies = "".join(f"<tbody>{''.join(rows)}</tbody>" for rows in groups.values())
    notes = "".join(
        f'<p class="note">{esc(note)}</p>' for note in (*table_notes(comparison), PARAMETERS_REMARK)
    )
    return (
        '<section aria-labelledby="table"><h2 id="table">Table</h2>'
        '<div class="sum card scroll" tabindex="0" role="region" aria-labelledby="table">'
        f'<table><thead><tr><th scope="col">Method</th>{head}</tr></thead>{bodies}</table></div>'
        f"{notes}</section>"
    )


def _row(row: Row, columns: list[Column], *, is_best: bool) -> str:
    if row["error"]:
        cells = f'<td colspan="{len(columns)}">failed: {esc(row["error"])}</td>'
    else:
        marks = [" best" if is_best and column.head == "AM" else "" for column in columns]
        cells = "".join(
            f'<td class="num{mark}">{esc(column.cell(row))}</td>'
            for mark, column in zip(marks, columns, strict=True)
        )
    return f'<tr><th scope="row">{esc(row_label(row))}</th>{cells}</tr>'


def _charts(comparison: Comparison) -> str:
    rows = [row for row in comparison["rows"] if row["am"] or row["published"]]
    if not rows:
        return ""
    paper = "; filled: ours, hollow: the paper’s" if any(row["published"] for row in rows) else ""
    figures = _figure("Accuracy mean (AM), per cent", "right is better" + paper, rows, "am", ceiling=100.0)
    if any(row["fm"] for row in rows):
        forgets = [row for row in rows if row["fm"] or _published(row, "fm")]
        figures += _figure("Forgetting mean (FM), points", "negative: forgotten" + paper, forgets, "fm")
    return (
        f'<section><h2>Charts</h2><ul class="key">{_key(rows)}</ul><div class="grid">{figures}</div>'
        '<p class="note">Lines are ± one standard deviation over seeds.</p></section>'
    )


def _key(rows: list[Row]) -> str:
    """Markers of the backbones."""
    shown = [name for name in STYLES if any(row["backbone"] == name for row in rows)]
    return "".join(
        '<li><svg class="hpn" aria-hidden="true" width="26" height="14" viewBox="0 -7 26 14">'
        f"{swatch(STYLES[name])}</svg>{esc(name or 'no backbone')}</li>"
        for name in shown
    )


def _figure(head: str, sub: str, rows: list[Row], metric: str, **options: Any) -> str:
    intervals = [
        Interval(row_label(row), row["backbone"], row[metric], _published(row, metric)) for row in rows
    ]
    svg = intervals_svg(intervals, title=head, standalone=False, **options)
    return (
        f'<figure class="card"><figcaption>{esc(head)}<span>{esc(sub)}</span></figcaption>'
        f'<div class="fill">{svg}</div></figure>'
    )


def _published(row: Row, metric: str) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = (row["published"] or {}).get(metric)
    return found


def _again(comparison: Comparison) -> str:
    return (
        '<section><h2>Run it again</h2><div class="again">'
        f"<pre><code>{esc(comparison['command'])}</code></pre></div></section>"
    )


def _terms() -> str:
    rows = "".join(f"<dt>{esc(term)}</dt><dd>{esc(meaning)}</dd>" for term, meaning in _TERMS)
    return f'<section><h2>How to read this</h2><dl class="terms card">{rows}</dl></section>'
