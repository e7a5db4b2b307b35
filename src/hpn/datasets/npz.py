"""A user's own graph in one NumPy archive (``.npz``), the adjacency as compressed sparse rows.

====================================================  ===========================================
array                                                 meaning
====================================================  ===========================================
``adj_indptr``, ``adj_indices``, ``adj_shape``        every stored entry is an edge
``attr_matrix``                                       features, dense; or, instead of it,
``attr_indptr``, ``_indices``, ``_data``, ``_shape``  features, kept sparse
``labels``                                            class of each node, −1 where it is unknown
``adj_data``, ``class_names``                         optional; the edges' values are not used
``train_mask``, ``val_mask``, ``test_mask``           optional; ``val_mask`` may be left out
====================================================  ===========================================
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpn.datasets.graph import Graph, Masks
from hpn.datasets.normalize import Normalize, apply_normalize
from hpn.datasets.sparse import to_csr
from hpn.errors import DataError

Array = NDArray[Any]

_REQUIRED = ("adj_indptr", "adj_indices", "adj_shape", "labels")
_SPARSE_FEATURES = ("attr_indptr", "attr_indices", "attr_data", "attr_shape")
_MASKS = ("train_mask", "val_mask", "test_mask")
_OPTIONAL = ("adj_data", "class_names", *_MASKS)
_MAX_CLASSES = 1 << 16
# Beyond it a float no longer tells neighbouring whole numbers apart.
_MAX_WHOLE = 2**53
# What zipfile, and what NumPy's parser of array headers, raise on bytes that are not theirs.
_BAD_MEMBER = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError)
_BAD_ARRAY = (TokenError, SyntaxError, ValueError, MemoryError)


def load_npz(path: Path, *, normalize: Normalize = "none") -> Graph:
    """Load a graph from an ``.npz`` archive in the format above.

    Args:
        path: The archive. Pickled arrays in it are never loaded.
        normalize: How to scale the features.

    Raises:
        DataError: If the archive is damaged or its arrays are missing or do not fit each other.
    """
    arrays = _read_archive(path)
    indptr, indices, shape = _check_csr(path, arrays, "adj")
    if shape[0] != shape[1]:
        raise DataError(f"{path}: adj_shape is {shape}; the adjacency matrix must be square")
    if "adj_data" in arrays:
        _check_data(path, arrays["adj_data"], "adj", len(indices))
    x = _features(path, arrays)
    if x.shape[0] != shape[0]:
        raise DataError(f"{path}: adj_shape is {shape}, but {x.shape[0]} nodes have features")
    source = np.repeat(np.arange(shape[0]), np.diff(indptr))
    graph = Graph.build(
        path.name,
        x=x,
        links=torch.from_numpy(np.stack([source, indices])),
        y=_labels(path, arrays["labels"], "class_names" in arrays),
        class_names=_class_names(path, arrays),
        masks=_masks(path, arrays),
    )
    return replace(graph, x=apply_normalize(graph.x, normalize))


def _read_archive(path: Path) -> dict[str, Array]:
    """Read the arrays of the format, all parts of the archive checked against their checksums."""
    try:
        with path.open("rb") as file:
            magic = file.read(4)
        with zipfile.ZipFile(path) as archive:
            members = {name.removesuffix(".npy"): name for name in archive.namelist()}
            wanted = _choose_arrays(path, members)
            return {key: _read_array(path, archive, key, members[key]) for key in wanted}
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; give the path of an .npz archive") from None
    except (zipfile.BadZipFile, UnicodeDecodeError):
        state = "is cut short or damaged" if magic == b"PK\x03\x04" else "is not an .npz archive"
        raise DataError(f"{path}: {state}; write it anew with numpy.savez_compressed") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def _choose_arrays(path: Path, found: Collection[str]) -> list[str]:
    features = ("attr_matrix",) if "attr_matrix" in found else _SPARSE_FEATURES
    missing = [key for key in (*_REQUIRED, *features) if key not in found]
    if missing:
        if missing[-len(features) :] == list(_SPARSE_FEATURES):
            missing[-len(features) :] = [f"attr_matrix (or {', '.join(_SPARSE_FEATURES)})"]
        raise DataError(
            f"{path}: missing {', '.join(missing)}; found: {', '.join(sorted(found)) or 'nothing'}"
        )
    return [*_REQUIRED, *features, *(key for key in _OPTIONAL if key in found)]


def _read_array(path: Path, archive: zipfile.ZipFile, key: str, member: str) -> Array:
    try:
        # Read as a whole first, since only the end of a member tells whether its checksum is right.
        content = io.BytesIO(archive.read(member))
        array: Array = np.lib.format.read_array(content, allow_pickle=False)
    except (*_BAD_MEMBER, *_BAD_ARRAY) as error:
        if "allow_pickle" in str(error):
            raise DataError(
                f"{path}: {key} holds pickled Python objects, which are never loaded; "
                "save it as an array of numbers or of text (dtype=str)"
            ) from None
        reason = " ".join(str(error).split())[:100]
        raise DataError(f"{path}: {key} is damaged ({reason}); copy or write the file anew") from None
    return array


def _check_csr(path: Path, arrays: dict[str, Array], prefix: str) -> tuple[Array, Array, tuple[int, int]]:
    """Return ``indptr``, ``indices`` and the shape, known to fit each other."""
    indptr, indices, size = (
        _whole_numbers(path, f"{prefix}_{part}", arrays[f"{prefix}_{part}"])
        for part in ("indptr", "indices", "shape")
    )
    rows, columns = check_rows(path, prefix, indptr, size, len(indices))
    outside = (indices < 0) | (indices >= columns)
    if outside.any():
        at = int(outside.argmax())
        row = int(np.searchsorted(indptr, at, side="right")) - 1
        what = "an edge to a node" if prefix == "adj" else "a column"
        raise DataError(
            f"{path}: {prefix}_indices has {what} {indices[at]} in row {row}; "
            f"{prefix}_shape allows 0 to {columns - 1}"
        )
    return indptr, indices, (rows, columns)


def check_rows(path: Path, prefix: str, indptr: Array, size: Array, num_indices: int) -> tuple[int, int]:
    """Make sure that the rows of a sparse matrix fit its shape and the number of its columns; give the shape.

    Raises:
        DataError: If they do not.
    """
    if len(size) != 2 or size.min() < 0:
        raise DataError(f"{path}: {prefix}_shape is {size.tolist()}; expected two counts")
    rows, columns = int(size[0]), int(size[1])
    if len(indptr) != rows + 1:
        raise DataError(
            f"{path}: {prefix}_indptr has {len(indptr)} entries; {rows} rows ({prefix}_shape) need {rows + 1}"
        )
    if indptr[0] != 0 or indptr[-1] != num_indices:
        raise DataError(
            f"{path}: {prefix}_indptr runs from {indptr[0]} to {indptr[-1]}; "
            f"with {num_indices} {prefix}_indices it must run from 0 to {num_indices}"
        )
    falls = np.diff(indptr) < 0
    if falls.any():
        raise DataError(f"{path}: {prefix}_indptr falls after row {falls.argmax()}; it must never fall")
    return rows, columns


def _check_data(path: Path, data: Array, prefix: str, expected: int) -> None:
    if data.shape != (expected,):
        raise DataError(f"{path}: {prefix}_data has shape {data.shape}, expected ({expected},)")


def _whole_numbers(path: Path, key: str, array: Array) -> NDArray[np.int64]:
    if array.dtype.kind not in "iufb":
        raise DataError(f"{path}: {key} holds {array.dtype}, expected whole numbers")
    if array.ndim != 1:
        raise DataError(f"{path}: {key} has shape {array.shape}, expected one dimension")
    if array.dtype.kind in "fu":
        value = array.astype(np.float64)
        wrong = ~((np.floor(value) == value) & (np.abs(value) < _MAX_WHOLE))
        if wrong.any():
            at = int(wrong.argmax())
            raise DataError(f"{path}: {key}[{at}] is {array[at]}, expected a whole number")
    return array.astype(np.int64)


def _labels(path: Path, array: Array, are_named: bool) -> Tensor:
    labels = _whole_numbers(path, "labels", array)
    if not are_named and labels.max(initial=0) >= _MAX_CLASSES:
        at = int(labels.argmax())
        raise DataError(f"{path}: labels[{at}] is {labels[at]}; number the classes from 0 up")
    return torch.from_numpy(labels)


def _features(path: Path, arrays: dict[str, Array]) -> Tensor:
    key, ndim = ("attr_matrix", 2) if "attr_matrix" in arrays else ("attr_data", 1)
    values = arrays[key]
    if values.dtype.kind not in "iufb" or values.ndim != ndim:
        raise DataError(
            f"{path}: {key} is {values.dtype} of shape {values.shape}, "
            f"expected numbers in {ndim} dimension{'s' * (ndim - 1)}"
        )
    # What float32 cannot hold becomes infinite here, and is reported with its place later.
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(values, dtype=np.float32)
    if key == "attr_matrix":
        return torch.from_numpy(values)
    indptr, indices, shape = _check_csr(path, arrays, "attr")
    _check_data(path, values, "attr", len(indices))
    return to_csr(sp.csr_matrix((values, indices, indptr), shape=shape))


def _class_names(path: Path, arrays: dict[str, Array]) -> list[str] | None:
    if "class_names" not in arrays:
        return None
    names = arrays["class_names"]
    if names.dtype.kind != "U" or names.ndim != 1:
        raise DataError(
            f"{path}: class_names is {names.dtype} of shape {names.shape}, expected a row of text"
        )
    try:
        return [str(name) for name in names]
    except (SystemError, ValueError):
        raise DataError(f"{path}: class_names holds characters that do not exist") from None


def _masks(path: Path, arrays: dict[str, Array]) -> Masks | None:
    given = {key: torch.from_numpy(_mask(path, key, arrays[key])) for key in _MASKS if key in arrays}
    if not given:
        return None
    if "train_mask" not in given or "test_mask" not in given:
        raise DataError(f"{path}: has {', '.join(given)}; give train_mask and test_mask, or no mask")
    train = given["train_mask"]
    return Masks(train, given.get("val_mask", torch.zeros_like(train)), given["test_mask"])


def _mask(path: Path, key: str, array: Array) -> NDArray[np.bool_]:
    if array.dtype.kind not in "biuf":
        raise DataError(f"{path}: {key} holds {array.dtype}, expected Booleans or 0 and 1")
    wrong = (array != 0) & (array != 1)
    if wrong.any():
        at = int(wrong.argmax())
        raise DataError(f"{path}: {key}[{at}] is {array.flat[at]}, expected Booleans or 0 and 1")
    return array.astype(np.bool_)
