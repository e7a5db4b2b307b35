"""Continual learning on graphs that keep growing.

Names are imported when they are first used, so that ``import hpn`` does not load PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "LEARNERS": "hpn.learners",
    "Graph": "hpn.datasets",
    "HPNClassifier": "hpn.model",
    "NodeClassifier": "hpn.model",
    "Learner": "hpn.learners",
    "TaskStream": "hpn.streams",
    "check_run": "hpn.experiment.bound_check",
    "compare": "hpn.experiment.compare.table",
    "evaluate": "hpn.evaluation",
    "find_leaks": "hpn.experiment.leaks",
    "load_dataset": "hpn.datasets",
    "load_graph": "hpn.datasets",
    "load_learner": "hpn.experiment.run.seed",
    "reproduce": "hpn.reproduction",
    "run": "hpn.experiment.run.runner",
    "study_retention": "hpn.experiment.retention",
    "track_run": "hpn.experiment.track",
    "tune": "hpn.experiment.tune.tuning",
    "write_comparison": "hpn.report.comparison",
    "write_report": "hpn.report",
}

if TYPE_CHECKING:
    from hpn.datasets import Graph as Graph
    from hpn.datasets import load_dataset as load_dataset
    from hpn.datasets import load_graph as load_graph
    from hpn.evaluation import evaluate as evaluate
    from hpn.experiment.bound_check import check_run as check_run
    from hpn.experiment.compare.table import compare as compare
    from hpn.experiment.leaks import find_leaks as find_leaks
    from hpn.experiment.retention import study_retention as study_retention
    from hpn.experiment.run.runner import run as run
    from hpn.experiment.run.seed import load_learner as load_learner
    from hpn.experiment.track import track_run as track_run
    from hpn.experiment.tune.tuning import tune as tune
    from hpn.learners import LEARNERS as LEARNERS
    from hpn.learners import Learner as Learner
    from hpn.model import HPNClassifier as HPNClassifier
    from hpn.model import NodeClassifier as NodeClassifier
    from hpn.report import write_report as write_report
    from hpn.report.comparison import write_comparison as write_comparison
    from hpn.reproduction import reproduce as reproduce
    from hpn.streams import TaskStream as TaskStream

    from . import testing as testing

__all__ = ["__version__", "testing"]
__all__ += list(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "testing":
        return import_module("hpn.testing")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'hpn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
