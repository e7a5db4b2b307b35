"""A run that measures how earlier tasks change: Theorem 2 beside what is measured and what is proved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpn.evaluation import evaluate
from hpn.experiment.run.config import resolve_config
from hpn.experiment.run.environment import deterministic
from hpn.experiment.run.runner import learn_steps
from hpn.experiment.watch import Watcher
from hpn.learners import Learner, Observer, Progress
from hpn.learners.hpn import PaperHPN, SolvedHPN
from hpn.theory.retention import RetentionReport, RetentionStudy


@dataclass(frozen=True)
class RetentionResult:
    """A run with a comparison of every earlier task after each task; accuracies are percentages."""

    dataset: str
    method: str
    scenario: str
    edges: str
    tasks: list[list[int]]  # classes of each
    seed: int
    params: dict[str, Any]  # hyper-parameters that took effect
    matrix: list[list[float]]
    report: RetentionReport

    def to_json(self) -> dict[str, Any]:
        """The fields of ``hpn theory retention --json``."""
        content = {name: value for name, value in vars(self).items() if name != "report"}
        return {**content, **self.report.to_json()}


def study_retention(
    dataset: str, *, seed: int = 0, data_root: Path | str | None = None, watcher: Watcher | None = None, **choices: Any
) -> RetentionResult:
    """Learn the tasks of a data set with ``hpn``, and after each compare every earlier task with its past.

    Args:
        dataset: Name or path.
        seed: Seed of the run.
        data_root: Folder with the data.
        watcher: Receives the progress.
        choices: ``edges``, ``tasks``, ``classes_per_task``, ``settings`` …, as :func:`hpn.run` takes them.

    Example:
        >>> study = study_retention("digits", tasks="0,1;2,3")
        >>> study.report.is_proved, study.report.changes[0].relabelled
        (True, 0)
    """
    root = Path(data_root) if data_root else None
    config, graph = resolve_config(dataset, method="hpn", data_root=root, **choices)
    watcher = watcher or Watcher()
    learner, stream = config.make_learner(seed), config.make_stream(graph, seed)
    assert isinstance(learner, PaperHPN | SolvedHPN)  # noqa: S101  (that is the method)
    study = RetentionStudy(learner, stream)
    matrix = []
    with deterministic(graph):
        watcher.run_started(None, 1, len(stream))
        watcher.seed_started(seed, 0, 0)
        for index in learn_steps(learner, stream, observer=_Epochs(watcher, seed)):
            study.after_task(index)
            row = evaluate(learner, stream, after=index, mode=config.evaluate)
            matrix.append(row.accuracy)
            watcher.step_finished(seed, index, row)
    return RetentionResult(
        **{key: getattr(config, key) for key in ("dataset", "method", "scenario", "edges")},
        tasks=[list(task) for task in config.tasks],
        seed=seed,
        params=config.effective_params(),
        matrix=matrix,
        report=study.report(),
    )


class _Epochs(Observer):
    """Passes epochs on to a watcher."""

    def __init__(self, watcher: Watcher, seed: int) -> None:
        self._watcher, self._seed = watcher, seed

    def after_epoch(self, learner: Learner, progress: Progress) -> None:
        self._watcher.epoch_finished(self._seed, progress)
