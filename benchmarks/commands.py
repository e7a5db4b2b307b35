"""Figures of whole commands, from their start to their end; nothing here imports PyTorch."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.rows import HPN, TORCH, Row, find_store, run_hpn, run_store, wall_seconds

LARGE_SECONDS = 33.1
"""Fitting plus predicting of the deleted preset `large` on products-like, 2 cores, 2026-11-18."""
NUM_FEATURES, NUM_CLASSES = 100, 47
"""Of drawn tables, as ogbn-products has them."""


def startup(work: Path) -> Iterator[Row]:  # noqa: ARG001
    """Wall time of short commands next to that of importing PyTorch, medians of 5."""
    words = {"help": ["--help"], "run": ["run", "digits", "--fresh"], "again": ["run", "digits"]}
    with tempfile.TemporaryDirectory() as folder:
        ratios = _over_torch(words, 5, Path(folder))
    yield Row("`hpn --help` / import torch", ratios["help"])
    yield Row("`hpn run digits` / import torch", ratios["run"], most=2.5)
    yield Row("`hpn run digits`, finished before / import torch", ratios["again"], most=0.5)


def commands(work: Path) -> Iterator[Row]:  # noqa: ARG001
    """Wall time of commands about a model of Cora next to that of importing PyTorch, medians of 3.

    The bound is the slowest among dimensions 3 to 32 and thresholds 0.01 to 0.99.
    """
    with tempfile.TemporaryDirectory() as folder:
        model, ids, out = (str(Path(folder) / name) for name in ("model", "ids.csv", "all.csv"))
        run_hpn("fit", "cora", "--out", model)
        node = str(run_hpn("predict", model, "cora").result["predictions"][0]["id"])
        Path(ids).write_text(f"id\n{node}\n", encoding="utf-8")
        words = {
            "`hpn fit`": ["fit", "cora", "--out", model, "--force"],
            "`hpn update`, nothing new": ["update", model, "cora"],
            "`hpn predict`, one node": ["predict", model, "cora", "--nodes", ids],
            "`hpn predict`, all nodes": ["predict", model, "cora", "--out", out],
            "`hpn explain`": ["explain", model, "cora", "--node", node],
            "`hpn show`": ["show", model],
            "`hpn theory bound --dim=7 --threshold=0.01`": ["theory", "bound", "--dim=7", "--threshold=0.01"],
        }
        for name, ratio in _over_torch(words, 3).items():
            yield Row(f"{name} / import torch", ratio)


def _over_torch(commands: Mapping[str, list[str]], rounds: int, folder: Path | None = None) -> dict[str, float]:
    """Wall time of commands of the package over that of importing PyTorch."""
    words = {name: [*HPN, *rest] for name, rest in commands.items()}
    seconds = wall_seconds({"torch": TORCH, **words}, rounds, folder)
    return {name: seconds[name] / seconds["torch"] for name in commands}


def import_(work: Path) -> Iterator[Row]:
    """`hpn import` of Parquet tables: 2.4 million nodes with 100 features, 61.6 million edges."""
    tables, store = draw_tables(work / "tables", 2_400_000, 61_600_000), work / "imported"
    size = sum(file.stat().st_size for file in tables.iterdir()) / 1e6
    shutil.rmtree(store, ignore_errors=True)
    done = run_hpn("import", tables, store)
    shutil.rmtree(store)
    yield Row(f"`hpn import`, {size:,.0f} MB of Parquet", done.seconds, "s", most=180)
    yield Row("`hpn import`, peak memory", done.peak_gb, "GB", most=6)


def products(work: Path) -> Iterator[Row]:
    """products-like (2.4 million nodes, 62 million edges, 23 tasks, predictions after each) from a store.

    `paper` runs with its packaged recipe: 1 neighbour, dimension 2, 10 epochs, batches of 4,000. `best`
    chooses its width. The preset `large` took 33.1 s for fitting and predicting (37 s in all) on 2026-11-18 on
    2 cores, before it was deleted; the ratio to it means something on that machine only.
    """
    store = find_store(work, "products-like")
    paper = run_store(work, store, "--recipe", "products-like/hpn-paper", name="paper")
    yield Row(f"`paper` (AM {paper.result['am']['mean']:.1f}), whole run", paper.seconds, "s", most=360)
    yield Row("`paper`, peak memory", paper.peak_gb, "GB", most=5)
    best = run_store(work, store, name="best")
    seconds = best.result["seconds"]["fit"] + best.result["seconds"]["predict"]
    yield Row(f"`best`, fitting and predicting ({seconds:.0f} s) / `large`", seconds / LARGE_SECONDS, most=3)
    yield Row("`best`, peak memory", best.peak_gb, "GB", most=3)


def baselines(work: Path) -> Iterator[Row]:
    """AM of `best` on products-like next to `probe` and `ridge`; finished runs are used again."""
    store, methods = find_store(work, "products-like"), {"best": "hpn", "probe": "probe", "ridge": "ridge"}
    am = {
        name: run_store(work, store, "--method", method, name=name, is_timed=False).result["am"]["mean"]
        for name, method in methods.items()
    }
    yield Row(f"AM of `best` ({am['best']:.2f}) − AM of `probe`", am["best"] - am["probe"], "points", least=0)
    yield Row("AM of `best` / AM of `ridge`", am["best"] / am["ridge"], least=0.99)


def predict(work: Path) -> Iterator[Row]:
    """`hpn predict` of a million nodes next to reading them, start-up included, medians of 3.

    The nodes have 100 features and 10 million edges. Parquet tables are read by `hpn.load_graph`; the
    features in a store are copied into memory by a process that imports what it takes to open a store.
    """
    tables = draw_tables(work / "million-tables", 1_000_000, 10_000_000)
    store, model, out = work / "million", work / "million-model", work / "million.parquet"
    if not store.exists():
        run_hpn("import", tables, store)
    run_hpn("fit", store, "--out", model, "--force")
    read = "import hpn, sys; hpn.load_graph(sys.argv[1])"
    copy = "import sys; from pathlib import Path; from hpn.datasets.store import open_store; "
    copy += "open_store(Path(sys.argv[1]), verify=False).x.clone()"
    words = {
        "read": [sys.executable, "-c", read, str(tables)],
        "predict tables": [*HPN, "predict", str(model), str(tables), "--out", str(out), "--quiet"],
        "copy": [sys.executable, "-c", copy, str(store)],
        "predict store": [*HPN, "predict", str(model), str(store), "--out", str(out), "--quiet"],
    }
    seconds = wall_seconds(words, rounds=3)
    yield Row("a million nodes in tables / reading them", seconds["predict tables"] / seconds["read"], most=3)
    what = f"a million nodes in a store ({seconds['predict store']:.1f} s) / copying their features"
    yield Row(what, seconds["predict store"] / seconds["copy"])


def draw_tables(folder: Path, num_nodes: int, num_edges: int) -> Path:
    """Write ``nodes.parquet`` and ``edges.parquet`` unless they are there: random, with a few hubs."""
    if folder.exists():
        return folder
    # A random number of a row and a column is a hash, so that it depends on neither threads nor order.
    numbers = [f"((hash(i, {j}) % 20001)::DOUBLE / 10000 - 1)::FLOAT AS f{j}" for j in range(NUM_FEATURES)]
    label = f"(hash(i, -1) % {NUM_CLASSES})::INTEGER"
    nodes = f"SELECT i AS id, {label} AS label, {', '.join(numbers)} FROM range({num_nodes}) t(i)"
    # The square of a uniform number makes the first nodes hubs.
    source = f"least(({num_nodes} * (hash(i, -2) % 1000003 / 1000003.0) ** 2)::BIGINT, {num_nodes - 1})"
    target = f"(hash(i, -4) % {num_nodes})::BIGINT"
    edges = f"SELECT {source} AS source, {target} AS target FROM range({num_edges}) t(i)"
    folder.mkdir(parents=True)
    for name, query in (("nodes", nodes), ("edges", edges)):  # in other processes, since it takes memory
        code = "import duckdb, sys; duckdb.execute(sys.argv[1])"
        statement = f"COPY ({query}) TO '{folder / name}.parquet'"
        subprocess.run([sys.executable, "-c", code, statement], check=True)
    return folder
