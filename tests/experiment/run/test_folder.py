from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hpn.errors import RunFolderError
from hpn.experiment.run.config import resolve_config
from hpn.experiment.run.folder import open_run_folder, read_json, write_atomic, write_json

Config = dict[str, Any]


@pytest.fixture(scope="module")
def config() -> Config:
    return resolve_config("digits", method="ncm")[0].to_json()


def refuse(message: str, path: Path, config: Config, *, fresh: bool = False) -> None:
    with pytest.raises(RunFolderError, match=message), open_run_folder(path, config, fresh=fresh):
        pass


def test_a_new_folder_gets_the_configuration_and_can_be_opened_again(tmp_path: Path, config: Config) -> None:
    for _ in range(2):
        with open_run_folder(tmp_path / "a" / "b", config) as folder:
            assert read_json(folder / "config.json") == config
            (folder / "kept").touch()
    assert (folder / "kept").exists()


def test_the_second_of_two_runs_is_refused(tmp_path: Path, config: Config) -> None:
    program = "import sys, filelock; filelock.FileLock(sys.argv[1] + '/.lock').acquire(timeout=0)"
    with open_run_folder(tmp_path, config):
        words = [sys.executable, "-c", program, str(tmp_path)]
        other = subprocess.run(words, check=False, capture_output=True, text=True)
        assert "Timeout" in other.stderr
        refuse("in use by another run", tmp_path, config)
    with open_run_folder(tmp_path, config):
        pass


def test_another_configuration_is_refused_and_named(tmp_path: Path, config: Config) -> None:
    with open_run_folder(tmp_path, config):
        (tmp_path / "kept").touch()
    other = {**config, "params": {**config["params"], "max_hops": 1}}
    refuse("max_hops: 3 there, 1 now", tmp_path, other)
    assert (tmp_path / "kept").exists()
    assert read_json(tmp_path / "config.json") == config
    with open_run_folder(tmp_path, other, fresh=True):
        assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, r"newer version of hpn \(format 99"),
        ({"data_sha256": "0"}, "the data has changed"),
        ({"versions": {"torch": "1.0"}}, "torch: 1.0 there"),
    ],
)
def test_other_fields_that_must_match(tmp_path: Path, config: Config, change: Config, message: str) -> None:
    versions = {**config["versions"], **change.get("versions", {})}
    (tmp_path / "config.json").write_text(json.dumps({**config, **change, "versions": versions}))
    refuse(message, tmp_path, config)


def test_folders_that_are_not_of_runs_are_not_touched(tmp_path: Path, config: Config) -> None:
    (tmp_path / "thesis.tex").touch()
    for fresh in (False, True):
        refuse(r"holds no run \(thesis\.tex", tmp_path, config, fresh=fresh)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    refuse("is a file", tmp_path / "thesis.tex", config)
    refuse("cannot write", tmp_path / "thesis.tex" / "x", config)
    (tmp_path / "config.json").write_text("{")
    refuse(r"config\.json cannot be read .* --fresh", tmp_path, config)


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.json"
    write_json(file, {"x": 1})
    write_json(file, {"x": 2})
    assert file.read_text() == '{\n  "x": 2\n}\n'

    def full(_: int) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space"):
            write_atomic(file, b"new")
    with pytest.raises(ValueError, match="JSON"):
        write_json(file, {"x": float("nan")})
    assert file.read_text() == '{\n  "x": 2\n}\n'
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
