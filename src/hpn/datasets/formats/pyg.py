"""Cora, Citeseer, Actor and WebKB, read by PyTorch Geometric's own classes from their raw files.

The classes run in a scratch folder on a copy of the raw files: the data root may be read-only, and no
processed file of another PyTorch Geometric version is ever picked up.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import scipy.sparse as sp
from torch import Tensor

from hpn.datasets.formats.download import fetch_missing
from hpn.datasets.graph import Graph, Masks
from hpn.datasets.sparse import Normalize, apply_normalize, to_csr
from hpn.errors import DataError

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
    """Cora or CiteSeer with the public split: 20 training nodes a class, 500 to validate, 1,000 to test.

    Args:
        name: ``Cora`` or ``CiteSeer``.
        root: Data root; the files are in ``root/name/raw``.
        normalize: What to do with the bag of words; ``row`` scales each to a sum of 1.
    """
    from torch_geometric.datasets import Planetoid

    raw = root / name / "raw"
    files = [file for file in PLANETOID_SHA256 if file.startswith(f"ind.{name.lower()}.")]
    fetch_missing(name.lower(), raw, {file: f"{Planetoid.url}/{file}" for file in files})
    for file in files:
        _check_digest(raw / file, PLANETOID_SHA256[file])
    data = _process(name.lower(), raw, f"{name}/raw", lambda scratch: Planetoid(scratch, name))
    return Graph.build(
        name.lower(),
        x=apply_normalize(_bag_of_words(data.x), normalize),
        links=data.edge_index,
        y=data.y,
        class_names=PLANETOID_CLASSES[name],
        num_links=PLANETOID_LINKS[name],
        masks=Masks(data.train_mask, data.val_mask, data.test_mask),
        class_order=range(len(PLANETOID_CLASSES[name])),
    )


def load_actor(root: Path, *, normalize: Normalize = "row") -> Graph:
    """The actor co-occurrence network of Geom-GCN; the files are in ``root/actor/raw``."""
    from torch_geometric.datasets import Actor

    raw = root / "actor" / "raw"
    fetch_missing("actor", raw, _geom_sources(Actor.url, "film"))
    data = _process("actor", raw, "raw", Actor)
    return _geom_graph("actor", raw, data, normalize, class_order=range(5))


def load_webkb(name: str, root: Path, *, normalize: Normalize = "row") -> Graph:
    """Texas, Wisconsin or Cornell; the files are in ``root/webkb/name/raw``.

    Classes with fewer than 10 nodes are left out of the class order.
    """
    from torch_geometric.datasets import WebKB

    raw = root / "webkb" / name / "raw"
    fetch_missing(name, raw, _geom_sources(WebKB.url, name))
    data = _process(name, raw, f"{name}/raw", lambda scratch: WebKB(scratch, name))
    sizes = data.y.bincount()
    order = [label for label in range(len(sizes)) if sizes[label] >= MIN_WEBKB_CLASS]
    return _geom_graph(name, raw, data, normalize, class_order=order)


def _geom_sources(url: str, name: str) -> Mapping[str, str]:
    tables = ("out1_node_feature_label.txt", "out1_graph_edges.txt")
    splits = [f"{name}_split_0.6_0.2_{number}.npz" for number in range(10)]
    return {
        **{file: f"{url}/new_data/{name}/{file}" for file in tables},
        **{file: f"{url}/splits/{file}" for file in splits},
    }


def _geom_graph(name: str, raw: Path, data: Any, normalize: Normalize, *, class_order: Any) -> Graph:
    with (raw / "out1_graph_edges.txt").open() as file:
        num_links = sum(1 for _ in file) - 1  # the first line is a header
    return Graph.build(
        name,
        x=apply_normalize(_bag_of_words(data.x), normalize),
        links=data.edge_index,
        y=data.y,
        num_links=num_links,
        split_rule="index",
        class_order=class_order,
    )


def _process(name: str, raw: Path, inside: str, make: Callable[[str], Any]) -> Any:
    """Let a PyTorch Geometric class read a copy of ``raw``, and give its one graph."""
    with tempfile.TemporaryDirectory(prefix="hpn-") as scratch:
        shutil.copytree(raw, Path(scratch) / inside)
        try:
            with contextlib.redirect_stderr(io.StringIO()):  # its "Processing… Done!"
                return make(scratch)[0]
        except Exception as error:  # the readers raise whatever a broken file makes them stumble on
            raise DataError(
                f"{name}: the files in {raw} cannot be read ({type(error).__name__}); "
                "delete the folder to download them again"
            ) from error


def _check_digest(file: Path, expected: str) -> None:
    if hashlib.sha256(file.read_bytes()).hexdigest() != expected:
        raise DataError(
            f"{file} is not the published file (its SHA-256 differs), and such files can run code "
            "when read; delete it to download it again"
        )


def _bag_of_words(x: Tensor) -> Tensor:
    return to_csr(sp.csr_matrix(x.numpy()))
