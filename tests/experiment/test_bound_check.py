from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from hpn.errors import RunFolderError
from hpn.experiment.bound_check import check_run
from hpn.experiment.run.checkpoint import load_checkpoint, save_checkpoint
from hpn.experiment.run.runner import run
from hpn.learners import HPN

SETTINGS: dict[str, Any] = {
    **{"data.num_nodes": 120, "data.num_links": 400, "data.num_classes": 4},
    **{"preset": "paper", "retention": "certified", "epochs": 2, "warmup_epochs": 1, "num_extractors": 3},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run("synthetic", settings=SETTINGS, out=tmp_path / "r")
    return tmp_path / "r"


@pytest.fixture
def solved(tmp_path: Path) -> Path:
    data = {key: value for key, value in SETTINGS.items() if key.startswith("data.")}
    run("synthetic", settings={**data, "width": 50}, out=tmp_path / "s")
    return tmp_path / "s"


@contextlib.contextmanager
def changing(folder: Path) -> Iterator[dict[str, Any]]:
    """The kept state of the network, which is written again."""
    saved = load_checkpoint(folder / "seed-0")
    assert saved is not None
    yield saved["learner"]["network"]
    save_checkpoint(folder / "seed-0", saved)


def test_a_run_keeps_to_its_bounds(folder: Path) -> None:
    checked = check_run(folder)
    assert checked.holds
    assert checked.violations == []
    assert checked.bounds == HPN(preset="paper", num_extractors=3).prototype_bounds
    assert checked.bounds["atomic"] == 6 * checked.one_set["atomic"]
    assert [row.task for row in checked.growth] == [0, 1]
    assert [row.level for row in checked.codes] == ["atomic", "node", "class"]
    assert all(row.closest < row.limit for row in checked.codes)
    assert [row.holds for row in checked.certificates] == [True, True]


def test_a_solved_network_keeps_to_its_bounds(solved: Path) -> None:
    checked = check_run(solved)
    assert checked.holds
    assert checked.bounds == checked.one_set == HPN().prototype_bounds
    assert [row.level for row in checked.codes] == ["atomic", "node", "class"]
    assert [row.holds for row in checked.certificates] == [True, True]


def test_levels_that_are_not_used_are_not_counted(tmp_path: Path) -> None:
    run("synthetic", settings={**SETTINGS, "levels": "A", "retention": "paper"}, out=tmp_path / "r")
    checked = check_run(tmp_path / "r")
    assert list(checked.bounds) == [row.level for row in checked.codes] == ["atomic"]
    assert checked.certificates == []


def test_an_unfinished_run_is_checked_as_far_as_it_is(folder: Path) -> None:
    (folder / "result.json").unlink()
    (folder / "seed-0" / "result.json").unlink()
    assert len(check_run(folder).growth) == 2


def test_without_states_there_are_counts(folder: Path) -> None:
    (folder / "seed-0" / "checkpoint.json").unlink()
    checked = check_run(folder)
    assert checked.holds
    assert checked.codes == []
    assert len(checked.growth) == 2


def test_prototypes_that_are_too_close_are_found(folder: Path) -> None:
    with changing(folder) as state:
        (name,) = (key for key in state if key.startswith("atomic") and key.endswith("tors"))
        state[name] = state[name][[0, 0, *range(2, len(state[name]))]]
    checked = check_run(folder)
    assert not checked.holds
    assert any("two atomic prototypes are closer" in line for line in checked.violations)


def test_a_changed_extractor_breaks_the_certificate(folder: Path) -> None:
    with changing(folder) as state:
        state["node_extractors.0"] = state["node_extractors.0"] + 1
    checked = check_run(folder)
    assert [row.holds for row in checked.certificates] == [False, True]
    assert any("what task 1 is answered from" in line for line in checked.violations)


def test_a_changed_extractor_of_a_solved_network_breaks_the_certificate(solved: Path) -> None:
    with changing(solved) as state:
        extractor = state["extractors"]["0"]
        name = next(key for key, value in extractor.items() if isinstance(value, Tensor))
        extractor[name] = extractor[name] + 1
    assert [row.holds for row in check_run(solved).certificates] == [False, True]


def test_too_many_prototypes_for_one_code_are_found_before_the_theorems_bound(tmp_path: Path) -> None:
    run("synthetic", settings={**SETTINGS, "dim": 2, "threshold_atomic": 0.3}, out=tmp_path / "r")
    part = tmp_path / "r" / "seed-0"
    (part / "checkpoint.json").unlink()
    growth = [{"prototypes": {"atomic": 20, "node": 1, "class": 1}}]
    (part / "result.json").write_text(json.dumps({"growth": growth}))
    assert check_run(tmp_path / "r").violations == [
        "seed 0: 20 atomic prototypes after task 1, where one code can have 7"
    ]


def test_a_run_without_prototypes_is_named(tmp_path: Path) -> None:
    settings = {key: value for key, value in SETTINGS.items() if key.startswith("data.")}
    run("synthetic", method="ncm", settings=settings, out=tmp_path / "r")
    with pytest.raises(RunFolderError, match="a run of ncm, which has no prototypes"):
        check_run(tmp_path / "r")


def test_a_run_that_has_not_begun_is_named(folder: Path) -> None:
    for file in (folder / "seed-0").iterdir():
        file.unlink()
    with pytest.raises(RunFolderError, match="learned no task yet"):
        check_run(folder)


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="not a run folder"):
        check_run(tmp_path)
