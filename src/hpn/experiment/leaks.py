"""What an evaluation reveals: one learner, evaluated in three ways that papers call class-incremental.

In none of them is the task given, but in two of them something else reveals it. How much is measured without any
learning: nodes that are known to belong together are assigned to the task whose training nodes have the nearest mean
of plain features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from hpn.datasets.sparse import is_sparse, to_scipy
from hpn.errors import ConfigError
from hpn.experiment.compare.runs import CellRun, run_cells
from hpn.experiment.execute import choose_job_device, open_executor
from hpn.experiment.run.config import check_seeds, resolve_config
from hpn.experiment.run.result import Part
from hpn.experiment.watch import Watcher
from hpn.metrics import Summary, summarize
from hpn.streams import Edges, Evaluate, GraphView, Stream

SETTINGS: Mapping[tuple[Evaluate, Edges], str] = {
    ("grouped", "within"): "The test nodes of a task arrive together, so their mean reveals the task of all of them.",
    ("global", "within"): "Nodes arrive alone, but no edge leaves a task: neighbours reveal the task of a node.",
    ("global", "seen"): "Nodes arrive alone, among all nodes and edges so far: what a model in use sees.",
}
"""The evaluations, and what each reveals; the last one reveals nothing."""


class LeakRow(Part):
    """One evaluation.

    Args:
        am: Average accuracy after the last task; ``None`` if it failed.
        task_found: Share of test nodes whose task a plain mean of features finds: the mean of the nodes that arrive
            together, or of the connected component of a node.
        gives_away: One sentence.
        error: Why it failed.
    """

    evaluate: str
    edges: str
    am: Summary | None
    task_found: Summary | None
    gives_away: str
    run: str
    command: str
    error: str | None = None


class Leaks(Part):
    """The same learner under each evaluation; accuracies and shares are in percent."""

    dataset: str
    method: str
    backbone: str | None
    tasks: list[list[int]]
    seeds: list[int]
    rows: list[LeakRow]
    command: str

    def to_json(self) -> dict[str, Any]:
        """The fields of ``hpn leaks --json``."""
        return {"schema": 1, **self.model_dump(mode="json")}


def find_leaks(
    dataset: str,
    *,
    seeds: int | Sequence[int] = 1,
    runs: Path | str = "runs",
    data_root: Path | str | None = None,
    fresh: bool = False,
    workers: int = 1,
    ray: str | None = None,
    device: str = "auto",
    watcher: Watcher | None = None,
    **choices: Any,
) -> Leaks:
    """Evaluate a learner in three ways that reveal more or less of the task.

    Runs are those of :func:`hpn.run` and :func:`hpn.compare`: what was run before is not run again.

    Args:
        dataset: Name or path.
        seeds: How many seeds (0, 1, …), or which.
        runs: Folder with the run folders.
        data_root: Folder with the data.
        fresh: Delete what the run folders hold of earlier runs.
        workers: How many processes; one means this process.
        ray: Address of a Ray cluster to run on instead.
        device: ``cpu``, ``cuda``, ``cuda:N``, ``mps``, or ``auto`` for an accelerator if there is one.
        watcher: Is notified of progress.
        choices: ``method``, ``backbone``, ``tasks``, ``classes_per_task``, ``settings`` and ``recipe``, as
            :func:`hpn.run` takes them.

    Raises:
        ConfigError: If an argument cannot be used; then nothing has run.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     leaks = find_leaks("digits", method="ncm", runs=folder)
        >>> leaks.rows[0].task_found.mean
        100.0
    """
    for name in ("scenario", "evaluate", "edges", "stream"):
        if choices.get(name) is not None:
            raise ConfigError(f"hpn leaks evaluates streams of tasks in three ways of its own; leave {name} out")
    chosen, device = check_seeds(seeds), choose_job_device(device, ray=ray)
    root = Path(data_root) if data_root else None
    evaluate, edges = next(iter(SETTINGS))
    first, graph = resolve_config(dataset, scenario="class", evaluate=evaluate, edges=edges, data_root=root, **choices)
    configs = [replace(first, evaluate=evaluate, edges=edges) for evaluate, edges in SETTINGS]
    cells = [
        CellRun(config, Path(runs) / config.default_folder().name, chosen, root, graph, device=device)
        for config in configs
    ]
    with open_executor(workers, ray, device) as executor:
        run_cells(cells, executor, fresh=fresh, watcher=watcher or Watcher())
    rows = []
    for cell, sentence in zip(cells, SETTINGS.values(), strict=True):
        config = cell.config
        found = [find_tasks(config.make_stream(graph, seed), config.evaluate) for seed in chosen]
        rows.append(
            LeakRow(
                evaluate=config.evaluate,
                edges=config.edges,
                am=cell.result.metrics["am"] if cell.result else None,
                task_found=summarize(found),
                gives_away=sentence,
                run=str(cell.folder),
                command=config.command(chosen, root),
                error=cell.error,
            )
        )
    return Leaks(
        dataset=dataset,
        method=first.method,
        backbone=first.backbone,
        tasks=[list(task) for task in first.tasks],
        seeds=chosen,
        rows=rows,
        command=first.command(chosen, root, name="leaks", without=("--scenario", "--edges", "--evaluate")),
    )


def find_tasks(stream: Stream, evaluate: Evaluate) -> float:
    """Share of test nodes whose task the nearest mean of plain features finds, in percent; nothing is learned."""
    steps = [stream.step(index) for index in range(len(stream))]
    means = np.stack([_features(step.graph, step.train).mean(axis=0).A1 for step in steps])
    is_right = []
    for query, key in stream.queries(after=len(stream) - 1, evaluate=evaluate):
        view, nodes = query.graph, query.nodes.numpy()
        # How near a node is to each task, up to what is the same for all tasks; sums over nodes rank as their means do.
        nearness = _features(view) @ means.T - (means**2).sum(axis=1) / 2
        if query.grouped:
            found = nearness[nodes].sum(axis=0).argmax()
        else:
            links = (np.ones(len(view.indices)), view.indices.numpy(), view.indptr.numpy())
            num_parts, part = connected_components(csr_matrix(links, shape=(view.num_nodes,) * 2), directed=False)
            total = np.zeros((num_parts, len(steps)))
            np.add.at(total, part, nearness)
            found = total.argmax(axis=1)[part[nodes]]
        is_right.append(key.step.numpy() == found)
    return 100.0 * float(np.concatenate(is_right).mean())


def _features(view: GraphView, nodes: Tensor | None = None) -> csr_matrix:
    x = view.take(nodes)
    return to_scipy(x) if is_sparse(x) else csr_matrix(x.numpy())
