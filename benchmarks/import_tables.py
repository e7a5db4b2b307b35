"""How fast `hpn import` turns Parquet tables into a store, and how much memory it takes.

Run from the root of the repository::

    python benchmarks/import_tables.py                       # the size of ogbn-products
    python benchmarks/import_tables.py --scale 0.1           # a tenth of it
    python benchmarks/import_tables.py --lists               # features as one list column

Tables are drawn from hashes and kept in ``--folder``, so that a second run reads the same files.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

NUM_NODES, NUM_EDGES, NUM_FEATURES, NUM_CLASSES = 2_400_000, 61_600_000, 100, 47


def main() -> None:
    """Draw the tables, import them in a process of its own, and print what that took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the nodes and edges")
    parser.add_argument("--lists", action="store_true", help="features as one list column")
    parser.add_argument("--folder", type=Path, default=Path("import-benchmark"), help="where tables go")
    arguments = parser.parse_args()
    tables = arguments.folder / f"tables-{arguments.scale:g}{'-lists' if arguments.lists else ''}"
    store = arguments.folder / "store"
    if not tables.exists():
        draw_tables(tables, arguments.scale, lists=arguments.lists)
    shutil.rmtree(store, ignore_errors=True)
    size = sum(file.stat().st_size for file in tables.iterdir())
    begin = time.perf_counter()
    words = [sys.executable, "-m", "hpn", "import", str(tables), str(store), "--quiet", "--json"]
    process = subprocess.Popen(words)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    if status:
        raise SystemExit("the import failed")
    print(
        f"{size / 1e6:,.0f} MB of Parquet in {seconds:.1f} s, {size / 1e6 / seconds:.1f} MB/s, "
        f"peak memory {usage.ru_maxrss / 1024:,.0f} MB"
    )


def draw_tables(folder: Path, scale: float, *, lists: bool) -> None:
    """Write ``nodes.parquet`` and ``edges.parquet``: random features and edges, a hub every now and then."""
    import duckdb

    folder.mkdir(parents=True)
    num_nodes, num_edges = int(NUM_NODES * scale), int(NUM_EDGES * scale)
    # A random number of a row and a column is a hash, so that it depends on neither threads nor order.
    numbers = [f"((hash(i, {j}) % 20001)::DOUBLE / 10000 - 1)::FLOAT" for j in range(NUM_FEATURES)]
    if lists:
        columns = f"[{', '.join(numbers)}] AS features"
    else:
        columns = ", ".join(f"{number} AS f{j}" for j, number in enumerate(numbers))
    label = f"(hash(i, -1) % {NUM_CLASSES})::INTEGER"
    nodes = f"SELECT i AS id, {label} AS label, {columns} FROM range({num_nodes}) t(i)"
    # The square of a uniform number makes the first nodes hubs.
    source = f"least(({num_nodes} * (hash(i, -2) % 1000003 / 1000003.0) ** 2)::BIGINT, {num_nodes - 1})"
    target = f"(hash(i, -4) % {num_nodes})::BIGINT"
    edges = f"SELECT {source} AS source, {target} AS target FROM range({num_edges}) t(i)"
    connection = duckdb.connect()
    for name, query in (("nodes", nodes), ("edges", edges)):
        connection.execute(f"COPY ({query}) TO '{folder / name}.parquet'")


if __name__ == "__main__":
    main()
