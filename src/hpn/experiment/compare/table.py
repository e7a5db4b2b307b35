"""Many methods on one data set: one table of AM, FM, ARS and costs, from runs that happen once.

The run folder of a cell is the one that :func:`hpn.run` uses, so that neither runs what the other has done.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpn.datasets import Graph
from hpn.experiment.compare.cells import ALL, Methods, choose_cells, resolve_cells
from hpn.experiment.compare.result import FILE_NAME, CellCosts, Comparison, ComparisonRow, PublishedParameters
from hpn.experiment.compare.runs import CellRun, run_cells
from hpn.experiment.execute import choose_job_device, open_executor
from hpn.experiment.published import published_cell, published_parameters, published_source, row_name
from hpn.experiment.run.config import RunConfig, check_seeds, seed_words, setting_words, short_hash
from hpn.experiment.run.folder import make_folder, write_json
from hpn.experiment.run.result import RunResult
from hpn.experiment.watch import Watcher
from hpn.metrics import METRICS
from hpn.nn.backbones import BACKBONES
from hpn.streams import plan_tasks


def compare(
    dataset: str,
    *,
    methods: Methods = ALL,
    backbones: str | Sequence[str] = tuple(BACKBONES),
    seeds: int | Sequence[int] = 1,
    settings: Mapping[str, Any] | None = None,
    use_recipes: bool = True,
    workers: int = 1,
    ray: str | None = None,
    device: str = "auto",
    runs: Path | str = "runs",
    out: Path | str | None = None,
    data_root: Path | str | None = None,
    fresh: bool = False,
    watcher: Watcher | None = None,
    **protocol: Any,
) -> Comparison:
    """Run methods on a data set and return one table; finished runs, from here or ``hpn.run``, are not repeated.

    A cell that fails does not stop the others: its row states why. The same call again resumes an interrupted
    one. Joint training, if it is compared, is the reference for intransigence.

    Args:
        dataset: Name or path.
        methods: ``all``, or names such as ``hpn`` (with every backbone, if it has one) and ``ewc:gat``; or classes.
        backbones: Backbones of the methods that have one.
        seeds: How many seeds (0, 1, …), or which.
        settings: Hyper-parameters as ``METHOD.KEY`` and options of the data set as ``data.KEY``.
        use_recipes: Whether settings of packaged recipes come before defaults, as in a run.
        workers: How many processes; one means this process.
        ray: Address of a Ray cluster to run on instead.
        device: ``cpu``, ``cuda``, ``cuda:N``, ``mps``, or ``auto`` for the best available. On a cluster,
            ``auto`` stands for ``cpu``, and with ``cuda`` every job takes a GPU.
        runs: Folder with the run folders.
        out: Folder for ``comparison.json``; by default in ``runs``, named after data set and protocol.
        data_root: Folder with the data.
        fresh: Delete earlier runs in the run folders.
        watcher: Receives the progress.
        protocol: ``scenario``, ``edges``, ``evaluate``, ``stream``, ``evaluate_ahead``, ``tasks`` and
            ``classes_per_task``, as :func:`~hpn.experiment.run.config.resolve_config` takes them.

    Returns:
        The table: ``to_json()`` is what ``hpn compare --json`` prints, :func:`hpn.write_comparison` makes
        files of it.

    Raises:
        ConfigError: If an argument cannot be used; then nothing has run.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     table = compare("digits", methods="ncm,probe", runs=folder)
        >>> [row.method for row in table.rows]
        ['probe', 'ncm']
    """
    chosen = check_seeds(seeds)
    device = choose_job_device(device, ray=ray)
    executor = open_executor(workers, ray, device)
    cells = choose_cells(methods, backbones, stream=protocol.get("stream", "tasks"))
    root = Path(data_root) if data_root else None
    configs, graph = resolve_cells(
        dataset, cells, settings=settings, use_recipes=use_recipes, data_root=root, **protocol
    )
    folder = Path(out) if out else Path(runs) / _folder_name(configs[0])
    make_folder(folder)
    entries = [
        CellRun(config, Path(runs) / config.default_folder().name, chosen, root, graph, device=device)
        for config in configs
    ]
    with executor:
        run_cells(entries, executor, fresh=fresh, watcher=watcher or Watcher())
    words = ["hpn", "compare", dataset, "--methods", ",".join(map(str, cells))]
    words += configs[0].protocol_words(without=("--method", "--backbone"))
    words += [*seed_words(chosen), *setting_words(settings or {})]
    words += [] if use_recipes else ["--no-recipe"]
    words += ["--data-root", str(root)] if root else []
    comparison = _table(entries, graph, shlex.join(words), folder)
    write_json(folder / FILE_NAME, comparison.to_json())
    return comparison


def _table(cells: Sequence[CellRun], graph: Graph, command: str, out: Path) -> Comparison:
    shared = cells[0].config
    note = why_unpublished([cell.config for cell in cells], graph)
    names = [(cell.config.method, cell.config.backbone) for cell in cells]
    parameters = {row_name(*name): amount for name in names if (amount := published_parameters(*name))}
    same = ("dataset", "data_options", "scenario", "evaluate", "edges", "stream", "versions")
    return Comparison(
        **{key: getattr(shared, key) for key in same},
        tasks=[list(task) for task in shared.tasks],
        seeds=list(cells[0].seeds),
        rows=[_row(cell, _reference(cell, cells), with_published=note is None) for cell in cells],
        published_source=published_source(),
        published_parameters=PublishedParameters(dataset="ogbn-products", values=parameters),
        note=note,
        command=command,
        out=str(out),
    )


def _row(cell: CellRun, reference: RunResult | None, *, with_published: bool) -> ComparisonRow:
    config, result = cell.config, cell.result
    if result is not None and reference is not None:
        result = cell.combine(reference)
    published = published_cell(config.dataset, config.method, config.backbone) if with_published else None
    am, seconds = (result.am, result.seconds_per_seed()) if result else (None, None)
    return ComparisonRow(
        name=row_name(config.method, config.backbone),
        method=config.method,
        backbone=config.backbone,
        sees_past=config.learner.sees_past,
        metrics=result.metrics if result else dict.fromkeys(METRICS),
        **{key: getattr(result, key, None) for key in ("parameters", "stored", "prototypes", "recipe")},
        seconds=CellCosts(fit=seconds.fit, predict=seconds.predict) if seconds else None,
        published=published,
        difference=am.mean - published.am.mean if am and published else None,
        run=str(cell.folder),
        command=config.command(cell.seeds, cell.data_root),
        error=cell.error,
    )


def _reference(cell: CellRun, cells: Sequence[CellRun]) -> RunResult | None:
    """The joint training that intransigence refers to: with the same backbone, or any if there is none."""
    if cell.config.method == "joint":
        return None
    found = {one.config.backbone: one.result for one in cells if one.config.method == "joint" and one.result}
    if cell.config.backbone is not None:
        return found.get(cell.config.backbone)
    return found.get("gcn") or next(iter(found.values()), None)


def why_unpublished(configs: Sequence[RunConfig], graph: Graph) -> str | None:
    """Why the paper's numbers are not comparable with runs under one protocol; ``None`` if they are."""
    config = configs[0]
    if not any(published_cell(config.dataset, one.method, one.backbone) for one in configs):
        return f"the paper has none for these methods on {config.dataset}"
    if (config.scenario, config.evaluate) != ("task", "oracle"):
        return "they are task-incremental, with the task of every node given (evaluate oracle)"
    if config.edges != "within":
        return "they are for edges within a task"
    if config.tasks != plan_tasks(graph, "paper").classes:
        return "they are for the paper's own tasks in its own order"
    return None


def _folder_name(config: RunConfig) -> str:
    """The name depends on data and protocol, and not on methods, seeds and versions."""
    found = config.to_json()
    for key in ("method", "params", "versions", "learner_code"):
        found.pop(key, None)
    return f"compare-{Path(config.dataset).stem}-{short_hash(found)}"
