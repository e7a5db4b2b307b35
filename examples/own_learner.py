"""Your own learner: the mean of the features of each class.

On the command line: ``hpn run digits --method own_learner:ClassMeans``.
"""

from __future__ import annotations

import tempfile

import torch

import hpn
from hpn.learners import Observer, Progress, State
from hpn.streams import Query, Step


class ClassMeans(hpn.Learner):
    """Predict the class whose mean features are nearest.

    Args:
        temperature: How fast probabilities fall with the distance.
        seed: Not used; every learner has one.
    """

    def __init__(self, *, temperature: float = 1.0, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.temperature = temperature

    @property
    def num_parameters(self) -> int:
        """Entries of the means."""
        return sum(mean.numel() for mean in self.means_.values())

    def _learn(self, step: Step, observer: Observer) -> None:
        """Learn from the training nodes of a step: ``step.train`` are rows of ``step.graph``."""
        means = {} if step.index == 0 else dict(self.means_)
        for label in step.classes:
            nodes = step.train[step.train_y == label]
            means[str(label)] = step.graph.take(nodes).to_dense().mean(dim=0)
        self.means_ = means
        self.in_progress_ = False
        self._epoch_done(observer, Progress(step.index, 1, 1))

    def _scores(self, query: Query) -> torch.Tensor:
        """Log-probabilities ``[len(query.nodes), len(query.classes)]``."""
        x = query.graph.take(query.nodes).to_dense()
        means = torch.stack([self.means_[str(label)] for label in query.classes])
        return (-torch.cdist(x, means) / self.temperature).log_softmax(dim=1)

    def _state(self) -> State:
        """Everything learned: nested dictionaries of tensors, numbers and text."""
        return {"means": self.means_}

    def _load_state(self, state: State) -> None:
        self.means_ = dict(state["means"])


def main() -> None:
    """Run it on a built-in data set, once with the task given and once without."""
    with tempfile.TemporaryDirectory() as folder:
        for scenario in ("task", "class"):
            result = hpn.run("digits", method=ClassMeans, scenario=scenario, seeds=5, out=f"{folder}/{scenario}")
            print(f"{scenario}: AM {result.am.mean:.1f} ± {result.am.std:.1f} %")


if __name__ == "__main__":
    main()
