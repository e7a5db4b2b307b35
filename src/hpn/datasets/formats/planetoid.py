"""Cora and Citeseer in the layout of Planetoid, Actor and WebKB in that of Geom-GCN.

What is read equals what the classes of PyTorch Geometric read, which takes seconds to import.
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from hpn.datasets.graph import Graph, Masks
from hpn.datasets.sparse import Normalize, apply_normalize, to_csr
from hpn.errors import DataError

PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
GEOM_GCN = "https://raw.githubusercontent.com/graphdml-uiuc-jlu/geom-gcn/master/new_data"
NUM_VALIDATION = 500
MIN_WEBKB_CLASS = 10
# Planetoid files are Python pickles. They are read only if they are, byte for byte, the published ones.
PLANETOID_SHA256 = {
    "ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    "ind.cora.ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
    "ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    "ind.cora.test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    "ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    "ind.cora.ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
    "ind.cora.x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
    "ind.cora.y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
    "ind.citeseer.allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
    "ind.citeseer.ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
    "ind.citeseer.graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
    "ind.citeseer.test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    "ind.citeseer.tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
    "ind.citeseer.ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
    "ind.citeseer.x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
    "ind.citeseer.y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
}
PLANETOID_CLASSES = {
    "Cora": (
        *("Theory", "Reinforcement_Learning", "Genetic_Algorithms", "Neural_Networks"),
        *("Probabilistic_Methods", "Case_Based", "Rule_Learning"),
    ),
    "CiteSeer": ("Agents", "AI", "DB", "IR", "ML", "HCI"),
}
PLANETOID_LINKS = {"Cora": 5429, "CiteSeer": 4732}


def load_planetoid(name: str, root: Path, *, normalize: Normalize = "row") -> Graph:
    """Cora or CiteSeer with the public split: 20 training nodes per class, 500 to validate, 1,000 to test.

    Args:
        name: ``Cora`` or ``CiteSeer``.
        root: Data root; the files are in ``root/name/raw``.
        normalize: What to do with the bag of words; ``row`` scales each to a sum of 1.
    """
    raw = root / name / "raw"
    stem = f"ind.{name.lower()}."
    files = [file for file in PLANETOID_SHA256 if file.startswith(stem)]
    _fetch(name.lower(), raw, {file: f"{PLANETOID}/{file}" for file in files})
    for file in files:
        _check_digest(raw / file, PLANETOID_SHA256[file])
    with _reading(name.lower(), raw):
        parts = {file.removeprefix(stem): _unpickle(raw / file) for file in files if file != f"{stem}test.index"}
        test = np.loadtxt(raw / f"{stem}test.index", dtype=np.int64)
        # Nodes that are neither among the first nor in the list (15 of Citeseer) have no words.
        num_nodes, num_train = int(test.max()) + 1, len(parts["y"])
        x = np.zeros((num_nodes, parts["allx"].shape[1]), dtype=np.float32)
        y = np.zeros(num_nodes, dtype=np.int64)
        for nodes, words, labels in ((slice(parts["allx"].shape[0]), "allx", "ally"), (test, "tx", "ty")):
            x[nodes], y[nodes] = parts[words].toarray(), parts[labels].argmax(axis=1)
        links = [(node, other) for node, others in parts["graph"].items() for other in others]
        split = (range(num_train), range(num_train, num_train + NUM_VALIDATION), test)
        masks = [torch.from_numpy(np.isin(np.arange(num_nodes), list(part))) for part in split]
    return Graph.build(
        name.lower(),
        x=apply_normalize(_bag_of_words(x), normalize),
        links=torch.tensor(links).t(),
        y=torch.from_numpy(y),
        class_names=PLANETOID_CLASSES[name],
        num_links=PLANETOID_LINKS[name],
        masks=Masks(*masks),
        class_order=range(len(PLANETOID_CLASSES[name])),
    )


def load_actor(root: Path, *, normalize: Normalize = "row") -> Graph:
    """The actor co-occurrence network of Geom-GCN; the files are in ``root/actor/raw``."""
    raw = root / "actor" / "raw"
    _fetch("actor", raw, _geom_sources("film"))
    with _reading("actor", raw):
        nodes, words, labels = _read_nodes(raw)
        listed = [(node, word) for node, line in zip(nodes, words, strict=True) for word in line]
        rows, columns = np.array(listed).T
        x = np.zeros((len(nodes), columns.max() + 1), dtype=np.float32)
        x[rows, columns] = 1
    return _geom_graph("actor", raw, x, _in_order(nodes, labels), normalize, class_order=range(5))


def load_webkb(name: str, root: Path, *, normalize: Normalize = "row") -> Graph:
    """Texas, Wisconsin or Cornell; the files are in ``root/webkb/name/raw``.

    Classes with fewer than 10 nodes are left out of the class order.
    """
    raw = root / "webkb" / name / "raw"
    _fetch(name, raw, _geom_sources(name))
    with _reading(name, raw):
        nodes, words, labels = _read_nodes(raw)
        x, y = _in_order(nodes, np.array(words, dtype=np.float32)), _in_order(nodes, labels)
        sizes = np.bincount(y)
    order = [label for label in range(len(sizes)) if sizes[label] >= MIN_WEBKB_CLASS]
    return _geom_graph(name, raw, x, y, normalize, class_order=order)


def _geom_sources(name: str) -> Mapping[str, str]:
    tables = ("out1_node_feature_label.txt", "out1_graph_edges.txt")
    return {file: f"{GEOM_GCN}/{name}/{file}" for file in tables}


def _read_nodes(raw: Path) -> tuple[np.ndarray, list[list[int]], np.ndarray]:
    """Numbers of the nodes, what is listed of each, and their labels."""
    lines = (raw / "out1_node_feature_label.txt").read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    nodes, labels = (np.array([int(row[column]) for row in rows]) for column in (0, 2))
    return nodes, [[int(word) for word in row[1].split(",")] for row in rows], labels


def _in_order(nodes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The values of nodes 0, 1, …, which may be listed in another order."""
    ordered = np.empty_like(values)
    ordered[nodes] = values
    return ordered


def _geom_graph(name: str, raw: Path, x: np.ndarray, y: np.ndarray, normalize: Normalize, *, class_order: Any) -> Graph:
    with _reading(name, raw):
        # The first line is a header.
        links = np.loadtxt(raw / "out1_graph_edges.txt", dtype=np.int64, skiprows=1, ndmin=2)
    return Graph.build(
        name,
        x=apply_normalize(_bag_of_words(x), normalize),
        links=torch.from_numpy(links).t(),
        y=torch.from_numpy(y),
        split_rule="index",
        class_order=class_order,
    )


@contextlib.contextmanager
def _reading(name: str, raw: Path) -> Iterator[None]:
    """Name the folder if a file in it cannot be read."""
    try:
        yield
    except Exception as error:  # a broken file may raise anything
        raise DataError(
            f"{name}: the files in {raw} cannot be read ({type(error).__name__}); "
            "delete the folder to download them again"
        ) from error


def _unpickle(file: Path) -> Any:
    """What is in a file of Planetoid, whose digest has been checked."""
    with warnings.catch_warnings(), file.open("rb") as content:
        warnings.simplefilter("ignore")  # SciPy and NumPy have moved the classes since
        return pickle.load(content, encoding="latin1")  # noqa: S301


def _fetch(name: str, folder: Path, sources: Mapping[str, str]) -> None:
    """Download the files that are missing."""
    if not all((folder / file).is_file() for file in sources):
        from hpn.datasets.formats.download import fetch_missing  # takes a while

        fetch_missing(name, folder, sources)


def _check_digest(file: Path, expected: str) -> None:
    if hashlib.sha256(file.read_bytes()).hexdigest() != expected:
        raise DataError(
            f"{file} is not the published file (its SHA-256 differs), and such files can run code "
            "when read; delete it to download it again"
        )


def _bag_of_words(x: np.ndarray) -> Tensor:
    return to_csr(sp.csr_matrix(x))
