"""From your own arrays to a learner that predicts new nodes.

python examples/own_graph.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch

import hpn
from hpn.streams import GraphView, Query


def write_graph(path: Path) -> None:
    """Write accounts that mostly trade with accounts of the same kind: 4 kinds, 8 features, one .npz file."""
    rng = np.random.default_rng(0)
    kind = rng.integers(4, size=400)
    features = rng.normal(size=(400, 8)) + np.eye(4, 8)[kind] * 2
    partners = [rng.choice(np.flatnonzero(kind == own), size=3) for own in kind]
    np.savez(
        path,
        adj_indptr=np.arange(0, 1201, 3),
        adj_indices=np.concatenate(partners),
        adj_shape=np.array([400, 400]),
        attr_matrix=features,
        labels=kind,
        class_names=np.array(["shop", "person", "bank", "charity"]),
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "accounts.npz"
        write_graph(data)
        result = hpn.run(str(data), method="ncm", scenario="class", seeds=5, out=Path(folder) / "run")
        print(f"AM {result.am.mean:.1f} ± {result.am.std:.1f} % without a task")

        learner = hpn.load_learner(result.out, seed=0)
        names = result.class_names
        # Three new accounts; the first two trade with each other.
        x = torch.zeros(3, 8)
        x[[0, 1], 2], x[2, 0] = 2.0, 2.0
        graph = GraphView(x, torch.tensor([[0, 1], [1, 0]]))
        predicted = learner.predict(Query(graph, torch.arange(3), learner.classes_))
        print("new accounts:", ", ".join(names[str(int(kind))] for kind in predicted))


if __name__ == "__main__":
    main()
