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


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    return resolve_config("digits", method="ncm")[0].to_json()


def test_a_new_folder_gets_the_configuration(tmp_path: Path, config: dict[str, Any]) -> None:
    with open_run_folder(tmp_path / "a" / "b", config) as folder:
        assert read_json(folder / "config.json") == config


def test_the_same_configuration_may_enter_again(tmp_path: Path, config: dict[str, Any]) -> None:
    for _ in range(2):
        with open_run_folder(tmp_path, config):
            (tmp_path / "kept").touch()
    assert (tmp_path / "kept").exists()


def test_the_second_of_two_runs_is_refused(tmp_path: Path, config: dict[str, Any]) -> None:
    program = f"""
from pathlib import Path
from filelock import FileLock, Timeout
try:
    FileLock(Path({str(tmp_path)!r}) / ".lock").acquire(timeout=0)
except Timeout:
    print("locked")
"""
    with open_run_folder(tmp_path, config):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout == "locked\n"
        with pytest.raises(RunFolderError, match="in use by another run"), open_run_folder(tmp_path, config):
            pass
    with open_run_folder(tmp_path, config):
        pass


def test_another_configuration_is_refused_and_named(tmp_path: Path, config: dict[str, Any]) -> None:
    with open_run_folder(tmp_path, config):
        (tmp_path / "kept").touch()
    other = resolve_config("digits", method="ncm", settings={"max_hops": 1})[0].to_json()
    with pytest.raises(RunFolderError, match="max_hops: 3 there, 1 now"), open_run_folder(tmp_path, other):
        pass
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
def test_what_else_must_match(tmp_path: Path, config: dict[str, Any], change: dict[str, Any], message: str) -> None:
    content = config
    versions = {**content["versions"], **change.get("versions", {})}
    (tmp_path / "config.json").write_text(json.dumps({**content, **change, "versions": versions}))
    with pytest.raises(RunFolderError, match=message), open_run_folder(tmp_path, config):
        pass


def test_a_damaged_configuration_is_named(tmp_path: Path, config: dict[str, Any]) -> None:
    (tmp_path / "config.json").write_text("{")
    with (
        pytest.raises(RunFolderError, match=r"config\.json cannot be read .* --fresh"),
        open_run_folder(tmp_path, config),
    ):
        pass


def test_other_peoples_folders_are_left_alone(tmp_path: Path, config: dict[str, Any]) -> None:
    (tmp_path / "thesis.tex").touch()
    for fresh in (False, True):
        with (
            pytest.raises(RunFolderError, match=r"holds no run \(thesis\.tex"),
            open_run_folder(tmp_path, config, fresh=fresh),
        ):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_no_folder(tmp_path: Path, config: dict[str, Any]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="is a file"), open_run_folder(tmp_path / "file", config):
        pass
    with pytest.raises(RunFolderError, match="cannot write"), open_run_folder(tmp_path / "file" / "x", config):
        pass


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(tmp_path: Path, config: dict[str, Any]) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(RunFolderError, match="cannot write"), open_run_folder(tmp_path, config):
        pass


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_json(file, {"x": 1})
    write_json(file, {"x": 2})
    assert file.read_text() == '{\n  "x": 2\n}\n'
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.json"
    write_atomic(file, b"old")

    def full(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_atomic(file, b"new")
    assert file.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_numbers_that_json_has_not_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert list(tmp_path.iterdir()) == []
