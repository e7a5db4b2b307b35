"""What the page says in words: settings, terms, headings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hpn.report.results import Result

SCENARIOS = {"task": "task-incremental", "class": "class-incremental"}

EVALUATIONS = {
    "oracle": "the task of a test node is given, and the answer is one of that task’s classes",
    "global": "a test node comes alone, and the answer is one of all classes seen so far",
    "grouped": "a task’s test nodes arrive together, and the task is inferred for the whole set",
}

EDGES = {
    "within": "only edges between nodes of the same task are kept",
    "seen": "edges between all nodes seen so far are kept",
}

WITHIN_GIVES_AWAY = (
    "Edges within a task give the task away: a node is connected to nodes of its own task only. "
    "Without a task, compare with --edges seen."
)

TERMS = (
    (
        "AM",
        "Accuracy mean: the mean accuracy over all tasks learned so far, in per cent. "
        "The table gives it after the last task. Higher is better.",
    ),
    (
        "FM",
        "Forgetting mean: accuracy on a task at the end minus accuracy just after it was learned, "
        "averaged over all tasks but the last, in points. Negative means forgetting.",
    ),
    (
        "ARS",
        "Average retaining score: accuracy on each earlier task as a share of what it was just "
        "after that task was learned, averaged, in per cent. 100 % means nothing was lost.",
    ),
    (
        "Balanced AM",
        "AM with every class counted alike, however many test nodes it has.",
    ),
    (
        "Cost",
        "Parameters are the mean over seeds, memory the largest of any seed. Seconds are the sum "
        "over seeds in the table and the mean in the chart.",
    ),
    ("±", "Standard deviation over seeds; absent with one seed. Bands and whiskers show the same."),
)

STORED_TERM = (
    "Stored",
    "Every number a method must keep between tasks: weights, importances, old copies, buffers, "
    "prototypes; for joint training all the data seen.",
)
BOUND_TERM = (
    "Bound",
    "The most prototypes of a level, or parameters, that any stream of tasks, however long, could lead to.",
)
VIEWS_TERM = (
    "t-SNE",
    "A picture in which nodes that a learner represents alike lie close together; distances between "
    "groups, their sizes and directions mean nothing. The silhouette (how far classes are apart, −1 to 1) "
    "and the share of nodes whose nearest others are mostly of their class are measured in the "
    "representation itself.",
)


def terms(results: Sequence[Result]) -> list[tuple[str, str]]:
    """What has to be explained below these results."""
    found = list(TERMS)
    if any(result.get("growth") for result in results):
        found.append(STORED_TERM)
    if any(result.get("bounds") or result.get("parameter_bound") for result in results):
        found.append(BOUND_TERM)
    if any(result.get("views") for result in results):
        found.append(VIEWS_TERM)
    return found


def plural(num: int, noun: str) -> str:
    """Count a noun.

    Example:
        >>> plural(1, "task"), plural(5, "task")
        ('1 task', '5 tasks')
    """
    return f"{num:,} {noun}" if num == 1 else f"{num:,} {noun}s"


def setting(result: Result) -> list[str]:
    """Name what the results of a group share besides the data set."""
    scenario: str = result["scenario"]
    return [
        SCENARIOS.get(scenario, scenario),
        f"{result['evaluate']} evaluation",
        f"edges: {result['edges']}",
        plural(len(result["tasks"]), "task"),
    ]


def explanation(result: Result) -> str:
    """Say how the evaluation asked and which edges it used."""
    known = [
        (result["evaluate"].capitalize(), EVALUATIONS.get(result["evaluate"])),
        (f"Edges {result['edges']}", EDGES.get(result["edges"])),
    ]
    text = " ".join(f"{name}: {meaning}." for name, meaning in known if meaning)
    return f"{text} {WITHIN_GIVES_AWAY}" if gives_task_away(result) else text


def gives_task_away(result: Mapping[str, Any]) -> bool:
    """Whether no task is given, but edges tell it."""
    return bool(result["edges"] == "within" and result["evaluate"] != "oracle")


def headline(results: Sequence[Result]) -> str:
    """Title of the page.

    Example:
        >>> headline([{"dataset": "cora"}]), headline([{"dataset": "cora"}, {"dataset": "dblp"}])
        ('Continual learning on cora', 'Continual learning on cora and dblp')
    """
    names = list(dict.fromkeys(str(result["dataset"]) for result in results))
    if len(names) > 3:
        return f"Continual learning on {len(names)} data sets"
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"Continual learning on {listed}"


def lead(results: Sequence[Result], num_groups: int) -> str:
    """Sentence below the title."""
    if len(results) == 1:
        return "One run: what it learned, what it kept, and what it cost."
    text = f"{len(results)} runs: what each learned, what it kept, and what it cost."
    if num_groups > 1:
        text += f" They fall into {num_groups} settings; only runs of one setting share a chart."
    return text
