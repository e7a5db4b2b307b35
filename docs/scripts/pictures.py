"""Draw the pictures of the README and the docs from finished runs.

for m in hpn finetune ncm probe joint; do hpn run cora --method $m --seeds 5 --out runs/cora-$m; done
python docs/scripts/pictures.py runs/cora-finetune runs/cora-hpn runs/cora-ncm runs/cora-probe runs/cora-joint

hpn compare cora --methods all --seeds 5
python docs/scripts/pictures.py runs/compare-cora-*/comparison.json
"""

from __future__ import annotations

import sys
from pathlib import Path

from hpn.experiment.compare.result import Comparison, load_comparison
from hpn.experiment.run.result import RunResult, load_result
from hpn.report import accuracy_svg, matrix_svg
from hpn.report.comparison_chart import Interval, intervals_svg

IMAGES = Path(__file__).resolve().parents[1] / "images"


def main() -> None:
    given = [Path(name) for name in sys.argv[1:]]
    if not given:
        sys.exit(
            "give run folders (the first one's matrix is drawn, and the accuracies of all) or comparisons"
        )
    IMAGES.mkdir(exist_ok=True)
    for file in given:
        if file.suffix == ".json":
            draw_comparison(load_comparison(file.parent))
    folders = [path for path in given if path.suffix != ".json"]
    if folders:
        draw_runs([load_result(folder) for folder in folders])


def draw_comparison(table: Comparison) -> None:
    rows = [
        Interval(
            " ".join(word for word in (row.method, row.backbone) if word),
            row.backbone,
            row.metrics.get("am"),
            row.published.am if row.published else None,
        )
        for row in table.rows
    ]
    title = f"AM on {table.dataset}, %: ours filled, the paper's hollow"
    file = IMAGES / f"comparison-{table.dataset}.svg"
    file.write_text(intervals_svg(rows, title=title, ceiling=100.0))
    print(f"wrote {file.name} to {IMAGES}")


def draw_runs(results: list[RunResult]) -> None:
    (IMAGES / "accuracy.svg").write_text(accuracy_svg(results))
    name = f"{results[0].method} on {results[0].dataset}"
    (IMAGES / "matrix.svg").write_text(matrix_svg(results[0], title=f"Accuracy of {name}, %"))
    print(f"wrote accuracy.svg and matrix.svg to {IMAGES}")


if __name__ == "__main__":
    main()
