"""Ids are found again however they were read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hpn.datasets.ids import find_ids, number_ids, read_ids
from hpn.errors import DataError


@pytest.mark.parametrize("ids", [["7", "8"], np.array([7, 8], dtype=np.uint8)])
def test_whole_numbers_are_numbers(ids: Any) -> None:
    assert read_ids(ids).tolist() == [7, 8]
    assert read_ids(ids).dtype == np.int64


@pytest.mark.parametrize("ids", [["07"], ["7", "b"], ["1" * 30], ["-0"], [""], np.array([2**63], np.uint64)])
def test_all_else_is_text(ids: Any) -> None:
    assert read_ids(ids).tolist() == [str(value) for value in ids]
    assert read_ids(ids).dtype == np.object_


def test_a_number_does_not_depend_on_the_other_ids() -> None:
    assert number_ids(read_ids(["7", "b"]))[0] == number_ids(read_ids(["7", "8"]))[0] == 7
    first, second = number_ids(read_ids(["köd-999", "b"]))
    assert first != second
    assert first >= 0
    assert number_ids(read_ids(["köd-999"])).tolist() == [first]


@pytest.mark.parametrize(("ids", "wanted"), [(["5", "6"], ["6", 5]), (["5", "b"], [5, "b"])])
def test_find(ids: list[object], wanted: list[object]) -> None:
    places = find_ids("graph", dict(zip(read_ids(ids).tolist(), range(2), strict=True)), wanted)
    assert [str(ids[place]) for place in places] == [str(value) for value in wanted]


def test_unknown_ids_are_named() -> None:
    with pytest.raises(DataError, match=r"^graph: there is no node with id 'x', 'y', 'z' and 1 more$"):
        find_ids("graph", {"a": 0}, ["x", "y", "a", "z", "w"])
