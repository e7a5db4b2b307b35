"""Labels of people's own graphs: which nodes have one, of what kind it is, and the number it stands for."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpn.errors import ConfigError, DataError
from hpn.learners.hpn.solved import Name
from hpn.model.given import GraphLike, default_labels, default_nodes


def default_train_nodes(data: GraphLike, y: Any | None) -> Tensor:
    """By default the nodes of ``train_mask``, or all that have a label."""
    found = default_nodes(data, "train_mask")
    if found is not None:
        return found
    if y is not None:
        raise DataError("y was given without nodes; give the nodes that it belongs to")
    return _find_labelled(data)


def _find_labelled(data: GraphLike) -> Tensor:
    labels = getattr(data, "y", None)
    if labels is None:
        raise DataError("give nodes and y, or a graph with y (and train_mask)")
    values = np.asarray(labels)
    is_known = values >= 0 if values.dtype.kind in "if" else np.ones(len(values), bool)
    return torch.from_numpy(np.flatnonzero(is_known))


def read_all_labels(data: GraphLike) -> tuple[Tensor, np.ndarray]:
    """All labelled nodes of a graph, whatever masks it has, and their labels."""
    rows = _find_labelled(data)
    return rows, default_labels(data, rows)


def code_of(label: Any) -> int:
    """A number for a label that is the same on every machine and in every order of arrival."""
    kind = "b" if isinstance(label, bool) else "i" if isinstance(label, int) else "s"
    digest = hashlib.blake2b(f"{kind}{label}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 2


def codes_of(labels: np.ndarray) -> np.ndarray:
    """The numbers of many labels."""
    known, place = np.unique(labels, return_inverse=True)
    return np.array([code_of(label) for label in known.tolist()], dtype=np.int64)[place]


def check_kind(labels: list[Any]) -> None:
    """Refuse labels of several kinds: text, whole numbers, Booleans.

    Raises:
        DataError: If there are several.
    """
    kinds = {
        "text" if isinstance(label, str) else "Booleans" if isinstance(label, bool) else "numbers" for label in labels
    }
    if len(kinds) > 1:
        raise DataError(f"labels are a mix of {' and '.join(sorted(kinds))}; use one kind")


def read_name(name: Name) -> Name:
    """The name of a task: text, or a whole number of Python.

    Raises:
        ConfigError: If it is something else.
    """
    if isinstance(name, (str, int, np.integer)) and not isinstance(name, bool):
        return name if isinstance(name, str) else int(name)
    raise ConfigError(f"task = {name!r}: expected a string or a whole number")
