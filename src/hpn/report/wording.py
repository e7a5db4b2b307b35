"""How a protocol is described, in reports and in the terminal."""

from __future__ import annotations

from hpn.experiment.compare.result import Comparison
from hpn.experiment.run.result import RunResult
from hpn.report.format import plural
from hpn.report.results import step_noun

WITHIN_GIVES_AWAY = (
    "Edges within a task reveal the task: a node is connected to nodes of its own task only. "
    "Without a task, compare with --edges seen."
)
NOT_MEASURED = "accuracy is not measured: there is a single class to choose from"


def setting(result: RunResult | Comparison) -> list[str]:
    """Name what the results of a group share besides the data set."""
    return [
        f"{result.scenario}-incremental" if result.scenario in {"task", "class"} else result.scenario,
        f"{result.evaluate} evaluation",
        f"edges: {result.edges}",
        *([] if result.stream == "tasks" else [f"stream: {result.stream}"]),
        plural(len(result.tasks), step_noun(result)),
    ]


def gives_task_away(result: RunResult | Comparison) -> bool:
    """Whether no task is given, but edges reveal it."""
    return result.edges == "within" and result.evaluate != "oracle"
