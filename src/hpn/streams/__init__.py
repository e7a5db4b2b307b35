"""How a graph becomes a sequence of steps, and what may be seen of it when."""

from hpn.streams.splits import Split, split_nodes
from hpn.streams.stream import AnswerKey, StepPlan, Stream, StreamPlan
from hpn.streams.tasks import TaskStream, plan_tasks
from hpn.streams.time import TimeStream
from hpn.streams.views import Classes, Edges, Evaluate, GraphView, Query, Scenario, Step, stack_graphs

STREAMS: dict[str, type[Stream]] = {kind.kind: kind for kind in (TaskStream, TimeStream)}
"""Kinds of streams, by what ``--stream`` calls them."""

__all__ = [
    "STREAMS",
    "AnswerKey",
    "Classes",
    "Edges",
    "Evaluate",
    "GraphView",
    "Query",
    "Scenario",
    "Split",
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
