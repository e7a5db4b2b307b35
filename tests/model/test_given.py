"""Whatever people have in the place of a graph, nodes or labels is read alike, or refused in one line."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NeighborLoader
from torch_geometric.transforms import ToSparseTensor

from hpn.datasets import Graph, load_dataset
from hpn.datasets.graph import Masks
from hpn.datasets.store import write_store
from hpn.errors import ConfigError, DataError
from hpn.model import given
from hpn.model.given import (
    Labelled,
    arrange_features,
    default_labels,
    default_nodes,
    read_graph,
    read_labelled,
    read_labels,
    read_nodes,
    read_validation,
)
from hpn.streams import GraphView

X = np.array([[0, 1, 0], [2, 0, 0], [0, 0, 0], [0, 3, 1], [1, 0, 0]])
LINKS = np.array([[0, 1, 1, 3, 2, 1], [1, 0, 2, 4, 2, 0]])
"""0 - 1 (three times), 1 - 2, 3 - 4, and a self-loop."""
NEIGHBORS = [[1], [0, 2], [1], [4], [3]]


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    given._recent.clear()
    yield
    given._recent.clear()


def make(x: Any = X, edge_index: Any = LINKS, **more: Any) -> Any:
    return SimpleNamespace(x=x, edge_index=edge_index, **more)


def neighbors(view: GraphView) -> list[list[int]]:
    return [view.indices[a:b].tolist() for a, b in zip(view.indptr[:-1], view.indptr[1:], strict=True)]


def dense(view: GraphView) -> list[list[float]]:
    return view.x.to_dense().tolist() if view.is_sparse else view.x.tolist()  # type: ignore[no-any-return]


def check(view: GraphView, *, sparse: bool = False) -> None:
    """The view is of the graph above."""
    assert dense(view) == X.tolist()
    assert view.x.dtype == torch.float32
    assert view.x.device.type == "cpu"
    assert view.is_sparse == sparse
    assert sparse or view.x.is_contiguous()
    assert neighbors(view) == NEIGHBORS
    assert view.ids is not None
    assert view.ids.dtype == torch.int64


# ---------------------------------------------------------------------- features

DENSE = {
    **{str(dtype): torch.tensor(X).to(dtype) for dtype in (torch.float, torch.double, torch.half, torch.bfloat16)},
    **{str(dtype): torch.tensor(X).to(dtype) for dtype in (torch.int64, torch.uint8)},
    "gradient": torch.tensor(X).float().requires_grad_(),
    "transposed": torch.tensor(X.T.copy()).float().T,
    "hybrid": torch.tensor(X).float().to_sparse(1),
    **{f"numpy {kind}": X.astype(kind) for kind in ("f2", "f4", "f8", "longdouble", "i1", "u2", "u8", ">f8")},
    "fortran": np.asfortranarray(X.astype(np.float32)),
    "list": X.tolist(),
    "frame": pd.DataFrame(X, columns=list("abc")),
    "mixed frame": pd.DataFrame({"a": X[:, 0], "b": X[:, 1].astype("f4"), "c": X[:, 2].astype(bool)}),
    "nullable frame": pd.DataFrame(X).astype("Int64"),
}
SPARSE = {
    "coo": torch.tensor(X).float().to_sparse(),
    "coo int": torch.tensor(X).to_sparse(),
    "csr": torch.tensor(X).float().to_sparse_csr(),
    "csr double": torch.tensor(X).double().to_sparse_csr(),
    "csc": torch.tensor(X).float().to_sparse_csc(),
    "bsr": torch.tensor(X).float().to_sparse_bsr((1, 3)),
    "bsc": torch.tensor(X).float().to_sparse_bsc((5, 1)),
    **{f"scipy {kind}": sp.csr_array(X).asformat(kind) for kind in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")},
    "matrix": sp.csr_matrix(X.astype(np.float32)),
}


@pytest.mark.parametrize("kind", DENSE)
def test_dense_features(kind: str) -> None:
    check(read_graph(make(DENSE[kind]), num_features=3))


@pytest.mark.parametrize("kind", SPARSE)
def test_sparse_features(kind: str) -> None:
    view = read_graph(make(SPARSE[kind]), num_features=3)
    check(view, sparse=True)
    assert view.x.col_indices().dtype == torch.int64


def test_narrow_indices_become_wide() -> None:
    wide = SPARSE["csr"]
    narrow = torch.sparse_csr_tensor(
        wide.crow_indices().int(), wide.col_indices().int(), wide.values(), wide.shape, check_invariants=True
    )
    view = read_graph(make(narrow))
    check(view, sparse=True)
    assert view.x.col_indices().dtype == torch.int64


def test_entries_that_come_twice_add_up_and_the_matrix_stays_as_it_is() -> None:
    matrix = sp.csr_matrix((np.array([1, 1, 5], "f4"), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 3))
    for x in (matrix, matrix.tocoo(), matrix.astype(np.int8)):
        assert dense(read_graph(make(x, None))) == [[0, 2, 0], [5, 0, 0]]
    assert matrix.nnz == 3
    assert read_graph(make(matrix, None)) is read_graph(make(matrix, None))


def test_booleans_are_numbers() -> None:
    for x in (X > 0, torch.tensor(X > 0), sp.csr_array(X > 0), pd.DataFrame(X > 0)):
        assert dense(read_graph(make(x))) == (X > 0).astype(float).tolist()


def test_a_tensor_is_not_copied_but_an_array_is() -> None:
    tensor, array = torch.tensor(X).float(), X.astype(np.float32)
    assert read_graph(make(tensor)).x.data_ptr() == tensor.data_ptr()
    view = read_graph(make(array))
    array[0] = 9
    check(view)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_features_must_be_finite(value: float) -> None:
    x = X.astype(np.float64)
    x[4, 0] = x[3, 1] = value
    tensor = torch.tensor(x)
    frame = pd.DataFrame(x)
    for wrong in (x, tensor, tensor.to_sparse(), tensor.to_sparse_csc(), sp.csc_matrix(x), frame):
        with pytest.raises(DataError, match=f"data: feature 1 of node 3 is {value}; replace or drop"):
            read_graph(make(wrong))
    with pytest.raises(DataError, match="feature 2 of node 0 is nan"):
        read_graph(make(pd.DataFrame({0: [1, 2], 1: [1, 2], 2: pd.Series([None, 2], dtype="Int64")}), None))


@pytest.mark.parametrize("like", [np.asarray, torch.tensor, sp.csr_array])
def test_features_must_be_finite_in_single_precision(like: Any) -> None:
    with pytest.raises(DataError, match="feature 0 of node 1 is inf"):
        read_graph(make(like(np.array([[1.0, 2.0], [1e300, 0.0]])), None))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (None, "data.x must be real numbers of shape .num_nodes, num_features., got NoneType"),
        (torch.zeros(3), r"got torch.float32 of shape \(3,\)"),
        (np.zeros((2, 2, 2)), r"got float64 of shape \(2, 2, 2\)"),
        (pd.Series([1, 2]), r"got int64 of shape \(2,\)"),
        (X + 1j, r"got complex128 of shape \(5, 3\)"),
        (torch.tensor(X + 1j), r"got torch.complex128 of shape \(5, 3\)"),
        (sp.csr_array(X + 1j), r"got complex128 of shape \(5, 3\)"),
        (X.astype(str), r"got <U21 of shape"),
        (X.astype(object), r"got object of shape"),
        ([[1, 2], [3]], "got list"),
        ("text", "got str"),
        (pd.DataFrame({"a": [1, 2], "city": ["x", "y"]}), "got str in column 'city'|got object in column 'city'"),
        (np.zeros((0, 3)), r"expected nodes with features, got x of shape \(0, 3\)"),
        (torch.zeros(3, 0), r"expected nodes with features, got x of shape \(3, 0\)"),
    ],
)
def test_wrong_features_are_refused(x: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_graph(make(x, None))
    assert "\n" not in str(caught.value)


def test_the_number_of_features_is_checked_whether_kept_or_not() -> None:
    data = make()
    for _ in range(2):
        with pytest.raises(DataError, match=r"data.x has 3 features a node, but 7 were learned from"):
            read_graph(data, num_features=7)
        read_graph(data)
    with pytest.raises(DataError, match=r"data.x must be .* got NoneType"):
        read_graph(HeteroData())
    with pytest.raises(DataError, match=r"data.x must be .* got NoneType"):
        read_graph(X)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- edges


@pytest.mark.parametrize(
    "links",
    [
        LINKS,
        LINKS.tolist(),
        LINKS[::-1],
        tuple(map(tuple, LINKS)),
        LINKS.astype(np.uint64),
        np.concatenate([LINKS, LINKS[::-1]], axis=1),
        torch.tensor(LINKS),
        torch.tensor(LINKS).int(),
        torch.tensor(LINKS.T.copy()).T,
        EdgeIndex(torch.tensor(LINKS)),
    ],
)
def test_edges_count_once_and_in_both_directions(links: Any) -> None:
    check(read_graph(make(edge_index=links)))


@pytest.mark.parametrize("links", [None, [], [[], []], np.empty((2, 0)), torch.empty(2, 0), torch.empty(0, 2)])
def test_there_may_be_no_edges(links: Any) -> None:
    view = read_graph(make(edge_index=links))
    assert view.num_edges == 0
    assert neighbors(view) == [[]] * 5


def test_edges_may_be_left_out() -> None:
    assert read_graph(SimpleNamespace(x=X)).num_edges == 0
    assert read_graph(Data(x=torch.tensor(X).float())).num_edges == 0


class Coo:
    """What torch_sparse's matrices look like from outside."""

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def coo(self) -> tuple[Tensor, Tensor, Any]:
        return torch.tensor(LINKS[1]), torch.tensor(LINKS[0]), self.value


def adjacency() -> np.ndarray:
    matrix = np.zeros((5, 5))
    matrix[LINKS[1], LINKS[0]] = 0.5
    return matrix


ADJACENCIES = {
    **{kind: getattr(torch.tensor(adjacency()), f"to_sparse_{kind}")() for kind in ("coo", "csr", "csc")},
    "bsr": torch.tensor(adjacency()).to_sparse_bsr((5, 1)),
    "bsc": torch.tensor(adjacency()).bfloat16().to_sparse_bsc((1, 5)),
    **{
        f"scipy {kind}": sp.csr_array(adjacency()).asformat(kind) for kind in ("csr", "csc", "coo", "lil", "dok", "dia")
    },
    "scipy bsr": sp.bsr_matrix(adjacency(), blocksize=(5, 5)),
    "object": Coo(),
    "weighted object": Coo(torch.full((6,), 0.1)),
    "object of edge features": Coo(torch.tensor([[0.0, 1.0]] * 6)),
    "twice": torch.sparse_coo_tensor(torch.tensor(LINKS), torch.ones(6), (5, 5), check_invariants=True),
    "edge features": torch.sparse_coo_tensor(torch.tensor(LINKS), torch.ones(6, 2), (5, 5, 2), check_invariants=True),
}


@pytest.mark.parametrize("kind", ADJACENCIES)
def test_edges_may_be_a_transposed_adjacency(kind: str) -> None:
    matrix = ADJACENCIES[kind]
    check(read_graph(SimpleNamespace(x=X, adj_t=matrix)))
    check(read_graph(make(edge_index=None, adj_t=matrix)))
    assert read_graph(make(edge_index=[[0], [3]], adj_t=matrix)).num_edges == 1


def test_entries_of_zero_are_no_edges() -> None:
    values = torch.tensor([1.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    stored = torch.sparse_coo_tensor(torch.tensor(LINKS), values, (5, 5), check_invariants=True)
    of_scipy = sp.coo_matrix((values.numpy(), (LINKS[0], LINKS[1])), shape=(5, 5))
    for matrix in (stored, of_scipy, Coo(values)):
        assert neighbors(read_graph(make(edge_index=None, adj_t=matrix))) == [[1], [0], [], [4], [3]]


def test_an_adjacency_without_entries_has_no_edges() -> None:
    for matrix in (torch.zeros(5, 5).to_sparse_csr(), sp.csr_matrix((5, 5)), sp.dok_matrix((5, 5))):
        assert read_graph(make(edge_index=None, adj_t=matrix)).num_edges == 0


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([[0], [5]], r"edge 0 \(0 - 5\) names a node that does not exist; there are 5 nodes"),
        ([[0, 1], [1, -1]], r"edge 1 \(1 - -1\) names a node that does not exist"),
        (
            torch.tensor([[0.0], [1.0]]),
            r"data.edge_index must be node numbers of shape .2, num_edges., got torch.float32",
        ),
        ([[True], [False]], "data.edge_index must be node numbers of shape .2, num_edges., got list"),
        (torch.tensor([0, 1, 2]), r"got torch.int64 of shape \(3,\)"),
        (LINKS.T, r"got int64 of shape \(6, 2\); transpose it"),
        (np.zeros((3, 4), int), r"got int64 of shape \(3, 4\)$"),
        ([[0, 1], [1]], "data.edge_index must be node numbers of shape .2, num_edges., got list"),
        (7, "data.edge_index must be .* got int"),
        (torch.eye(5).to_sparse(), r"data.edge_index must be .* got torch.float32 of shape \(5, 5\)"),
        (sp.eye_array(5), "data.edge_index must be .* got float64 of shape"),
    ],
)
def test_wrong_edges_are_refused(links: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_graph(make(edge_index=links))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (torch.eye(5), r"data.adj_t must be a sparse matrix of shape .5, 5., got torch.float32 of shape \(5, 5\)"),
        (np.eye(5), r"data.adj_t must be a sparse matrix of shape .5, 5., got float64 of shape \(5, 5\)"),
        (torch.eye(4).to_sparse(), r"a sparse matrix of shape .5, 5., got torch.float32 of shape \(4, 4\)"),
        (sp.csr_array(np.eye(6)), r"a sparse matrix of shape .5, 5., got float64 of shape \(6, 6\)"),
        ("text", "data.adj_t must be a sparse matrix of shape .5, 5., got str"),
    ],
)
def test_a_wrong_adjacency_is_refused(matrix: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_graph(make(edge_index=None, adj_t=matrix))


# ---------------------------------------------------------------------- identity of nodes


def test_nodes_are_known_by_their_position_unless_they_have_a_number() -> None:
    numbers = [10**12, -4, 0, 7, 3]
    assert read_graph(make()).ids.tolist() == [0, 1, 2, 3, 4]  # type: ignore[union-attr]
    for n_id in (numbers, np.array(numbers), torch.tensor(numbers), pd.Series(numbers), pd.Index(numbers)):
        view = read_graph(make(n_id=n_id))
        assert view.ids is not None
        assert view.ids.dtype == torch.int64
        assert view.ids.tolist() == numbers
    assert read_graph(make(n_id=torch.arange(5).int())).ids.dtype == torch.int64  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("n_id", "message"),
    [
        ([1, 2, 3, 2, 1], "data.n_id has 1 more than once; every node needs a number of its own"),
        (torch.tensor([1, 2, 3, 4, 4]), "data.n_id has 4 more than once"),
        ([1, 2], "data.n_id must be 5 whole numbers, one a node, got list"),
        (torch.arange(6), r"data.n_id must be 5 whole numbers, one a node, got torch.int64 of shape \(6,\)"),
        (torch.arange(5.0), "data.n_id must be 5 whole numbers, one a node, got torch.float32"),
        (np.ones(5, dtype=bool), "data.n_id must be 5 whole numbers, one a node, got bool"),
        (["a"] * 5, "data.n_id must be 5 whole numbers, one a node, got list"),
        (np.zeros((5, 1), int), r"data.n_id must have one dimension, got shape \(5, 1\)"),
    ],
)
def test_wrong_numbers_of_nodes_are_refused(n_id: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_graph(make(n_id=n_id))


# ---------------------------------------------------------------------- where graphs come from


@pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled")
def test_data_of_pytorch_geometric() -> None:
    data = Data(x=torch.tensor(X).float(), edge_index=torch.tensor(LINKS), y=torch.arange(5))
    check(read_graph(data))
    assert read_graph(data) is read_graph(data)
    data.n_id = torch.arange(5) + 70
    assert read_graph(data).ids.tolist() == [70, 71, 72, 73, 74]  # type: ignore[union-attr]
    del data.edge_index
    assert read_graph(data).num_edges == 0
    data.adj_t = ADJACENCIES["csr"]
    assert neighbors(read_graph(data)) == NEIGHBORS
    assert read_graph(data) is read_graph(data)
    transposed = ToSparseTensor(layout=torch.sparse_csr)(Data(x=data.x, edge_index=torch.tensor(LINKS)))
    assert transposed.edge_index is None
    check(read_graph(transposed))


@pytest.mark.filterwarnings("ignore:Using 'NeighborSampler' without a 'pyg-lib'")
def test_part_of_a_graph_has_the_numbers_of_the_whole() -> None:
    data = Data(x=torch.tensor(X).float(), edge_index=torch.tensor(LINKS))
    try:
        loader = NeighborLoader(data, num_neighbors=[-1], input_nodes=torch.tensor([1]), batch_size=1)
        part = next(iter(loader))
    except ImportError:
        part = data.subgraph(torch.tensor([0, 1, 2]))
        part.n_id = torch.tensor([0, 1, 2])
    view = read_graph(part)
    assert view.ids is not None
    assert sorted(view.ids.tolist()) == [0, 1, 2]
    assert torch.equal(view.x, data.x[view.ids])


def test_a_graph_of_hpn_keeps_its_edges(graph: Graph) -> None:
    view = read_graph(graph)
    assert view.x.data_ptr() == graph.x.data_ptr()
    assert view.indices.data_ptr() == graph.indices.data_ptr()
    assert torch.equal(view.edge_index, graph.edge_index)
    assert view.ids.tolist() == list(range(graph.num_nodes))  # type: ignore[union-attr]
    assert read_graph(graph, num_features=graph.num_features) is view
    same = read_graph(Data(x=graph.x, edge_index=graph.edge_index))
    assert torch.equal(same.indices, view.indices)
    assert torch.equal(same.indptr, view.indptr)
    wrong = Graph("wrong", torch.full((2, 1), torch.nan), torch.zeros(3).long(), torch.zeros(0), torch.zeros(2), (), 0)
    with pytest.raises(DataError, match="feature 0 of node 0 is nan"):
        read_graph(wrong)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_graph_in_a_store(sparse: bool, tmp_path: Path) -> None:
    x = torch.tensor(X).float()
    x = x.to_sparse_csr() if sparse else x
    graph = Graph.build("small", x=x, links=torch.tensor(LINKS), y=torch.zeros(5))
    stored = write_store(graph, tmp_path / "store")
    check(read_graph(stored), sparse=sparse)
    assert read_graph(stored) is read_graph(stored)


def test_real_graphs_are_the_same_in_any_container(data_root: Path) -> None:
    cora = load_dataset("cora", data_root=data_root)
    view = read_graph(cora)
    scipy = sp.csr_matrix(cora.x.to_dense().numpy()) if view.is_sparse else None
    matrix = sp.csr_array((np.ones(len(cora.indices)), cora.indices.numpy(), cora.indptr.numpy()))
    for other in (
        make(cora.x.to_dense() if view.is_sparse else cora.x, cora.edge_index),
        make(scipy if scipy is not None else cora.x.numpy(), None, adj_t=matrix),
    ):
        read = read_graph(other)
        assert torch.equal(read.indices, view.indices)
        assert torch.equal(read.indptr, view.indptr)
        assert dense(read) == dense(view)
    for name in ("train", "val", "test"):
        nodes = default_nodes(cora, f"{name}_mask")
        assert nodes is not None
        assert torch.equal(nodes, getattr(cora.masks, name).nonzero().flatten())
        names = [cora.class_names[label] for label in cora.y[nodes].tolist()]
        assert default_labels(cora, nodes).tolist() == names


# ---------------------------------------------------------------------- reading again

SAME: dict[str, Any] = {
    "tensors": lambda: make(torch.tensor(X), torch.tensor(LINKS), n_id=torch.arange(5)),
    "sparse tensors": lambda: make(torch.tensor(X).float().to_sparse(), None, adj_t=ADJACENCIES["csr"].clone()),
    "arrays": lambda: make(X.copy(), LINKS.copy(), n_id=np.arange(5)),
    "single precision": lambda: make(X.astype(np.float32), LINKS.copy()),
    "scipy": lambda: make(sp.csr_array(X), None, adj_t=sp.csr_array(adjacency())),
    "lists": lambda: make(X.tolist(), LINKS.tolist(), n_id=list(range(5))),
    "pandas": lambda: make(pd.DataFrame(X), LINKS.copy(), n_id=pd.Series(range(5))),
    "object": lambda: make(X.copy(), None, adj_t=Coo(torch.ones(6))),
    "mixed": lambda: make(torch.tensor(X), LINKS.tolist()),
}


@pytest.mark.parametrize("kind", SAME)
def test_the_same_data_gives_the_same_object(kind: str) -> None:
    data = SAME[kind]()
    view = read_graph(data)
    assert read_graph(data) is view
    assert read_graph(SimpleNamespace(**vars(data))) is view


@pytest.mark.parametrize("kind", ["arrays", "single precision", "scipy", "lists", "pandas", "object"])
def test_what_is_no_tensor_is_known_by_its_content(kind: str) -> None:
    assert read_graph(SAME[kind]()) is read_graph(SAME[kind]())


@pytest.mark.parametrize("kind", ["tensors", "sparse tensors", "mixed"])
def test_tensors_are_known_by_what_they_are(kind: str) -> None:
    assert read_graph(SAME[kind]()) is not read_graph(SAME[kind]())


def _set(part: str, at: Any, value: Any) -> Any:
    def change(data: Any) -> None:
        getattr(data, part)[at] = value

    return change


CHANGES: list[tuple[str, Any]] = [
    ("tensors", _set("x", (0, 0), 9)),
    ("tensors", lambda data: data.x.mul_(2)),
    ("tensors", _set("edge_index", (1, 3), 0)),
    ("tensors", _set("n_id", 0, 70)),
    ("tensors", lambda data: setattr(data.x, "data", torch.tensor(X) + 1)),
    ("sparse tensors", lambda data: data.x.mul_(2)),
    ("sparse tensors", lambda data: data.x.values().mul_(2)),
    ("sparse tensors", lambda data: data.adj_t.values().mul_(0)),
    ("arrays", _set("x", (0, 0), 9)),
    ("arrays", _set("edge_index", (1, 3), 0)),
    ("arrays", _set("n_id", 0, 70)),
    ("single precision", _set("x", (0, 0), 9)),
    ("scipy", lambda data: data.x.data.__setitem__(0, 9)),
    ("scipy", lambda data: data.adj_t.data.fill(0)),
    ("lists", lambda data: data.x[0].__setitem__(0, 9)),
    ("lists", lambda data: data.edge_index[1].__setitem__(3, 0)),
    ("lists", lambda data: data.n_id.__setitem__(0, 70)),
    ("pandas", lambda data: data.x.iloc.__setitem__((0, 0), 9)),
    ("pandas", lambda data: data.n_id.iloc.__setitem__(0, 70)),
    ("object", lambda data: data.adj_t.value.zero_()),
]


@pytest.mark.parametrize("at", range(len(CHANGES)))
def test_changes_in_place_are_noticed(at: int) -> None:
    kind, change = CHANGES[at]
    data = SAME[kind]()
    before = read_graph(data)
    old = dense(before), neighbors(before), before.ids.tolist()  # type: ignore[union-attr]
    change(data)
    after = read_graph(data)
    assert after is not before
    assert (dense(after), neighbors(after), after.ids.tolist()) != old  # type: ignore[union-attr]
    assert read_graph(data) is after


def test_a_view_of_an_array_that_was_changed_and_changed_back() -> None:
    x = X.astype(np.float32)
    data = make(x)
    first = read_graph(data)
    x[0] = 9
    assert dense(read_graph(data))[0] == [9, 9, 9]
    x[0] = X[0]
    assert read_graph(data) is first
    check(first)


def test_the_same_bytes_may_be_something_else() -> None:
    x = np.array([[1, 2, 0], [0, 3, 1]])
    assert dense(read_graph(make(x.view(np.float64), None))) != dense(read_graph(make(x, None)))
    assert read_graph(make(x.reshape(3, 2), None)).num_nodes == 3
    entries = (np.ones(1), ([0], [0]))
    views = [read_graph(make(sp.coo_array(entries, shape=(n, 2)), None)) for n in (1, 2)]
    assert [view.num_nodes for view in views] == [1, 2]
    assert dense(read_graph(make(sp.coo_array(entries, shape=(2, 2)).toarray(), None))) == dense(views[1])


def test_another_tensor_in_the_same_place_is_another() -> None:
    for value in range(50):  # most of them where the one before would be if it were let go
        x = torch.full((1000, 3), float(value), dtype=torch.float64)
        assert float(read_graph(make(x, None)).x[0, 0]) == value
        del x


def test_the_last_few_are_kept() -> None:
    graphs = [make(torch.full((2, 1), float(n)), None) for n in range(given.KEPT + 1)]
    views = [read_graph(graph) for graph in graphs[: given.KEPT]]
    assert read_graph(graphs[0]) is views[0]
    read_graph(graphs[-1])
    assert len(given._recent) == given.KEPT == 4
    assert read_graph(graphs[0]) is views[0], "it was used after the second"
    assert read_graph(graphs[1]) is not views[1]


def test_what_was_refused_is_not_kept() -> None:
    with pytest.raises(DataError):
        read_graph(make(edge_index=[[0], [9]]))
    assert not given._recent


def test_threads_get_the_same_object() -> None:
    graphs = [SAME["arrays"](), *(make(torch.full((50, 3), float(n)), None) for n in range(8))]
    failed: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(30):
                for graph in graphs:
                    assert read_graph(graph).num_nodes == len(graph.x)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


@pytest.mark.parametrize("layout", ["dense", "csr", "bfloat16"])
def test_tensors_made_while_inferring_can_be_learned_from(layout: str) -> None:
    with torch.inference_mode():
        x = torch.tensor(X).float()
        x = {"dense": x, "csr": x.to_sparse_csr(), "bfloat16": x.bfloat16()}[layout]
        data = make(x, torch.tensor(LINKS), n_id=torch.arange(5))
        view = read_graph(data)
        tracked = read_graph(SAME["tensors"]())
    check(view, sparse=layout == "csr")
    check(tracked)
    for part in (view.x, view.indptr, view.indices, view.ids, tracked.x, tracked.ids):
        assert part is not None
        assert not part.is_inference()
    if layout != "csr":
        assert read_graph(data) is view
        with torch.inference_mode():
            data.x[0, 0] = 9
            assert dense(read_graph(data))[0][0] == 9
        check(view)


# ---------------------------------------------------------------------- nodes


@pytest.mark.parametrize(
    "nodes",
    [
        [3, 0, 4],
        (3, 0, 4),
        np.array([3, 0, 4]),
        np.array([3, 0, 4], dtype=np.uint16),
        np.array([3, 0, 4], dtype=object),
        torch.tensor([3, 0, 4]),
        torch.tensor([3, 0, 4], dtype=torch.uint8),
        [torch.tensor(3), torch.tensor(0), torch.tensor(4)],
        pd.Series([3, 0, 4], index=[7, 8, 9]),
        pd.Series([3, 0, 4], dtype="Int64"),
        pd.Index([3, 0, 4]),
    ],
)
def test_nodes_may_be_numbers(nodes: Any) -> None:
    numbers = read_nodes(nodes, 5)
    assert numbers.dtype == torch.int64
    assert numbers.tolist() == [3, 0, 4]


def test_nodes_may_be_a_range_or_come_twice() -> None:
    assert read_nodes(range(1, 5, 2), 5).tolist() == [1, 3]
    assert read_nodes(pd.RangeIndex(5), 5).tolist() == [0, 1, 2, 3, 4]
    assert read_nodes([1, 1], 5).tolist() == [1, 1]


@pytest.mark.parametrize(
    "like", [list, np.array, torch.tensor, pd.Series, lambda mask: pd.Series(mask, dtype="boolean")]
)
def test_nodes_may_be_a_mask(like: Any) -> None:
    assert read_nodes(like([True, False, False, True, True]), 5).tolist() == [0, 3, 4]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([], "nodes is empty; at least one node is needed"),
        (torch.zeros(5, dtype=torch.bool), "nodes is empty"),
        (torch.ones(7, dtype=torch.bool), "nodes has 7 Booleans, but the graph has 5 nodes"),
        ([0, 5], "nodes has 5, but nodes are numbered from 0 to 4"),
        ([0, -1], "nodes has -1, but nodes are numbered from 0 to 4"),
        (np.array([0, 2**64 - 1], dtype=np.uint64), "nodes has 18446744073709551615, but nodes"),
        ([2**70], "nodes must be whole numbers or one Boolean a node, got more than 64 bits"),
        ([0.5], "nodes must be whole numbers or one Boolean a node, got float$"),
        (torch.tensor([1.0]), "nodes must be whole numbers or one Boolean a node, got torch.float32$"),
        (["a"], "nodes must be whole numbers or one Boolean a node, got str$"),
        ([1, None], "nodes must be whole numbers or one Boolean a node, got NoneType$"),
        ([[0, 1]], r"nodes must have one dimension, got shape \(1, 2\)"),
        ([[0], [1, 2]], "nodes must be a list, array or tensor of whole numbers, got list"),
        (3, "nodes must be a list, array or tensor of whole numbers, got int"),
        (None, "nodes must be a list, array or tensor of whole numbers, got NoneType"),
        (torch.eye(5).to_sparse(), "nodes must be a list, array or tensor of whole numbers, got torch.float32"),
    ],
)
def test_wrong_nodes_are_refused(nodes: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_nodes(nodes, 5)
    with pytest.raises(DataError, match=f"validation {message}"):
        read_nodes(nodes, 5, "validation nodes")


# ---------------------------------------------------------------------- labels

TEXT = ["red", "a longer colour", "red"]
NUMBERS = [3, -1, 10**12]
BOOLEANS = [True, False, True]


@pytest.mark.parametrize(
    "y",
    [
        TEXT,
        tuple(TEXT),
        np.array(TEXT),
        np.array(TEXT, dtype=object),
        list(np.array(TEXT)),
        np.array(TEXT)[:, None],
        pd.Series(TEXT),
        pd.Series(TEXT, dtype=object),
        pd.Series(TEXT, dtype="string"),
        pd.Series(TEXT, dtype="category"),
        pd.Categorical(TEXT),
        pd.DataFrame({"colour": TEXT}),
        pd.Index(TEXT),
    ],
)
def test_labels_may_be_text(y: Any) -> None:
    labels = read_labels(y, 3)
    assert labels.dtype == np.object_
    assert labels.tolist() == TEXT
    assert {type(label) for label in labels} == {str}


@pytest.mark.parametrize(
    "y",
    [
        NUMBERS,
        np.array(NUMBERS),
        np.array(NUMBERS, dtype=object),
        np.array(NUMBERS, dtype=float),
        [3.0, -1, 10**12],
        [np.int8(3), -1, np.float64(10**12)],
        torch.tensor(NUMBERS),
        torch.tensor(NUMBERS)[:, None],
        torch.tensor(NUMBERS).double().requires_grad_(),
        pd.Series(NUMBERS, index=[2, 1, 0]),
        pd.Series(NUMBERS, dtype="Int64"),
        pd.Series(NUMBERS, dtype="category"),
        pd.DataFrame({"label": NUMBERS}),
    ],
)
def test_labels_may_be_numbers(y: Any) -> None:
    labels = read_labels(y, 3)
    assert labels.dtype == np.int64
    assert labels.tolist() == NUMBERS


@pytest.mark.parametrize(
    "y",
    [
        BOOLEANS,
        np.array(BOOLEANS),
        np.array(BOOLEANS, object),
        torch.tensor(BOOLEANS),
        pd.Series(BOOLEANS, dtype="boolean"),
    ],
)
def test_labels_may_be_booleans(y: Any) -> None:
    labels = read_labels(y, 3)
    assert labels.dtype == np.bool_
    assert labels.tolist() == BOOLEANS


@pytest.mark.parametrize("y", [TEXT, NUMBERS, BOOLEANS])
def test_labels_that_were_read_are_read_as_they_are_and_not_shared(y: Any) -> None:
    once = read_labels(y, 3)
    again = read_labels(once, 3)
    assert again.dtype == once.dtype
    assert again.tolist() == once.tolist()
    assert not np.shares_memory(once, again)


def test_the_largest_labels() -> None:
    assert read_labels([2**63 - 1, -(2**63)], 2).tolist() == [2**63 - 1, -(2**63)]
    assert read_labels(np.array([5], dtype=np.uint64), 1).tolist() == [5]
    assert read_labels(torch.tensor([3.0, 5.0]).bfloat16(), 2).tolist() == [3, 5]
    assert read_labels([], 0).tolist() == []


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0], "y has 1 labels for 3 nodes; give one for each of the nodes"),
        (np.arange(240), "y has 240 labels for 3 nodes"),
        ([0.0, 0.5, 1.5], "y has 0.5 at position 1; labels must be classes, not continuous values"),
        (torch.tensor([0, 1, 1.5]), "y has 1.5 at position 2; labels must be classes, not continuous values"),
        ([0, np.inf, 1], "y has inf at position 1; labels must "),
        ([0, 1e300, 1], r"y has 1e\+300 at position 1; labels must fit into 64 bits"),
        ([0, 2**63, 1], r"y has 9.22\d+e\+18 at position 1; labels must fit into 64 bits"),
        ([0, 2**70, 1], "y must be text, whole numbers or Booleans, got object"),
        (["a", 1, "b"], "y has 1 at position 1; labels must be all text or all numbers"),
        ([1, 2, "b"], "y has 'b' at position 2; labels must be all text or all numbers"),
        (["a", True, "b"], "y has True at position 1; labels must be all text or all numbers"),
        (np.array([1, "b", 2], dtype=object), "y has 'b' at position 1; labels must be all text or all numbers"),
        (["a", None, "b"], "y has None at position 1; leave out nodes that have no label"),
        ([0, None, 1], "y has None at position 1; leave out nodes that have no label"),
        ([0, np.nan, 1], "y has nan at position 1; leave out nodes that have no label"),
        (["a", "b", np.nan], "y has nan at position 2; leave out nodes that have no label"),
        (torch.tensor([0, torch.nan, 1]), "y has nan at position 1; leave out nodes that have no label"),
        (pd.Series(["a", None, "b"]), "y has (nan|None) at position 1; leave out"),
        (pd.Series(["a", None, "b"], dtype="string"), "y has <NA> at position 1; leave out"),
        (pd.Series(["a", None, "b"], dtype="category"), "y has nan at position 1; leave out"),
        (pd.Series([1, None, 2], dtype="Int64"), "y has (nan|<NA>) at position 1; leave out"),
        ([[0, 1], [1, 0], [0, 1]], r"y must have one dimension, got shape \(3, 2\); give one label a node"),
        (torch.eye(3), r"y must have one dimension, got shape \(3, 3\)"),
        ([[0], [1, 2], [3]], "y must be a list, array or tensor of labels, got list"),
        (np.array([[0, 1], [2, 3], None], dtype=object)[[0, 1, 0]], "y must be text, whole numbers or Booleans"),
        (np.array([[0], [2, 3], [0]], dtype=object), "y must be text, whole numbers or Booleans"),
        ([b"a", b"b", b"c"], "y must be text, whole numbers or Booleans, got"),
        (np.array(["2020"] * 3, dtype="M8[D]"), "y must be text, whole numbers or Booleans, got datetime64"),
        ([1j, 2, 3], "y must be text, whole numbers or Booleans, got complex128"),
        (None, "y must be a list, array or tensor of labels, got NoneType"),
        ("abc", "y must be a list, array or tensor of labels, got str"),
        ({1, 2, 3}, "y must be a list, array or tensor of labels, got set"),
    ],
)
def test_wrong_labels_are_refused(y: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_labels(y, 3)
    assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match=f"validation {message}"):
        read_labels(y, 3, "validation y")


# ---------------------------------------------------------------------- nodes with labels


def test_nodes_and_labels_are_read_together() -> None:
    read = read_labelled([3, 1], ["a", "b"], 5)
    assert read.nodes.tolist() == [3, 1]
    assert read.y.tolist() == ["a", "b"]
    with pytest.raises(DataError, match=r"^nodes has 4 more than once; once is enough"):
        read_labelled([4, 0, 4], [0, 1, 0], 5)
    with pytest.raises(DataError, match=r"^later y has 1 labels for 2 nodes"):
        read_labelled([4, 0], [0], 5, "later ")


def test_validation_may_have_classes_of_its_own_but_no_node_of_training() -> None:
    train = read_labelled([3, 1], ["a", "b"], 5)
    val = read_validation(([0, 4], np.array(["a", "other"])), 5, train)
    assert isinstance(val, Labelled)
    assert val.nodes.tolist() == [0, 4]
    assert val.y.tolist() == ["a", "other"]
    none = read_validation(None, 5, train)
    assert (len(none.nodes), len(none.y), none.y.dtype) == (0, 0, train.y.dtype)
    with pytest.raises(DataError, match="validation nodes has 1, which is in nodes; hold it out of one"):
        read_validation(([0, 1], ["a", "b"]), 5, train)
    with pytest.raises(DataError, match="validation nodes has 0 more than once"):
        read_validation(([0, 0], ["a", "b"]), 5, train)
    for wrong in ([1, 2, 3], torch.tensor([1, 2]), 7):
        with pytest.raises(ConfigError, match=r"validation must be a pair \(nodes, y\), got"):
            read_validation(wrong, 5, train)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- what comes with a graph


def labelled_graph(**more: Any) -> Graph:
    y = torch.tensor([0, 1, -1, 1, 0])
    return Graph.build("small", x=torch.tensor(X).float(), links=torch.tensor(LINKS), y=y, **more)


@pytest.mark.parametrize("like", [list, np.array, torch.tensor, pd.Series])
def test_a_mask_that_comes_with_the_graph(like: Any) -> None:
    data = make(train_mask=like([True, False, False, True, False]), val_mask=None)
    nodes = default_nodes(data, "train_mask")
    assert nodes is not None
    assert nodes.dtype == torch.int64
    assert nodes.tolist() == [0, 3]
    assert default_nodes(data, "val_mask") is None
    assert default_nodes(data, "test_mask") is None
    assert default_nodes(make(test_mask=like([False] * 5)), "test_mask").tolist() == []  # type: ignore[union-attr]


def test_masks_of_data_and_of_hpn_graphs() -> None:
    parts = torch.eye(5, dtype=torch.bool)
    masks = Masks(parts[0] | parts[2], parts[1], parts[3])
    graph = labelled_graph(masks=masks)
    data = Data(x=graph.x, train_mask=masks.train, val_mask=masks.val)
    assert default_nodes(data, "train_mask").tolist() == [0, 2]  # type: ignore[union-attr]
    assert default_nodes(data, "test_mask") is None
    assert default_nodes(graph, "train_mask").tolist() == [0], "unlabelled nodes are in no part"  # type: ignore[union-attr]
    assert default_nodes(graph, "val_mask").tolist() == [1]  # type: ignore[union-attr]
    assert default_nodes(graph, "test_mask").tolist() == [3]  # type: ignore[union-attr]
    assert default_nodes(labelled_graph(), "train_mask") is None


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (
            torch.ones(5, 10).bool(),
            r"data.train_mask holds 10 splits, expected one; pass nodes, such as data.train_mask\[:, 0\]",
        ),
        (torch.ones(4).bool(), r"data.train_mask must be 5 Booleans, one a node, got torch.bool of shape \(4,\)"),
        ([0, 1, 1, 0, 0], "data.train_mask must be 5 Booleans, one a node, got list"),
        (torch.ones(5), "data.train_mask must be 5 Booleans, one a node, got torch.float32"),
        (True, "data.train_mask must be one Boolean a node, got bool"),
    ],
)
def test_wrong_masks_are_refused(mask: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        default_nodes(make(train_mask=mask), "train_mask")


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (torch.tensor([0, 1, 2, 3, 4]), [4, 1]),
        (torch.arange(5)[:, None], [4, 1]),
        (np.arange(5), [4, 1]),
        (pd.Series([0, 1, 2, 3, 4], index=[4, 3, 2, 1, 0]), [4, 1]),
        ([0, 1, 2, 3, -1], [-1, 1]),
        (["a", "b", None, 7, "e"], ["e", "b"]),
        (torch.tensor([torch.nan, 1.0, 2.5, torch.nan, 4.0]), [4, 1]),
        (pd.Series(["a", "b", None, "d", "e"], dtype="category"), ["e", "b"]),
    ],
)
def test_labels_that_come_with_the_graph(y: Any, expected: list[Any]) -> None:
    assert default_labels(make(y=y), torch.tensor([4, 1])).tolist() == expected


def test_nodes_without_a_label_are_refused_by_their_number() -> None:
    nodes = torch.tensor([4, 2])
    with pytest.raises(DataError, match=r"data.y has None at position 2; leave out nodes that have no label"):
        default_labels(make(y=["a", "b", None, 7, "e"]), nodes)
    with pytest.raises(DataError, match=r"data.y has 2.5 at position 2; labels must be classes"):
        default_labels(make(y=[0, 1, 2.5, 3, 4]), nodes)
    with pytest.raises(DataError, match=r"data.y has -1 at position 2, which means unlabelled; leave it out"):
        default_labels(labelled_graph(), nodes)
    assert default_labels(labelled_graph(), nodes[:1]).tolist() == ["0"], "the name of the class"


def test_a_graph_without_labels() -> None:
    nodes = torch.tensor([0])
    for data in (make(), make(y=None), Data(x=torch.zeros(5, 1))):
        with pytest.raises(DataError, match=r"data.y is missing; pass the labels of the nodes as y"):
            default_labels(data, nodes)
    with pytest.raises(DataError, match=r"data.y has 1 labels, but the graph has 5 nodes; pass y"):
        default_labels(make(y=torch.tensor([1])), nodes)
    with pytest.raises(DataError, match=r"data.y must have one dimension, got shape \(5, 2\)"):
        default_labels(make(y=np.zeros((5, 2))), nodes)


# ---------------------------------------------------------------------- features by name


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_features_are_brought_into_order(kind: str) -> None:
    x = torch.tensor([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]])
    graph = Graph.build(
        "pair",
        x=x.to_sparse_csr() if kind == "sparse" else x,
        links=torch.tensor([[0], [1]]),
        y=torch.zeros(2),
        feature_names=["a", "b", "c"],
    )
    found = arrange_features(graph, ["c", "a", "b"])
    assert found.x.to_dense().tolist() == [[2.0, 0.0, 1.0], [0.0, 3.0, 0.0]]
    assert arrange_features(graph, ["c", "a", "b"]) is found, "so that its view is found again"
    assert read_graph(arrange_features(graph, ["c", "a", "b"])) is read_graph(found)
    assert arrange_features(graph, ["a", "b", "c"]) is graph
    bare = make(x=x.numpy())
    assert arrange_features(bare, ["c", "a", "b"]) is bare
