"""Write a real graph as people have theirs, in CSV files: as it was early on, and as it is now.

The nodes are scikit-learn's scans of handwritten digits, the edges join those that look alike. A third of
them has no label. Early on there were 1,200 scans, and none was known to be an eight.

python examples/make_graph.py
"""

from __future__ import annotations

import csv
from pathlib import Path

import hpn

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def write(folder: Path, graph: hpn.Graph, count: int, hidden: str | None = None) -> None:
    """Write the first nodes and the edges among them."""
    folder.mkdir(exist_ok=True)
    with (folder / "nodes.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "label", *(f"pixel {row}/{column}" for row in range(8) for column in range(8))])
        for node in range(count):
            word = WORDS[int(graph.y[node])]
            label = "" if node % 3 == 2 or word == hidden else word
            writer.writerow([f"scan-{node}", label, *(f"{value:.4f}" for value in graph.x[node].tolist())])
    with (folder / "edges.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["source", "target"])
        for source, target in graph.edge_index.T.tolist():
            if source < target < count:
                writer.writerow([f"scan-{source}", f"scan-{target}"])


def main() -> None:
    graph = hpn.load_dataset("digits")
    write(Path("digits-early"), graph, 1200, hidden="eight")
    write(Path("digits-now"), graph, graph.num_nodes)
    print("wrote digits-early and digits-now")


if __name__ == "__main__":
    main()
