"""How a graph becomes a sequence of tasks, and what may be seen of it when."""

from hpn.streams.ordering import TaskPlan, plan_tasks
from hpn.streams.splits import Split, split_nodes
from hpn.streams.stream import AnswerKey, TaskStream
from hpn.streams.views import (
    Classes,
    Edges,
    Evaluate,
    GraphView,
    Query,
    Scenario,
    Task,
    stack_graphs,
)

__all__ = [
    "AnswerKey",
    "Classes",
    "Edges",
    "Evaluate",
    "GraphView",
    "Query",
    "Scenario",
    "Split",
    "Task",
    "TaskPlan",
    "TaskStream",
    "plan_tasks",
    "split_nodes",
    "stack_graphs",
]
