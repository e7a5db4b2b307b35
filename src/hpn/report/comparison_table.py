"""The table of a comparison: its columns, what is best in it, and what has to be said below it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpn.report.format import MISSING, count, decimal, quantity, spread

Comparison = Mapping[str, Any]
Row = Mapping[str, Any]

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
    """

    head: str
    unit: str
    cell: Callable[[Row], str]


def table_columns(comparison: Comparison) -> list[Column]:
    """Columns to show; the paper's only where there is something of the paper's to put in them."""
    rows = comparison["rows"]
    amounts = comparison["published_parameters"]["values"]
    columns = [Column("AM", "%", lambda row: spread(row["am"]))]
    if any(row["published"] for row in rows):
        columns.append(Column("paper", "AM, %", lambda row: paper_spread(row, "am")))
        columns.append(Column("Δ", "AM", lambda row: decimal(row["difference"], signed=True)))
    columns.append(Column("FM", "points", lambda row: spread(row["fm"], signed=True)))
    if any((row["published"] or {}).get("fm") for row in rows):
        columns.append(Column("paper", "FM", lambda row: paper_spread(row, "fm")))
    columns += [
        Column("ARS", "%", lambda row: spread(row["ars"])),
        Column("parameters", "", lambda row: count(row["parameters"])),
        Column("stored", "numbers", lambda row: count(row["stored"])),
    ]
    if amounts:
        columns.append(Column("paper", "OGB-Products", lambda row: count(amounts.get(row["name"]))))
    columns.append(Column("seconds", "a seed", _seconds))
    return columns


def row_cells(row: Row, columns: Sequence[Column]) -> list[str]:
    """Texts of a row; one that failed has none but that word."""
    if row["error"]:
        return ["failed", *[MISSING] * (len(columns) - 1)]
    return [column.cell(row) for column in columns]


def _seconds(row: Row) -> str:
    return quantity(row["seconds"]["fit"] + row["seconds"]["predict"])


def table_notes(comparison: Comparison) -> list[str]:
    """What has to be said below the table."""
    notes = [
        "Seconds to fit and to answer, the mean over seeds; what ran at the same time shared the machine."
    ]
    if best_rows(comparison):
        notes.append("Bold: the highest AM of a method that does not see earlier tasks again.")
    return [*notes, paper_note(comparison)]


def paper_note(comparison: Comparison) -> str:
    """Where the paper's numbers are from, or why there are none."""
    if comparison["note"]:
        return f"The paper’s AM and FM are left out: {comparison['note']}."
    source = comparison["published_source"]
    return f"“paper”: {source}; mean and standard deviation over its repetitions. Δ: ours − paper."


def failures(comparison: Comparison) -> list[str]:
    """One line a cell that failed."""
    return [f"{row_label(row)} failed: {row['error']}" for row in comparison["rows"] if row["error"]]


def best_rows(comparison: Comparison) -> set[int]:
    """Numbers of the rows with the highest AM, joint training aside, if there is anything to compare."""
    means = {
        number: row["am"]["mean"]
        for number, row in enumerate(comparison["rows"])
        if row["am"] and not row["sees_past"]
    }
    top = max(means.values(), default=None)
    return {number for number, mean in means.items() if mean == top} if len(means) > 1 else set()


def row_label(row: Row) -> str:
    """Method and backbone.

    Example:
        >>> row_label({"method": "ewc", "backbone": "gat"}), row_label({"method": "hpn", "backbone": None})
        ('ewc · gat', 'hpn')
    """
    return " · ".join(filter(None, (row["method"], row["backbone"])))


def paper_spread(row: Row, metric: str) -> str:
    """The paper's mean ± standard deviation of a cell."""
    found = (row["published"] or {}).get(metric)
    if not found:
        return MISSING
    return f"{decimal(found['mean'], signed=metric == 'fm')} ± {decimal(found['std'])}"
