"""Ids of nodes: whole numbers or text, and the numbers by which models recognise nodes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpn.errors import DataError

Ids = NDArray[Any]
"""Ids of nodes ``[num_nodes]``: int64 if all are whole numbers, else Python strings (type ``object``)."""

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
_SHOWN = 3


def read_ids(values: Ids | list[str]) -> Ids:
    """Convert ids: to int64 if all are whole numbers, else to text."""
    array = np.asarray(values, dtype=np.object_ if isinstance(values, list) else None)
    if array.dtype.kind in "iu" and not (array.dtype == np.uint64 and (array > np.iinfo(np.int64).max).any()):
        return array.astype(np.int64)
    text = list(map(str, array.tolist()))
    if all(map(_is_whole, text)):
        return np.array([int(value) for value in text], dtype=np.int64)
    return np.array(text, dtype=np.object_)


def find_ids(name: str, places: Mapping[Any, int], ids: Any) -> NDArray[np.int64]:
    """The positions of nodes with given ids ``[n]``; ``places`` has that of each id, and ``name`` is for messages."""
    words = [_spell(value) for value in (ids.tolist() if hasattr(ids, "tolist") else ids)]
    keys = [int(word) if _WHOLE.fullmatch(word) and int(word) in places else word for word in words]
    missing = [key for key in keys if key not in places]
    if missing:
        shown = ", ".join(repr(key) for key in missing[:_SHOWN])
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        raise DataError(f"{name}: there is no node with id {shown}{more}")
    return np.array([places[key] for key in keys], dtype=np.int64)


def number_ids(ids: Ids) -> NDArray[np.int64]:
    """A number for each id, the same whether ids are read as numbers or as text.

    Whole numbers stay as they are. Text becomes 63 bits of its hash; among a billion ids, the probability that
    two agree is one in twenty.
    """
    if ids.dtype.kind == "i":
        return ids
    return np.array([int(value) if _is_whole(value) else _hash(value) for value in ids.tolist()], dtype=np.int64)


def pack_text(ids: Ids) -> tuple[NDArray[Any], NDArray[Any]]:
    """Text ids as one array of UTF-8 bytes, and where each id ends in it."""
    content = [str(value).encode() for value in ids.tolist()]
    ends = np.cumsum([len(value) for value in content], dtype=np.int64)
    return np.frombuffer(b"".join(content), dtype=np.uint8), ends


def unpack_text(content: NDArray[np.uint8], ends: NDArray[np.int64]) -> Ids:
    """The ids that :func:`pack_text` packed."""
    joined, bounds = content.tobytes(), ends.tolist()
    ids = [joined[start:end].decode() for start, end in zip([0, *bounds], bounds, strict=False)]
    return np.array(ids, dtype=np.object_)


def _spell(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _is_whole(value: str) -> bool:
    """Whether a text is the canonical spelling of a number that int64 can hold."""
    return bool(_WHOLE.fullmatch(value)) and -(2**63) <= int(value) < 2**63


def _hash(value: str) -> int:
    return int.from_bytes(hashlib.blake2b(value.encode(), digest_size=8).digest(), "little") >> 1
