"""Arrays over several files, and stores made of them."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

import hpn
from hpn.datasets import Graph, Masks, shards
from hpn.datasets.shards import ShardedRows
from hpn.datasets.sparse import count_entries, is_sparse, select_rows
from hpn.datasets.store import HEADER, open_store, write_store
from hpn.datasets.store_files import ArrayFile, shard_name
from hpn.errors import ConfigError, DataError
from hpn.streams import TaskStream

NO_ROWS = torch.empty(0, dtype=torch.int64)


def spread(folder: Path, whole: Tensor, sizes: list[int]) -> ShardedRows:
    files = []
    for number, part in enumerate(torch.split(whole, sizes)):
        path = folder / shard_name("x", number)
        path.write_bytes(part.numpy().tobytes())
        files.append(ArrayFile(path, whole.numpy().dtype, tuple(part.shape), 0, (number, len(sizes))))
    return ShardedRows(files, verify=False)


def by_class(num_classes: int = 6, each: int = 50) -> Graph:
    """A graph whose nodes are sorted by class, so that two shards of six hold a task of two classes."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(num_classes).repeat_interleave(each)
    links = torch.randint(len(y), (2, 6 * len(y)), generator=generator)
    x = torch.randn(len(y), 8, generator=generator) + 3 * torch.eye(num_classes, 8)[y]
    return Graph.build("by-class", x=x, links=links, y=y)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_rows_are_those_of_the_whole_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    monkeypatch.setattr(shards, "_BLOCK", data.draw(st.sampled_from([1, 20, 1 << 20])))
    sizes = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=6).filter(any))
    shape = (sum(sizes), *data.draw(st.sampled_from([(), (3,)])))
    whole = torch.arange(int(np.prod(shape))).reshape(shape)
    whole = whole.to(data.draw(st.sampled_from([torch.float32, torch.float16, torch.int32])))
    rows = spread(tmp_path, whole, sizes)
    row = st.integers(0, len(whole) - 1)
    index = torch.tensor(data.draw(st.lists(row, max_size=20)), dtype=torch.int64)
    for chosen in (index, index.sort()[0], index.int()):
        assert torch.equal(rows[chosen], whole[chosen])
    bound = st.none() | st.integers(-len(whole) - 2, len(whole) + 2)
    part = slice(data.draw(bound), data.draw(bound))
    assert torch.equal(rows[part], whole[part])
    assert rows[part].dtype == rows.dtype == rows[NO_ROWS].dtype == whole.dtype
    assert (rows.shape, rows.ndim, rows.numel(), len(rows)) == (
        whole.shape,
        whole.ndim,
        whole.numel(),
        len(whole),
    )


def test_only_what_is_asked_for_is_mapped(tmp_path: Path) -> None:
    rows = spread(tmp_path, torch.arange(12), [3, 3, 0, 3, 3])
    assert rows[NO_ROWS].tolist() == rows[3:3].tolist() == []
    assert rows.mapped == []
    assert rows[torch.tensor([11, 3])].tolist() == [11, 3]
    assert rows.mapped == [1, 4]
    assert rows[4:9].tolist() == [4, 5, 6, 7, 8]
    assert rows.mapped == [1, 3, 4]
    assert pickle.loads(pickle.dumps(rows)).mapped == []


@pytest.mark.parametrize("rows", [torch.tensor([0, 12]), torch.tensor([-1])])
def test_rows_that_do_not_exist_are_refused(tmp_path: Path, rows: Tensor) -> None:
    with pytest.raises(IndexError, match="numbered 0 to 11"):
        spread(tmp_path, torch.arange(12), [6, 6])[rows]


@pytest.mark.parametrize("rows", [3, slice(0, 4, 2), torch.ones(12, dtype=torch.bool), NO_ROWS[:, None]])
def test_what_is_neither_rows_nor_a_slice_is_refused(tmp_path: Path, rows: Tensor) -> None:
    with pytest.raises(TypeError, match="rows in shards are taken"):
        spread(tmp_path, torch.arange(12), [6, 6])[rows]


@pytest.mark.parametrize("count", [1, 3, 7, 300])
@pytest.mark.parametrize("kind", ["dense", "half", "sparse", "masks"])
def test_shards_make_no_difference(graph: Graph, tmp_path: Path, count: int, kind: str) -> None:
    part = torch.arange(graph.num_nodes) % 3
    changed = {
        "dense": lambda: graph,
        "half": lambda: replace(graph, x=graph.x.half()),
        "sparse": lambda: replace(graph, x=graph.x.relu().to_sparse_csr()),
        "masks": lambda: replace(graph, masks=Masks(part == 0, part == 1, part == 2), split_rule="given"),
    }[kind]()
    write_store(changed, tmp_path / "s", features="float16" if kind == "half" else "float32", shards=count)
    opened = open_store(tmp_path / "s")
    assert isinstance(opened.indices, Tensor) == (count == 1)
    assert opened.fingerprint() == replace(opened).fingerprint() == changed.fingerprint()
    assert torch.equal(opened.edge_index, graph.edge_index)
    assert is_sparse(opened.x) == is_sparse(changed.x)
    assert (opened.x.shape, opened.x.dtype, opened.x.ndim) == (changed.x.shape, changed.x.dtype, 2)
    assert (len(opened.x), opened.x.numel()) == (len(changed.x), changed.x.numel())
    assert count_entries(opened.x) == count_entries(changed.x)
    nodes = torch.tensor([299, 0, 0, 150])
    found, expected = (select_rows(x, nodes) for x in (opened.x, changed.x))
    assert torch.equal(found.to_dense(), expected.to_dense())
    for index in range(3):
        view, same = (TaskStream(source, seed=1).task(index).graph for source in (opened, changed))
        assert torch.equal(view.x.to_dense(), same.x.to_dense())
        assert torch.equal(view.edge_index, same.edge_index)


def test_a_store_in_shards_is_written_anew_in_others(graph: Graph, tmp_path: Path) -> None:
    write_store(graph, tmp_path / "s", shards=3)
    write_store(open_store(tmp_path / "s"), tmp_path / "t", shards=5)
    assert replace(open_store(tmp_path / "t")).fingerprint() == graph.fingerprint()


def test_a_run_gives_the_same_from_shards(tmp_path: Path) -> None:
    matrices = []
    for count in (1, 3, 7):
        store, out = tmp_path / f"s{count}", tmp_path / f"run{count}"
        write_store(by_class(), store, shards=count)
        matrices.append(hpn.run(str(store), settings={"preset": "paper", "epochs": 2}, out=out)["matrices"])
    assert matrices[0] == matrices[1] == matrices[2]


def test_tasks_need_only_the_shards_of_their_nodes(tmp_path: Path) -> None:
    write_store(by_class(), tmp_path / "s", shards=6)

    def run(tasks: str, out: str) -> object:
        return hpn.run(str(tmp_path / "s"), method="ncm", tasks=tasks, out=tmp_path / out)["matrices"]

    expected = run("2,3", "all")
    for number in (0, 1, 4, 5):
        for name in ("x", "indices"):
            (tmp_path / "s" / shard_name(name, number)).unlink()
    assert run("2,3", "some") == expected
    with pytest.raises(DataError, match=r"shard 0 of 6 \(indices-00000.bin\) is not here; copy it"):
        run("0,2", "missing")


def test_neighbours_need_only_the_shards_of_the_nodes(tmp_path: Path) -> None:
    graph = by_class()
    write_store(graph, tmp_path / "s", shards=6)
    opened = open_store(tmp_path / "s")
    nodes = torch.tensor([120, 60, 61])
    assert [part.tolist() for part in opened.neighbors(nodes)] == [
        part.tolist() for part in graph.neighbors(nodes)
    ]
    assert opened.indices.mapped == [1, 2]  # type: ignore[attr-defined]
    assert opened.x.mapped == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["x", "indices"])
def test_a_damaged_shard_is_named_when_it_is_needed(graph: Graph, tmp_path: Path, name: str) -> None:
    write_store(graph, tmp_path / "s", shards=3)
    path = tmp_path / "s" / shard_name(name, 1)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    opened = open_store(tmp_path / "s")
    rows = getattr(opened, name)
    assert len(rows[:10]) == 10
    complaint = f"{path.name}, shard 1 of 3, has changed since it was written.; copy the file again"
    with pytest.raises(DataError, match=complaint):
        rows[:]
    assert len(getattr(open_store(tmp_path / "s", verify=False), name)[:]) == len(rows)


def test_a_shard_that_was_cut_is_named_at_once(graph: Graph, tmp_path: Path) -> None:
    write_store(graph, tmp_path / "s", shards=3)
    path = tmp_path / "s" / shard_name("x", 2)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(DataError, match=r"x-00002.bin, shard 2 of 3, has 4,796 bytes, expected 4,800"):
        open_store(tmp_path / "s")


@pytest.mark.parametrize("change", [[], None, [{"rows": 300}], [{"rows": 299, "crc32": 0}]])
def test_shards_that_the_header_does_not_tell_of_are_damage(
    graph: Graph, tmp_path: Path, change: object
) -> None:
    write_store(graph, tmp_path / "s", shards=3)
    header = json.loads((tmp_path / "s" / HEADER).read_text())
    header["arrays"]["x"]["shards"] = change
    (tmp_path / "s" / HEADER).write_text(json.dumps(header))
    with pytest.raises(DataError, match=r"header.json does not fit the arrays"):
        open_store(tmp_path / "s")


@pytest.mark.parametrize(("count", "complaint"), [(0, "from 1 to"), (-1, "from 1"), (301, "for 300 nodes")])
def test_there_is_at_least_one_shard_and_at_most_one_a_node(
    graph: Graph, tmp_path: Path, count: int, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        write_store(graph, tmp_path / "s", shards=count)
    assert list(tmp_path.iterdir()) == []
