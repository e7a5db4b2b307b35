"""Commands about a model: what they print, write, refuse, and leave behind when they are interrupted."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hpn
from hpn.experiment.run.checkpoint import save_checkpoint

Cli = Callable[..., tuple[int, str, str]]
CLASSES = ("fig", "kiwi", "plum")


def write_graph(
    folder: Path,
    count: int = 60,
    *,
    classes: tuple[str, ...] = CLASSES,
    columns: str = "abcd",
    numbers: bool = False,
    split: bool = False,
    edges: bool = True,
    labelled: Callable[[int], bool] = lambda at: at % 5 != 4,
) -> str:
    """Classes that features and neighbours separate; the last column is the first letter's neighbour."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    names = [str(100 + at) if numbers else f"n {at}" for at in range(count)]
    values = dict(zip("abcd", rng.random((count, 4)).T, strict=True))
    for at in range(count):
        values["abc"[at % len(classes)]][at] += 2
    with (folder / "nodes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "label", *(["split"] if split else []), *columns])
        for at in range(count):
            label = classes[at % len(classes)] if labelled(at) else ""
            part = [("train", "val", "test")[at // 3 % 3]] if split else []
            features = [f"{values[name][at]:.3f}" if name in values else "0.5" for name in columns]
            writer.writerow([names[at], label, *part, *features])
    with (folder / "edges.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["source", "target"])
        if edges:
            writer.writerows([names[at], names[(at + len(classes)) % count]] for at in range(count))
    return str(folder)


def succeed(cli: Cli, *words: str) -> str:
    """What a command that must succeed prints."""
    code, out, err = cli(*words)
    assert code == 0, err
    return out


def read_json(cli: Cli, *words: str) -> dict[str, Any]:
    return dict(json.loads(succeed(cli, *words, "--json")))


def fit(cli: Cli, graph: str, out: str = "model", *words: str) -> dict[str, Any]:
    return read_json(cli, "fit", graph, "--out", out, "--width", "64", *words)


def predictions(cli: Cli, *words: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(succeed(cli, "predict", *words))))


def files_of(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@pytest.fixture
def graph(tmp_path: Path) -> str:
    return write_graph(tmp_path / "graph")


@pytest.fixture
def fitted(cli: Cli, graph: str) -> str:
    """A graph that ``model`` has learned."""
    fit(cli, graph)
    return graph


def refused(cli: Cli, *words: str) -> str:
    """One line on standard error, nothing on standard output, exit code 2."""
    code, out, err = cli(*words)
    assert (code, out) == (2, ""), err
    *_, line = err.splitlines()
    assert line.startswith("hpn: ")
    return line


def test_fit_shows_what_it_learned_and_what_comes_next(cli: Cli, graph: str) -> None:
    code, out, err = cli("fit", graph, "--out", "model", "--width", "64")
    assert code == 0
    assert f"{graph}: 60 nodes, 60 edges, 4 features" in out
    assert "accuracy: 100.0 % of 9 held-out nodes (a fifth of each class, seed 0)" in out
    assert "learned from all 48 labelled nodes:" in out
    shown = [line.split() for line in out.splitlines() if line.startswith("  ")]
    assert shown == [["fig", "16"], ["kiwi", "16"], ["plum", "16"]]
    assert "of at most 81 (atomic)" in out
    assert f"next: hpn predict model {graph} --unlabelled" in out
    assert err.splitlines()[0] == f"reading {graph}"
    code, out, err = cli("fit", graph, "--out", "model", "--width", "64", "--quiet", "--force", "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    found = json.loads(out)
    assert (found["schema"], found["classes"]) == (1, {"fig": 16, "kiwi": 16, "plum": 16})
    assert found["held_out"] == {"split": "seeded", "train": 39, "test": 9, "seed": 0}
    assert (found["accuracy"], found["learned"], found["out"]) == (100.0, 48, "model")
    assert found["prototypes"].keys() == found["bounds"].keys() == {"atomic", "node", "class"}


def test_a_split_of_the_graph_is_used(cli: Cli, tmp_path: Path) -> None:
    found = fit(cli, write_graph(tmp_path / "graph", split=True))
    assert found["held_out"]["split"] == "given"
    assert found["held_out"]["train"] + found["held_out"]["test"] < found["learned"] == 48


def test_measuring_does_not_change_the_model(cli: Cli, tmp_path: Path) -> None:
    graph = write_graph(tmp_path / "graph", split=True)
    fit(cli, graph)
    loaded = hpn.load_graph(graph)
    hpn.HPNClassifier(width=64).fit(loaded, (loaded.y >= 0).numpy()).save("python")
    assert len(files_of("model")) == 2
    assert files_of("model") == files_of("python")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"classes": ("fig",)}, "all of one class"),
        ({"count": 6}, "too few labels to hold any out (no class has 5 labels)"),
    ],
)
def test_what_cannot_be_measured_is_stated(changes: dict[str, Any], why: str, cli: Cli, tmp_path: Path) -> None:
    graph = write_graph(tmp_path / "graph", **changes)
    out = succeed(cli, "fit", graph, "--out", "model", "--width", "64")
    assert f"accuracy: not measured, as {'the' if 'one class' in why else 'there'}" in out
    assert why in out
    assert fit(cli, graph, "again")["accuracy"] is None
    rows = predictions(cli, "model", graph)
    assert len(rows) == changes.get("count", 60)
    if len(changes.get("classes", CLASSES)) == 1:
        assert {tuple(row.values())[1:] for row in rows} == {("fig", "1.0", "", "")}


def test_models_and_other_folders_are_not_overwritten(cli: Cli, tmp_path: Path, graph: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    fit(cli, graph)
    again = refused(cli, "fit", graph, "--out", "model")
    assert again.endswith("is a model already; hpn update model adds to it, --force replaces it")
    for out in ("mine", "mine/notes.txt"):
        line = refused(cli, "fit", graph, "--out", out, "--force")
        assert line.endswith("exists and is not a model; choose another folder")
    fit(cli, graph, "model", "--force", "--seed", "3")
    assert read_json(cli, "show", "model")["parameters"]["random_state"] == 3


def test_parameters_reach_the_model(cli: Cli, graph: str) -> None:
    words = ["--strength", "0.2", "--balance", "0.5", "--threshold", "0.004", "--seed", "7"]
    fit(cli, graph, "model", *words)
    expected = {"width": 64, "strength": 0.2, "balance": 0.5, "threshold": 0.004, "random_state": 7}
    assert read_json(cli, "show", "model")["parameters"] == expected
    assert "width = 0" in refused(cli, "fit", graph, "--out", "other", "--width", "0")
    assert not Path("other").exists()


def test_predictions_come_in_the_order_given(cli: Cli, fitted: str) -> None:
    everything = predictions(cli, "model", fitted)
    assert list(everything[0]) == ["id", "class", "probability", "second_class", "second_probability"]
    assert [row["id"] for row in everything] == [f"n {at}" for at in range(60)]
    assert [row["class"] for row in everything] == [CLASSES[at % 3] for at in range(60)]
    by_id = {row["id"]: row for row in everything}
    unlabelled = predictions(cli, "model", fitted, "--unlabelled")
    assert [row["id"] for row in unlabelled] == [f"n {at}" for at in range(4, 60, 5)]
    for name, text in (
        ("ids.csv", "label,ID\nx,n 7\ny,n 3\n,n 7\n"),
        ("ids.txt", "n 7\nn 3\n\nn 7\n"),
        ("bom.csv", "\ufeffid\r\nn 7\r\n n 3\r\nn 7\r\n"),
    ):
        Path(name).write_bytes(text.encode())
        found = predictions(cli, "model", fitted, "--nodes", name)
        assert found == [by_id[f"n {at}"] for at in (7, 3, 7)]


def test_predictions_go_to_files(cli: Cli, fitted: str) -> None:
    import duckdb

    expected = cli("predict", "model", fitted)[1]
    assert cli("predict", "model", fitted, "--out", "-")[1] == expected
    out = succeed(cli, "predict", "model", fitted, "--out", "found.csv")
    assert "60 nodes predicted:" in out
    assert Path("found.csv").read_text() == expected
    classes = {"fig": 20, "kiwi": 20, "plum": 20}
    printed = read_json(cli, "predict", "model", fitted, "--out", "it's.parquet")
    assert printed == {"schema": 1, "nodes": 60, "classes": classes, "out": "it's.parquet"}
    rows = duckdb.read_parquet("it's.parquet").fetchall()
    in_json = read_json(cli, "predict", "model", fitted)["predictions"]
    assert rows == [tuple(row.values()) for row in in_json]
    assert not [path for path in Path().iterdir() if path.name.startswith(".")]


def test_ids_that_are_numbers_stay_numbers(cli: Cli, tmp_path: Path) -> None:
    graph = write_graph(tmp_path / "graph", numbers=True)
    fit(cli, graph)
    Path("ids.csv").write_text("node\n107\n")
    (row,) = read_json(cli, "predict", "model", graph, "--nodes", "ids.csv")["predictions"]
    assert row["id"] == read_json(cli, "explain", "model", graph, "--node", "107")["node"] == 107


def test_nodes_without_ids_are_known_by_their_positions(cli: Cli, tmp_path: Path) -> None:
    import duckdb

    graph, every = str(tmp_path / "graph.npz"), np.arange(30)
    edges = {"adj_indptr": np.arange(31), "adj_indices": (every + 3) % 30, "adj_shape": np.array([30, 30])}
    features = np.random.default_rng(0).random((30, 4)) + np.eye(3, 4)[every % 3]
    np.savez(graph, **edges, attr_matrix=features, labels=every % 3)
    fit(cli, graph)
    rows = read_json(cli, "predict", "model", graph)["predictions"]
    assert [row["id"] for row in rows] == list(range(30))
    found = read_json(cli, "explain", "model", graph, "--node", "7")
    assert found["node"] == 7
    assert all(isinstance(share["of"], int) for share in found["neighbors"])
    cli("predict", "model", graph, "--out", "found.parquet")
    assert [row[0] for row in duckdb.read_parquet("found.parquet").fetchall()] == list(range(30))


def test_there_is_a_clock_in_a_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch, graph: str) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    assert fit(cli, graph)["learned"] == 48


@pytest.mark.usefixtures("fitted")
def test_graphs_without_edges_and_with_unseen_nodes_only(cli: Cli, tmp_path: Path) -> None:
    other = write_graph(tmp_path / "other", 9, numbers=True, edges=False)
    rows = predictions(cli, "model", other)
    assert [row["class"] for row in rows] == [CLASSES[at % 3] for at in range(9)]
    out = succeed(cli, "explain", "model", other, "--node", "103")
    assert "neighbours" not in out
    assert "its features that matter most, for fig over" in out
    bare = write_graph(tmp_path / "bare", 9, labelled=lambda _: False)
    assert len(predictions(cli, "model", bare, "--unlabelled")) == 9
    code, out, err = cli("predict", "model", write_graph(tmp_path / "all", labelled=lambda _: True), "--unlabelled")
    assert (code, out) == (0, "id,class,probability,second_class,second_probability\n")
    assert err.splitlines()[-1] == "every node has a label"


def test_explain_names_neighbours_and_features(cli: Cli, fitted: str) -> None:
    out = succeed(cli, "explain", "model", fitted, "--node", "n 10")
    lines = out.splitlines()
    assert lines[0].startswith("node n 10: kiwi (")
    for slot in ("its own features", "nodes 1 hop away", "nodes 2 hops away"):
        assert any(line.startswith(f"  {slot}") and "support kiwi" in line for line in lines)
    found = read_json(cli, "explain", "model", fitted, "--node", "n 10")
    assert {share["of"] for share in found["neighbors"][:2]} == {"n 7", "n 13"}
    assert {share["label"] for share in found["neighbors"][:2]} == {"kiwi"}
    assert found["features"][0]["of"] == "b"
    assert found["features"][0]["lead"] > 0
    assert "n 4 (predicted kiwi)" in out, "neighbours without a label have a prediction"


@pytest.mark.usefixtures("fitted")
def test_columns_are_found_by_name(cli: Cli, tmp_path: Path) -> None:
    expected = cli("predict", "model", str(tmp_path / "graph"))[1]
    assert cli("predict", "model", write_graph(tmp_path / "moved", columns="cdba"))[1] == expected
    fewer, more = (write_graph(tmp_path / columns, columns=columns) for columns in ("abd", "abxcd"))
    for command in ("predict", "update"):
        assert "nodes.csv: has no feature column 'c'" in refused(cli, command, "model", fewer)
        assert "nodes.csv: has a feature column 'x'" in refused(cli, command, "model", more)


def test_a_graph_that_grows(cli: Cli, tmp_path: Path) -> None:
    """A class that comes later is learned, and forgotten as if it had never been there."""

    def early_only(at: int) -> bool:
        return at % 5 != 4 and at % 3 != 2

    early = write_graph(tmp_path / "early", labelled=early_only)
    grown, without = write_graph(tmp_path / "grown", 90), write_graph(tmp_path / "without", 90, labelled=early_only)
    assert fit(cli, early)["classes"].keys() == {"fig", "kiwi"}
    model = hpn.HPNClassifier(width=64).fit(hpn.load_graph(early))
    done = read_json(cli, "update", "model", grown)
    assert (done["new_classes"], done["new"], done["changed"]) == (["plum"], 72 - 32, 0)
    assert done["encoded_again"]["nodes"] == 0
    loaded = hpn.load_graph(grown)
    model.update(loaded)
    rows = predictions(cli, "model", grown)
    assert [row["class"] for row in rows] == model.predict(loaded).tolist() == [CLASSES[at % 3] for at in range(90)]
    assert [float(row["probability"]) for row in rows] == model.predict_proba(loaded).max(axis=1).tolist()
    fit(cli, grown, "at_once")
    fit(cli, without, "never")
    for change, expected in (
        (("forget", "--class", "plum"), "nodes encoded again in"),
        (("update", "--refresh"), "72 nodes encoded again in"),
        (("forget", "--class", "plum"), "classes forgotten: plum"),
    ):
        found = succeed(cli, change[0], "model", grown, *change[1:])
        assert expected in found
        assert files_of("model") == files_of("at_once" if change[0] == "update" else "never")
    assert "encoded again" not in found, "sums are subtracted where everything was learned in this graph"


def test_update_states_what_it_did(cli: Cli, tmp_path: Path, fitted: str) -> None:
    before = Path("model/checkpoint.json").stat().st_mtime_ns
    out = succeed(cli, "update", "model", fitted)
    assert out.splitlines() == ["0 new and 0 changed labels learned", "model: model, 48 nodes of 3 classes"]
    assert Path("model/checkpoint.json").stat().st_mtime_ns == before, "nothing to write"
    more = write_graph(tmp_path / "more", 90, classes=("plum", "kiwi", "fig"), labelled=lambda at: at > 9)
    done = read_json(cli, "update", "model", more)
    changed = [at for at in range(10, 60) if at % 5 != 4 and at % 3 != 1]
    assert (done["new"], done["changed"], done["unlabelled"]) == (80 - 40, len(changed), 8)
    assert done["encoded_again"]["nodes"] == 48 - len(changed)
    assert done["classes"] == {"fig": 30, "kiwi": 29, "plum": 29}
    out = succeed(cli, "update", "model", more, "--refresh")
    assert "8 learned nodes without a label in this graph: forgotten" in out


def test_forget_by_nodes(cli: Cli, tmp_path: Path, fitted: str) -> None:
    Path("ids.csv").write_text("id\nn 0\nn 3\nn 4\n")
    out = succeed(cli, "forget", "model", fitted, "--nodes", "ids.csv")
    assert out.splitlines() == ["2 nodes forgotten, 1 not learned", "model: model, 46 nodes of 3 classes"]
    without = write_graph(tmp_path / "without", labelled=lambda at: at % 5 != 4 and at not in {0, 3})
    fit(cli, without, "never")
    assert cli("predict", "model", fitted)[1] == cli("predict", "never", fitted)[1]
    assert len(list(Path("model").iterdir())) == 2


@pytest.mark.usefixtures("fitted")
def test_forgetting_what_the_graph_does_not_have_is_refused(cli: Cli, tmp_path: Path) -> None:
    words, before = ("forget", "model", write_graph(tmp_path / "part", 30)), files_of("model")
    Path("gone.csv").write_text("id\nn 40\n")
    line = refused(cli, *words, "--nodes", "gone.csv")
    assert "there is no node with id 'n 40'; nodes to forget must be in the graph" in line
    assert "nodes to forget (class 'fig') and must have them" in refused(cli, *words, "--class", "fig")
    assert "there is no class 'pear'; classes are 'fig', 'kiwi', 'plum'" in refused(cli, *words, "--class", "pear")
    assert files_of("model") == before


@pytest.mark.usefixtures("fitted")
def test_show(cli: Cli, tmp_path: Path) -> None:
    cli("update", "model", write_graph(tmp_path / "more", 90))
    code, out, err = cli("show", "model")
    assert (code, err) == (0, "")
    assert "72 nodes of 3 classes:" in out
    assert "4 features: a (number), b (number), c (number), d (number)" in out
    assert "(60 nodes, 60 edges)" in out
    assert "(90 nodes, 90 edges)" in out
    assert "of at most 81 (atomic)" in out
    assert " MB" in out
    found = read_json(cli, "show", "model")
    assert [fit["learned"] for fit in found["fits"]] == [48, 24]
    assert found["bytes"] == sum(path.stat().st_size for path in Path("model").iterdir())


def test_models_made_in_python_may_have_numbers_as_classes(cli: Cli, graph: str) -> None:
    loaded = hpn.load_graph(graph)
    nodes = np.flatnonzero(loaded.y >= 0)
    hpn.HPNClassifier(width=64).fit(loaded, nodes, loaded.y[nodes]).save("model")
    assert read_json(cli, "predict", "model", graph)["predictions"][0]["class"] == 0
    assert "classes forgotten: 2" in cli("forget", "model", graph, "--class", "2")[1]


def test_wrong_arguments(cli: Cli, fitted: str) -> None:
    Path("ids.csv").write_text("id\nn 1\n")
    Path("other.csv").write_text("name,age\nx,3\n")
    Path("empty.csv").write_text("id\n")
    Path("short.csv").write_text("age,id\n3,n 1\n4\n")
    Path("bad.csv").write_bytes(b"id\n\xff\xfe\n")
    Path("bad.parquet").write_bytes(b"PAR1 not really")
    for words, message in (
        (("predict", "--nodes", "ids.csv", "--unlabelled"), "give --nodes FILE or --unlabelled, not both"),
        (("predict", "--nodes", "none.csv"), "cannot read none.csv (No such file or directory)"),
        (("predict", "--nodes", "other.csv"), "other.csv has no column id (columns: name, age)"),
        (("predict", "--nodes", "empty.csv"), "empty.csv has no ids"),
        (("predict", "--nodes", "short.csv"), "short.csv: row 2 has no id"),
        (("predict", "--nodes", "bad.csv"), "cannot read bad.csv"),
        (("predict", "--nodes", "bad.parquet"), "cannot read bad.parquet"),
        (("predict", "--out", "found.xlsx"), "expected a name that ends in .csv or .parquet"),
        (("predict", "--out", "none/found.csv"), "there is no folder none"),
        (("explain", "--node", "n 99"), "there is no node with id 'n 99'"),
        (("forget",), "give either --nodes FILE or --class NAME"),
        (("forget", "--nodes", "ids.csv", "--class", "fig"), "give either --nodes FILE or --class NAME"),
    ):
        assert message in refused(cli, words[0], "model", fitted, *words[1:])
    assert "no data set or file 'nowhere'" in refused(cli, "predict", "model", "nowhere")


def test_folders_that_are_no_model(cli: Cli, fitted: str) -> None:
    Path("damaged").mkdir()
    Path("damaged/checkpoint.json").write_text("{")
    Path("newer").mkdir()
    save_checkpoint(Path("newer"), {"kind": "hpn-model", "model_format": 99})
    for command in ("update", "predict", "explain", "forget", "show"):
        more = {"explain": ["--node", "n 1"], "forget": ["--class", "fig"]}.get(command, [])
        words = [] if command == "show" else [fitted, *more]
        for folder, message in (
            ("graph", "is not a saved model"),
            ("damaged", "is damaged"),
            ("newer", "format 99, hpn"),
        ):
            assert message in refused(cli, command, folder, *words)


def test_an_interrupted_command_leaves_the_model(cli: Cli, fitted: str) -> None:
    before = files_of("model")
    script = (
        "import sys, time, hpn.experiment.run.checkpoint as checkpoint\n"
        "def slow(*_):\n"
        "    print('writing', flush=True)\n"
        "    time.sleep(60)\n"
        "checkpoint.write_json = slow\n"
        "sys.argv = 'hpn forget model graph --class fig'.split()\n"
        "from hpn.cli import main\n"
        "main()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(hpn.__file__).parents[1])}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.splitlines()[-1] == "hpn: interrupted while writing model; run the same command again"
    assert files_of("model")["checkpoint.json"] == before["checkpoint.json"]
    assert len(predictions(cli, "model", fitted)) == 60
    assert cli("forget", "model", fitted, "--class", "fig")[0] == 0
    assert len(list(Path("model").iterdir())) == 2


def test_predictions_do_not_replace_the_graph(cli: Cli, tmp_path: Path, fitted: str) -> None:
    before = (Path(fitted) / "nodes.csv").read_bytes()
    for given in (fitted, f"{fitted}/nodes.csv"):
        line = refused(cli, "predict", "model", given, "--out", f"{fitted}/nodes.csv")
        assert "is a file of the graph; choose another name" in line
    assert (Path(fitted) / "nodes.csv").read_bytes() == before
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder" in refused(cli, "predict", "model", fitted, "--out", str(tmp_path / "folder.csv"))


@pytest.mark.usefixtures("fitted")
def test_a_graph_with_other_ids_is_not_learned_beside_the_first(cli: Cli, tmp_path: Path) -> None:
    other = write_graph(tmp_path / "other", numbers=True)
    assert "the graph has none of the nodes that were learned" in refused(cli, "update", "model", other)
    assert cli("update", "model", other, "--refresh")[0] == 0


def test_what_an_interrupted_command_left_is_replaced_and_removed(cli: Cli, graph: str) -> None:
    folder = Path("model")
    folder.mkdir()
    left = [folder / "state-0123456789abcdef.safetensors", folder / ".checkpoint.json.77.part"]
    for path in left:
        path.write_bytes(b"left")
    fit(cli, graph)
    assert not any(path.exists() for path in left)


def test_ids_are_read_from_the_file_named(cli: Cli, tmp_path: Path, fitted: str) -> None:
    import duckdb

    for name, node in (("ids1", "'n 2'"), ("ids[1]", "'n 1'"), ("null", "NULL")):
        duckdb.sql(f"COPY (SELECT {node} AS id) TO '{tmp_path}/{name}.parquet' (FORMAT parquet)")
    found = predictions(cli, "model", fitted, "--nodes", str(tmp_path / "ids[1].parquet"))
    assert [row["id"] for row in found] == ["n 1"]
    assert "null.parquet: row 1 has no id" in refused(cli, "predict", "model", fitted, "--nodes", "null.parquet")
    several = tmp_path / "several.csv"
    several.write_text("n 1\nn 2,n 3\n")
    assert "several.csv has no column id (columns: n 1)" in refused(
        cli, "predict", "model", fitted, "--nodes", str(several)
    )


@pytest.mark.parametrize(
    ("words", "target", "message"),
    [
        ("fit graph --out new --width 64", "os.fsync", "write new; no model is there yet"),
        ("fit graph --out model --force --width 64", "os.fsync", "write model; the model saved there before is kept"),
        ("predict model graph --out new.csv", "os.fsync", "write new.csv; no prediction is written"),
        ("predict model graph --out old.csv", "os.fsync", "write old.csv; the earlier file is kept"),
        ("import graph store", "hpn.datasets.store._ArrayFile.append", "write store; nothing of the store is kept"),
    ],
)
@pytest.mark.usefixtures("fitted")
def test_a_full_disk_is_reported_with_what_was_kept(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, words: str, target: str, message: str
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    Path("old.csv").write_text("mine")
    before = cli("show", "model")[1]
    with monkeypatch.context() as patch:
        patch.setattr(target, fail)
        code, out, err = cli(*words.split(), "--quiet")
    advice = "free some space and run the same command again"
    assert (code, out, err) == (1, "", f"hpn: no space left to {message}, {advice}\n")
    assert (Path("old.csv").read_text(), cli("show", "model")[1]) == ("mine", before)
    assert not Path("store").exists()
    assert cli(*words.split(), "--quiet")[0] == 0
