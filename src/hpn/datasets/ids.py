"""Node ids as people have them: whole numbers or text, looked up, and as the numbers models know nodes by."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpn.errors import DataError

Ids = NDArray[Any]
"""Ids of nodes ``[num_nodes]``: int64 if all are whole numbers, else Python strings (type ``object``)."""

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
_SHOWN = 3


def read_ids(values: Any) -> Ids:
    """Take ids of any container: whole numbers as int64 where all are, else as text.

    Example:
        >>> read_ids(["7", 8.0]).tolist(), read_ids(["7", "b"]).tolist()
        ([7, 8], ['7', 'b'])
    """
    array = values.to_numpy() if hasattr(values, "to_numpy") else values
    array = array if isinstance(array, np.ndarray) else np.array(list(array), dtype=np.object_)
    if array.dtype.kind in "iu" and (array.dtype != np.uint64 or not (array > np.iinfo(np.int64).max).any()):
        return array.astype(np.int64)
    text = [_spell(value) for value in array.ravel().tolist()]
    if all(map(_is_whole, text)):
        return np.array([int(value) for value in text], dtype=np.int64)
    return np.array(text, dtype=np.object_)


def number_ids(ids: Ids) -> NDArray[np.int64]:
    """A number for each id, the same whether ids are read as numbers or as text.

    Whole numbers stay as they are; text becomes 63 bits of its hash, with which two of a billion ids agree
    with a chance of one in twenty.

    Example:
        >>> number_ids(np.array([7])).tolist(), number_ids(np.array(["7"], dtype=object)).tolist()
        ([7], [7])
    """
    if ids.dtype.kind == "i":
        return ids
    return np.array([_number(value) for value in ids.tolist()], dtype=np.int64)


def pack_text(ids: Ids) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Text ids as one array of UTF-8 bytes, and where each ends in it.

    Example:
        >>> [part.tolist() for part in pack_text(np.array(["ab", "c"], dtype=object))]
        [[97, 98, 99], [2, 3]]
    """
    content = [str(value).encode() for value in ids.tolist()]
    ends = np.cumsum([len(value) for value in content], dtype=np.int64)
    return np.frombuffer(b"".join(content), dtype=np.uint8), ends


def unpack_text(content: NDArray[np.uint8], ends: NDArray[np.int64]) -> Ids:
    """The ids that :func:`pack_text` packed."""
    joined, bounds = content.tobytes(), ends.tolist()
    ids = [joined[start:end].decode() for start, end in zip([0, *bounds], bounds, strict=False)]
    return np.array(ids, dtype=np.object_)


class IdIndex:
    """Finds the positions of nodes by their ids.

    Args:
        name: What messages call the graph.
        ids: The ids of its nodes.

    Example:
        >>> IdIndex("graph", read_ids(["a", "b"])).find(["b"]).tolist()
        [1]
    """

    def __init__(self, name: str, ids: Ids) -> None:
        self.name = name
        self.place = dict(zip(ids.tolist(), range(len(ids)), strict=True))
        self.is_whole = ids.dtype.kind == "i"

    def find(self, ids: Sequence[Any] | NDArray[Any]) -> NDArray[np.int64]:
        """The position of each id ``[n]``.

        Raises:
            DataError: If there is no node of an id.
        """
        asked = [_spell(value) for value in (ids.tolist() if hasattr(ids, "tolist") else ids)]
        keys = [int(key) if self.is_whole and _WHOLE.fullmatch(key) else key for key in asked]
        missing = [key for key in keys if key not in self.place]
        if missing:
            shown = ", ".join(repr(key) for key in missing[:_SHOWN])
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            raise DataError(f"{self.name}: there is no node with id {shown}{more}")
        return np.array([self.place[key] for key in keys], dtype=np.int64)


def _spell(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _is_whole(value: str) -> bool:
    """Whether a text is the usual spelling of a number that int64 can hold."""
    return bool(_WHOLE.fullmatch(value)) and -(2**63) <= int(value) < 2**63


def _number(value: str) -> int:
    if _is_whole(value):
        return int(value)
    return int.from_bytes(hashlib.blake2b(value.encode(), digest_size=8).digest(), "little") >> 1
