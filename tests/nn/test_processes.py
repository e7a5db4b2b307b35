"""Processes agree to the last bit, however many there are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from hpn.errors import DataError
from hpn.nn.processes import ALONE, JoinedProcesses, Processes

COUNTS = [1, 2, 3, 4, 7]
"""Numbers of pieces: fewer than processes, as many, more, and not a multiple."""
RAGGED = [3, 0, 2, 5, 1, 1, 4]


def make_pieces(count: int) -> list[list[Tensor]]:
    """What each piece gives; sums in another order would differ in their last bits."""
    generator = torch.Generator().manual_seed(count)
    scales = 10.0 ** torch.randint(-4, 5, (count,), generator=generator)
    return [
        [torch.randn(5, 3, generator=generator) * scale, torch.randn((), generator=generator) * scale]
        for scale in scales
    ]


def make_rows(sizes: Sequence[int]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(len(sizes))
    return [torch.randn(size, 2, generator=generator) for size in sizes]


def fail_with(error: Exception) -> Callable[[], Any]:
    def make() -> Any:
        raise error

    return make


def heard(call: Callable[[], Any]) -> str:
    """What an error says, and of which kind it is."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def try_everything(processes: Processes) -> dict[str, Any]:
    """All that processes can do together; what they have to agree on, and what only one of them has."""
    found: dict[str, Any] = {}
    for count in COUNTS:
        pieces = make_pieces(count)
        mine = [pieces[number] for number in processes.share(count)]
        found[f"sum of {count}"] = processes.add(mine or [[torch.zeros(5, 3), torch.zeros(())]], count)
        rows = make_rows(RAGGED[:count])
        lined_up = [rows[number] for number in processes.share(count)]
        found[f"{count} lined up"] = processes.line_up(lined_up, RAGGED[:count], 2)
        found[f"{count} made"] = processes.make(count, lambda number: ("thing", number))
    found["nothing lined up"] = processes.line_up([], [], 2)
    found["empty lined up"] = processes.line_up([torch.empty(0, 2) for _ in processes.share(2)], [0, 0], 2)
    last = processes.size - 1
    found["any"] = [processes.any(False), processes.any(processes.rank == last), processes.any(True)]
    found["lowest"] = [
        processes.lowest(False),
        processes.lowest(processes.rank == last) == last,
        processes.lowest(True),
    ]
    found["least"] = [processes.least(last - processes.rank), processes.least(7)]
    own = torch.full((processes.rank, 2), float(processes.rank))
    found["collected"] = processes.collect(own)
    found["led"] = processes.lead(lambda: {"from": processes.rank, "rows": own})
    found["error"] = heard(lambda: processes.lead(fail_with(DataError(f"of {processes.rank}"))))
    found["after the error"] = processes.lead(lambda: processes.rank)
    aligned = [torch.full((2, 2), 0.1 + processes.rank), torch.tensor(0.3 + processes.rank)]
    processes.align(aligned)
    processes.align([])
    found["aligned"] = aligned
    return found


def work(rank: int, size: int, folder: Path) -> None:
    """One of several real processes."""
    import torch.distributed as dist

    store = f"file://{folder}/store-of-{size}"
    dist.init_process_group(
        "gloo", init_method=store, rank=rank, world_size=size, timeout=timedelta(seconds=60)
    )
    processes = JoinedProcesses()
    found = try_everything(processes)
    found["who"] = (processes.rank, processes.size, list(processes.share(7)))
    found["without pieces"] = heard(lambda: processes.add([], 1))
    ones = [[torch.ones(2)]]
    found["errand"] = heard(lambda: processes.add(ones, size, fail_with(RuntimeError("of mine"))))
    processes.add(ones, size)  # what was written stays, and nobody is out of step
    is_leaving = rank == size - 1
    if not is_leaving:
        found["left"] = heard(lambda: processes.any(True))
    torch.save(found, folder / f"{rank}-of-{size}.pt")
    processes.leave()
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where three real processes, and then two of them, have left what they found."""
    folder = tmp_path_factory.mktemp("processes")
    words = [sys.executable, "-W", "error", __file__, str(folder)]
    started = [subprocess.Popen([*words, str(rank)], stderr=subprocess.PIPE, text=True) for rank in range(3)]
    errors = [process.communicate(timeout=120)[1] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], errors
    return folder


@pytest.fixture(params=[2, 3])
def joined(folder: Path, request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """What each of some processes found."""
    size: int = request.param
    return [torch.load(folder / f"{rank}-of-{size}.pt", weights_only=False) for rank in range(size)]


def same(found: Any, expected: Any) -> bool:
    """Equal to the last bit."""
    if isinstance(expected, Tensor):
        return found.dtype == expected.dtype and torch.equal(found, expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return bool(found == expected)


def test_alone_all_pieces_are_added_in_their_order() -> None:
    pieces = make_pieces(4)
    total = (pieces[0][0] + pieces[1][0] + pieces[2][0]) + pieces[3][0]
    backwards = (pieces[3][0] + pieces[2][0] + pieces[1][0]) + pieces[0][0]
    assert list(ALONE.share(4)) == [0, 1, 2, 3]
    assert torch.equal(ALONE.add(pieces, 4)[0], total)
    assert not torch.equal(total, backwards)  # else this would prove nothing


def test_alone_everything_is_as_given() -> None:
    found = try_everything(ALONE)
    assert torch.equal(found["7 lined up"], torch.cat(make_rows(RAGGED)))
    assert found["nothing lined up"].shape == found["empty lined up"].shape == (0, 2)
    assert found["3 made"] == [("thing", 0), ("thing", 1), ("thing", 2)]
    assert found["any"] == [False, True, True]
    assert found["lowest"] == [None, True, 0]
    assert found["collected"].shape == (0, 2)
    assert found["error"] == "DataError: of 0"
    assert same(found["aligned"], [torch.full((2, 2), 0.1), torch.tensor(0.3)])


def test_every_piece_is_computed_by_one_process(joined: list[dict[str, Any]]) -> None:
    size = len(joined)
    assert [found["who"][:2] for found in joined] == [(rank, size) for rank in range(size)]
    shares = [found["who"][2] for found in joined]
    assert sorted(number for share in shares for number in share) == list(range(7))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_all_processes_hold_what_one_alone_would(joined: list[dict[str, Any]]) -> None:
    alone = try_everything(ALONE)
    everyones = torch.cat([torch.full((rank, 2), float(rank)) for rank in range(len(joined))])
    for found in joined:
        assert torch.equal(found["collected"], everyones)
        assert (found["led"]["from"], len(found["led"]["rows"])) == (0, 0)
        for what in alone.keys() - {"collected", "led"}:
            assert same(found[what], alone[what]), what


def test_an_error_of_the_first_is_raised_by_all(joined: list[dict[str, Any]]) -> None:
    assert [found["error"] for found in joined] == ["DataError: of 0"] * len(joined)
    assert [found["after the error"] for found in joined] == [0] * len(joined)


def test_a_process_without_pieces_has_to_give_zeros(joined: list[dict[str, Any]]) -> None:
    for found in joined:
        assert found["without pieces"].startswith("ValueError: a process without pieces has to give zeros")


def test_what_goes_wrong_meanwhile_is_not_taken_for_the_end_of_another(joined: list[dict[str, Any]]) -> None:
    assert [found["errand"] for found in joined] in (
        ["RuntimeError: of mine"] * len(joined),
        ["no error"] * len(joined),  # where there is no board, nothing is done meanwhile
    )


def test_the_end_of_another_process_is_one_clear_line(joined: list[dict[str, Any]]) -> None:
    for found in joined[:-1]:
        assert found["left"].startswith(
            "ProcessesError: another process of this job ended or does not answer ("
        )
        assert found["left"].endswith("); the same command goes on from the last checkpoint")
        assert "\n" not in found["left"]
        assert "third_party" not in found["left"]  # where in Gloo's source, is no help


if __name__ == "__main__":
    torch.set_num_threads(1)
    for size in (3, 2):
        if int(sys.argv[2]) < size:
            work(int(sys.argv[2]), size, Path(sys.argv[1]))
