from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

import pytest

from hpn.datasets.formats.download import fetch_missing
from hpn.errors import DataError


def serve(tmp_path: Path, content: bytes) -> str:
    source = tmp_path / "server"
    source.mkdir()
    (source / "a.txt").write_bytes(content)
    return (source / "a.txt").as_uri()


def test_missing_files_are_fetched_and_present_ones_left(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    url = serve(tmp_path, b"new")
    fetch_missing("toy", folder, {"a.txt": url})
    assert (folder / "a.txt").read_bytes() == b"new"
    (folder / "a.txt").write_bytes(b"mine")
    fetch_missing("toy", folder, {"a.txt": url})
    assert (folder / "a.txt").read_bytes() == b"mine"


def test_offline_the_error_states_which_file_to_put_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> None:
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", offline)
    with pytest.raises(DataError, match=r"put a\.txt, b\.txt from https://example\.org/files into") as error:
        fetch_missing(
            "toy", tmp_path / "data", {name: f"https://example.org/files/{name}" for name in ("a.txt", "b.txt")}
        )
    assert "\n" not in str(error.value)
    assert not (tmp_path / "data").exists()


def test_an_incomplete_download_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = serve(tmp_path, b"whole")
    folder = tmp_path / "data"
    real = urllib.request.urlopen

    def cut(address: str, timeout: float) -> object:
        response = real(address, timeout=timeout)
        response.headers.replace_header("Content-Length", "99")
        return response

    monkeypatch.setattr(urllib.request, "urlopen", cut)
    with pytest.raises(DataError, match="ended after 5 of 99 bytes"):
        fetch_missing("toy", folder, {"a.txt": url})
    assert not folder.exists()
