from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from hpn.datasets import Graph, load_dataset
from hpn.errors import ConfigError
from hpn.experiment.leaks import SETTINGS, find_leaks, find_tasks
from hpn.experiment.run.runner import run
from hpn.streams import TaskStream

DATA = {"num_nodes": 240, "num_links": 1200, "num_features": 6, "num_classes": 6, "noise": 0.5}


def settings() -> dict[str, Any]:
    return {f"data.{key}": value for key, value in DATA.items()}


def test_the_rows_are_runs_that_other_commands_share(tmp_path: Path) -> None:
    found = find_leaks("synthetic", method="ncm", settings=settings(), seeds=2, runs=tmp_path)
    assert [(row.evaluate, row.edges) for row in found.rows] == list(SETTINGS)
    for row in found.rows:
        one = run("synthetic", method="ncm", evaluate=row.evaluate, edges=row.edges, settings=settings(), seeds=2,
                  out=tmp_path / "again" / f"{row.evaluate}-{row.edges}")  # fmt: skip
        assert row.am == one.metrics["am"]
        assert row.command == one.command
        assert (Path(row.run) / "result.json").exists()
    assert found.command.startswith("hpn leaks synthetic --method ncm --tasks ")
    assert "--evaluate" not in found.command
    assert found.to_json()["rows"][0]["gives_away"] == SETTINGS["grouped", "within"]


def test_means_of_what_belongs_together_find_tasks_and_single_nodes_do_not() -> None:
    graph = load_dataset("synthetic", **DATA)
    grouped = find_tasks(TaskStream(graph, scenario="class"), "grouped")
    seen = find_tasks(TaskStream(graph, scenario="class", edges="seen"), "global")
    assert grouped == 100.0
    assert seen < 60.0


@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_task_of_a_component_is_that_of_the_nearest_mean(is_sparse: bool) -> None:
    """Two tasks of two classes each; a node of every component lies on the wrong side, its neighbours do not."""
    num = 20
    y = torch.arange(4).repeat_interleave(num)
    x = torch.stack([(y >= 2).float(), torch.ones(4 * num)], dim=1)
    x[::num, 0] = 1 - x[::num, 0]
    edge_index = torch.stack([torch.arange(4 * num), torch.arange(4 * num) // num * num])
    x = x.to_sparse_csr() if is_sparse else x
    graph = Graph.build("stars", x=x, links=edge_index[:, edge_index[0] != edge_index[1]], y=y)
    stream = TaskStream(graph, scenario="class", tasks=[[0, 1], [2, 3]])
    assert find_tasks(stream, "global") == 100.0
    alone = Graph.build("alone", x=x, links=torch.empty(2, 0, dtype=torch.int64), y=y)
    nodes = TaskStream(alone, scenario="class", tasks=[[0, 1], [2, 3]])
    query, key = nodes.query(step=None, after=1, evaluate="global")
    wrong = (query.graph.x.to_dense()[query.nodes, 0] != (key.y >= 2)).float().mean()
    assert math.isclose(find_tasks(nodes, "global"), 100 - 100 * float(wrong))


def test_the_protocol_is_not_to_be_chosen() -> None:
    with pytest.raises(ConfigError, match="leave evaluate out"):
        find_leaks("digits", evaluate="oracle")
