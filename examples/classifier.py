"""A graph that grows: learn, predict and explain as labels and classes arrive, then save and load.

python examples/classifier.py
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

import hpn

WORDS = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])


def main() -> None:
    digits = hpn.load_dataset("digits")  # anything with .x and .edge_index will do, such as PyG's Data
    labels = WORDS[digits.y.numpy()]  # labels may be text, whole numbers or Booleans
    shuffled = np.random.default_rng(0).permutation(digits.num_nodes)
    train, test = shuffled[:600], shuffled[600:]

    model = hpn.HPNClassifier()
    for arriving in (WORDS[:6], WORDS[6:9], WORDS[9:]):  # "nine" appears last
        nodes = train[np.isin(labels[train], arriving)]
        model.partial_fit(digits, nodes, labels[nodes])
        known = test[np.isin(labels[test], model.classes_)]
        accuracy = model.score(digits, known, labels[known])
        print(f"after {', '.join(arriving)}: accuracy {accuracy:.1%} on {len(model.classes_)} classes")

    at_once = hpn.HPNClassifier().fit(digits, train, labels[train])
    same = (at_once.predict_proba(digits, test) == model.predict_proba(digits, test)).all()
    print("the same predictions as one fit gives:", bool(same))

    nines = test[labels[test] == "nine"]
    print("nines are predicted as", dict(Counter(model.predict(digits, nines).tolist())))
    print(model.explain(digits, nines[:1])[0])
    print("prototypes:", model.prototype_counts_, "of at most", model.prototype_bounds_)

    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        loaded = hpn.HPNClassifier.load(Path(folder) / "model")
        same = (loaded.predict_proba(digits, test) == model.predict_proba(digits, test)).all()
        print("the loaded model predicts the same:", bool(same))


if __name__ == "__main__":
    main()
