from __future__ import annotations

import contextlib
import json
import shutil
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

DATA = {"data.num_nodes": 120, "data.num_links": 400, "data.num_classes": 4}
SETTINGS: dict[str, Any] = {
    **{**DATA, "preset": "paper", "retention": "certified", "epochs": 2, "warmup_epochs": 1, "num_extractors": 3}
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    run("synthetic", settings=SETTINGS, out=folder / "paper")
    run("synthetic", settings={**DATA, "width": 50}, out=folder / "solved")
    return folder


@pytest.fixture
def folder(runs: Path, tmp_path: Path) -> Path:
    return shutil.copytree(runs / "paper", tmp_path / "paper")


@contextlib.contextmanager
def changing(folder: Path) -> Iterator[dict[str, Any]]:
    """The kept state of the network, which is written again."""
    saved = load_checkpoint(folder / "seed-0")
    assert saved is not None
    yield saved["learner"]["network"]
    save_checkpoint(folder / "seed-0", saved)


def test_runs_that_satisfy_their_bounds(runs: Path) -> None:
    checked, other = check_run(runs / "paper"), check_run(runs / "solved")
    for one in (checked, other):
        assert one.holds
        assert one.violations == []
        assert [row.task for row in one.growth] == [0, 1]
        assert [row.level for row in one.codes] == ["atomic", "node", "class"]
        assert all(row.closest < row.limit for row in one.codes)
        assert [row.holds for row in one.certificates] == [True, True]
    assert checked.bounds == HPN(preset="paper", num_extractors=3).prototype_bounds
    assert checked.bounds["atomic"] == 6 * checked.one_set["atomic"]
    assert other.bounds == other.one_set == HPN().prototype_bounds


def test_levels_that_are_not_used_are_not_counted(tmp_path: Path) -> None:
    run("synthetic", settings={**SETTINGS, "levels": "A", "retention": "paper"}, out=tmp_path / "r")
    checked = check_run(tmp_path / "r")
    assert list(checked.bounds) == [row.level for row in checked.codes] == ["atomic"]
    assert checked.certificates == []


def test_unfinished_runs_and_runs_without_states(folder: Path) -> None:
    results = [folder / "result.json", folder / "seed-0" / "result.json"]
    kept = results[1].read_bytes()
    for file in results:
        file.unlink()
    assert len(check_run(folder).growth) == 2, "from the checkpoint"
    results[1].write_bytes(kept)
    (folder / "seed-0" / "checkpoint.json").unlink()
    checked = check_run(folder)
    assert (checked.holds, checked.codes, len(checked.growth)) == (True, [], 2), "from the result"
    results[1].unlink()
    run("synthetic", method="ncm", settings=DATA, out=folder / "other")
    for path, message in (
        (folder, "learned no task yet"),
        (folder / "seed-0", "not a run folder"),
        (folder / "other", "a run of ncm, which has no prototypes"),
    ):
        with pytest.raises(RunFolderError, match=message):
            check_run(path)


def test_prototypes_that_are_too_close_are_found(folder: Path) -> None:
    with changing(folder) as state:
        (name,) = (key for key in state if key.startswith("atomic") and key.endswith("tors"))
        state[name] = state[name][[0, 0, *range(2, len(state[name]))]]
    assert any("two atomic prototypes are closer" in line for line in check_run(folder).violations)


def test_a_changed_extractor_breaks_the_certificate(runs: Path, folder: Path, tmp_path: Path) -> None:
    solved = shutil.copytree(runs / "solved", tmp_path / "solved")
    with changing(folder) as state:
        state["node_extractors.0"] = state["node_extractors.0"] + 1
    with changing(solved) as state:
        extractor = state["extractors"]["0"]
        name = next(key for key, value in extractor.items() if isinstance(value, Tensor))
        extractor[name] = extractor[name] + 1
    for checked in map(check_run, (folder, solved)):
        assert [row.holds for row in checked.certificates] == [False, True]
        assert any("what task 1 is answered from" in line for line in checked.violations)


def test_too_many_prototypes_for_one_code_are_found_before_the_theorems_bound(tmp_path: Path) -> None:
    run("synthetic", settings={**SETTINGS, "dim": 2, "threshold_atomic": 0.3}, out=tmp_path / "r")
    part = tmp_path / "r" / "seed-0"
    (part / "checkpoint.json").unlink()
    (part / "result.json").write_text(json.dumps({"growth": [{"prototypes": {"atomic": 20, "node": 1, "class": 1}}]}))
    assert check_run(tmp_path / "r").violations == [
        "seed 0: 20 atomic prototypes after task 1, where one code can have 7"
    ]
