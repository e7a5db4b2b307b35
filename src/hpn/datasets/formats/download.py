"""Downloading missing files, with progress on standard error; an interrupted download leaves no file."""

from __future__ import annotations

import contextlib
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from hpn.errors import DataError

CHUNK = 1 << 20
TIMEOUT = 30


def fetch_missing(name: str, folder: Path, sources: Mapping[str, str]) -> None:
    """Download the files of ``sources`` (file name → address) that ``folder`` lacks.

    Raises:
        DataError: If a file cannot be downloaded; the message states which files to put where.
    """
    missing = {file: url for file, url in sources.items() if not (folder / file).is_file()}
    if not missing:
        return
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, (file, url) in enumerate(missing.items(), start=1):
            _fetch(url, folder / file, f"{name}: {file} ({number}/{len(missing)})")
    except (OSError, urllib.error.URLError) as error:
        with contextlib.suppress(OSError):  # a folder that is not empty stays
            for path in new:
                path.rmdir()
        address = next(iter(missing.values())).rpartition("/")[0]
        raise DataError(
            f"{name}: cannot download ({error}); put {', '.join(missing)} from {address} into {folder}, "
            "or point --data-root or HPN_DATA at a folder that has them"
        ) from error


def _fetch(url: str, target: Path, label: str) -> None:
    from rich.console import Console
    from rich.progress import Progress

    part = target.with_name(target.name + ".part")
    try:
        with (
            urllib.request.urlopen(url, timeout=TIMEOUT) as response,  # noqa: S310
            part.open("wb") as out,
            Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress,
        ):
            if not sys.stderr.isatty():
                sys.stderr.write(f"downloading {label}\n")
            length = int(response.headers.get("Content-Length") or 0)
            bar = progress.add_task(label, total=length or None)
            while chunk := response.read(CHUNK):
                out.write(chunk)
                progress.advance(bar, len(chunk))
        if length and part.stat().st_size != length:
            raise OSError(f"{target.name} ended after {part.stat().st_size} of {length} bytes")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
