"""Graphs, nodes and labels are read alike from any container, or refused in one line."""

from __future__ import annotations

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
from torch_geometric.data import Data
from torch_geometric.transforms import ToSparseTensor

from hpn.datasets import Graph
from hpn.datasets.graph import Masks
from hpn.datasets.store import write_store
from hpn.errors import DataError
from hpn.model import inputs
from hpn.model.inputs import arrange_features, default_labels, default_nodes, read_graph, read_labels, read_nodes
from hpn.streams import GraphView

X = np.array([[0, 1, 0], [2, 0, 0], [0, 0, 0], [0, 3, 1], [1, 0, 0]])
T = torch.tensor(X)
LINKS = np.array([[0, 1, 1, 3, 2, 1], [1, 0, 2, 4, 2, 0]])
"""0 - 1 (three times), 1 - 2, 3 - 4, and a self-loop."""
NEIGHBORS = [[1], [0, 2], [1], [4], [3]]


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    inputs._make_view.cache_clear()
    yield
    inputs._make_view.cache_clear()


def make(x: Any = X, edge_index: Any = LINKS, **more: Any) -> Any:
    return SimpleNamespace(x=x, edge_index=edge_index, **more)


def neighbors(view: GraphView) -> list[list[int]]:
    return [view.indices[a:b].tolist() for a, b in zip(view.indptr[:-1], view.indptr[1:], strict=True)]


def dense(view: GraphView) -> list[list[float]]:
    return view.x.to_dense().tolist() if view.is_sparse else view.x.tolist()  # type: ignore[no-any-return]


def check(view: GraphView, *, sparse: bool = False) -> None:
    """The view is of the graph above."""
    assert dense(view) == X.tolist()
    assert (view.x.dtype, view.x.device.type, view.is_sparse) == (torch.float32, "cpu", sparse)
    assert view.x.col_indices().dtype == torch.int64 if sparse else view.x.is_contiguous()
    assert neighbors(view) == NEIGHBORS
    assert view.ids.dtype == torch.int64


# ---------------------------------------------------------------------- features

DENSE = {
    **{str(kind): T.to(kind) for kind in (torch.float, torch.double, torch.bfloat16, torch.uint8)},
    "gradient": T.float().requires_grad_(),
    "transposed": torch.tensor(X.T.copy()).float().T,
    "hybrid": T.float().to_sparse(1),
    **{f"numpy {kind}": X.astype(kind) for kind in ("f2", "longdouble", "u8", ">f8")},
    "fortran": np.asfortranarray(X.astype(np.float32)),
    "list": X.tolist(),
    "frame": pd.DataFrame({"a": X[:, 0], "b": X[:, 1].astype("f4"), "c": X[:, 2].astype(bool)}),
    "nullable frame": pd.DataFrame(X).astype("Int64"),
}
CSR = T.float().to_sparse_csr()
SPARSE = {
    **{kind: getattr(T.float(), f"to_sparse_{kind}")() for kind in ("coo", "csr", "csc")},
    "coo int": T.to_sparse(),
    "csr double": T.double().to_sparse_csr(),
    "csr narrow": torch.sparse_csr_tensor(
        CSR.crow_indices().int(), CSR.col_indices().int(), CSR.values(), CSR.shape, check_invariants=True
    ),
    "bsr": T.float().to_sparse_bsr((1, 3)),
    "bsc": T.float().to_sparse_bsc((5, 1)),
    **{f"scipy {kind}": sp.csr_array(X).asformat(kind) for kind in ("csr", "csc", "coo", "lil", "bsr")},
    "matrix": sp.csr_matrix(X.astype(np.float32)),
}


@pytest.mark.parametrize("kind", [*DENSE, *SPARSE])
def test_features(kind: str) -> None:
    check(read_graph(make({**DENSE, **SPARSE}[kind]), num_features=3), sparse=kind in SPARSE)


def test_entries_that_occur_twice_add_up_and_the_matrix_stays_as_it_is() -> None:
    matrix = sp.csr_matrix((np.array([1, 1, 5], "f4"), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 3))
    for x in (matrix, matrix.tocoo(), matrix.astype(np.int8)):
        assert dense(read_graph(make(x, None))) == [[0, 2, 0], [5, 0, 0]]
    assert matrix.nnz == 3


def test_a_tensor_is_not_copied_but_an_array_is() -> None:
    tensor, array = T.float(), X.astype(np.float32)
    assert read_graph(make(tensor)).x.data_ptr() == tensor.data_ptr()
    view = read_graph(make(array))
    array[0] = 9
    check(view)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_must_be_finite(value: float) -> None:
    x = X.astype(np.float64)
    x[4, 0] = x[3, 1] = value
    tensor = torch.tensor(x)
    for wrong in (x, tensor, tensor.to_sparse(), sp.csc_matrix(x), pd.DataFrame(x)):
        with pytest.raises(DataError, match=f"data: feature 1 of node 3 is {value}; replace or drop"):
            read_graph(make(wrong))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (None, "data.x must be real numbers of shape .num_nodes, num_features., got NoneType"),
        (torch.zeros(3), r"got torch.float32 of shape \(3,\)"),
        (np.zeros((2, 2, 2)), r"got float64 of shape \(2, 2, 2\)"),
        (pd.Series([1, 2]), r"got int64 of shape \(2,\)"),
        (X + 1j, r"got complex128 of shape \(5, 3\)"),
        (T + 1j, r"got torch.complex64 of shape \(5, 3\)"),
        (sp.csr_array(X + 1j), r"got complex128 of shape \(5, 3\)"),
        (X.astype(str), "got <U21 of shape"),
        (X.astype(object), "got object of shape"),
        ([[1, 2], [3]], "got list"),
        (pd.DataFrame({"a": [1, 2], "city": ["x", "y"]}), "got (str|object) in column 'city'"),
        (np.zeros((0, 3)), r"expected nodes with features, got x of shape \(0, 3\)"),
        (torch.zeros(3, 0), r"expected nodes with features, got x of shape \(3, 0\)"),
        (pd.DataFrame({0: pd.Series([None, 2], dtype="Int64")}), "feature 0 of node 0 is nan"),
        (np.array([[1.0, 2.0], [1e300, 0.0]]), "feature 0 of node 1 is inf"),
    ],
)
def test_wrong_features_are_refused(x: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_graph(make(x, None))
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------------- edges


class Coo:
    """What torch_sparse's matrices look like from outside."""

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def coo(self) -> tuple[Tensor, Tensor, Any]:
        return torch.tensor(LINKS[1]), torch.tensor(LINKS[0]), self.value


ADJACENCY = np.zeros((5, 5))
ADJACENCY[LINKS[1], LINKS[0]] = 0.5
ADJACENCIES = {
    **{kind: getattr(torch.tensor(ADJACENCY), f"to_sparse_{kind}")() for kind in ("coo", "csr", "csc")},
    "bsr": torch.tensor(ADJACENCY).to_sparse_bsr((5, 1)),
    "bsc": torch.tensor(ADJACENCY).bfloat16().to_sparse_bsc((1, 5)),
    **{f"scipy {kind}": sp.csr_array(ADJACENCY).asformat(kind) for kind in ("csr", "coo", "lil")},
    "scipy bsr": sp.bsr_matrix(ADJACENCY, blocksize=(5, 5)),
    "object": Coo(),
    "weighted object": Coo(torch.full((6,), 0.1)),
    "object of edge features": Coo(torch.tensor([[0.0, 1.0]] * 6)),
    "edge features": torch.sparse_coo_tensor(torch.tensor(LINKS), torch.ones(6, 2), (5, 5, 2), check_invariants=True),
}


@pytest.mark.parametrize(
    "links",
    [
        *(LINKS.tolist(), LINKS[::-1], tuple(map(tuple, LINKS)), LINKS.astype(np.uint64)),
        np.concatenate([LINKS, LINKS[::-1]], axis=1),
        *(torch.tensor(LINKS).int(), torch.tensor(LINKS.T.copy()).T, EdgeIndex(torch.tensor(LINKS))),
    ],
)
def test_edges_count_once_and_in_both_directions(links: Any) -> None:
    check(read_graph(make(edge_index=links)))


@pytest.mark.parametrize("kind", ADJACENCIES)
def test_edges_may_be_a_transposed_adjacency(kind: str) -> None:
    matrix = ADJACENCIES[kind]
    check(read_graph(SimpleNamespace(x=X, adj_t=matrix)))
    check(read_graph(make(edge_index=None, adj_t=matrix)))
    assert read_graph(make(edge_index=[[0], [3]], adj_t=matrix)).num_edges == 1


@pytest.mark.parametrize("links", [None, [], [[], []], np.empty((2, 0)), torch.empty(2, 0), torch.empty(0, 2)])
def test_there_may_be_no_edges(links: Any) -> None:
    assert neighbors(read_graph(make(edge_index=links))) == [[]] * 5
    assert read_graph(Data(x=T.float())).num_edges == 0
    for matrix in (torch.zeros(5, 5).to_sparse_csr(), sp.dok_matrix((5, 5))):
        assert read_graph(make(edge_index=None, adj_t=matrix)).num_edges == 0


def test_entries_of_zero_are_not_edges() -> None:
    values = torch.tensor([1.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    stored = torch.sparse_coo_tensor(torch.tensor(LINKS), values, (5, 5), check_invariants=True)
    of_scipy = sp.coo_matrix((values.numpy(), (LINKS[0], LINKS[1])), shape=(5, 5))
    for matrix in (stored, of_scipy, Coo(values)):
        assert neighbors(read_graph(make(edge_index=None, adj_t=matrix))) == [[1], [0], [], [4], [3]]


WANTED = "data.edge_index must be node numbers of shape .2, num_edges., got"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"edge_index": [[0], [5]]}, r"edge 0 \(0 - 5\) names a node that does not exist; there are 5 nodes"),
        ({"edge_index": [[0, 1], [1, -1]]}, r"edge 1 \(1 - -1\) names a node that does not exist"),
        ({"edge_index": torch.tensor([[0.0], [1.0]])}, f"{WANTED} torch.float32"),
        ({"edge_index": [[True], [False]]}, f"{WANTED} list"),
        ({"edge_index": torch.tensor([0, 1, 2])}, rf"{WANTED} torch.int64 of shape \(3,\)"),
        ({"edge_index": LINKS.T}, rf"{WANTED} int64 of shape \(6, 2\); transpose it"),
        ({"edge_index": [[0, 1], [1]]}, f"{WANTED} list"),
        ({"edge_index": torch.eye(5).to_sparse()}, rf"{WANTED} torch.float32 of shape \(5, 5\)"),
        ({"edge_index": sp.eye_array(5)}, f"{WANTED} float64 of shape"),
        ({"adj_t": torch.eye(5)}, r"data.adj_t must be a sparse matrix of shape .5, 5., got torch.float32 of shape"),
        ({"adj_t": torch.eye(4).to_sparse()}, r"a sparse matrix of shape .5, 5., got torch.float32 of shape \(4, 4\)"),
        ({"adj_t": sp.csr_array(np.eye(6))}, r"a sparse matrix of shape .5, 5., got float64 of shape \(6, 6\)"),
        ({"adj_t": "text"}, "data.adj_t must be a sparse matrix of shape .5, 5., got str"),
        ({"n_id": [1, 2, 3, 2, 1]}, "data.n_id has 1 more than once; every node needs a number of its own"),
        ({"n_id": torch.arange(6)}, r"5 whole numbers, one per node, got torch.int64 of shape \(6,\)"),
        ({"n_id": torch.arange(5.0)}, "5 whole numbers, one per node, got torch.float32"),
        ({"n_id": ["a"] * 5}, "5 whole numbers, one per node, got list"),
        ({"n_id": np.zeros((5, 1), int)}, r"data.n_id must have one dimension, got shape \(5, 1\)"),
    ],
)
def test_wrong_edges_and_numbers_of_nodes_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_graph(make(**{"edge_index": None, **wrong}))


# ---------------------------------------------------------------------- where graphs come from


@pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled")
def test_data_of_pytorch_geometric() -> None:
    data = Data(x=T.float(), edge_index=torch.tensor(LINKS), y=torch.arange(5))
    check(read_graph(data))
    assert read_graph(data).ids.tolist() == [0, 1, 2, 3, 4]
    numbers = [10**12, -4, 0, 7, 3]
    for n_id in (numbers, np.array(numbers), torch.tensor(numbers), pd.Series(numbers)):
        data.n_id = n_id
        assert read_graph(data).ids.tolist() == numbers
    assert read_graph(data) is read_graph(data)
    transposed = ToSparseTensor(layout=torch.sparse_csr)(Data(x=data.x, edge_index=torch.tensor(LINKS)))
    assert transposed.edge_index is None
    check(read_graph(transposed))


def test_a_graph_of_hpn_keeps_its_edges(graph: Graph) -> None:
    view = read_graph(graph)
    assert view.x.data_ptr() == graph.x.data_ptr()
    assert view.indices.data_ptr() == graph.indices.data_ptr()
    assert view.ids.tolist() == list(range(graph.num_nodes))
    assert read_graph(graph, num_features=graph.num_features) is view
    same = read_graph(Data(x=graph.x, edge_index=graph.edge_index))
    assert torch.equal(same.edge_index, view.edge_index)
    wrong = Graph("wrong", torch.full((2, 1), torch.nan), torch.zeros(3).long(), torch.zeros(0), torch.zeros(2), (), 0)
    with pytest.raises(DataError, match="feature 0 of node 0 is nan"):
        read_graph(wrong)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_graph_in_a_store(sparse: bool, tmp_path: Path) -> None:
    x = CSR if sparse else T.float()
    stored = write_store(Graph.build("small", x=x, links=torch.tensor(LINKS), y=torch.zeros(5)), tmp_path / "store")
    check(read_graph(stored), sparse=sparse)
    assert read_graph(stored) is read_graph(stored)


# ---------------------------------------------------------------------- reading again

SAME: dict[str, Any] = {
    "tensors": lambda: make(torch.tensor(X), torch.tensor(LINKS), n_id=torch.arange(5)),
    "sparse tensors": lambda: make(T.float().to_sparse(), None, adj_t=ADJACENCIES["csr"].clone()),
    "arrays": lambda: make(X.copy(), LINKS.copy(), n_id=np.arange(5)),
    "scipy": lambda: make(sp.csr_array(X), None, adj_t=sp.csr_array(ADJACENCY)),
    "lists": lambda: make(X.tolist(), LINKS.tolist(), n_id=list(range(5))),
    "object": lambda: make(X.copy(), None, adj_t=Coo(torch.ones(6))),
}


@pytest.mark.parametrize("kind", SAME)
def test_the_same_data_gives_the_same_object(kind: str) -> None:
    """Tensors are compared by identity, everything else by content."""
    data = SAME[kind]()
    view = read_graph(data)
    assert read_graph(data) is view
    assert read_graph(SimpleNamespace(**vars(data))) is view
    assert (read_graph(SAME[kind]()) is view) == (kind not in {"tensors", "sparse tensors"})


def _set(part: str, at: Any, value: Any) -> Any:
    return lambda data: getattr(data, part).__setitem__(at, value)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        *((kind, _set("x", (0, 0), 9)) for kind in ("tensors", "arrays")),
        *((kind, _set("edge_index", (1, 3), 0)) for kind in ("tensors", "arrays")),
        *((kind, _set("n_id", 0, 70)) for kind in ("tensors", "arrays", "lists")),
        ("tensors", lambda data: setattr(data.x, "data", torch.tensor(X) + 1)),
        ("sparse tensors", lambda data: data.x.values().mul_(2)),
        ("sparse tensors", lambda data: data.adj_t.values().mul_(0)),
        ("scipy", lambda data: data.x.data.__setitem__(0, 9)),
        ("scipy", lambda data: data.adj_t.data.fill(0)),
        ("lists", lambda data: data.x[0].__setitem__(0, 9)),
        ("lists", lambda data: data.edge_index[1].__setitem__(3, 0)),
        ("object", lambda data: data.adj_t.value.zero_()),
    ],
)
def test_changes_in_place_are_noticed(kind: str, change: Any) -> None:
    data = SAME[kind]()
    before = read_graph(data)
    old = dense(before), neighbors(before), before.ids.tolist()
    change(data)
    after = read_graph(data)
    assert after is not before
    assert (dense(after), neighbors(after), after.ids.tolist()) != old
    assert read_graph(data) is after


def test_another_tensor_at_the_same_address_is_another() -> None:
    for value in range(50):  # most of them where the one before would be if it were released
        x = torch.full((1000, 3), float(value), dtype=torch.float64)
        assert float(read_graph(make(x, None)).x[0, 0]) == value
        del x


def test_the_last_few_are_kept() -> None:
    graphs = [make(torch.full((2, 1), float(n)), None) for n in range(inputs.KEPT + 1)]
    views = [read_graph(graph) for graph in graphs[: inputs.KEPT]]
    assert read_graph(graphs[0]) is views[0]
    read_graph(graphs[-1])
    assert read_graph(graphs[0]) is views[0], "it was used after the second"
    assert read_graph(graphs[1]) is not views[1]


def test_tensors_made_in_inference_mode_can_be_learned_from() -> None:
    with torch.inference_mode():
        data = make(torch.tensor(X).float(), torch.tensor(LINKS), n_id=torch.arange(5))
        view = read_graph(data)
        check(read_graph(make(data.x.to_sparse_csr())), sparse=True)
    check(view)
    assert not any(part.is_inference() for part in (view.x, view.indptr, view.indices, view.ids))
    assert read_graph(data) is view
    with torch.inference_mode():
        data.x[0, 0] = 9
        assert dense(read_graph(data))[0][0] == 9
    check(view)


# ---------------------------------------------------------------------- nodes


@pytest.mark.parametrize(
    "nodes",
    [
        *([3, 0, 4], (3, 0, 4), np.array([3, 0, 4]), np.array([3, 0, 4], np.uint16), np.array([3, 0, 4], object)),
        *(torch.tensor([3, 0, 4]), torch.tensor([3, 0, 4], dtype=torch.uint8), [torch.tensor(at) for at in (3, 0, 4)]),
        *(pd.Series([3, 0, 4], index=[7, 8, 9]), pd.Series([3, 0, 4], dtype="Int64"), pd.Index([3, 0, 4])),
    ],
)
def test_nodes_may_be_numbers(nodes: Any) -> None:
    numbers = read_nodes(nodes, 5)
    assert numbers.dtype == np.int64
    assert numbers.tolist() == [3, 0, 4]


@pytest.mark.parametrize(
    "like", [list, np.array, torch.tensor, pd.Series, lambda mask: pd.Series(mask, dtype="boolean")]
)
def test_nodes_may_be_a_mask_or_a_range(like: Any) -> None:
    assert read_nodes(like([True, False, False, True, True]), 5).tolist() == [0, 3, 4]
    assert read_nodes(range(1, 5, 2), 5).tolist() == [1, 3]
    assert read_nodes([1, 1], 5).tolist() == [1, 1]


KIND = "nodes must be whole numbers or one Boolean per node, got"
LIST = "nodes must be a list, array or tensor of whole numbers, got"


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([], "nodes is empty; at least one node is needed"),
        (torch.zeros(5, dtype=torch.bool), "nodes is empty"),
        (torch.ones(7, dtype=torch.bool), r"nodes is a mask of length 7, expected 5 \(one Boolean per node\)"),
        ([0, 5], "nodes has 5, but nodes are numbered from 0 to 4"),
        ([0, -1], "nodes has -1, but nodes are numbered from 0 to 4"),
        ([2**70], f"{KIND} more than 64 bits"),
        ([0.5], f"{KIND} float$"),
        ([1, None], f"{KIND} NoneType$"),
        ([[0, 1]], r"nodes must have one dimension, got shape \(1, 2\)"),
        ([[0], [1, 2]], f"{LIST} list"),
        (3, f"{LIST} int"),
        (torch.eye(5).to_sparse(), f"{LIST} torch.float32"),
    ],
)
def test_wrong_nodes_are_refused(nodes: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"validation {message}"):
        read_nodes(nodes, 5, "validation nodes")


# ---------------------------------------------------------------------- labels

TEXT = ["red", "a longer colour", "red"]
NUMBERS = [3, -1, 10**12]
BOOLEANS = [True, False, True]
LABELS: list[tuple[list[Any], Any]] = [
    *((TEXT, y) for y in (TEXT, tuple(TEXT), np.array(TEXT), np.array(TEXT, object), list(np.array(TEXT)))),
    *((TEXT, pd.Series(TEXT, dtype=dtype)) for dtype in (None, object, "string", "category")),
    *((TEXT, y) for y in (np.array(TEXT)[:, None], pd.Categorical(TEXT), pd.DataFrame({"a": TEXT}), pd.Index(TEXT))),
    *((NUMBERS, np.array(NUMBERS, dtype)) for dtype in (int, object, float)),
    *((NUMBERS, y) for y in (NUMBERS, [3.0, -1, 10**12], [np.int8(3), -1, np.float64(10**12)])),
    *((NUMBERS, y) for y in (torch.tensor(NUMBERS)[:, None], torch.tensor(NUMBERS).double().requires_grad_())),
    *((NUMBERS, pd.Series(NUMBERS, [2, 1, 0], dtype)) for dtype in (None, "Int64", "category")),
    (NUMBERS, pd.DataFrame({"label": NUMBERS})),
    *((BOOLEANS, y) for y in (BOOLEANS, np.array(BOOLEANS), np.array(BOOLEANS, object), torch.tensor(BOOLEANS))),
    (BOOLEANS, pd.Series(BOOLEANS, dtype="boolean")),
    ([2**63 - 1, -(2**63)], [2**63 - 1, -(2**63)]),
    ([5], np.array([5], dtype=np.uint64)),
    ([3, 5], torch.tensor([3.0, 5.0]).bfloat16()),
    ([], []),
]


@pytest.mark.parametrize("at", range(len(LABELS)))
def test_labels_may_be_text_numbers_or_booleans(at: int) -> None:
    expected, y = LABELS[at]
    labels = read_labels(y, len(expected))
    assert labels.tolist() == expected
    assert [type(label) for label in labels.tolist()] == [type(label) for label in expected]
    assert labels.dtype in (np.object_, np.int64, np.bool_)
    again = read_labels(labels, len(expected))
    assert (again.dtype, again.tolist()) == (labels.dtype, expected)
    assert not np.shares_memory(labels, again)


LEAVE = "leave out nodes that have no label"
MIXED = "labels must be all text or all numbers"
KINDS = "y must be text, whole numbers or Booleans"


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0], r"y has length 1, expected 3 \(one label for each of the nodes\)"),
        ([0.0, 0.5, 1.5], "y has 0.5 at position 1; labels must be classes, not continuous values"),
        (torch.tensor([0, 1, 1.5]), "y has 1.5 at position 2; labels must be classes, not continuous values"),
        ([0, np.inf, 1], "y has inf at position 1; labels must "),
        ([0, 2**63, 1], r"y has 9.22\d+e\+18 at position 1; labels must fit into 64 bits"),
        ([0, 2**70, 1], f"{KINDS}, got object"),
        (["a", 1, "b"], f"y has 1 at position 1; {MIXED}"),
        (["a", True, "b"], f"y has True at position 1; {MIXED}"),
        (np.array([1, "b", 2], dtype=object), f"y has 'b' at position 1; {MIXED}"),
        (["a", None, "b"], f"y has None at position 1; {LEAVE}"),
        ([0, None, 1], f"y has None at position 1; {LEAVE}"),
        (["a", "b", np.nan], f"y has nan at position 2; {LEAVE}"),
        (torch.tensor([0, torch.nan, 1]), f"y has nan at position 1; {LEAVE}"),
        *((pd.Series(["a", None, "b"], dtype=dtype), LEAVE) for dtype in (None, "string", "category")),
        (pd.Series([1, None, 2], dtype="Int64"), f"y has (nan|<NA>) at position 1; {LEAVE}"),
        ([[0, 1], [1, 0], [0, 1]], r"y must have one dimension, got shape \(3, 2\); give one label per node"),
        ([[0], [1, 2], [3]], "y must be a list, array or tensor of labels, got list"),
        (np.array(["2020"] * 3, dtype="M8[D]"), f"{KINDS}, got datetime64"),
        ([1j, 2, 3], f"{KINDS}, got complex128"),
        ({1, 2, 3}, "y must be a list, array or tensor of labels, got set"),
    ],
)
def test_wrong_labels_are_refused(y: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"validation .*{message}") as caught:
        read_labels(y, 3, "validation y")
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------------- what comes with a graph


def labelled_graph(**more: Any) -> Graph:
    y = torch.tensor([0, 1, -1, 1, 0])
    return Graph.build("small", x=T.float(), links=torch.tensor(LINKS), y=y, **more)


@pytest.mark.parametrize("like", [list, np.array, torch.tensor, pd.Series])
def test_a_mask_that_comes_with_the_graph(like: Any) -> None:
    data = make(train_mask=like([True, False, False, True, False]), val_mask=None, test_mask=like([False] * 5))
    found = [default_nodes(data, f"{name}_mask") for name in ("train", "val", "test", "other")]
    assert [None if nodes is None else nodes.tolist() for nodes in found] == [[0, 3], None, [], None]


def test_masks_of_hpn_graphs_leave_out_unlabelled_nodes() -> None:
    parts = torch.eye(5, dtype=torch.bool)
    graph = labelled_graph(masks=Masks(parts[0] | parts[2], parts[1], parts[3]))
    found = [default_nodes(graph, f"{name}_mask").tolist() for name in ("train", "val", "test")]  # type: ignore[union-attr]
    assert found == [[0], [1], [3]]
    assert default_nodes(labelled_graph(), "train_mask") is None


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(5, 10).bool(), r"has shape \(5, 10\), expected one split; pass nodes, such as data.train_mask\[:,"),
        (torch.ones(4).bool(), r"data.train_mask must be 5 Booleans, one per node, got torch.bool of shape \(4,\)"),
        ([0, 1, 1, 0, 0], "data.train_mask must be 5 Booleans, one per node, got list"),
        (True, "data.train_mask must be one Boolean per node, got bool"),
    ],
)
def test_wrong_masks_are_refused(mask: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        default_nodes(make(train_mask=mask), "train_mask")


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (torch.arange(5)[:, None], [4, 1]),
        (pd.Series([0, 1, 2, 3, 4], index=[4, 3, 2, 1, 0]), [4, 1]),
        ([0, 1, 2, 3, -1], [-1, 1]),
        (["a", "b", None, 7, "e"], ["e", "b"]),
        (torch.tensor([torch.nan, 1.0, 2.5, torch.nan, 4.0]), [4, 1]),
        (pd.Series(["a", "b", None, "d", "e"], dtype="category"), ["e", "b"]),
    ],
)
def test_labels_that_come_with_the_graph(y: Any, expected: list[Any]) -> None:
    assert default_labels(make(y=y), np.array([4, 1])).tolist() == expected


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (make(y=["a", "b", None, 7, "e"]), f"data.y has None at position 2; {LEAVE}"),
        (labelled_graph(), "data.y has -1 at position 2, which means unlabelled; leave it out"),
        (make(), "data.y is missing; pass the labels of the nodes as y"),
        (make(y=torch.tensor([1])), r"data.y has length 1, expected 5 \(one label per node\); pass y"),
        (make(y=np.zeros((5, 2))), r"data.y must have one dimension, got shape \(5, 2\)"),
    ],
)
def test_nodes_without_a_label_are_refused_by_their_number(data: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        default_labels(data, np.array([4, 2]))
    assert default_labels(labelled_graph(), np.array([4])).tolist() == ["0"], "the name of the class"


def test_features_are_brought_into_order() -> None:
    x = torch.tensor([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]]).to_sparse_csr()
    graph = Graph.build("pair", x=x, links=torch.tensor([[0], [1]]), y=torch.zeros(2), feature_names=["a", "b", "c"])
    found = arrange_features(graph, ["c", "a", "b"])
    assert found.x.to_dense().tolist() == [[2.0, 0.0, 1.0], [0.0, 3.0, 0.0]]
    assert arrange_features(graph, ["c", "a", "b"]) is found, "so that its view is found again"
    assert arrange_features(graph, ["a", "b", "c"]) is graph
