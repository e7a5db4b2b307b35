"""Seconds that commands about a model take beyond importing torch, side by side.

python benchmarks/commands.py [GRAPH]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPEATS = 5
# As it is for users: modules are compiled once.
CACHE = tempfile.TemporaryDirectory()
ENVIRONMENT = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": CACHE.name}


def seconds(*words: str) -> float:
    """The least of several runs, as the machine has other things to do as well."""
    least = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
        least = min(least, time.perf_counter() - start)
    return least


def main() -> None:
    graph = sys.argv[1] if len(sys.argv) > 1 else "cora"
    with tempfile.TemporaryDirectory() as folder:
        model, ids, out = (str(Path(folder) / name) for name in ("model", "ids.csv", "all.csv"))
        hpn = ("-m", "hpn")
        subprocess.run([sys.executable, *hpn, "fit", graph, "--out", model, "--quiet"], check=True)
        words = [sys.executable, *hpn, "predict", model, graph, "--json", "--quiet"]
        found = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
        node = str(found["predictions"][0]["id"])
        Path(ids).write_text(f"id\n{node}\n", encoding="utf-8")
        commands = {
            "fit": (*hpn, "fit", graph, "--out", model, "--force", "--quiet"),
            "update, nothing new": (*hpn, "update", model, graph, "--quiet"),
            "predict one node": (*hpn, "predict", model, graph, "--nodes", ids, "--quiet"),
            "predict all nodes": (*hpn, "predict", model, graph, "--out", out, "--quiet"),
            "explain one node": (*hpn, "explain", model, graph, "--node", node, "--quiet"),
            "show": (*hpn, "show", model),
        }
        base = seconds("-c", "import torch")
        print(f"\nimport torch: {base:.2f} s; load the graph: {_loading(graph) - base:.2f} s beyond it")
        print(f"{'hpn …':20}  s beyond importing torch  ratio")
        for name, command in commands.items():
            taken = seconds(*command)
            print(f"{name:20}  {taken - base:24.2f}  {taken / base:5.2f}")


def _loading(graph: str) -> float:
    return seconds("-c", f"import torch, hpn; hpn.load_graph({graph!r})")


if __name__ == "__main__":
    main()
