"""A finished run is found again by what was requested, as long as nothing has changed."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpn.experiment.run import finished
from hpn.experiment.run.finished import find_finished
from hpn.experiment.run.runner import run
from hpn.experiment.watch import Watcher

REQUEST: dict[str, Any] = {
    **{"dataset": "graph.npz", "method": "ncm", "settings": {}, "recipe": "recipe.yaml", "seeds": 2},
    **{"views": False, "data_root": None},
}


@pytest.fixture
def result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The result of a run in the current folder, whose code is a file of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HPN_DATA", raising=False)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "learner.py").touch()
    monkeypatch.setattr(finished, "PACKAGE", tmp_path / "code")
    (tmp_path / "recipe.yaml").write_text("{dataset: x, method: ncm, scenario: task, settings: {max_hops: 1}}")
    arrays = {"attr_matrix": np.random.default_rng(0).normal(size=(60, 4)), "labels": np.arange(60) % 4}
    arrays |= {"adj_data": np.ones(60), "adj_indices": np.roll(np.arange(60), 1), "adj_indptr": np.arange(61)}
    np.savez(tmp_path / "graph.npz", **arrays, adj_shape=np.array([60, 60]))
    return run(**REQUEST)


def test_the_same_request_gives_the_same_result(result: dict[str, Any]) -> None:
    events: list[Any] = []

    class Listener(Watcher):
        def run_started(self, out: Path | None, num_seeds: int, num_tasks: int) -> None:
            events.append((str(out), num_seeds, num_tasks))

        def seed_finished(self, seed: int, *, reused: bool) -> None:
            events.append((seed, reused))

    assert find_finished(REQUEST, watcher=Listener()) == result
    assert events == [(result["out"], 2, 2), (0, True), (1, True)]
    assert find_finished(REQUEST, result["out"]) == result
    assert find_finished(REQUEST, "elsewhere") is None
    changes = ({"seeds": 1}, {"seeds": [0, 1]}, {"views": True}, {"settings": {"max_hops": "2"}}, {"edges": "seen"})
    assert not any(find_finished({**REQUEST, **change}) for change in changes), "another request is another run"
    shutil.copytree(result["out"], "copy")
    assert find_finished(REQUEST, "copy") is None, "and so is a copied folder"


@pytest.mark.parametrize(
    "file", ["graph.npz", "recipe.yaml", "code/learner.py", "result.json", "config.json", "seed-1/result.json"]
)
def test_a_file_that_has_changed_or_is_missing_makes_it_another_run(result: dict[str, Any], file: str) -> None:
    path = Path(file) if Path(file).exists() else Path(result["out"]) / file
    before = path.stat()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert find_finished(REQUEST) is None
    run(**REQUEST)
    assert find_finished(REQUEST) is not None
    path.unlink()
    assert find_finished(REQUEST) is None


def test_so_does_new_code_other_versions_or_another_data_root(
    result: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("code/new.py").touch()
    assert find_finished(REQUEST) is None
    Path("code/new.py").unlink()
    assert find_finished(REQUEST) == result
    with monkeypatch.context() as patch:
        patch.setenv("HPN_DATA", "elsewhere")
        assert find_finished(REQUEST) is None
    monkeypatch.setattr(finished, "installed_versions", lambda: {"torch": "0"})
    assert find_finished(REQUEST) is None


def test_a_request_that_cannot_be_kept_or_read(result: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, inputs = Path(result["out"]), [Path("graph.npz")]
    for content in ("", "[]", "{}", '{"request": 1, "inputs": 2, "stamp": 3}'):
        (folder / finished.REQUEST).write_text(content)
        assert find_finished(REQUEST) is None
    finished.keep_request(folder, REQUEST, inputs, since=time.time_ns())
    assert find_finished(REQUEST, folder) == result
    finished.keep_request(folder, REQUEST, inputs, since=inputs[0].stat().st_ctime_ns - 1)
    assert find_finished(REQUEST, folder) is None, "an input changed during the run"
    finished.keep_request(folder, REQUEST, inputs, since=time.time_ns())
    monkeypatch.setattr(finished, "MOST_FILES", 1)
    run(**REQUEST)
    assert not (folder / finished.REQUEST).exists(), "too many files"
