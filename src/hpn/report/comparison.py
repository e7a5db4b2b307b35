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
from hpn.report.format import MISSING, count, decimal, metric_text, plain_markdown, quantity
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
    rows = comparison.rows
    amounts = comparison.published_parameters.values
    columns = []
    for metric in compared_metrics(comparison):
        columns.append(_metric_column(comparison, metric))
        if any(paper_value(row, metric) for row in rows):
            columns.append(_paper_column(metric))
            if metric.name == "am":
                columns.append(ComparisonColumn("Δ", "AM", lambda row: row.difference, partial(decimal, signed=True)))
    columns += [
        ComparisonColumn("parameters", "", lambda row: row.parameters),
        ComparisonColumn("stored", "numbers", lambda row: row.stored),
    ]
    if amounts:
        columns.append(ComparisonColumn("paper", "OGB-Products", lambda row: amounts.get(row.name)))
    return [*columns, ComparisonColumn("seconds", "per seed", _seconds, quantity)]


def compared_metrics(comparison: Comparison) -> list[Metric]:
    """The metrics that any row, or the paper for it, has a value of."""
    return [
        metric
        for name, metric in METRICS.items()
        if any(row.metrics.get(name) or paper_value(row, metric) for row in comparison.rows)
    ]


def _metric_column(comparison: Comparison, metric: Metric) -> ComparisonColumn:
    return ComparisonColumn(
        metric.label,
        metric.unit,
        lambda row: row.metrics.get(metric.name),
        partial(metric_text, metric),
        best_rows(comparison.rows, metric),
    )


def _paper_column(metric: Metric) -> ComparisonColumn:
    unit = f"{metric.label}, %" if metric.unit == "%" else metric.label
    return ComparisonColumn("paper", unit, lambda row: paper_value(row, metric), partial(metric_text, metric))


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
    return [*filter(None, notes), paper_note(comparison)]


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
    values = {
        number: value
        for number, row in enumerate(rows)
        if not row.sees_past and (value := row.metrics.get(metric.name))
    }
    top = best_value(metric, values.values())
    return frozenset(number for number, value in values.items() if value.mean == top)


def row_label(row: ComparisonRow) -> str:
    """Method and backbone."""
    return method_name(row.method, row.backbone)


def paper_value(row: ComparisonRow, metric: Metric) -> Spread | None:
    """What the paper reports for a cell."""
    found: Spread | None = getattr(row.published, metric.name, None)
    return found


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
    columns = table_columns(comparison)
    lines = [
        f"# Methods compared on {plain_markdown(comparison.dataset)}",
        "",
        f"{', '.join(setting(comparison))}; seeds {', '.join(map(str, comparison.seeds))}.",
        "",
        "| method | " + " | ".join(f"{c.label} ({c.unit})" if c.unit else c.label for c in columns) + " |",
        "|---|" + "--:|" * len(columns),
    ]
    for number, row in enumerate(comparison.rows):
        cells = [
            f"**{text}**" if number in column.best else text
            for text, column in zip(row_cells(row, columns), columns, strict=True)
        ]
        lines.append(f"| {' | '.join([plain_markdown(row_label(row)), *cells])} |")
    for note in (*table_notes(comparison), PARAMETERS_REMARK):
        lines += ["", note]
    lines += [f"- {plain_markdown(line)}" for line in ("", *failures(comparison)) if line]
    lines += ["", "Repeat it:", "", "```", comparison.command, "```", ""]
    return "\n".join(lines)


def _record(row: ComparisonRow, comparison: Comparison) -> dict[str, object]:
    record: dict[str, object] = {"method": row.method, "backbone": row.backbone}
    for name in METRICS:
        record |= _both(name, row.metrics.get(name))
    record |= {
        "parameters": row.parameters,
        "stored": row.stored,
        "prototypes": " ".join(f"{level}={num}" for level, num in (row.prototypes or {}).items()),
        "fit_seconds": row.seconds and row.seconds.fit,
        "predict_seconds": row.seconds and row.seconds.predict,
        "seeds": " ".join(map(str, comparison.seeds)),
        "recipe": row.recipe,
    }
    for name in ("am", "fm"):
        record |= _both(f"paper_{name}", paper_value(row, METRICS[name]))
    return record | {
        "difference_am": row.difference,
        "paper_parameters_ogbn_products": comparison.published_parameters.values.get(row.name),
        "run": row.run,
        "error": row.error,
    }


def _both(name: str, value: Summary | Spread | None) -> dict[str, object]:
    return {f"{name}_mean": value and value.mean, f"{name}_std": value and value.std}
