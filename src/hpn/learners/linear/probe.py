"""One logistic regression per task, on features smoothed over the task's graph.

No continual learning at all: each task has a classifier of its own, so nothing is forgotten and
memory grows with the tasks. It is the floor under every method here. Its grids and normalisation were
picked to reproduce reference accuracies on Cora, Citeseer and Actor with test nodes in view; the page
docs/explanation/learners.md states how. It is computed with scikit-learn on the CPU, whatever device is chosen.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import scipy  # whose parts are imported when they are first used
import torch
from pydantic import Field
from torch import Tensor

from hpn.learners.base import Learner, Observer, Progress
from hpn.nn.device import CPU
from hpn.nn.encoder import Features, see
from hpn.nn.smoothing import Normalization
from hpn.streams import Query, Step

STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
DEFAULT_HOPS, DEFAULT_STRENGTH = 2, 10.0


@dataclass(kw_only=True, eq=False, repr=False)
class Probe(Learner):
    """Logistic regression on smoothed features, one per task.

    The number of hops and the inverse regularisation strength C (0.01 to 1,000) are chosen for each task
    by accuracy on its validation nodes, ties by their log-likelihood. Without the task, every classifier
    scores its own classes, weighted by how confident it is (the sum of its squared probabilities). It needs
    tasks, because two classifiers may not score the same class.

    Args:
        max_hops: The most hops tried.
        normalization: ``sym`` or ``row``; see :class:`hpn.nn.encoder.Slots`.
        max_iter: Iterations of the solver at most.
        seed: Unused; every learner has one.

    Attributes:
        classifiers_: Of each task, in order: ``weight`` ``[num_rows, num_features]`` and ``bias``
            ``[num_rows]`` (one row for two classes, none for one class), and the chosen ``hops`` and ``strength`` (C).
    """

    needs_tasks = True
    uses_device = False

    max_hops: Annotated[int, Field(ge=0)] = 3
    normalization: Normalization = "sym"
    max_iter: Annotated[int, Field(ge=1)] = 1000

    def _learn(self, step: Step, observer: Observer) -> None:
        if step.index == 0:
            self.classifiers_: list[dict[str, Any]] = []
        train, val = step.train.numpy(), step.val.numpy()
        best: tuple[tuple[float, float], Any, int, float] | None = None
        slots = see(step.graph, self.normalization)
        for hops in range(self.max_hops + 1):
            x, x_val = slots.smoothed(hops, train), slots.smoothed(hops, val)
            for strength in STRENGTHS if len(step.classes) > 1 else ():
                if len(val) == 0 and (hops, strength) != (DEFAULT_HOPS, DEFAULT_STRENGTH):
                    continue
                model = self._fit_classifier(x, step.train_y.numpy(), strength)
                score = _validate(model, x_val, step.val_y.numpy())
                if best is None or score > best[0]:
                    best = (score, model, hops, strength)
        self._keep(step, best)
        metrics = {"val_accuracy": best[0][0]} if best and len(val) else {}
        self.in_progress_ = False
        self._epoch_done(observer, Progress(step.index, 1, 1, metrics))

    def _fit_classifier(self, features: Features, y: np.ndarray, strength: float) -> Any:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return LogisticRegression(C=strength, max_iter=self.max_iter).fit(features, y)

    def _keep(self, step: Step, best: tuple[Any, Any, int, float] | None) -> None:
        weight, bias = torch.zeros(0, self.num_features_, device=CPU), torch.zeros(0, device=CPU)
        hops, strength = 0, 0.0
        if best is not None:  # else there is one class, and nothing to learn
            _, model, hops, strength = best
            # Scikit-learn sorts the classes; rows follow the task's order.
            order = [list(model.classes_).index(label) for label in step.classes]
            weight, bias = torch.from_numpy(model.coef_).float(), torch.from_numpy(model.intercept_)
            if len(step.classes) > 2:
                weight, bias = weight[order], bias[order]
            elif order == [1, 0]:
                weight, bias = -weight, -bias
        learned = {"weight": weight, "bias": bias.float(), "hops": hops, "strength": strength}
        self.classifiers_ = [*self.classifiers_, learned]

    def _scores(self, query: Query) -> Tensor:
        tasks = range(len(self.tasks_)) if query.task is None else (query.task,)
        slots, nodes = see(query.graph, self.normalization), query.nodes.numpy()
        by_class: dict[int, Tensor] = {}
        for task in tasks:
            learned = self.classifiers_[task]
            scores = _task_scores(slots.smoothed(learned["hops"], nodes), learned["weight"], learned["bias"])
            confidence = (2 * scores).logsumexp(dim=1, keepdim=True)
            by_class.update(zip(self.tasks_[task], (scores + confidence).unbind(dim=1), strict=True))
        return torch.stack([by_class[label] for label in query.classes], dim=1).log_softmax(dim=1)


def _task_scores(features: Features, weight: Tensor, bias: Tensor) -> Tensor:
    logits = torch.from_numpy(np.asarray(features @ weight.numpy().T)) + bias
    if len(bias) < 2:  # the first class is the reference
        logits = torch.cat([torch.zeros(logits.shape[0], 1, device=CPU), logits], dim=1)
    return logits.log_softmax(dim=1)


def _validate(model: Any, features: Features, y: np.ndarray) -> tuple[float, float]:
    """Accuracy and mean log-likelihood on validation nodes."""
    if len(y) == 0:
        return 0.0, 0.0
    logits = model.decision_function(features)
    if logits.ndim == 1:  # two classes, one logit
        logits = np.stack([np.zeros_like(logits), logits], axis=1)
    log_proba = scipy.special.log_softmax(logits, axis=1)
    columns = np.searchsorted(model.classes_, y)
    accuracy = float((log_proba.argmax(axis=1) == columns).mean())
    return accuracy, float(log_proba[np.arange(len(y)), columns].mean())
