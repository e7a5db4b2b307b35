"""The page: one HTML file that needs nothing else, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from hpn.errors import DataError, HPNError
from hpn.report.format import esc
from hpn.report.page import frame_page
from hpn.report.results import FILE_NAME, Result, group_results, load_result
from hpn.report.sections import Group, group_section, summary_section
from hpn.report.wording import EDGES, EVALUATIONS, headline, lead, terms


def write_report(runs: Sequence[Path], out: Path) -> Path:
    """Write one self-contained HTML page about finished runs.

    Args:
        runs: Run folders or their ``result.json``; one named twice counts once.
        out: The file to write. It is replaced at once, so an earlier report stays whole if writing
            fails.

    Returns:
        ``out``.

    Raises:
        DataError: There is no run, or one of them cannot be read.
        HPNError: ``out`` cannot be written.
    """
    unique: dict[Path, Path] = {}
    for run in runs:
        unique.setdefault((run / FILE_NAME if run.is_dir() else run).resolve(), run)
    results = [load_result(run) for run in unique.values()]
    if not results:
        raise DataError("runs is empty: name at least one run folder to report on")
    _write(out, render_page(results))
    return out


def render_page(results: Sequence[Result]) -> str:
    """Build the page from results, as :func:`~hpn.report.load_result` gives them."""
    groups, first = [], 1
    for members in group_results(results):
        groups.append(Group(members, first))
        first += len(members)
    title = headline(results)
    body = (
        f'<header><p class="over">hpn report</p><h1>{esc(title)}</h1>'
        f'<p class="lead">{esc(lead(results, len(groups)))}</p></header>'
        f"<main>{summary_section(groups)}{''.join(map(group_section, groups))}{_terms(results)}</main>"
    )
    return frame_page(title, body)


def _terms(results: Sequence[Result]) -> str:
    modes = " ".join(f"{name.capitalize()}: {said}." for name, said in EVALUATIONS.items())
    edges = " ".join(f"{name.capitalize()}: {said}." for name, said in EDGES.items())
    known = (*terms(results), ("Evaluation", f"How the test asks. {modes}"), ("Edges", edges))
    rows = "".join(f"<dt>{esc(term)}</dt><dd>{esc(meaning)}</dd>" for term, meaning in known)
    return f'<section><h2>How to read this</h2><dl class="terms card">{rows}</dl></section>'


def _write(out: Path, text: str) -> None:
    if out.is_dir():
        raise HPNError(f"out is a folder, {out}: name a file, such as {out / 'report.html'}")
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with part.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, out)  # noqa: PTH105 - the atomic call, by its name
    except OSError as error:
        raise HPNError(f"{out} cannot be written ({error.strerror}): name another file") from error
    finally:
        with contextlib.suppress(OSError):  # usually it is gone, and no error may hide the first one
            part.unlink()
