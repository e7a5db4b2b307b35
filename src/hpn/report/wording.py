"""The words on a page: settings, terms, headings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hpn.experiment.compare.result import Comparison
from hpn.experiment.run.result import RunResult
from hpn.metrics import Metric
from hpn.report.format import plural
from hpn.report.results import Run, shown_metrics, step_noun

if TYPE_CHECKING:
    from hpn.experiment.exploration import Exploration

UNITS = {"%": "percent"}
SCENARIOS = {"task": "task-incremental", "class": "class-incremental"}

EVALUATIONS = {
    "oracle": "the task of a test node is given, and the prediction is one of that task’s classes",
    "global": "a test node comes alone, and the prediction is one of all classes seen so far",
    "grouped": "a task’s test nodes arrive together, and the task is inferred for the whole set",
}

EDGES = {
    "within": "only edges between nodes of the same task are kept",
    "seen": "edges between all nodes seen so far are kept",
}

WITHIN_GIVES_AWAY = (
    "Edges within a task reveal the task: a node is connected to nodes of its own task only. "
    "Without a task, compare with --edges seen."
)

NOT_MEASURED = "accuracy is not measured: there is a single class to choose from"

TERMS = (
    (
        "Cost",
        "Parameters and seconds are the mean over seeds, in tables and charts alike; memory is the largest "
        "of any seed.",
    ),
    ("±", "Standard deviation over seeds; absent with one seed. Bands and horizontal lines show the same."),
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
    "groups, their sizes and directions mean nothing. The silhouette (how well classes are separated, −1 to 1) "
    "and the share of nodes whose nearest others are mostly of their class are measured in the "
    "representation itself.",
)


def metric_terms(metrics: Iterable[Metric]) -> list[tuple[str, str]]:
    """What metrics mean, and in which direction they are better."""
    return [
        (
            metric.label,
            f"{metric.definition[:1].upper()}{metric.definition[1:]} "
            f"(in {UNITS.get(metric.unit, metric.unit)}). "
            f"{'Higher' if metric.higher_is_better else 'Lower'} is better.",
        )
        for metric in metrics
    ]


def terms(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """The terms to explain below these runs."""
    results = [run.result for run in runs]
    found = [*metric_terms(shown_metrics(results)), *TERMS]
    if any(result.growth for result in results):
        found.append(STORED_TERM)
    if any(result.bounds or result.parameter_bound for result in results):
        found.append(BOUND_TERM)
    if any(run.views for run in runs):
        found.append(VIEWS_TERM)
    return found


def setting(result: RunResult | Comparison) -> list[str]:
    """Name what the results of a group share besides the data set."""
    return [
        SCENARIOS.get(result.scenario, result.scenario),
        f"{result.evaluate} evaluation",
        f"edges: {result.edges}",
        *([] if result.stream == "tasks" else [f"stream: {result.stream}"]),
        plural(len(result.tasks), step_noun(result)),
    ]


def explanation(result: RunResult | Comparison) -> str:
    """State how test nodes are evaluated and which edges are used."""
    known = [
        (result.evaluate.capitalize(), EVALUATIONS.get(result.evaluate)),
        (f"Edges {result.edges}", EDGES.get(result.edges)),
    ]
    text = " ".join(f"{name}: {meaning}." for name, meaning in known if meaning)
    return f"{text} {WITHIN_GIVES_AWAY}" if gives_task_away(result) else text


def gives_task_away(result: RunResult | Comparison) -> bool:
    """Whether no task is given, but edges reveal it."""
    return result.edges == "within" and result.evaluate != "oracle"


def headline(results: Sequence[RunResult | Comparison]) -> str:
    """Title of the page: few data sets are named, many are counted."""
    names = list(dict.fromkeys(result.dataset for result in results))
    if len(names) > 3:
        return f"Continual learning on {len(names)} data sets"
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"Continual learning on {listed}"


def lead(num_runs: int, num_groups: int) -> str:
    """Sentence below the title."""
    if num_runs == 1:
        return "One run: accuracy, retention and cost."
    text = f"{num_runs} runs: accuracy, retention and cost."
    if num_groups > 1:
        text += f" They have {num_groups} settings; only runs of one setting share a chart."
    return text


def describe_exploration(exploration: Exploration) -> str:
    """The caption of the map."""
    shown, total = len(exploration.x), exploration.num_nodes
    nodes = f"{shown:,} nodes" if shown == total else f"{shown:,} of {total:,} nodes, chosen by hash of their id"
    how = {"pca": "the first two principal components", "tsne": "t-SNE"}[exploration.drawing]
    given = " Predictions are made with the task given, the map without it." * exploration.is_task_given
    founded = {
        "recorded": "The step that founded a prototype was recorded when it was learned.",
        "derived": "The step of a prototype is the earliest one whose nodes on the map are matched to it.",
        "unknown": "The step that founded a prototype is not known.",
    }[exploration.founding]
    return (
        f"{exploration.name}: {nodes}, placed by {how} of the prototypes they are matched to.{given} "
        f"A prototype serves a node if a bank matches it for the predicted class or the runner-up. {founded}"
    )
