"""Cora and Citeseer in the layout of Planetoid, Actor and WebKB in that of Geom-GCN.

The graphs equal those of PyTorch Geometric, whose import takes seconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from hpn.datasets.formats.download import fetch_missing
from hpn.datasets.graph import Graph, Masks
from hpn.datasets.sparse import Normalize, normalize_rows, to_csr
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
_CORA = (
    "Theory Reinforcement_Learning Genetic_Algorithms Neural_Networks Probabilistic_Methods Case_Based Rule_Learning"
)
CLASSES = {"cora": _CORA.split(), "citeseer": ["Agents", "AI", "DB", "IR", "ML", "HCI"]}
NUM_LINKS = {"cora": 5429, "citeseer": 4732}


def load_planetoid(name: str, raw: Path, *, normalize: Normalize = "row") -> Graph:
    """Cora or CiteSeer with the public split: 20 training nodes per class, 500 to validate, 1,000 to test.

    Args:
        name: ``cora`` or ``citeseer``.
        raw: Folder with the files; missing ones are downloaded to it.
        normalize: How to scale the bags of words; ``row`` scales each to a sum of 1.
    """
    digests = {file: digest for file, digest in PLANETOID_SHA256.items() if file.startswith(f"ind.{name}.")}
    fetch_missing(name, raw, {file: f"{PLANETOID}/{file}" for file in digests})
    for file, digest in digests.items():
        _check_digest(raw / file, digest)
    with _reading(name, raw):
        *files, index = (
            raw / f"ind.{name}.{part}" for part in ("allx", "ally", "tx", "ty", "y", "graph", "test.index")
        )
        known_x, known_y, test_x, test_y, train_y, graph = map(_unpickle, files)
        test, num_train = np.loadtxt(index, dtype=np.int64), len(train_y)
        # Nodes that are neither among the first nor in the list (15 of Citeseer) have no words.
        num_nodes, num_known = int(test.max()) + 1, known_x.shape[0]
        x, y = np.zeros((num_nodes, known_x.shape[1]), dtype=np.float32), np.zeros(num_nodes, dtype=np.int64)
        x[:num_known], y[:num_known] = known_x.toarray(), known_y.argmax(axis=1)
        x[test], y[test] = test_x.toarray(), test_y.argmax(axis=1)
        links = [(node, other) for node, others in graph.items() for other in others]
        split = (range(num_train), range(num_train, num_train + NUM_VALIDATION), test)
        masks = Masks(*(torch.from_numpy(np.isin(np.arange(num_nodes), list(part))) for part in split))
    return Graph.build(
        name,
        x=normalize_rows(to_csr(sp.csr_matrix(x)), normalize),
        links=torch.tensor(links).t(),
        y=torch.from_numpy(y),
        class_names=CLASSES[name],
        num_links=NUM_LINKS[name],
        masks=masks,
        class_order=range(len(CLASSES[name])),
    )


def load_geom_gcn(name: str, raw: Path, *, normalize: Normalize = "row") -> Graph:
    """The actor co-occurrence network, or the web pages of Texas, Wisconsin or Cornell.

    Classes of web pages with fewer than 10 nodes are not in the class order.

    Args:
        name: ``actor``, ``texas``, ``wisconsin`` or ``cornell``.
        raw: Folder with the files; missing ones are downloaded to it.
        normalize: How to scale the bags of words.
    """
    is_actor = name == "actor"
    nodes_file, edges_file = "out1_node_feature_label.txt", "out1_graph_edges.txt"
    address = f"{GEOM_GCN}/{'film' if is_actor else name}"
    fetch_missing(name, raw, {file: f"{address}/{file}" for file in (nodes_file, edges_file)})
    with _reading(name, raw):
        lines = (raw / nodes_file).read_text(encoding="utf-8").splitlines()[1:]  # the first line is a header
        nodes, words, labels = zip(*(line.split("\t") for line in lines), strict=True)
        order = np.argsort(np.array(nodes, dtype=np.int64))
        features = [np.array(words[node].split(","), dtype=np.int64) for node in order]
        if is_actor:  # the words of each node, instead of a 0 or 1 per word
            x = np.zeros((len(order), 1 + max(row.max() for row in features)), dtype=np.float32)
            for row, found in zip(x, features, strict=True):
                row[found] = 1
        else:
            x = np.array(features, dtype=np.float32)
        y = np.array(labels, dtype=np.int64)[order]
        links = np.loadtxt(raw / edges_file, dtype=np.int64, skiprows=1, ndmin=2)
        is_listed = np.bincount(y) >= (0 if is_actor else MIN_WEBKB_CLASS)
    return Graph.build(
        name,
        x=normalize_rows(to_csr(sp.csr_matrix(x)), normalize),
        links=torch.from_numpy(links).t(),
        y=torch.from_numpy(y),
        split_rule="index",
        class_order=np.flatnonzero(is_listed).tolist(),
    )


@contextlib.contextmanager
def _reading(name: str, raw: Path) -> Iterator[None]:
    """Name the folder if a file in it cannot be read."""
    try:
        yield
    except Exception as error:  # a damaged file may raise anything
        raise DataError(
            f"{name}: the files in {raw} cannot be read ({type(error).__name__}); "
            "delete the folder to download them again"
        ) from error


def _unpickle(file: Path) -> Any:
    """The content of a file of Planetoid, whose digest has been checked."""
    with warnings.catch_warnings(), file.open("rb") as content:
        warnings.simplefilter("ignore")  # SciPy and NumPy have moved the classes since
        return pickle.load(content, encoding="latin1")  # noqa: S301


def _check_digest(file: Path, expected: str) -> None:
    if hashlib.sha256(file.read_bytes()).hexdigest() != expected:
        raise DataError(
            f"{file} is not the published file (its SHA-256 differs), and such files can run code "
            "when read; delete it to download it again"
        )
