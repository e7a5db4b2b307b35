"""A comparison of methods as CSV, Markdown and HTML, from the dictionary that a comparison gives."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpn.report.comparison_html import comparison_html
from hpn.report.comparison_table import (
    PARAMETERS_REMARK,
    Comparison,
    Row,
    best_rows,
    failures,
    row_cells,
    row_label,
    table_columns,
    table_notes,
)
from hpn.report.format import plain_markdown
from hpn.report.wording import setting

NAME = "comparison"


def write_comparison(comparison: Comparison, out: Path | str | None = None) -> list[Path]:
    """Write ``comparison.csv``, ``comparison.md`` and ``comparison.html``.

    Args:
        comparison: What :func:`hpn.compare` gives.
        out: Folder; by default the comparison's own, where its ``comparison.json`` is.

    Returns:
        The three files.
    """
    from hpn.experiment.run.folder import write_atomic

    folder = Path(out or comparison["out"])
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "csv": comparison_csv(comparison),
        "md": comparison_markdown(comparison),
        "html": comparison_html(comparison),
    }
    for kind, content in texts.items():
        write_atomic(folder / f"{NAME}.{kind}", content.encode())
    return [folder / f"{NAME}.{kind}" for kind in texts]


def comparison_csv(comparison: Comparison) -> str:
    """One line a cell with every number in full precision; what does not apply is empty."""
    records = [_record(row, comparison) for row in comparison["rows"]]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def comparison_markdown(comparison: Comparison) -> str:
    """The table with its notes, for a README or an issue."""
    columns = table_columns(comparison)
    best = best_rows(comparison)
    lines = [
        f"# Methods compared on {plain_markdown(comparison['dataset'])}",
        "",
        f"{', '.join(setting(comparison))}; seeds {', '.join(map(str, comparison['seeds']))}.",
        "",
        "| method | " + " | ".join(f"{c.head} ({c.unit})" if c.unit else c.head for c in columns) + " |",
        "|---|" + "--:|" * len(columns),
    ]
    for number, row in enumerate(comparison["rows"]):
        cells = row_cells(row, columns)
        if number in best:
            cells[0] = f"**{cells[0]}**"
        lines.append(f"| {' | '.join([plain_markdown(row_label(row)), *cells])} |")
    for note in (*table_notes(comparison), PARAMETERS_REMARK):
        lines += ["", note]
    lines += [f"- {plain_markdown(line)}" for line in ("", *failures(comparison)) if line]
    lines += ["", "Repeat it:", "", "```", comparison["command"], "```", ""]
    return "\n".join(lines)


def _record(row: Row, comparison: Comparison) -> dict[str, Any]:
    published = row["published"] or {}
    seconds = row["seconds"] or {}
    record = {"method": row["method"], "backbone": row["backbone"]}
    for metric in ("am", "fm", "ars"):
        record |= _both(metric, row[metric])
    record |= {
        "parameters": row["parameters"],
        "stored": row["stored"],
        "prototypes": " ".join(f"{level}={num}" for level, num in (row["prototypes"] or {}).items()),
        "fit_seconds": seconds.get("fit"),
        "predict_seconds": seconds.get("predict"),
        "seeds": " ".join(map(str, comparison["seeds"])),
        "recipe": row["recipe"],
    }
    for metric in ("am", "fm"):
        record |= _both(f"paper_{metric}", published.get(metric))
    record |= {
        "difference_am": row["difference"],
        "paper_parameters_ogbn_products": comparison["published_parameters"]["values"].get(row["name"]),
        "run": row["run"],
        "error": row["error"],
    }
    return record


def _both(name: str, value: Mapping[str, Any] | None) -> dict[str, Any]:
    return {f"{name}_{part}": value[part] if value else None for part in ("mean", "std")}
