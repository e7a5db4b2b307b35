"""Print one Markdown table of several comparisons: AM / FM of every method, the paper's beside ours.

hpn compare digits --methods all --seeds 5    # and cora, citeseer, actor
python docs/scripts/comparison_table.py runs/compare-*/comparison.json
"""

from __future__ import annotations

import sys
from pathlib import Path

from hpn.experiment.compare.result import ComparisonRow, load_comparison

ORDER = ["digits", "cora", "citeseer", "actor"]


def cell(row: ComparisonRow | None) -> str:
    am, fm = (row.metrics.get(name) if row else None for name in ("am", "fm"))
    if am is None:
        return ""
    text = f"{am.mean:.1f} ± {am.std:.1f}"
    return text if fm is None else f"{text} / {fm.mean:.1f}"


def paper(row: ComparisonRow | None) -> str:
    if row is None or row.published is None:
        return "–"
    found = row.published
    text = f"{found.am.mean:.1f}"
    return text if found.fm is None else f"{text} / {found.fm.mean:.1f}"


def main(files: list[str]) -> None:
    tables = [load_comparison(Path(file).parent) for file in files]
    tables.sort(key=lambda table: ORDER.index(table.dataset))
    rows: dict[tuple[str, str | None], dict[str, ComparisonRow]] = {}
    for table in tables:
        for row in table.rows:
            rows.setdefault((row.method, row.backbone), {})[table.dataset] = row
    heads = ["method"]
    for table in tables:
        heads += [table.dataset] + (["paper"] if table.note is None else [])
    print("| " + " | ".join(heads) + " |")
    print("|---" + "|--:" * (len(heads) - 1) + "|")
    for (method, backbone), found in rows.items():
        words = [f"`{method}`" + (f" {backbone.upper()}" if backbone else "")]
        for table in tables:
            row = found.get(table.dataset)
            words += [cell(row)] + ([paper(row)] if table.note is None else [])
        print("| " + " | ".join(words) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
