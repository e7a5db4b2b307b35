"""Draw the pictures of the README and the docs from finished runs.

for m in hpn finetune ncm probe joint; do hpn run cora --method $m --seeds 5 --out runs/cora-$m; done
python benchmarks/pictures.py runs/cora-finetune runs/cora-hpn runs/cora-ncm runs/cora-probe runs/cora-joint
"""

from __future__ import annotations

import sys
from pathlib import Path

from hpn.report import accuracy_svg, load_result, matrix_svg

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"


def main() -> None:
    results = [load_result(Path(folder)) for folder in sys.argv[1:]]
    if not results:
        sys.exit("give run folders; the first one's matrix is drawn, and the accuracies of all")
    IMAGES.mkdir(exist_ok=True)
    (IMAGES / "accuracy.svg").write_text(accuracy_svg(results))
    name = f"{results[0]['method']} on {results[0]['dataset']}"
    (IMAGES / "matrix.svg").write_text(matrix_svg(results[0], title=f"Accuracy of {name}, %"))
    print(f"wrote accuracy.svg and matrix.svg to {IMAGES}")


if __name__ == "__main__":
    main()
