"""A comparison of methods: its table, the notes below it, and both as CSV, Markdown and HTML."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hpn.experiment.compare.result import Comparison, ComparisonRow
from hpn.experiment.published import Spread
from hpn.experiment.run.folder import write_atomic
from hpn.metrics import METRICS, Metric, Summary
from hpn.report.format import MISSING, count, decimal, markdown_table, metric_text, pairs, plain_markdown, quantity
from hpn.report.results import best_value, method_name, step_noun
from hpn.report.wording import setting

NAME = "comparison"

PARAMETERS_REMARK = (
    "The paper’s amounts are those of its table of final parameters on OGB-Products, printed next to ours for "
    "orientation. That table is not consistent with the paper’s text: 2,336 for GCN is 100·16 + 16·46, a "
    "46-way head without biases, where the text states a shared two-way head; EWC is 20 times that, TWP 4 "
    "times, LwF twice, MAS once. Ours, “stored”, counts every number kept between tasks (weights, "
    "importances, old copies, buffers, prototypes; for joint training all the data seen), by one rule for "
    "all methods."
)


@dataclass(frozen=True)
class ComparisonColumn:
    """A column of the table that people read."""

    label: str
    unit: str
    value: Callable[[ComparisonRow], Summary | Spread | float | None]
    text: Callable[[Any], str] = count
    best: frozenset[int] = frozenset()  # numbers of the best rows

    def cell(self, row: ComparisonRow) -> str:
        """Its text in a row."""
        return self.text(self.value(row))

    def number(self, row: ComparisonRow) -> float | None:
        """The value it is sorted by."""
        value = self.value(row)
        return value.mean if isinstance(value, (Summary, Spread)) else value


def table_columns(comparison: Comparison) -> list[ComparisonColumn]:
    """Columns to show: metrics that have values, the paper's where it has some, and costs."""
    rows, amounts = comparison.rows, comparison.published_parameters.values
    columns = []
    for metric in compared_metrics(comparison):
        text, ours, paper = partial(metric_text, metric), partial(metric_value, metric), partial(paper_value, metric)
        columns.append(ComparisonColumn(metric.label, metric.unit, ours, text, best_rows(rows, metric)))
        if any(map(paper, rows)):
            unit = f"{metric.label}, %" if metric.unit == "%" else metric.label
            columns.append(ComparisonColumn("paper", unit, paper, text))
            if metric.name == "am":
                columns.append(ComparisonColumn("Δ", "AM", lambda row: row.difference, partial(decimal, signed=True)))
    columns.append(ComparisonColumn("parameters", "", lambda row: row.parameters))
    columns.append(ComparisonColumn("stored", "numbers", lambda row: row.stored))
    if amounts:
        columns.append(ComparisonColumn("paper", "OGB-Products", lambda row: amounts.get(row.name)))
    return [*columns, ComparisonColumn("seconds", "per seed", _seconds, quantity)]


def compared_metrics(comparison: Comparison) -> list[Metric]:
    """The metrics that any row, or the paper for it, has a value of."""
    return [
        metric
        for metric in METRICS.values()
        if any(metric_value(metric, row) or paper_value(metric, row) for row in comparison.rows)
    ]


def metric_value(metric: Metric, row: ComparisonRow) -> Summary | None:
    """What was measured for a cell."""
    return row.metrics.get(metric.name)


def paper_value(metric: Metric, row: ComparisonRow) -> Spread | None:
    """What the paper reports for a cell."""
    found: Spread | None = getattr(row.published, metric.name, None)
    return found


def row_cells(row: ComparisonRow, columns: Sequence[ComparisonColumn]) -> list[str]:
    """Texts of a row; only the word ``failed`` for one that failed."""
    if row.error:
        return ["failed", *[MISSING] * (len(columns) - 1)]
    return [column.cell(row) for column in columns]


def _seconds(row: ComparisonRow) -> float | None:
    return row.seconds.fit + row.seconds.predict if row.seconds else None


def table_notes(comparison: Comparison) -> list[str]:
    """The notes below the table."""
    notes = [
        "; ".join(metric.describe(step_noun(comparison)) for metric in compared_metrics(comparison)),
        "Seconds to fit and to predict, the mean over seeds; runs at the same time shared the machine.",
    ]
    if any(column.best for column in table_columns(comparison)):
        notes.append("Bold: the best of the methods that do not see earlier tasks again.")
    return [*filter(None, notes), paper_note(comparison), PARAMETERS_REMARK]


def paper_note(comparison: Comparison) -> str:
    """The source of the paper's numbers, or why there are none."""
    if comparison.note:
        return f"The paper’s AM and FM are left out: {comparison.note}."
    source = comparison.published_source
    return f"“paper”: {source}; mean and standard deviation over its repetitions. Δ: ours − paper."


def failures(comparison: Comparison) -> list[str]:
    """One line per cell that failed."""
    return [f"{row_label(row)} failed: {row.error}" for row in comparison.rows if row.error]


def best_rows(rows: Sequence[ComparisonRow], metric: Metric) -> frozenset[int]:
    """Numbers of the rows that are best in a metric, joint training aside, if there are two to compare."""
    found = {n: value for n, row in enumerate(rows) if not row.sees_past and (value := metric_value(metric, row))}
    top = best_value(metric, found.values())
    return frozenset(n for n, value in found.items() if value.mean == top)


def row_label(row: ComparisonRow) -> str:
    """Method and backbone."""
    return method_name(row.method, row.backbone)


def write_comparison(comparison: Comparison, out: Path | str | None = None) -> list[Path]:
    """Write ``comparison.csv``, ``comparison.md`` and ``comparison.html``.

    Args:
        comparison: The result of :func:`hpn.compare`.
        out: Folder; by default the comparison's own, where its ``comparison.json`` is.

    Returns:
        The three files.
    """
    from hpn.report.page import comparison_page

    folder = Path(out or comparison.out)
    folder.mkdir(parents=True, exist_ok=True)
    writers = {"csv": comparison_csv, "md": comparison_markdown, "html": comparison_page}
    for kind, write in writers.items():
        write_atomic(folder / f"{NAME}.{kind}", write(comparison).encode())
    return [folder / f"{NAME}.{kind}" for kind in writers]


def comparison_csv(comparison: Comparison) -> str:
    """One line per cell with every number in full precision; fields that do not apply are empty."""
    records = [_record(row, comparison) for row in comparison.rows]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def comparison_markdown(comparison: Comparison) -> str:
    """The table with its notes, for a README or an issue."""
    columns, rows = table_columns(comparison), []
    for number, row in enumerate(comparison.rows):
        cells = zip(row_cells(row, columns), columns, strict=True)
        texts = [f"**{text}**" if number in column.best else text for text, column in cells]
        rows.append([plain_markdown(row_label(row)), *texts])
    heads = ["method", *(f"{column.label} ({column.unit})" if column.unit else column.label for column in columns)]
    parts = [
        f"# Methods compared on {plain_markdown(comparison.dataset)}",
        f"{', '.join(setting(comparison))}; seeds {', '.join(map(str, comparison.seeds))}.",
        markdown_table(heads, rows, "l"),
        *table_notes(comparison),
        "\n".join(f"- {plain_markdown(line)}" for line in failures(comparison)),
        f"Repeat it:\n\n```\n{comparison.command}\n```\n",
    ]
    return "\n\n".join(filter(None, parts))


def _record(row: ComparisonRow, comparison: Comparison) -> dict[str, object]:
    ours = dict(pair for name, metric in METRICS.items() for pair in _both(name, metric_value(metric, row)))
    paper = dict(pair for name in ("am", "fm") for pair in _both(f"paper_{name}", paper_value(METRICS[name], row)))
    return {
        "method": row.method,
        "backbone": row.backbone,
        **ours,
        "parameters": row.parameters,
        "stored": row.stored,
        "prototypes": pairs(row.prototypes or {}, "=", " "),
        "fit_seconds": row.seconds and row.seconds.fit,
        "predict_seconds": row.seconds and row.seconds.predict,
        "seeds": " ".join(map(str, comparison.seeds)),
        "recipe": row.recipe,
        **paper,
        "difference_am": row.difference,
        "paper_parameters_ogbn_products": comparison.published_parameters.values.get(row.name),
        "run": row.run,
        "error": row.error,
    }


def _both(name: str, value: Summary | Spread | None) -> list[tuple[str, float | None]]:
    mean, std = (value.mean, value.std) if value else (None, None)
    return [(f"{name}_mean", mean), (f"{name}_std", std)]
