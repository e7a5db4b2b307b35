"""Make the table and the chart of docs/explanation/leaks.md from results of ``hpn leaks``.

for g in digits cora citeseer dblp.npz amazon-photo.npz blogcatalog.npz; do for m in hpn ncm; do
  hpn leaks $g --method $m --seeds 5 --json > leaks-$m-$(basename $g .npz).json; done; done
python docs/scripts/leaks.py leaks-*.json

Needs ``hpn[docs]``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import altair as alt
from pictures import write

from hpn.report.figures import WIDTH

ORDER = ("digits", "cora", "citeseer", "dblp", "amazon-photo", "blogcatalog")
NAMES = {"grouped within": "grouped, within", "global within": "global, within", "global seen": "global, seen"}


def main() -> None:
    found = [json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:]]
    if not found:
        sys.exit("give files with the output of hpn leaks --json")
    found.sort(key=lambda leaks: (-ord(leaks["method"][0]), leaks["method"], ORDER.index(graph_of(leaks))))
    methods = sorted({leaks["method"] for leaks in found})
    graphs = [name for name in ORDER if any(graph_of(leaks) == name for leaks in found)]
    cells = {(leaks["method"], graph_of(leaks)): leaks["rows"] for leaks in found}
    for method in methods:
        print(f"\n| `{method}` | {' | '.join(NAMES.values())} | difference |\n|---|--:|--:|--:|--:|")
        for name in graphs:
            values = [row["am"] for row in cells[method, name]]
            texts = [f"{value['mean']:.1f} ± {value['std']:.1f}" for value in values]
            print(f"| {name} | {' | '.join(texts)} | {values[0]['mean'] - values[-1]['mean']:.1f} |")
    print(f"\n| task found by a plain mean | {' | '.join(NAMES.values())} |\n|---|--:|--:|--:|")
    for name in graphs:
        shares = [f"{row['task_found']['mean']:.1f}" for row in cells[methods[0], name]]
        print(f"| {name} | {' | '.join(shares)} |")
    write("leaks", draw([leaks for leaks in found if leaks["method"] == "hpn"]))


def draw(found: list[dict[str, Any]]) -> alt.TopLevelMixin:
    rows = [
        {
            "graph": graph_of(leaks),
            "evaluation": NAMES[f"{row['evaluate']} {row['edges']}"],
            "AM": round(row["am"]["mean"], 1),
        }
        for leaks in found
        for row in leaks["rows"]
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("graph:N", sort=list(ORDER), title=None),
        x=alt.X("AM:Q", title="AM, percent", scale=alt.Scale(zero=False)),
    )
    domain = alt.Scale(domain=list(NAMES.values()))
    key = alt.Legend(orient="bottom", columns=2, title="evaluate, edges")
    color = alt.Color("evaluation:N", scale=domain, legend=key)
    shape = alt.Shape("evaluation:N", scale=domain, legend=key)
    lines = base.mark_line(color="#888888").encode(detail="graph:N")
    points = base.mark_point(size=90, filled=True, opacity=1).encode(
        color=color, shape=shape, tooltip=["graph:N", "evaluation:N", "AM:Q"]
    )
    return (lines + points).properties(width=WIDTH, height=220, title="One method, three evaluations without a task")


def graph_of(leaks: dict[str, Any]) -> str:
    return Path(leaks["dataset"]).stem


if __name__ == "__main__":
    main()
