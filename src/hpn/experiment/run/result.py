"""The result of a run over its seeds: the JSON that everything else reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hpn.datasets import Graph
from hpn.experiment.run.config import RunConfig
from hpn.learners import LEARNERS
from hpn.metrics import accuracy_mean, average_retaining, forgetting_mean, summarize
from hpn.metrics.matrix import Matrix

SCHEMA = 1


def combine_seeds(
    config: RunConfig,
    graph: Graph,
    seeds: Sequence[int],
    finished: Sequence[dict[str, Any]],
    *,
    command: str,
    out: Path,
) -> dict[str, Any]:
    """Put the finished seeds of a run together; accuracies, AM, FM and ARS are in per cent.

    Args:
        config: The run.
        graph: Its data, for the class names.
        seeds: The seeds, in order.
        finished: Result of each seed.
        command: The command line that repeats the run.
        out: The run folder.
    """
    # Joint training sees every task anew each time: it has nothing to forget.
    forgets = not LEARNERS[config.method].sees_past
    matrices = [entry["matrix"] for entry in finished]
    names = {str(c): graph.class_names[c] for task in config.tasks for c in task}
    return {
        "schema": SCHEMA,
        "dataset": config.dataset,
        "method": config.method,
        "backbone": config.backbone,
        "scenario": config.scenario,
        "evaluate": config.evaluate,
        "edges": config.edges,
        "tasks": [list(task) for task in config.tasks],
        "seeds": list(seeds),
        **_metrics(matrices, forgets=forgets),
        "parameters": _mean([entry["parameters"] for entry in finished]),
        # Seeds that were finished before this was counted have none.
        "stored": _mean([entry["stored"] for entry in finished])
        if all("stored" in entry for entry in finished)
        else None,
        "prototypes": _mean_by_level([entry["prototypes"] for entry in finished]),
        "bounds": finished[0]["bounds"],
        "parameter_bound": finished[0].get("parameter_bound"),
        "seconds": {
            name: sum(entry["seconds"][name] for entry in finished) for name in ("fit", "predict", "total")
        },
        "peak_rss_mb": _largest([entry["peak_rss_mb"] for entry in finished]),
        "device": finished[-1].get("device"),
        "versions": config.versions,
        "out": str(out),
        "balanced": _metrics([entry["balanced"] for entry in finished], forgets=forgets),
        "class_names": names,
        "growth": _growth([entry.get("growth") for entry in finished], num_tasks=len(config.tasks)),
        "params": config.effective_params(),
        "recipe": config.recipe,
        "command": command,
    }


def _metrics(matrices: Sequence[Matrix], *, forgets: bool) -> dict[str, Any]:
    def over_seeds(metric: Callable[[Matrix], float | None]) -> Any:
        return summarize([metric(matrix) for matrix in matrices])

    return {
        "am": over_seeds(accuracy_mean),
        "fm": over_seeds(forgetting_mean) if forgets else None,
        "ars": over_seeds(_percent_retained) if forgets else None,
        "matrices": list(matrices),
    }


def _percent_retained(matrix: Matrix) -> float | None:
    share = average_retaining(matrix)
    return None if share is None else 100.0 * share


def _mean(values: Sequence[int]) -> float:
    mean = sum(values) / len(values)
    return int(mean) if mean == int(mean) else mean


def _mean_by_level(counts: Sequence[dict[str, int] | None]) -> dict[str, float] | None:
    known = [count for count in counts if count is not None]
    if not known:
        return None
    return {level: _mean([count[level] for count in known]) for level in known[0]}


def _growth(seeds: Sequence[list[dict[str, Any]] | None], *, num_tasks: int) -> list[dict[str, Any]] | None:
    """What the seeds had grown to after each task; seeds from before this was counted have none."""
    known = [steps for steps in seeds if steps is not None and len(steps) == num_tasks]
    if len(known) < len(seeds):
        return None
    return [_grown(step) for step in zip(*known, strict=True)]


def _grown(step: Sequence[dict[str, Any]]) -> dict[str, Any]:
    prototypes = [entry["prototypes"] for entry in step]
    return {
        "parameters": _mean([entry["parameters"] for entry in step]),
        "stored": _mean([entry["stored"] for entry in step]),
        "prototypes": _mean_by_level(prototypes),
        "most_prototypes": {level: max(count[level] for count in prototypes) for level in prototypes[0]}
        if prototypes[0] is not None
        else None,
    }


def _largest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known, default=None)
