"""Draw the pictures of the README and the docs from finished runs (needs ``hpn[docs]``).

for m in hpn finetune ncm probe joint; do hpn run cora --method $m --seeds 5 --out runs/cora-$m; done
python docs/scripts/pictures.py runs/cora-finetune runs/cora-hpn runs/cora-ncm runs/cora-probe runs/cora-joint
"""

from __future__ import annotations

import sys
from pathlib import Path

from hpn.experiment.run.result import load_result
from hpn.report import FIGURES, RunGroup, chart_svg

IMAGES = Path(__file__).resolve().parents[1] / "images"


def main() -> None:
    results = [load_result(Path(name)) for name in sys.argv[1:]]
    if not results:
        sys.exit("give run folders: the accuracies of all are drawn, and the first one's matrix")
    group = RunGroup.of(results)
    for name, members in {"accuracy": group, "matrix": group.single(0)}.items():
        (chart,) = FIGURES[name].draw(members)
        (IMAGES / f"{name}.svg").write_text(chart_svg(chart), encoding="utf-8")
    print(f"wrote accuracy.svg and matrix.svg to {IMAGES}")


if __name__ == "__main__":
    main()
