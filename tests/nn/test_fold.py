from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from hpn.nn.fold import PartRunner, current_runner, cut, run_part, run_threads, using


def test_parts_run_in_threads_and_results_come_in_order() -> None:
    meeting = threading.Barrier(2, timeout=20)

    def meet(item: int, shared: int) -> tuple[int, int, int]:
        meeting.wait()  # two at a time
        return item + shared, torch.get_num_threads(), PartRunner().num_workers

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert run_threads(meet, range(4), 10) == [(10 + item, 1, 1) for item in range(4)]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_part_of_a_part_runs_in_its_thread() -> None:
    def name(_: int) -> str:
        return threading.current_thread().name

    for inner in run_threads(lambda _: (name(0), run_threads(name, range(3))), range(3)):
        assert set(inner[1]) == {inner[0]}
    own, parts = run_part(lambda _: (name(0), run_threads(name, range(2))), 0)
    assert parts == [own, own]


def test_errors_are_raised_and_the_next_call_works() -> None:
    with pytest.raises(ZeroDivisionError):
        run_threads(lambda item: 1 / item, [1, 0])
    assert run_threads(abs, [-1]) == [1]


def test_another_runner_is_used_inside() -> None:
    class Other(PartRunner):
        pass

    other: Any = Other()
    with using(other):
        assert current_runner() is other
    assert isinstance(current_runner(), PartRunner)
    assert current_runner() is not other


@pytest.mark.parametrize(("count", "size"), [(0, 5), (1, 5), (5, 5), (6, 5), (101, 7)])
def test_parts_are_even_and_cover_all(count: int, size: int) -> None:
    parts = cut(count, size)
    assert [at for part in parts for at in range(count)[part]] == list(range(count))
    lengths = [part.stop - part.start for part in parts]
    assert max(lengths) <= size
    assert max(lengths) - min(lengths) <= 1
