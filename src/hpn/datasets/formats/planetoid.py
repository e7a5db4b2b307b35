"""Cora and Citeseer in the layout of Planetoid, Actor and WebKB in that of Geom-GCN.

The graphs equal those of PyTorch Geometric, whose import takes seconds.
"""

from __future__ import annotations

import hashlib
import pickle
import warnings
from pathlib import Path

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
PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
# Most of these files are Python pickles. They are read only if they are, byte for byte, the published ones: this is
# the digest of the digests of all.
SHA256 = {
    "cora": "f8bb3a8b5d1a043be99b2b7cb9d99903a2758e98521219a0dc9c5e0ffc709608",
    "citeseer": "85b6b7b36651a8942bcca5557145a3e7aa550feba16812575e6e039addde9be5",
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
    files = [f"ind.{name}.{part}" for part in PARTS]
    fetch_missing(name, raw, {file: f"{PLANETOID}/{file}" for file in files})
    contents = [(raw / file).read_bytes() for file in files]
    digests = b"".join(hashlib.sha256(content).digest() for content in contents)
    if hashlib.sha256(digests).hexdigest() != SHA256[name]:
        raise DataError(
            f"{name}: {raw} does not have the published files (their SHA-256 differs), and such files can run code "
            "when read; delete the folder to download them again"
        )
    *pickles, index = contents
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy and NumPy have moved the classes since
        parts = [pickle.loads(content, encoding="latin1") for content in pickles]  # noqa: S301
    _, train_y, test_x, test_y, known_x, known_y, graph = parts
    test, num_train = np.array(index.split(), dtype=np.int64), len(train_y)
    # Nodes that are neither among the first nor in the list (15 of Citeseer) have no words.
    num_nodes, num_known = int(test.max()) + 1, known_x.shape[0]
    x, y = np.zeros((num_nodes, known_x.shape[1]), dtype=np.float32), np.zeros(num_nodes, dtype=np.int64)
    x[:num_known], y[:num_known] = known_x.toarray(), known_y.argmax(axis=1)
    x[test], y[test] = test_x.toarray(), test_y.argmax(axis=1)
    links = [(node, other) for node, others in graph.items() for other in others]
    split = (range(num_train), range(num_train, num_train + NUM_VALIDATION), test)
    return Graph.build(
        name,
        x=normalize_rows(to_csr(sp.csr_matrix(x)), normalize),
        links=torch.tensor(links).t(),
        y=torch.from_numpy(y),
        class_names=CLASSES[name],
        num_links=NUM_LINKS[name],
        masks=Masks(*(torch.from_numpy(np.isin(np.arange(num_nodes), list(part))) for part in split)),
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
    try:
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
    except Exception as error:  # a damaged file may raise anything
        raise DataError(
            f"{name}: the files in {raw} cannot be read ({type(error).__name__}); "
            "delete the folder to download them again"
        ) from error
    return Graph.build(
        name,
        x=normalize_rows(to_csr(sp.csr_matrix(x)), normalize),
        links=torch.from_numpy(links).t(),
        y=torch.from_numpy(y),
        split_rule="index",
        class_order=np.flatnonzero(is_listed).tolist(),
    )
