"""Downloading missing files, with progress on standard error; an interrupted download leaves no file."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from hpn.errors import DataError

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
    except OSError as error:
        with contextlib.suppress(OSError):  # a folder that is not empty stays
            for path in new:
                path.rmdir()
        address = next(iter(missing.values())).rpartition("/")[0]
        raise DataError(
            f"{name}: cannot download ({error}); put {', '.join(missing)} from {address} into {folder}, "
            "or point --data-root or HPN_DATA at a folder that has them"
        ) from error


def _fetch(url: str, target: Path, label: str) -> None:
    import urllib.request  # slow to import, and only needed here

    from rich.console import Console
    from rich.progress import wrap_file

    part = target.with_name(target.name + ".part")
    is_terminal = sys.stderr.isatty()
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as response, part.open("wb") as out:  # noqa: S310
            if not is_terminal:
                sys.stderr.write(f"downloading {label}\n")
            length = int(response.headers.get("Content-Length") or 0)
            console = Console(stderr=True)
            with wrap_file(response, length, description=label, console=console, disable=not is_terminal) as content:
                shutil.copyfileobj(content, out)
        if length and part.stat().st_size != length:
            raise OSError(f"{target.name} ended after {part.stat().st_size} of {length} bytes")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
