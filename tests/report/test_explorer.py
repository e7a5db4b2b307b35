"""The explorer's section and page: what is in them, and that they stay within their policy."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from hpn.cli import main
from hpn.datasets import Graph
from hpn.experiment.exploration import Exploration
from hpn.experiment.run.runner import run
from hpn.model.core import ClassifierCore
from hpn.report import load_run, write_report
from hpn.report.page import explorer_page

SMALL = {"data.num_nodes": 120, "data.num_links": 400, "data.num_classes": 4, "width": 50}
NODES = "id,class,a,b\n" + "\n".join(f"n{i},{'xy'[i % 2]},{i % 2},{i % 3}" for i in range(24))
EDGES = "source,target\n" + "\n".join(f"n{i},n{(i + 2) % 24}" for i in range(24))


@pytest.fixture(scope="module")
def explored(graph: Graph) -> Exploration:
    return ClassifierCore(width=50).partial_fit(graph, torch.arange(200)).explore(graph)


def data_of(page: str) -> dict[str, Any]:
    return json.loads(re.findall(r'<script type="application/json" class="ex-data">(.*?)</script>', page, re.S)[0])


def test_the_page_allows_nothing_but_its_own(explored: Exploration, parse_page: Any) -> None:
    page = explorer_page(explored, "a & b")
    parsed = parse_page(page)
    assert "<h1>a &amp; b</h1>" in page
    names = {name for _, name, _ in parsed.attributes}
    assert "style" not in names
    assert not any(name.startswith("on") for name in names)
    policy = next(value for tag, name, value in parsed.attributes if value and "default-src" in value)
    scripts = re.findall(r'<script(?: type="module")?>(.*?)</script>', page, re.S)
    assert len(scripts) == 3
    for text in (*scripts, *re.findall(r"<style>(.*?)</style>", page, re.S)):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy
    assert not re.search(r"\b(eval|innerHTML|fetch|XMLHttpRequest|import)\b", scripts[-1])
    assert Exploration.model_validate(data_of(page)).to_json() == explored.to_json()


def test_names_cannot_leave_the_data(explored: Exploration, hostile: str, parse_page: Any) -> None:
    text = hostile.encode("utf-8", "replace").decode()
    classes = [text, *explored.classes[1:]]
    page = explorer_page(explored.model_copy(update={"classes": classes, "name": text}), text)
    assert data_of(page)["classes"][0] == text
    plain = parse_page(explorer_page(explored, "x"))
    assert parse_page(page).tags == plain.tags


def test_what_is_stated(explored: Exploration) -> None:
    assert "synthetic: 300 nodes, placed by the first two principal components" in explorer_page(explored, "x")
    changes = {"num_nodes": 40_000, "is_task_given": True, "founding": "recorded"}
    some = explorer_page(explored.model_copy(update=changes), "x")
    for said in ("300 of 40,000 nodes, chosen by hash of their id", "with the task given", "was recorded"):
        assert said in some


def test_the_report_of_a_run_with_views(tmp_path: Path) -> None:
    run("synthetic", method="hpn", settings=SMALL, out=tmp_path / "run", views=True)
    assert load_run(tmp_path / "run").exploration is not None
    page = write_report([tmp_path / "run"], tmp_path / "report.html").read_text()
    assert page.count('<section class="explorer"') == 1
    assert "// The node explorer" in page
    (tmp_path / "run" / "seed-0" / "explorer.json").unlink()
    page = write_report([tmp_path / "run"], tmp_path / "report.html").read_text()
    assert "// The node explorer" not in page


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graph").mkdir()
    (tmp_path / "graph" / "nodes.csv").write_text(NODES)
    (tmp_path / "graph" / "edges.csv").write_text(EDGES)

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["hpn", *words])
        with pytest.raises(SystemExit) as stop:
            main()
        return int(stop.value.code or 0), *capfd.readouterr()

    return call


def test_a_report_of_a_model(cli: Any, tmp_path: Path, make_run: Any) -> None:
    assert cli("fit", "graph", "--out", "model", "--width", "50", "--quiet")[0] == 0
    code, out, err = cli("report", "model", "--graph", "graph", "--out", "page.html")
    assert (code, out) == (0, "page.html\n")
    assert "explaining the nodes of graph" in err
    found = Exploration.model_validate(data_of((tmp_path / "page.html").read_text()))
    assert found.node_names == [f"n{i}" for i in range(24)]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "nodes.csv").write_text(NODES.replace("id,class,a,b", "id,class,a,z"))
    (tmp_path / "other" / "edges.csv").write_text(EDGES)
    folder = make_run("run").name
    for words, said in (
        (["model"], "model is a model; give the graph to show as --graph GRAPH"),
        (
            [folder, "--graph", "graph"],
            "--graph needs the folder of one model of hpn fit, got run, which is not a model",
        ),
        (
            ["model", folder, "--graph", "graph"],
            "--graph needs the folder of one model of hpn fit, got several folders",
        ),
        (["model", "--graph", "graph", "--map", "umap"], "--map must be pca or tsne, got 'umap'"),
        (["model", "--graph", "nowhere"], "nowhere"),
        (["model", "--graph", "other"], "has no feature column 'b'"),
    ):
        code, out, err = cli("report", *words, "--out", "bad.html")
        assert (code, out) == (2, "")
        assert said in err.splitlines()[-1]
        assert not (tmp_path / "bad.html").exists()
    assert cli("report", folder, "--out", "good.html")[:2] == (0, "good.html\n")
