"""What the columns of a nodes table become."""

from decimal import Decimal
from inspect import signature

import numpy as np
import pytest
import torch

from hpn.datasets import load_graph
from hpn.datasets.formats.tables import features as features_module
from hpn.datasets.formats.tables.features import hash_categories, hash_text
from hpn.datasets.formats.tables.read import load_tables
from hpn.datasets.sparse import is_sparse
from hpn.errors import ConfigError, DataError
from hpn.params import declared_params

TITLES = ["graphs of deep neural networks", "a short note on trees", "", "learning on graphs"]
NODES = "id,label,n,flag,colour,title\n" + "".join(
    f"{i},c{i % 2},{i}.5,{flag},{colour},{title}\n"
    for i, (flag, colour, title) in enumerate(
        zip(["True", "false", "TRUE", "False"], ["red", "dark blue", "", "red"], TITLES, strict=True)
    )
)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(features_module, "_BLOCK_ROWS", 3)


def load(write_tables, folder, nodes, **options):
    return load_graph(write_tables(folder, nodes, "u,v\n"), **options)


def test_every_kind_of_column(tmp_path, write_tables, read):
    graph = read(load_tables, write_tables(tmp_path, NODES, "u,v\n0,3\n"))
    assert graph.column_kinds == {"n": "number", "flag": "boolean", "colour": "category", "title": "text"}
    assert is_sparse(graph.x)
    x = graph.x.to_dense().numpy()
    assert x[:, :2].tolist() == [[0.5, 1], [1.5, 0], [2.5, 1], [3.5, 0]]
    assert np.array_equal(x[:, 2:66], hash_categories("colour", ["red", "dark blue", "", "red"]))
    assert np.array_equal(x[:, 66:], hash_text(TITLES).toarray())
    assert graph.feature_names[:3] == ("n", "flag", "colour[0]")
    assert graph.feature_names[-1] == "title[4095]"
    assert len(graph.feature_names) == graph.num_features == 2 + 64 + 4096
    assert graph.notes[:2] == (
        "column 'colour' is read as category (64 hashed features)",
        "column 'title' is read as text (4,096 hashed features)",
    )


def test_without_text_features_are_dense(tmp_path, write_tables, read):
    nodes = {"id": [1, 2], "label": [0, 1], "flag": [True, False], "colour": ["red", None]}
    graph = read(load_tables, write_tables(tmp_path, nodes, "u,v\n"))
    assert graph.x.layout == torch.strided
    assert graph.x.sum(dim=1).tolist() == [3, 0]
    assert graph.column_kinds == {"flag": "boolean", "colour": "category"}


def test_categories_are_hashed_by_column_and_value():
    x = hash_categories("colour", [str(value) for value in range(20)])
    assert (x.sum(axis=1) == 2).all()
    assert len({tuple(row) for row in x.tolist()}) == 20
    assert not np.array_equal(x[:1], hash_categories("size", ["0"]))
    assert np.flatnonzero(hash_categories("colour", ["red"])).tolist() == [5, 27]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["red", "green", "blue"], "category"),
        (["New York City", "Rome", ""], "category"),
        (["the city of Rome", "Rome", ""], "text"),
        ([f"user-{number}" for number in range(256)], "category"),
        ([f"user-{number}" for number in range(257)], "text"),
        (["1", "2", ""], "number"),
        (["yes", "no"], "category"),
        (["true", "FALSE"], "boolean"),
    ],
)
def test_the_kind_of_words(tmp_path, write_tables, values, kind):
    nodes = "id,label,w\n" + "".join(f"{i},a,{value}\n" for i, value in enumerate(values))
    assert load(write_tables, tmp_path, nodes, missing="zero").column_kinds == {"w": kind}


def test_a_column_can_be_named_as_text(tmp_path, write_tables):
    nodes = "id,label,zip,g\n1,a,8001,x\n2,b,8002,y\n"
    assert load(write_tables, tmp_path, nodes).column_kinds == {"zip": "number", "g": "category"}
    graph = load(write_tables, tmp_path, nodes, text=["zip"])
    assert graph.column_kinds == {"zip": "text", "g": "category"}
    assert np.array_equal(graph.x.to_dense()[:, :4096].numpy(), hash_text(["8001", "8002"]).toarray())
    with pytest.raises(ConfigError, match=r"no feature column 'zipp'; did you mean 'zip'\? there are: zip, g"):
        load(write_tables, tmp_path, nodes, text=["zipp"])


def test_a_later_table_is_read_as_the_first(tmp_path, write_tables):
    first = load(write_tables, tmp_path / "a", NODES)
    rows = "title,colour,label,flag,id,n\ngraphs,green,c9,True,9,7\n"
    later = load(write_tables, tmp_path / "b", rows, kinds=first.column_kinds)
    assert later.column_kinds == first.column_kinds
    assert later.feature_names == first.feature_names
    assert list(later.column_kinds) == ["n", "flag", "colour", "title"]
    expected = np.hstack([[[7, 1]], hash_categories("colour", ["green"]), hash_text(["graphs"]).toarray()])
    assert np.array_equal(later.x.to_dense().numpy(), expected)


@pytest.mark.parametrize(
    ("header", "row", "expected"),
    [
        ("id,label,n,flag,colour", "1,a,1,true,red", "nodes.csv: has no feature column 'title', which is expected"),
        ("id,label,n,flag,colour,title,z", "1,a,1,true,r,t,1", "nodes.csv: has a feature column 'z', which is not"),
        ("id,label,n,flag,colour,title", "1,a,one,true,red,t", "line 2, column 'n': 'one' is not a number"),
        ("id,label,n,flag,colour,title", "1,a,1,maybe,red,t", "line 2, column 'flag': 'maybe' is not a number"),
    ],
)
def test_a_later_table_that_differs_is_refused(tmp_path, write_tables, header, row, expected):
    kinds = {"n": "number", "flag": "boolean", "colour": "category", "title": "text"}
    with pytest.raises(DataError, match=expected):
        load(write_tables, tmp_path, f"{header}\n{row}\n", kinds=kinds)


def test_missing_numbers_can_be_filled(tmp_path, write_tables, read):
    nodes = "id,label,f,flag\n1,a,1,true\n2,b,NA,\n3,b,,true\n4,b,4,false\n"
    folder = write_tables(tmp_path, nodes, "u,v\n")
    graph = read(load_tables, folder, missing="mean")
    assert graph.x.tolist() == [[1, 1], [2.5, float(np.float32(2 / 3))], [2.5, 1], [4, 0]]
    assert graph.column_kinds == {"f": "number", "flag": "boolean"}
    assert graph.notes == ("3 missing values filled with the mean of their column",)
    graph = read(load_tables, folder, missing="zero")
    assert graph.x.tolist() == [[1, 1], [0, 0], [0, 1], [4, 0]]
    assert graph.notes == ("3 missing values filled with zero",)


@pytest.mark.parametrize("values", [[1.0, None, 3.0], [1.0, float("nan"), 3.0]], ids=["null", "nan"])
def test_missing_numbers_of_parquet_can_be_filled(tmp_path, write_tables, values):
    nodes = {"id": [1, 2, 3], "label": [1, 1, 1], "f": values}
    assert load(write_tables, tmp_path, nodes, missing="mean").x.tolist() == [[1], [2], [3]]
    nodes = {"id": [1, 2, 3], "label": [1, 1, 1], "x": [[1.0, value] for value in values]}
    assert load(write_tables, tmp_path, nodes, missing="mean").x.tolist() == [[1, 1], [1, 2], [1, 3]]


def test_infinite_numbers_are_not_filled(tmp_path, write_tables):
    with pytest.raises(DataError, match="line 3, column 'f': inf is not a finite float32"):
        load(write_tables, tmp_path, "id,label,f\n1,a,\n2,b,inf\n", missing="zero")


def test_features_of_every_numeric_kind(tmp_path, write_tables, read):
    nodes = {
        "id": [1, 2],
        "label": ["a", "b"],
        "bool": [True, False],
        "int": ("TINYINT", [1, 2]),
        "single": ("FLOAT", [0.5, 1.5]),
        "decimal": [Decimal("1.25"), Decimal(2)],
        "long": [2**62, 1],
        "huge": ("HUGEINT", [2**100, 1]),
        "words": ["1", "2e3"],
    }
    graph = read(load_tables, write_tables(tmp_path, nodes, "src,dst\n"))
    assert graph.x.tolist() == [[1, 1, 0.5, 1.25, 2**62, 2**100, 1], [0, 2, 1.5, 2, 1, 1, 2000]]


def test_numbers_do_not_depend_on_other_rows(tmp_path, write_tables):
    """Whole numbers that no float64 can hold, and decimals between two float32, beside rows of any kind."""
    texts = ["9007199254740993", "16777217", "0.1", "1.0000000596046448", "1e-45", "123456789012345678901"]
    alone = [load(write_tables, tmp_path, f"id,label,f\n1,a,{text}\n").x.item() for text in texts]
    rows = "".join(f"{i},a,{text}\n" for i, text in enumerate(texts))
    assert load(write_tables, tmp_path, f"id,label,f\n{rows}").x.flatten().tolist() == alone
    assert alone == [float(np.float32(float(text))) for text in texts]
    (tmp_path / "nodes.csv").unlink()
    nodes = {"id": [1, 2], "label": [1, 1], "f": ("BIGINT", [9007199254740993, 16777217])}
    assert load(write_tables, tmp_path, nodes).x.flatten().tolist() == alone[:2]


def test_options_are_those_of_tables(tmp_path):
    np.savez(tmp_path / "g.npz", labels=np.zeros(1))
    with pytest.raises(ConfigError, match=r"has no 'missing'; it takes: normalize"):
        load_graph(tmp_path / "g.npz", missing="mean")


def test_help_lists_the_options():
    assert signature(load_graph).parameters.keys() > declared_params(load_tables).keys()
