"""Finding nodes by their ids, many at once: whole numbers by a table or by halving, else as text."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hpn.datasets.table_files import TableFile
from hpn.datasets.tables import _as_text, _node_ids

# Whole numbers if all are, else text.
Ids: TypeAlias = NDArray[np.int64] | pa.Array

_TABLE_FACTOR = 4
# Every whole number that has one spelling only, so that it is the same as text and as a number.
_WHOLE = "^(0|-?[1-9][0-9]{0,18})$"


class IdFinder:
    """Finds the numbers of nodes by their ids.

    Args:
        file: The nodes table.
        column: Its ids.
        ids: The ids, batch by batch, each as :func:`as_whole` gives it.

    Raises:
        DataError: If an id is missing or given twice.
    """

    def __init__(self, file: TableFile, column: str, ids: list[Ids]) -> None:
        self.num_nodes = sum(map(len, ids))
        self._whole: _IdTable | _SortedIds | None = None
        if all(isinstance(batch, np.ndarray) for batch in ids):
            self._ids: Ids = np.concatenate(ids)
            is_dense = int(self._ids.max()) - int(self._ids.min()) < _TABLE_FACTOR * self.num_nodes
            self._whole = _IdTable(self._ids) if is_dense else _SortedIds(self._ids)
        else:
            self._ids = pa.concat_arrays(map(_spell, ids))
        if self._whole is None or not self._whole.is_unique():
            _node_ids(file, pa.table({column: self._ids}), column)

    @property
    def is_whole(self) -> bool:
        """Whether all ids are whole numbers, which are found much faster than text."""
        return self._whole is not None

    def find(self, part: TableFile, table: pa.Table, columns: Sequence[str]) -> list[NDArray[Any]]:
        """Look up columns of ids.

        Raises:
            DataError: If one is missing or of no node.
        """
        found: list[NDArray[Any]] = []
        if self._whole is not None:
            values = [as_whole(part, table, column) for column in columns]
            found = [self._whole.find(ids) for ids in values if isinstance(ids, np.ndarray)]
        if len(found) < len(columns):
            found = self._find_text([_as_text(part, table, column) for column in columns])
        for column, position in zip(columns, found, strict=True):
            if position.min() < 0:
                row = int((position < 0).argmax())
                name = _as_text(part, table.slice(row, 1), column)[0].as_py()
                what = "is empty" if name is None else f"{name!r} is the id of no node"
                raise part.error(f"{what}; add the node or drop the edge", row=row, column=column)
        return found

    def _find_text(self, ids: list[pa.Array]) -> list[NDArray[Any]]:
        position = pc.index_in(pa.chunked_array(ids), value_set=_spell(self._ids)).fill_null(-1).to_numpy()
        return np.split(position, np.cumsum([len(batch) for batch in ids[:-1]]))


class _IdTable:
    """The node of every number between the lowest and the highest id, -1 where there is none."""

    def __init__(self, ids: NDArray[np.int64]) -> None:
        self._ids, self._low = ids, int(ids.min())
        # The last entry is where all ids beyond the table point to.
        size = int(ids.max()) - self._low + 2
        self._table = np.full(size, -1, dtype=np.int32 if len(ids) <= np.iinfo(np.int32).max else np.int64)
        self._table[ids - self._low] = np.arange(len(ids))

    def is_unique(self) -> bool:
        return int((self._table >= 0).sum()) == len(self._ids)

    def find(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        # Without a sign, what is below the lowest id is far above the highest.
        offset = (ids - self._low).view(np.uint64)
        return self._table[np.minimum(offset, len(self._table) - 1).view(np.int64)]


class _SortedIds:
    """Ids that lie too far apart for a table."""

    def __init__(self, ids: NDArray[np.int64]) -> None:
        self._order = np.argsort(ids)
        self._sorted = ids[self._order]

    def is_unique(self) -> bool:
        return bool((self._sorted[1:] != self._sorted[:-1]).all())

    def find(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        # In order, so that neighbouring look-ups touch the same memory: several times faster.
        order = np.argsort(ids)
        ids = ids[order]
        at = np.minimum(np.searchsorted(self._sorted, ids), len(self._sorted) - 1)
        position = np.empty(len(ids), dtype=np.int64)
        position[order] = np.where(self._sorted[at] == ids, self._order[at], -1)
        return position


def _spell(ids: Ids) -> pa.Array:
    return pa.array(ids).cast(pa.large_string()) if isinstance(ids, np.ndarray) else ids


def as_whole(part: TableFile, table: pa.Table, column: str) -> Ids:
    """Turn ids into whole numbers if all are such and nothing is lost; else into text, empty is null."""
    values = table[column]
    with suppress(pa.ArrowInvalid):
        if pa.types.is_integer(values.type) and not values.null_count:
            return values.cast(pa.int64()).to_numpy()
    text = _as_text(part, table, column)
    with suppress(pa.ArrowInvalid):
        if not text.null_count and pc.all(pc.match_substring_regex(text, _WHOLE)).as_py():
            return text.cast(pa.int64()).to_numpy()
    return text
