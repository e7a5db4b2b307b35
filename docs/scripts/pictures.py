"""Draw the charts of the README and the docs, each as an SVG file and as the specification of the interactive chart.

for m in finetune ergnn ncm ridge hpn joint; do
  hpn run cora --method $m --evaluate global --edges seen --seeds 5 --out runs/cora-$m; done
hpn run cora --method finetune --seeds 5 --out runs/cora-matrix
python docs/scripts/pictures.py runs/cora-{finetune,ergnn,ncm,ridge,hpn,joint,matrix}

Needs ``hpn[docs]``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import altair as alt

from hpn.cli.theory import PLOTTED
from hpn.experiment.run.result import load_result
from hpn.report import FIGURES, RunGroup, chart_spec, chart_svg
from hpn.report.figures import code_sizes_chart
from hpn.theory import max_code_size

IMAGES = Path(__file__).resolve().parents[1] / "images"


def main() -> None:
    results = [load_result(Path(name)) for name in sys.argv[1:]]
    if not results:
        sys.exit("give run folders: the accuracies of all but the last are drawn, and the last one's matrix")
    (accuracy,) = FIGURES["accuracy"].draw(RunGroup.of(results[:-1]))
    (matrix,) = FIGURES["matrix"].draw(RunGroup.of(results[-1:]))
    accuracy.title = alt.Title(
        "Average accuracy on all tasks so far, in percent", subtitle="Cora, no task given, 5 seeds"
    )
    write("accuracy", accuracy)
    write("matrix", matrix)
    sizes = {d: [(t, float(max_code_size(d, t).size)) for t in PLOTTED] for d in (2, 3, 4, 8, 16, 32)}
    write("theory-bounds", code_sizes_chart(sizes, title="How many prototypes can keep a distance"))


def write(name: str, chart: alt.TopLevelMixin) -> None:
    (IMAGES / f"{name}.svg").write_text(chart_svg(chart), encoding="utf-8")
    (IMAGES / f"{name}.vl.json").write_text(json.dumps(chart_spec(chart), ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {name}.svg and {name}.vl.json to {IMAGES}")


if __name__ == "__main__":
    main()
