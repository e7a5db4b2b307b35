"""The page: one HTML file that needs nothing else, written whole or not at all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from hpn.errors import DataError, HPNError
from hpn.experiment.compare.result import Comparison
from hpn.experiment.run.folder import write_atomic
from hpn.report.comparison_html import comparison_section
from hpn.report.explorer import explorer_css, explorer_script, explorer_section
from hpn.report.format import esc
from hpn.report.page import frame_page
from hpn.report.results import Run, find_results, group_runs
from hpn.report.sections import Group, group_section, summary_section
from hpn.report.wording import EDGES, EVALUATIONS, headline, lead, terms

log = logging.getLogger(__name__)


def write_report(
    runs: Sequence[Path | str],
    out: Path | str,
    *,
    on_skip: Callable[[str], object] = log.warning,
) -> Path:
    """Write one self-contained HTML page about finished runs.

    Args:
        runs: Folders of runs, comparisons and tuning, or their JSON files; one named twice counts once.
        out: The file to write. It is replaced at once, so an earlier report stays whole if writing
            fails.
        on_skip: Receives one line about each folder without a result; by default it is logged.

    Returns:
        ``out``.

    Raises:
        DataError: If no run has finished, a path does not exist or a file is damaged.
        HPNError: If ``out`` cannot be written.
    """
    out, skipped = Path(out), list[str]()
    found = find_results(map(Path, runs), skipped.append)
    if not found.runs and not found.comparisons:
        first = f" ({skipped[0].removesuffix('; skipped')})" if skipped else ""
        raise DataError(f"there is nothing to report on; name at least one folder of a finished run{first}")
    for line in skipped:
        on_skip(line)
    check_out(out)
    return write_page(out, render_page(list(found.runs.values()), list(found.comparisons.values())))


def check_out(out: Path) -> None:
    """Refuse a folder.

    Raises:
        HPNError: If ``out`` is one.
    """
    if out.is_dir():
        raise HPNError(f"out is a folder, {out}: name a file, such as {out / 'report.html'}")


def write_page(out: Path, page: str) -> Path:
    """Write a page at once, so that an earlier one stays whole if writing fails.

    Raises:
        HPNError: If ``out`` cannot be written.
    """
    check_out(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(out, page.encode())
    except OSError as error:
        raise HPNError(f"{out} cannot be written ({error.strerror}): name another file") from error
    return out


def render_page(runs: Sequence[Run], comparisons: Sequence[Comparison] = ()) -> str:
    """Build the page of runs and comparisons."""
    groups, first = [], 1
    for members in group_runs(runs):
        groups.append(Group(members, first))
        first += len(members)
    title = headline([*(run.result for run in runs), *comparisons])
    tables = "".join(
        comparison_section(comparison, f"comparison-{number}")
        for number, comparison in enumerate(comparisons)
    )
    shown = (run.exploration for run in runs if run.exploration is not None)
    explorers = "".join(explorer_section(found, number) for number, found in enumerate(shown, start=1))
    body = (
        f'<header><p class="over">hpn report</p><h1>{esc(title)}</h1>'
        f'<p class="lead">{esc(lead(len(runs), len(groups)))}</p></header>'
        f"<main>{summary_section(groups) if runs else ''}{tables}{''.join(map(group_section, groups))}"
        f"{explorers}{_terms(runs)}</main>"
    )
    assets = {"more_css": explorer_css(), "more_script": explorer_script()} if explorers else {}
    return frame_page(title, body, **assets)


def _terms(runs: Sequence[Run]) -> str:
    modes = " ".join(f"{name.capitalize()}: {said}." for name, said in EVALUATIONS.items())
    edges = " ".join(f"{name.capitalize()}: {said}." for name, said in EDGES.items())
    known = (*terms(runs), ("Evaluation", f"How the test asks. {modes}"), ("Edges", edges))
    rows = "".join(f"<dt>{esc(term)}</dt><dd>{esc(meaning)}</dd>" for term, meaning in known)
    return f'<section><h2>How to read this</h2><dl class="terms card">{rows}</dl></section>'
