"""The features of a nodes table: what each column becomes.

========  =============================================  =====================================================
kind      chosen for                                     features
========  =============================================  =====================================================
number    columns of numbers                             one, as it is
boolean   Booleans, or the words true and false          one, 0 or 1
category  words: at most 256 different values, none      64 that are 0 or 1; a hash of ``column=value`` selects
          with more than three words                     two of them that are 1
text      all other words                                4,096, by scikit-learn's ``HashingVectorizer``
========  =============================================  =====================================================

Instead there may be one column with a list of numbers per node. In a column of a given kind, the features of a value
do not depend on the other rows, and a new value adds no dimension. Two values of a category share both of their
features with probability 1/2,016. 4,096 features separate most words of a specialised vocabulary; they are stored
sparse.

A column in which some values are numbers and others are not is refused, unless it is named as text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from hpn.datasets.edges import count
from hpn.datasets.formats.tables.files import Table, TableFile, is_nested, spell
from hpn.datasets.sink import FeatureWriter, Sink
from hpn.errors import ConfigError, DataError, nearest

Kind = Literal["number", "boolean", "category", "text"]
Missing = Literal["error", "mean", "zero"]
Numbers = NDArray[np.float32]

CATEGORY_FEATURES, TEXT_FEATURES = 64, 4096
MAX_CATEGORIES, MAX_CATEGORY_WORDS = 256, 3
MISSING_WORDS = ("", "na", "n/a", "nan", "null", "none")

_LIST_NAMES = {"features", "feature", "feat", "x"}
_BETWEEN_NUMBERS = r"[\[\](),;\s]+"
_HASHED = {"category": CATEGORY_FEATURES, "text": TEXT_FEATURES}
_BLOCK_VALUES, _BLOCK_ROWS = 1 << 22, 1 << 16
# The smallest number that float32 rounds to infinity.
_TOO_LARGE = 3.4028235677973366e38


class TableFeatures:
    """Reads the feature columns of a nodes table.

    The numbers of all columns are staged as one list per row; columns with other values are then read again as words.
    ``kinds``, in the order of the features, and ``notes`` are complete after :meth:`write`.

    Args:
        nodes: The table.
        others: Its columns that are not features.
        text: Columns to read as text.
        missing: How to handle missing numbers.
        kinds: How to read each column, in the order of the features; ``None``: detect it.
    """

    def __init__(
        self,
        nodes: Table,
        others: set[str],
        *,
        text: Sequence[str] = (),
        missing: Missing = "error",
        kinds: Mapping[str, Kind] | None = None,
    ) -> None:
        self.columns = [name for name in nodes.columns if name not in others]
        if not self.columns:
            raise nodes.error("has no feature columns besides id, label and split")
        for name in set(text) - set(self.columns):
            known = f"{nearest(name, self.columns)}there are: {', '.join(self.columns[:8])}"
            raise ConfigError(f"no feature column {name!r}; {known}")
        expected = self.columns if kinds is None else list(kinds)
        for name in sorted({*expected} ^ {*self.columns}):
            if name in expected:
                raise nodes.error(f"has no feature column {name!r}, which is expected; add it")
            raise nodes.error(f"has a feature column {name!r}, which is not expected; drop it")
        self.kinds: dict[str, Kind] = {**(kinds or {}), **dict.fromkeys(text, "text")}
        self.notes: list[str] = []
        self._nodes, self._missing, self._order = nodes, missing, expected
        self._is_list, self._width = self._find_list(), len(self.columns)
        self._index = {name: index for index, name in enumerate(self.columns)}
        self._words: dict[str, str] = {}

    @property
    def num_features(self) -> int:
        """How many features there are."""
        return self._width if self._is_list else sum(_HASHED.get(kind, 1) for kind in self.kinds.values())

    @property
    def names(self) -> list[str] | None:
        """Their names; ``None`` for a list."""
        if self._is_list:
            return None
        names = ([f"{name}[{i}]" for i in range(_HASHED.get(kind, 0))] or [name] for name, kind in self.kinds.items())
        return [name for column in names for name in column]

    def staged(self, file: TableFile) -> str:
        """An expression for the numbers of a file as one list per row, null where there is none."""
        columns = [file.columns[name] for name in self.columns]
        if {kind for _, kind in columns} <= {"FLOAT"}:
            return f"[{', '.join(name for name, _ in columns)}] AS x"
        numbers = f"[{', '.join(_as_double(*column) for column in columns)}]"
        if self._is_list:
            [(name, kind)] = columns
            if kind == "VARCHAR":
                spaced = f"trim(regexp_replace({name}, '{_BETWEEN_NUMBERS}', ' ', 'g'))"
                name = f"string_split(nullif({spaced}, ''), ' ')"
            numbers = f"list_transform({name}, lambda v: TRY_CAST(v AS DOUBLE))"
        infinite = f"CASE WHEN abs(v) >= {_TOO_LARGE} THEN v * 'inf'::DOUBLE ELSE v END"
        return f"list_transform({numbers}, lambda v: ({infinite})::FLOAT) AS x"

    def write(self, writer: FeatureWriter, sink: Sink) -> None:
        """Write the features of all nodes.

        Raises:
            DataError: If a value is missing, not a number or not finite, or lists differ in length.
        """
        if self._is_list:
            self._check_lists()
        else:
            self._choose_kinds()
        fill, num_filled, read = self._fill_values(), 0, 0
        for start, numbers in self._blocks():
            is_missing = np.isnan(numbers)
            wrong = ~np.isfinite(numbers) if self._missing == "error" else np.isinf(numbers)
            if wrong.any():
                raise self._bad_number(start, wrong)
            num_filled += int(is_missing.sum())
            filled = np.where(is_missing, fill, numbers) if is_missing.any() else numbers
            writer.append(self._assemble(start, filled))
            done = self._nodes.num_bytes * (start + len(numbers)) // self._nodes.num_rows
            sink.advance(done - read)
            read = done
        if num_filled:
            how = "the mean of their column" if self._missing == "mean" else "zero"
            self.notes.append(f"{count(num_filled, 'missing value')} filled with {how}")

    def _find_list(self) -> bool:
        """Whether there is one column with lists; CSV files can only spell them as text."""
        types = {name: self._nodes.types(name) for name in self.columns}
        nested = [name for name in self.columns if any(map(is_nested, types[name]))]
        if nested and len(self.columns) > 1:
            what = f"holds {min(types[nested[0]])}; a list must be the only feature column"
            raise self._nodes.error(what, column=nested[0])
        [name, *others] = self.columns
        is_text = types[name] == {"VARCHAR"} and name.strip().lower() in _LIST_NAMES
        return not others and self.kinds.get(name, "number") == "number" and (bool(nested) or is_text)

    def _check_lists(self) -> None:
        [name] = self.columns
        self.kinds = {name: "number"}
        [(row, self._width)] = self._nodes.query("SELECT min(rowid) FILTER (x IS NULL), first(len(x)) FROM nodes")
        if row is not None:
            raise self._nodes.error("the list is empty; give every node its features", row=row, column=name)
        query = f"SELECT rowid, len(x) FROM nodes WHERE len(x) != {self._width} OR len(x) = 0 LIMIT 1"
        for row, length in self._nodes.query(query):
            what = f"the list has {length} values, that of the first node {self._width}"
            raise self._nodes.error(f"{what}; all nodes need the same number", row=row, column=name)

    def _choose_kinds(self) -> None:
        """Decide how each column is read; stage those that are not all numbers as words."""
        has_gap = np.array([self.kinds.get(name) in _HASHED for name in self.columns])
        if self._nodes.query("SELECT 1 FROM nodes WHERE list_count(x) < len(x) LIMIT 1"):
            for _, numbers in self._blocks():
                has_gap |= np.isnan(numbers).any(axis=0)
        words = {self.columns[index]: f"w{index}" for index in np.flatnonzero(has_gap).tolist()}
        if words:
            self._nodes.stage("words", lambda file: [f"{_as_word(file, n)} AS {w}" for n, w in words.items()])
        self.kinds = {name: self._find_kind(name, words.get(name)) for name in self._order}
        self._words = {name: word for name, word in words.items() if self.kinds[name] != "number"}
        for name, kind in self.kinds.items():
            if kind in _HASHED:
                self.notes.append(f"column {name!r} is read as {kind} ({_HASHED[kind]:,} hashed features)")

    def _find_kind(self, name: str, word: str | None) -> Kind:
        """The kind of a column; ``word`` holds its values if not all of them are numbers."""
        given = self.kinds.get(name)
        if word is None or given in _HASHED:
            return given or ("boolean" if self._nodes.types(name) == {"BOOLEAN"} else "number")
        number, boolean = f"TRY_CAST({word} AS DOUBLE) IS NOT NULL", f"lower({word}) IN ('true', 'false')"
        conditions = (f"{word} IS NOT NULL", number, boolean, f"TRY_CAST({word} AS TIMESTAMP) IS NOT NULL")
        counts = ", ".join(f"count(*) FILTER ({condition})" for condition in conditions)
        [(values, numbers, booleans, dates)] = self._nodes.query(f"SELECT {counts} FROM words")
        if values == numbers:
            return given or "number"
        if values == booleans or (given == "boolean" and values == numbers + booleans):
            return "boolean"
        if given or numbers or values == dates:
            wrong = f"NOT ({number}" + (f" OR {boolean})" if given == "boolean" else ")")
            query = f"SELECT rowid, {word} FROM words WHERE {word} IS NOT NULL AND {wrong} LIMIT 1"
            [(row, value)] = self._nodes.query(query)
            raise self._not_number(row, value, name)
        distinct = f"SELECT DISTINCT {word} AS word FROM words WHERE {word} IS NOT NULL LIMIT {MAX_CATEGORIES + 1}"
        longest = "max(len(string_split_regex(word, '\\s+')))"
        [(num_values, num_words)] = self._nodes.query(f"SELECT count(*), {longest} FROM ({distinct})")
        return "category" if num_values <= MAX_CATEGORIES and num_words <= MAX_CATEGORY_WORDS else "text"

    def _blocks(self) -> Iterator[tuple[int, Numbers]]:
        """Numbers, some rows at a time, and how many rows come before; missing ones are NaN."""
        step = max(1, min(_BLOCK_ROWS, _BLOCK_VALUES // self._width))
        for start in range(0, self._nodes.num_rows, step):
            found = self._nodes.arrays("SELECT unnest(x) AS x FROM nodes", start, step)["x"]
            numbers = np.ma.filled(found, np.nan).reshape(-1, self._width)
            for name, word in self._words.items():
                column = numbers[:, self._index[name]]
                if self.kinds[name] == "boolean":
                    query = f"SELECT if({word} IS NULL, NULL, lower({word}) = 'true')::FLOAT AS flag FROM words"
                    flags = np.ma.filled(self._nodes.arrays(query, start, step)["flag"], np.nan)
                    column[:] = np.where(np.isnan(column), flags, column)
                else:
                    column[:] = 0
            yield start, numbers

    def _fill_values(self) -> Numbers:
        """What replaces a missing value of each column."""
        total, number = np.zeros(self._width), np.zeros(self._width)
        for _, numbers in self._blocks() if self._missing == "mean" else ():
            total += np.nansum(numbers, axis=0, dtype=np.float64)
            number += np.isfinite(numbers).sum(axis=0)
        return cast(Numbers, (total / np.maximum(number, 1)).astype(np.float32))

    def _assemble(self, start: int, numbers: Numbers) -> Numbers | sp.csr_matrix:
        """Combine numbers and hashed words, in the order of the features."""
        kinds = set(self.kinds.values())
        if self._is_list or (self._order == self.columns and not kinds & set(_HASHED)):
            return numbers
        parts: list[Any] = []
        for name, kind in self.kinds.items():
            if kind in _HASHED:
                query = f"SELECT coalesce({self._words[name]}, '') AS word FROM words"
                words = self._nodes.arrays(query, start, len(numbers))["word"].tolist()
                parts.append(hash_text(words) if kind == "text" else hash_categories(name, words))
            else:
                parts.append(numbers[:, [self._index[name]]])
        return sp.csr_matrix(sp.hstack(parts)) if "text" in kinds else np.hstack(parts)

    def _bad_number(self, start: int, wrong: NDArray[np.bool_]) -> DataError:
        """The error for the first number that is missing or not finite."""
        at, index = divmod(int(wrong.argmax()), self._width)
        column = self.columns[0 if self._is_list else index]
        value = self._nodes.value(start + at, column).strip()
        if self._is_list:
            value = re.sub(_BETWEEN_NUMBERS, " ", value).split()[index]
        if value.lower() in MISSING_WORDS:
            what = "the value is missing; fill it in, drop the node, or set missing to mean or zero"
            return self._nodes.error(what, row=start + at, column=column)
        try:
            what = f"{float(value)} is not a finite float32; replace it"
        except ValueError:
            return self._not_number(start + at, value, column)
        return self._nodes.error(what, row=start + at, column=column)

    def _not_number(self, row: int, value: str, column: str) -> DataError:
        what = f"{value[:60]!r} is not a number; turn the column into numbers, drop it, or read it as text"
        return self._nodes.error(what, row=row, column=column)


def hash_categories(column: str, values: Sequence[str]) -> Numbers:
    """Features of the values of a category ``[n, 64]``; those of an empty value are zero."""
    x = np.zeros((len(values), CATEGORY_FEATURES), dtype=np.float32)
    places = {value: _hash_places(f"{column}={value}") for value in set(values) - {""}}
    for row, value in zip(x, values, strict=True):
        row[places.get(value, [])] = 1
    return x


def hash_text(values: Sequence[str]) -> sp.csr_matrix:
    """Features of texts ``[n, 4096]``: hashed words, each row with a length of 1."""
    from sklearn.feature_extraction.text import HashingVectorizer

    return sp.csr_matrix(HashingVectorizer(n_features=TEXT_FEATURES, dtype=np.float32).transform(values))


def _hash_places(value: str) -> list[int]:
    number = int.from_bytes(hashlib.blake2b(value.encode(), digest_size=8).digest(), "little")
    first, second = number % CATEGORY_FEATURES, number // CATEGORY_FEATURES % (CATEGORY_FEATURES - 1)
    return [first, (first + 1 + second) % CATEGORY_FEATURES]


def _as_double(name: str, kind: str) -> str:
    """An expression for the number in a column, null if there is none: a double, so that types round alike."""
    is_number = kind.endswith(("INT", "INTEGER", "FLOAT", "DOUBLE")) or kind.startswith("DECIMAL")
    return f"{name}::DOUBLE" if is_number or kind == "BOOLEAN" else f"TRY_CAST({name}::VARCHAR AS DOUBLE)"


def _as_word(file: TableFile, column: str) -> str:
    word = spell(*file.columns[column], trimmed=True)
    return f"CASE WHEN lower({word}) IN {MISSING_WORDS} THEN NULL ELSE {word} END"
