"""Your own learner: the mean of the features of each class.

From the folder of this file, ``hpn check own_learner:ClassMeans`` checks it, and
``hpn run digits --method own_learner:ClassMeans`` runs it.
"""

from __future__ import annotations

import tempfile
from typing import Annotated

import torch
from pydantic import Field

import hpn
from hpn.learners import Observer
from hpn.streams import Query, Step


class ClassMeans(hpn.Learner):
    """Predict the class whose mean features are nearest.

    Args:
        temperature: How slowly probabilities fall with the distance.
        seed: Not used; every learner has one.
    """

    def __init__(self, *, temperature: Annotated[float, Field(gt=0)] = 1.0, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.temperature = temperature

    def _learn(self, step: Step, observer: Observer) -> None:
        """Learn from ``step.train``, which are rows of ``step.graph``. What ends in ``_`` is saved."""
        means = dict(self.means_) if step.index else {}
        for label in step.train_y.unique().tolist():
            means[str(label)] = step.graph.take(step.train[step.train_y == label]).to_dense().mean(dim=0)
        self.means_ = means

    def _scores(self, query: Query) -> torch.Tensor:
        """Log-probabilities ``[len(query.nodes), len(query.classes)]``."""
        x = query.graph.take(query.nodes).to_dense()
        means = torch.stack([self.means_[str(label)] for label in query.classes])
        return (-torch.cdist(x, means) / self.temperature).log_softmax(dim=1)


def main() -> None:
    """Check it, and run it on a built-in data set, once with the task given and once without."""
    verdicts = hpn.testing.check_learner(ClassMeans)
    print(f"{sum(verdict.outcome == 'failed' for verdict in verdicts.values())} checks failed")
    with tempfile.TemporaryDirectory() as folder:
        for scenario in ("task", "class"):
            result = hpn.run("digits", method=ClassMeans, scenario=scenario, seeds=5, out=f"{folder}/{scenario}")
            print(f"{scenario}: AM {result.am.mean:.1f} ± {result.am.std:.1f} %")


if __name__ == "__main__":
    main()
