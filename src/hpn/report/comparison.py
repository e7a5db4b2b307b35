"""A comparison of methods as CSV, Markdown and HTML."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from hpn.experiment.compare.result import Comparison, ComparisonRow
from hpn.experiment.published import Spread
from hpn.experiment.run.folder import write_atomic
from hpn.metrics import METRICS, Summary
from hpn.report.comparison_html import comparison_html
from hpn.report.comparison_table import (
    PARAMETERS_REMARK,
    failures,
    paper_value,
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
    folder = Path(out or comparison.out)
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
    """One line per cell with every number in full precision; what does not apply is empty."""
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
        "| method | " + " | ".join(f"{c.head} ({c.unit})" if c.unit else c.head for c in columns) + " |",
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
