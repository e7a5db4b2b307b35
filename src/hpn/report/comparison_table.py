"""The table of a comparison: its columns, what is best in it, and the notes below it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hpn.experiment.compare.result import Comparison, ComparisonRow
from hpn.experiment.published import Spread
from hpn.metrics import METRICS, Metric
from hpn.report.format import MISSING, count, decimal, metric_text, quantity
from hpn.report.results import best_value, method_name, step_noun

PARAMETERS_REMARK = (
    "The paper’s amounts are those of its table of final parameters on OGB-Products, printed beside ours for "
    "orientation. That table is not consistent with the paper’s text: 2,336 for GCN is 100·16 + 16·46, a "
    "46-way head without biases, where the text says a shared two-way head; EWC is 20 times that, TWP 4 "
    "times, LwF twice, MAS once. Ours, “stored”, counts every number kept between tasks (weights, "
    "importances, old copies, buffers, prototypes; for joint training all the data seen), by one rule for "
    "all methods."
)


@dataclass(frozen=True)
class Column:
    """A column of the table that people read.

    Args:
        head: What it shows.
        unit: In what, or whose.
        cell: Its text in a row.
        best: Numbers of the rows that are best in it.
    """

    head: str
    unit: str
    cell: Callable[[ComparisonRow], str]
    best: frozenset[int] = frozenset()


def table_columns(comparison: Comparison) -> list[Column]:
    """Columns to show: metrics that have values, the paper's where it has some, and costs."""
    rows = comparison.rows
    amounts = comparison.published_parameters.values
    columns = []
    for metric in compared_metrics(comparison):
        columns.append(_metric_column(comparison, metric))
        if any(paper_value(row, metric) for row in rows):
            columns.append(_paper_column(metric))
            if metric.name == "am":
                columns.append(Column("Δ", "AM", lambda row: decimal(row.difference, signed=True)))
    columns += [
        Column("parameters", "", lambda row: count(row.parameters)),
        Column("stored", "numbers", lambda row: count(row.stored)),
    ]
    if amounts:
        columns.append(Column("paper", "OGB-Products", lambda row: count(amounts.get(row.name))))
    return [*columns, Column("seconds", "per seed", _seconds)]


def compared_metrics(comparison: Comparison) -> list[Metric]:
    """The metrics that any row, or the paper beside it, has a value of."""
    return [
        metric
        for name, metric in METRICS.items()
        if any(row.metrics.get(name) or paper_value(row, metric) for row in comparison.rows)
    ]


def _metric_column(comparison: Comparison, metric: Metric) -> Column:
    return Column(
        metric.label,
        metric.unit,
        lambda row: metric_text(metric, row.metrics.get(metric.name)),
        best_rows(comparison.rows, metric),
    )


def _paper_column(metric: Metric) -> Column:
    unit = f"{metric.label}, %" if metric.unit == "%" else metric.label
    return Column("paper", unit, lambda row: metric_text(metric, paper_value(row, metric)))


def row_cells(row: ComparisonRow, columns: Sequence[Column]) -> list[str]:
    """Texts of a row; one that failed has none but that word."""
    if row.error:
        return ["failed", *[MISSING] * (len(columns) - 1)]
    return [column.cell(row) for column in columns]


def _seconds(row: ComparisonRow) -> str:
    return quantity(row.seconds.fit + row.seconds.predict) if row.seconds else MISSING


def table_notes(comparison: Comparison) -> list[str]:
    """The notes below the table."""
    notes = [
        "; ".join(metric.describe(step_noun(comparison)) for metric in compared_metrics(comparison)),
        "Seconds to fit and to answer, the mean over seeds; what ran at the same time shared the machine.",
    ]
    if any(column.best for column in table_columns(comparison)):
        notes.append("Bold: the best of the methods that do not see earlier tasks again.")
    return [*filter(None, notes), paper_note(comparison)]


def paper_note(comparison: Comparison) -> str:
    """Where the paper's numbers are from, or why there are none."""
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
