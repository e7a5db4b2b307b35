from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from hpn.nn import board as board_module
from hpn.nn.board import PLACE, Board, is_running, make_file

if not board_module.is_possible():
    pytest.skip("this processor does not keep the order of writes", allow_module_level=True)

SIZE = 3


@pytest.fixture
def boards() -> list[Board]:
    """The board as three processes see it, each through a mapping of its own; the file is gone already."""
    path = make_file(SIZE)
    opened = [Board(path, rank, SIZE) for rank in range(SIZE)]
    path.unlink()
    return opened


def test_everybody_reads_what_everybody_wrote_round_after_round(boards: list[Board]) -> None:
    rounds, read = 300, [[] for _ in boards]  # type: ignore[var-annotated]

    def take_part(board: Board) -> None:
        for number in range(rounds):
            shape = (2, 1 + number % 5)
            mine = np.full(shape, 1000 * board.rank + number, dtype=np.float32)
            read[board.rank].append(board.exchange(mine))

    threads = [threading.Thread(target=take_part, args=(board,)) for board in boards]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(rounds):
        expected = np.stack([np.full((2, 1 + number % 5), 1000 * rank + number) for rank in range(SIZE)])
        for rank in range(SIZE):
            assert np.array_equal(read[rank][number], expected)


def test_a_whole_place_fits_and_what_was_read_stays(boards: list[Board]) -> None:
    path = make_file(1)
    alone = Board(path, 0, 1)
    path.unlink()
    first = alone.exchange(np.arange(PLACE // 8, dtype=np.float64))
    for _ in range(2):
        alone.exchange(np.zeros(PLACE // 8))
    assert np.array_equal(first[0], np.arange(PLACE // 8))


def test_a_process_that_is_gone_is_named(boards: list[Board], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_module, "LOOK_AFTER", 0.0)
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    boards[0]._pids[1] = child.pid
    with pytest.raises(RuntimeError, match="process 1 is gone"):
        boards[0].exchange(np.zeros(1))


def test_a_process_that_has_left_is_not_waited_for(
    boards: list[Board], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_module, "LOOK_AFTER", 0.0)
    boards[2].leave()
    with pytest.raises(RuntimeError, match="process 2 is gone"):
        boards[0].exchange(np.zeros(1))


def test_patience_ends(boards: list[Board], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_module, "LOOK_AFTER", 0.0)
    monkeypatch.setattr(board_module, "GIVE_UP_AFTER", 0.0)
    with pytest.raises(RuntimeError, match="nothing was heard"):
        boards[0].exchange(np.zeros(1))


def test_a_file_that_is_too_short_is_refused(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"0" * 100)
    with pytest.raises(ValueError, match="buffer"):
        Board(tmp_path / "short", 0, 2)
    assert is_running(1)
