"""What is measured: the cells of the suite, their sizes, and the settings of the learners.

Nothing here imports PyTorch, because the memory of a process counts for the commands that it starts.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

LARGE: dict[str, Any] = {"preset": "large", "epochs": 10, "batch_size": 4000}
"""HPN as the paper has it on large graphs, dimension aside."""

DIMS = {"arxiv-like": 4}
"""Dimension of every level, 2 where nothing else is said."""

GCN: dict[str, Any] = {"backbone": "gcn", "epochs": 10}
GCN_BATCHES = {"batch_size": 4000, "num_neighbors": 10}
"""Fine-tuning, and what makes it go over a graph in mini-batches of as many nodes as HPN's."""

AUTHORS_FIRST, AUTHORS_LAST = 10_600.0, 8_900.0
"""Nodes a second of the authors' code in the prototype phase at batch 100 (two threads, debugging off): at
first, and when prototypes have accumulated. They come from outside; nothing here measures them."""
AUTHORS_BATCH, AUTHORS_RATE = 100, 0.001
"""Their batch size, and the learning rate that the paper has with it."""

AUTHORS_CELLS: dict[str, dict[str, Any]] = {
    f"batch-{AUTHORS_BATCH}": {"batch_size": AUTHORS_BATCH},
    f"batch-{AUTHORS_BATCH}-paper-rate": {"batch_size": AUTHORS_BATCH, "lr_refine": AUTHORS_RATE},
    f"batch-{LARGE['batch_size']}": {},
}
"""What is measured beside the authors' code: changes of the settings."""

DATASETS = ("arxiv-like", "products-like", "debian-sections")
REAL = ("debian-sections",)
"""Those that are files in ``HPN_DATA``."""
FEW_TASKS = {"products-like": 2}
FEW_EPOCHS = {"products-like": 3}
"""Tasks of fits, and epochs of fine-tuning in batches, where all would take too long."""
ASKED_NODES = 1_000_000
SEEDS = 5

QUICK = {"num_nodes": 4000, "num_links": 20_000, "num_features": 16}
QUICK_TASKS = 2
"""Size of the twins, and tasks, in a quick run, which tries the suite and measures nothing."""


FORMAT = 1
"""Of kept results: to be raised when cells give other values than before."""


class Skipped(Exception):  # noqa: N818 - not an error
    """There is nothing for a cell to measure, and why."""


@dataclass(frozen=True)
class Setup:
    """What holds for all cells of a suite.

    Args:
        work: Folder for data and results.
        threads: Threads of a process, unless a cell says otherwise.
        quick: Whether to use tiny sizes.
    """

    work: Path
    threads: int = 2
    quick: bool = False

    def store(self, dataset: str) -> Path:
        """Where the store of a data set is."""
        return self.work / "stores" / dataset

    def tables(self, dataset: str) -> Path:
        """Where its tables are."""
        return self.work / "tables" / dataset


@dataclass(frozen=True)
class Cell:
    """One measurement, in a process of its own.

    Args:
        name: What ``--only`` calls it.
        call: ``module:function`` of this package; the function takes a :class:`Setup` and ``options``.
        options: Keyword arguments of the function, which JSON can hold.
        needs: Cells that must have run before.
        threads: Threads of the process, if not the suite's.
        is_shown: Whether it is a measurement rather than a preparation.
    """

    name: str
    call: str
    options: dict[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    threads: int | None = None
    is_shown: bool = True

    def key(self, setup: Setup) -> dict[str, Any]:
        """What a kept result must agree with to be used again."""
        return {
            "format": FORMAT,
            **asdict(self),
            "needs": list(self.needs),
            "threads": (self.threads or setup.threads) if self.is_shown else None,
            "quick": setup.quick,
        }


def hpn_settings(dataset: str = "", **changes: Any) -> dict[str, Any]:
    """Settings of HPN for a data set."""
    return {**LARGE, "dim": DIMS.get(dataset, 2), **changes}


def node_counts(quick: bool) -> tuple[int, ...]:
    """Training nodes of the growth curve; multiples of the batch size, so that no batch is a small rest."""
    full = (12_000, 32_000, 100_000, 300_000, 1_000_000, 2_000_000)
    return (1000, 2000, 4000) if quick else full


def plan_cells(quick: bool = False) -> list[Cell]:
    """All cells, in the order in which they run."""
    cells = [cell for dataset in DATASETS for cell in _dataset_cells(dataset)]
    return [*cells, *_authors_cells(), *_growth_cells(quick)]


def find_real(dataset: str) -> Path:
    """The file of a real data set, whether it is there or not; looked for where `hpn` looks."""
    named = os.environ.get("HPN_DATA")
    root = Path(named).expanduser() if named else user_cache_path("hpn") / "data"
    return root / f"{dataset}.npz"


def _dataset_cells(dataset: str) -> list[Cell]:
    on, hpn = {"dataset": dataset}, {"settings": hpn_settings(dataset)}
    few: dict[str, Any] = {**on, "num_tasks": FEW_TASKS.get(dataset)}
    store, tables = f"store/{dataset}", f"tables/{dataset}"
    made = (store,) if dataset in REAL else (store, tables)
    batches = {**GCN, **GCN_BATCHES, "epochs": FEW_EPOCHS.get(dataset, GCN["epochs"])}
    cells = [Cell(store, "stores:make_store", on, is_shown=False)]
    if tables in made:
        cells.append(Cell(tables, "stores:make_tables", on, (store,), is_shown=False))
    return [
        *cells,
        Cell(f"import/{dataset}", "commands:measure_import", on, made),
        Cell(f"sample/{dataset}", "speeds:measure_sample", {**on, **hpn}, (store,)),
        Cell(f"fit/{dataset}", "speeds:measure_fit", {**few, **hpn}, (store,)),
        Cell(f"fit-1-thread/{dataset}", "speeds:measure_fit", {**few, **hpn}, (store,), threads=1),
        Cell(f"gcn-whole/{dataset}", "speeds:measure_gcn", {**few, "settings": GCN}, (store,)),
        Cell(f"gcn-batches/{dataset}", "speeds:measure_gcn", {**few, "settings": batches}, (store,)),
        Cell(f"predict/{dataset}", "speeds:measure_predict", {**on, **hpn}, (store,)),
        Cell(f"gcn-predict/{dataset}", "speeds:measure_gcn_predict", {**few, "settings": GCN}, (store,)),
        Cell(f"run/{dataset}", "commands:measure_run", {**on, **hpn}, (store,)),
    ]


def _authors_cells() -> list[Cell]:
    dataset, needs = "arxiv-like", ("store/arxiv-like",)
    cells = []
    for name, changes in AUTHORS_CELLS.items():
        options: dict[str, Any] = {"dataset": dataset, "settings": hpn_settings(dataset, **changes)}
        if "lr_refine" not in changes:  # speed is about the batch size
            cells.append(Cell(f"tasks/{name}", "speeds:measure_tasks", options, needs))
        cells.append(Cell(f"accuracy/{name}", "commands:measure_run", {**options, "seeds": SEEDS}, needs))
    return cells


def _growth_cells(quick: bool) -> list[Cell]:
    settings = hpn_settings()
    cells = [
        Cell(f"growth/nodes-{count}", "growth:measure_nodes", {"num_train": count, "settings": settings})
        for count in node_counts(quick)
    ]
    return [
        *cells,
        Cell("growth/tasks", "growth:measure_equal_tasks", {"settings": settings}),
        Cell("growth/prototypes", "growth:measure_matching"),
        Cell("growth/steps", "growth:measure_steps", {"settings": settings}),
    ]
