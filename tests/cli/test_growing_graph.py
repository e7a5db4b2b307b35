"""A graph in two files that keeps growing, through the command line only."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import hpn

Cli = Callable[..., tuple[int, str, str]]

EARLY = ("Zürich", "Bern", "Łódź")
NUM_EARLY, NUM_ALL, NUM_FEATURES = 850, 1200, 12
WIDTH = "200"


class World:
    """Towns with their own vocabulary and mostly their own links; "Aachen", which sorts first, comes last."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.ids = np.array([f"köd-{at}" for at in rng.permutation(5000)[:NUM_ALL]], dtype=object)
        self.town = rng.integers(0, 3, NUM_ALL)
        self.town[NUM_EARLY::2] = 3
        self.names = np.array([*EARLY, "Aachen"], dtype=object)[self.town]
        means = rng.normal(size=(4, NUM_FEATURES))
        self.x = means[self.town] + 1.3 * rng.normal(size=(NUM_ALL, NUM_FEATURES))
        links = rng.integers(0, NUM_ALL, (2, 12 * NUM_ALL))
        is_kept = (self.town[links[0]] == self.town[links[1]]) | (rng.random(links.shape[1]) < 0.1)
        self.links = links[:, is_kept]
        self.is_test = rng.random(NUM_ALL) < 0.3

    def write(self, folder: Path, count: int, hidden: tuple[str, ...] = ()) -> Path:
        """The first nodes and the edges among them; test nodes and hidden classes have no label."""
        folder.mkdir()
        with (folder / "nodes.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "label", *(f"word {at}" for at in range(NUM_FEATURES))])
            for at in range(count):
                is_known = not self.is_test[at] and self.names[at] not in hidden
                writer.writerow([self.ids[at], self.names[at] if is_known else "", *self.x[at].round(4)])
        with (folder / "edges.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["source", "target"])
            for a, b in self.links.T:
                if max(a, b) < count:
                    writer.writerow([self.ids[a], self.ids[b]])
        return folder

    def accuracy(self, table: str, count: int) -> float:
        """In percent, on the test nodes among the first ones."""
        predicted = {row["id"]: row["class"] for row in csv.DictReader(io.StringIO(table))}
        tested = [at for at in range(count) if self.is_test[at]]
        assert len(tested) > 200
        return 100 * float(np.mean([predicted[self.ids[at]] == self.names[at] for at in tested]))


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.fixture
def run(cli: Cli) -> Callable[..., str]:
    """Run a command that must succeed; gives what it printed."""

    def call(*words: str) -> str:
        code, out, err = cli(*words)
        assert code == 0, err
        return out

    return call


def test_a_graph_that_grows(run: Callable[..., str], world: World, tmp_path: Path) -> None:
    early = str(world.write(tmp_path / "early", NUM_EARLY))
    grown = str(world.write(tmp_path / "grown", NUM_ALL))
    without = str(world.write(tmp_path / "without", NUM_ALL, hidden=("Aachen",)))

    fitted = json.loads(run("fit", early, "--out", "model", "--width", WIDTH, "--json"))
    assert set(fitted["classes"]) == set(EARLY)
    assert fitted["accuracy"] > 80
    before = world.accuracy(run("predict", "model", early), NUM_EARLY)
    assert before > 80

    done = json.loads(run("update", "model", grown, "--json"))
    assert done["new_classes"] == ["Aachen"]
    assert done["new"] == int((~world.is_test[NUM_EARLY:]).sum())
    assert (done["changed"], done["encoded_again"]["nodes"]) == (0, 0)
    updated = run("predict", "model", grown)
    assert world.accuracy(updated, NUM_EARLY) >= before - 1

    run("fit", grown, "--out", "fitted", "--width", WIDTH)
    at_once = run("predict", "fitted", grown)
    assert abs(world.accuracy(updated, NUM_ALL) - world.accuracy(at_once, NUM_ALL)) <= 2

    run("fit", without, "--out", "never", "--width", WIDTH)
    never = run("predict", "never", grown)
    assert "Aachen" not in never

    found = run("forget", "model", grown, "--class", "Aachen")
    assert "nodes encoded again in" in found, "they were learned in two graphs"
    assert run("predict", "model", grown) == never

    run("update", "model", grown, "--refresh")
    assert run("predict", "model", grown) == at_once
    found = run("forget", "model", grown, "--class", "Aachen")
    assert "encoded again" not in found, "sums are subtracted"
    assert run("predict", "model", grown) == never
    files = [sorted(Path(name).iterdir()) for name in ("model", "never")]
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]


def test_python_and_the_command_line_give_the_same(run: Callable[..., str], world: World, tmp_path: Path) -> None:
    early, grown = world.write(tmp_path / "early", NUM_EARLY), world.write(tmp_path / "grown", NUM_ALL)
    run("fit", str(early), "--out", "model", "--width", WIDTH)
    model = hpn.HPNClassifier(width=int(WIDTH)).fit(hpn.load_graph(early))
    for folder in (early, grown):
        graph = hpn.load_graph(folder)
        model.update(graph)
        run("update", "model", str(folder))
        rows = list(csv.DictReader(io.StringIO(run("predict", "model", str(folder)))))
        assert [row["id"] for row in rows] == graph.node_ids.tolist()
        probabilities = model.predict_proba(graph)
        assert [row["class"] for row in rows] == model.predict(graph).tolist()
        assert [float(row["probability"]) for row in rows] == probabilities.max(axis=1).tolist()
    model.save("python")
    assert run("predict", "python", str(grown)) == run("predict", "model", str(grown))
    (explained,) = model.explain(graph, graph.index([rows[3]["id"]]))
    found = json.loads(run("explain", "model", str(grown), "--node", rows[3]["id"], "--json"))
    assert [slot["predicted"] for slot in found["slots"]] == [slot.predicted for slot in explained.slots]


def test_a_single_new_node(run: Callable[..., str], world: World, tmp_path: Path) -> None:
    early = world.write(tmp_path / "early", NUM_EARLY)
    run("fit", str(early), "--out", "model", "--width", WIDTH)
    node = next(at for at in range(NUM_EARLY, NUM_ALL) if world.names[at] == "Bern")
    friends = [at for at in range(NUM_EARLY) if world.names[at] == "Bern"][:3]
    with (early / "nodes.csv").open("a", encoding="utf-8", newline="") as file:
        csv.writer(file).writerow(["neu", "", *world.x[node].round(4)])
    with (early / "edges.csv").open("a", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["neu", world.ids[friend]] for friend in friends])
    Path("ids.csv").write_text("id\nneu\n")
    header, row = run("predict", "model", str(early), "--nodes", "ids.csv").splitlines()
    assert header == "id,class,probability,second_class,second_probability"
    assert row.startswith("neu,Bern,")
    found = run("explain", "model", str(early), "--node", "neu")
    assert found.startswith("node neu: Bern (")
    line = next(line for line in found.splitlines() if "neighbours that matter most" in line)
    assert any(f"{world.ids[friend]} (" in line for friend in friends)
