from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hpn.datasets import Graph, Masks, load_dataset, load_graph
from hpn.datasets.sink import make_header
from hpn.datasets.store import HEADER, StoreWriter, is_store, open_store, write_store
from hpn.errors import DataError
from hpn.streams import TaskStream


def with_masks(graph: Graph) -> Graph:
    part = torch.arange(graph.num_nodes) % 3
    return replace(graph, masks=Masks(part == 0, part == 1, part == 2), split_rule="given")


@pytest.fixture
def saved(graph: Graph, tmp_path: Path) -> Path:
    write_store(graph, tmp_path / "s")
    return tmp_path / "s"


@pytest.mark.parametrize("kind", ["dense", "sparse", "masks", "order", "no edges", "ids", "text ids", "times"])
def test_what_was_written_is_what_is_opened(graph: Graph, tmp_path: Path, kind: str) -> None:
    changed = {
        "dense": lambda: graph,
        "sparse": lambda: replace(graph, x=graph.x.relu().to_sparse_csr()),
        "masks": lambda: with_masks(graph),
        "order": lambda: replace(graph, class_order=(3, 1), class_names=("ä", "b", "c", "d", "e", "f")),
        "ids": lambda: replace(graph, node_ids=np.arange(300)[::-1].copy(), feature_names=tuple("abcdefghijkl")),
        "text ids": lambda: replace(
            graph,
            node_ids=np.array([f"ü\n{index}" if index else "" for index in range(300)], dtype=object),
            column_kinds={"a": "number", "b": "category"},
            notes=("one", "two"),
        ),
        "times": lambda: replace(graph, node_time=graph.y % 2 + 5, y_by_time=torch.stack([graph.y, graph.y.flip(0)])),
        "no edges": lambda: replace(graph, indptr=torch.zeros_like(graph.indptr), indices=graph.indices[:0]),
    }[kind]()
    write_store(changed, tmp_path / "s")
    opened = open_store(tmp_path / "s")
    assert opened.fingerprint() == replace(opened).fingerprint() == changed.fingerprint()
    assert make_header(opened) == make_header(changed)
    assert np.array_equal(opened.node_ids, changed.node_ids)
    for name in ("node_time", "y_by_time"):
        kept, given = getattr(opened, name), getattr(changed, name)
        assert kept is given if given is None else torch.equal(kept, given)


def test_features_are_mapped_and_cannot_be_changed_on_disk(saved: Path) -> None:
    before = (saved / "x.bin").read_bytes()
    opened = open_store(saved)
    opened.x[0, 0] = 99.0
    opened.y[:] = 0
    del opened
    assert (saved / "x.bin").read_bytes() == before
    assert open_store(saved).x[0, 0] != 99.0


def test_half_precision_takes_half_and_is_answered_in_single(graph: Graph, tmp_path: Path) -> None:
    write_store(graph, tmp_path / "s", features="float16")
    opened = open_store(tmp_path / "s")
    assert (tmp_path / "s" / "x.bin").stat().st_size == 2 * graph.x.numel()
    assert opened.x.dtype == torch.float16
    view = TaskStream(opened).step(0).graph
    assert view.x.dtype == torch.float32
    assert torch.allclose(view.x, TaskStream(graph).step(0).graph.x, rtol=1e-3, atol=1e-3)


def test_features_beyond_half_precision_are_refused(graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="too large for float16"):
        write_store(replace(graph, x=graph.x * 1e6), tmp_path / "s", features="float16")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x.bin", "indices.bin"])
def test_a_changed_cut_or_missing_array_is_named(saved: Path, name: str) -> None:
    content = bytearray((saved / name).read_bytes())
    content[len(content) // 2] ^= 1
    (saved / name).write_bytes(content)
    with pytest.raises(DataError, match=f"{name} has changed since it was written"):
        open_store(saved)
    open_store(saved, verify=False)
    (saved / name).write_bytes(content[:-3])
    with pytest.raises(DataError, match=f"damaged or cut short .{name} has .* bytes, expected"):
        open_store(saved)
    (saved / name).unlink()
    with pytest.raises(DataError, match=f"{name} is missing"):
        open_store(saved)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("{", "is not JSON"),
        ("[]", "not the header of a graph store"),
        ({"kind": "other"}, "not the header of a graph store"),
        ({"version": 99}, "has version 99, but this hpn reads 4; import the graph again, or install"),
        ({"arrays": None}, "damaged"),
        ({"arrays": {}}, "damaged"),
    ],
)
def test_a_wrong_header_is_named(saved: Path, change: object, complaint: str) -> None:
    header = json.loads((saved / HEADER).read_text())
    text = change if isinstance(change, str) else json.dumps({**header, **change})  # type: ignore[dict-item]
    (saved / HEADER).write_text(text)
    with pytest.raises(DataError, match=complaint):
        open_store(saved)


def test_a_store_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    def fail() -> None:
        with StoreWriter(tmp_path / "s") as store:
            store.append("x", np.zeros((2, 2)))
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_what_an_interrupted_import_left_is_replaced(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / ".s.part").mkdir()
    (tmp_path / ".s.part" / "x.bin").write_bytes(b"old")
    write_store(graph, tmp_path / "s")
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_a_place_that_cannot_be_written_is_named(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write"):
        write_store(graph, tmp_path / "file" / "s")


def test_a_store_is_a_data_set(saved: Path, graph: Graph) -> None:
    assert is_store(saved)
    assert not is_store(saved.parent)
    assert load_dataset(str(saved)).fingerprint() == graph.fingerprint()
    assert load_dataset(str(saved), verify=False).fingerprint() == graph.fingerprint()
    assert load_graph(saved, labels="optional", normalize="none").fingerprint() == graph.fingerprint()


def test_the_fingerprint_is_known_and_not_read_again(saved: Path, graph: Graph) -> None:
    (saved / "y.bin").write_bytes(bytes(8 * graph.num_nodes))
    opened = open_store(saved, verify=False)
    assert opened.fingerprint() == graph.fingerprint()
    assert replace(opened).fingerprint() == replace(graph, y=torch.zeros_like(graph.y)).fingerprint()


def test_a_header_that_was_changed_by_hand_has_another_fingerprint(saved: Path, graph: Graph) -> None:
    header = json.loads((saved / HEADER).read_text())
    (saved / HEADER).write_text(json.dumps({**header, "class_order": [2, 1]}))
    assert open_store(saved).fingerprint() == replace(graph, class_order=(2, 1)).fingerprint()


def test_the_fingerprint_is_that_of_what_was_written(graph: Graph, tmp_path: Path) -> None:
    write_store(graph, tmp_path / "s", features="float16")
    assert open_store(tmp_path / "s").fingerprint() == replace(graph, x=graph.x.half()).fingerprint()
