"""The feature matrix of a nodes table: numeric columns, or one column that holds a list a node."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hpn.datasets.table_files import TableFile

_LIST_NAMES = {"features", "feature", "feat", "x"}


def list_columns(columns: list[str]) -> list[str]:
    """Tell which of the feature columns holds lists that a CSV file can only spell as text.

    Example:
        >>> list_columns(["X"]), list_columns(["x", "y"])
        (['X'], [])
    """
    return columns if len(columns) == 1 and columns[0].strip().lower() in _LIST_NAMES else []


def read_features(file: TableFile, table: pa.Table, columns: list[str]) -> NDArray[np.float32]:
    """Make the feature matrix ``[num_nodes, num_features]``, its columns in the order of the file.

    Raises:
        DataError: If a value is missing, not a number or not finite, or lists differ in length.
    """
    if not columns:
        raise file.error("has no feature columns beside id, label and split")
    if len(columns) == 1:
        column = table[columns[0]].combine_chunks()
        if list_columns(columns) and _is_text(column.type):
            column = _split_text(column)
        if _is_list(column.type):
            return _stack_lists(file, column, columns[0])
    x = np.empty((table.num_rows, len(columns)), dtype=np.float32)
    for index, name in enumerate(columns):
        x[:, index] = _numbers(file, table[name].combine_chunks(), name)
    return x


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _split_text(column: pa.Array) -> pa.Array:
    """Turn ``0.1 0.2``, ``0.1;0.2`` and ``[0.1, 0.2]`` into lists of words; empty is null."""
    bare = pc.ascii_trim(column, characters="[]() \t")
    for separator in ",;":
        bare = pc.replace_substring(bare, pattern=separator, replacement=" ")
    bare = pc.if_else(pc.equal(bare, ""), pa.scalar(None, bare.type), bare)
    # Trimmed once more, since an end that is a separator would give an empty word.
    return pc.ascii_split_whitespace(pc.ascii_trim_whitespace(bare))


def _stack_lists(file: TableFile, lists: pa.Array, name: str) -> NDArray[np.float32]:
    if lists.null_count:
        row = _first_null(lists)
        raise file.error("the list is empty; give every node its features", row=row, column=name)
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    width = int(lengths[0])
    ragged = lengths != width
    if ragged.any() or width == 0:
        row = int(ragged.argmax())
        raise file.error(
            f"the list has {lengths[row]} values, that of the first node {width}; "
            "all nodes need the same number of features",
            row=row,
            column=name,
        )
    return _numbers(file, pc.list_flatten(lists), name, per_row=width).reshape(-1, width)


def _numbers(file: TableFile, values: pa.Array, name: str, per_row: int = 1) -> NDArray[np.float32]:
    """Turn the values of a column, ``per_row`` of them on each row, into finite float32."""
    if values.null_count:
        row = _first_null(values) // per_row
        raise file.error("the value is missing; fill it in or drop the node", row=row, column=name)
    try:
        numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        at = _first_unparsable(values)
        raise file.error(
            f"{str(values[at])[:60]!r} is not a number; turn the column into numbers or drop it",
            row=at // per_row,
            column=name,
        ) from None
    with np.errstate(over="ignore"):
        single: NDArray[np.float32] = numbers.astype(np.float32)
    wrong = ~np.isfinite(single)
    if wrong.any():
        at = int(wrong.argmax())
        raise file.error(
            f"{numbers[at]} is not a finite float32; replace it",
            row=at // per_row,
            column=name,
        )
    return single


def _first_null(values: pa.Array) -> int:
    return int(pc.index(values.is_null(), True).as_py())


def _first_unparsable(values: pa.Array) -> int:
    """Find the first value that Arrow does not take for a number, halving where it can be."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            values.slice(low, middle - low).cast(pa.float64(), safe=False)
            low = middle
        except pa.ArrowException:
            high = middle
    return low
