"""A graph that grows: learn, predict and explain as nodes and classes arrive, then save and load.

python examples/classifier.py
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import torch

import hpn


def main() -> None:
    digits = hpn.load_dataset("digits")  # anything with .x and .edge_index will do, such as PyG's Data
    shuffled = torch.randperm(digits.num_nodes, generator=torch.Generator().manual_seed(0))
    train, test = shuffled[:1200], shuffled[1200:]

    model = hpn.HPNClassifier()
    for arriving in ([0, 1, 2], [3, 4, 5], [0, 6, 7]):  # 0 comes again, and adds to what is known of it
        nodes = train[torch.isin(digits.y[train], torch.tensor(arriving))]
        half = len(nodes) * 2 // 3
        held_out = nodes[half:], digits.y[nodes[half:]]
        model.partial_fit(digits, nodes[:half], digits.y[nodes[:half]], validation=held_out)
        known = test[torch.isin(digits.y[test], torch.from_numpy(model.classes_))]
        share = model.score(digits, known, digits.y[known])
        prototypes = ", ".join(f"{count} {level}" for level, count in model.prototype_counts_.items())
        print(
            f"after {arriving}: {share:.1%} of {len(model.classes_)} classes right; prototypes: {prototypes}"
        )

    six = test[digits.y[test] == 6]
    print("sixes are taken for", dict(Counter(model.predict(digits, six).tolist())))
    print("the prototypes that one of them is made of:")
    for match in model.explain(digits, six[:1]):
        where = f"{match.level:6} {match.slot or '':6} no. {match.prototype:3}"
        print(f"  {where}, cosine {match.cosine:.3f}, founded by fit {match.founded_by}")

    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        loaded = hpn.HPNClassifier.load(Path(folder) / "model")
        same = (loaded.predict_proba(digits, test) == model.predict_proba(digits, test)).all()
        print("the loaded model answers the same:", bool(same))


if __name__ == "__main__":
    main()
