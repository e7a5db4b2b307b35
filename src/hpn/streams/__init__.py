"""How a graph becomes a sequence of steps, and what a learner may see at each of them."""

from hpn.streams.splits import split_nodes
from hpn.streams.stream import AnswerKey, StepPlan, Stream, StreamPlan
from hpn.streams.tasks import TaskStream, plan_tasks
from hpn.streams.time import TimeStream
from hpn.streams.views import Classes, Edges, Evaluate, GraphView, Query, Scenario, Step, stack_graphs

STREAMS: dict[str, type[Stream]] = {kind.kind: kind for kind in (TaskStream, TimeStream)}
"""Kinds of streams by their names for ``--stream``."""

__all__ = [
    "STREAMS",
    "AnswerKey",
    "Classes",
    "Edges",
    "Evaluate",
    "GraphView",
    "Query",
    "Scenario",
    "Step",
    "StepPlan",
    "Stream",
    "StreamPlan",
    "TaskStream",
    "TimeStream",
    "plan_tasks",
    "split_nodes",
    "stack_graphs",
]
