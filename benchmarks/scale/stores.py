"""The data: stores that are made once, and tables to import from."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import Any

from benchmarks.scale.plan import QUICK, REAL, Setup, Skipped, find_real

ROWS = 100_000
"""Nodes written to a table at once."""


def hpn_command(*words: object) -> list[str]:
    """A command of the package, as a list of words."""
    return [sys.executable, "-m", "hpn", *map(str, words)]


def make_store(setup: Setup, *, dataset: str) -> dict[str, Any]:
    """Write a data set as a store."""
    is_real = dataset in REAL
    if is_real and setup.quick:
        raise Skipped("a quick run leaves out real data")
    if is_real and not find_real(dataset).is_file():
        raise Skipped(f"no {find_real(dataset).name} in the data folder; set HPN_DATA")
    store = setup.store(dataset)
    shutil.rmtree(store, ignore_errors=True)
    store.parent.mkdir(parents=True, exist_ok=True)
    source = find_real(dataset) if is_real else dataset
    sizes = [f"--set=data.{key}={value}" for key, value in QUICK.items()] if setup.quick else []
    words = hpn_command("import", source, store, "--quiet", "--json", *sizes)
    told = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return {"makes": [str(store)], **{key: told[key] for key in ("nodes", "edges", "features", "classes")}}


def make_tables(setup: Setup, *, dataset: str) -> dict[str, Any]:
    """Write a store as Parquet tables, every edge once, a piece and a file at a time."""
    import duckdb
    import numpy as np

    from hpn.datasets.store import open_store

    graph = open_store(setup.store(dataset), verify=False)
    folder = setup.tables(dataset)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    num_edges = 0
    with duckdb.connect() as database:
        for start in range(0, graph.num_nodes, ROWS):
            stop = min(start + ROWS, graph.num_nodes)
            ids = np.arange(start, stop)
            x = np.ascontiguousarray(graph.x[start:stop].float().numpy().T)
            nodes = {
                "id": ids,
                "label": graph.y[start:stop].numpy(),
                **{f"f{j}": row for j, row in enumerate(x)},
            }
            begin, end = int(graph.indptr[start]), int(graph.indptr[stop])
            source = np.repeat(ids, np.diff(graph.indptr[start : stop + 1].numpy()))
            target = graph.indices[begin:end].numpy().astype(np.int64)
            once = source < target
            for name, columns in (
                ("nodes", nodes),
                ("edges", {"source": source[once], "target": target[once]}),
            ):
                database.register("piece", columns)
                database.execute(f"COPY piece TO '{folder}/{name}-{start:012}.parquet'")
            num_edges += int(once.sum())
    return {"makes": [str(folder)], "edges": num_edges}
