"""``hpn reproduce``: run what the experiments lack, then write their pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hpn.experiment.compare.runs import run_cells
from hpn.experiment.execute import choose_job_device, open_executor
from hpn.experiment.run.config import check_seeds
from hpn.experiment.run.folder import make_folder, write_atomic
from hpn.experiment.watch import Watcher
from hpn.reproduction.claims import weigh_claims
from hpn.reproduction.content import (
    add_sections,
    check_rows_fit,
    make_section,
    read_contents,
    write_content,
)
from hpn.reproduction.experiments import EXPERIMENTS, choose_experiments
from hpn.reproduction.pages import Page, render_page
from hpn.reproduction.plan import make_plan
from hpn.reproduction.results import SCHEMA, Content
from hpn.reproduction.summary import render_summary
from hpn.reproduction.verdicts import count_verdicts, is_hpn, judge_all

OUT = Path("docs/reproduction")


def reproduce(
    names: str | Iterable[str],
    *,
    datasets: Sequence[str] | None = None,
    only: str | None = None,
    seeds: int | Sequence[int] = 5,
    workers: int = 1,
    ray: str | None = None,
    device: str = "auto",
    runs: Path | str = "runs",
    out: Path | str = OUT,
    data_root: Path | str | None = None,
    fresh: bool = False,
    watcher: Watcher | None = None,
) -> dict[str, Any]:
    """Run experiments of the paper and write a page about each, the paper's numbers beside ours.

    No configuration runs twice: not if several experiments need it, not if an earlier call, a comparison or
    a run has it. The same call again resumes an interrupted one. Data sets that an earlier call
    put on a page stay there.

    Args:
        names: Experiments, or ``all``; :data:`EXPERIMENTS` has them.
        datasets: Names or paths that each experiment runs on; by default its own, as far as they are on disk.
        only: A method or a preset of ``hpn``, such as ``ewc`` or ``best``. Only its rows are run and
            replaced; the other rows stay as an earlier call with the same seeds left them.
        seeds: How many seeds (0, 1, …), or which.
        workers: How many processes; one means this process.
        ray: Address of a Ray cluster to run on instead.
        device: ``cpu``, ``cuda``, ``cuda:N``, ``mps``, or ``auto`` for the best there is. On a cluster,
            ``auto`` stands for ``cpu``, and with ``cuda`` every job takes a GPU.
        runs: Folder with the run folders.
        out: Folder for the pages.
        data_root: Folder with the data.
        fresh: Delete what the run folders hold of earlier runs.
        watcher: Is told how far it is.

    Returns:
        What ``hpn reproduce --json`` prints: the pages, how the cells compare with the paper's, the claims,
        and what failed.

    Raises:
        ConfigError: If an argument cannot be used; then nothing has run.
        DataError: If data that was asked for cannot be loaded.
    """
    experiments = choose_experiments([names] if isinstance(names, str) else names)
    device = choose_job_device(device, ray=ray)
    executor = open_executor(workers, ray, device)
    folder, root = Path(out), Path(data_root) if data_root else None
    contents = read_contents(folder)
    plan = make_plan(
        experiments,
        datasets=datasets,
        seeds=check_seeds(seeds),
        runs=Path(runs),
        data_root=root,
        device=device,
        only=only,
    )
    if only is not None:
        check_rows_fit(contents, plan.sections)
    make_folder(folder)
    with executor:
        if plan.cells:
            run_cells(plan.cells, executor, fresh=fresh, watcher=watcher or Watcher())
    for experiment in experiments:
        sections = [make_section(part) for part in plan.sections if part.experiment is experiment]
        if not sections and experiment.name not in contents:
            continue
        contents[experiment.name] = add_sections(
            contents.get(experiment.name), experiment.name, sections, rows_only=only is not None
        )
        write_content(folder, contents[experiment.name])
        _write(folder, render_page(contents[experiment.name], experiment.words()))
    abouts = {name: experiment.words() for name, experiment in EXPERIMENTS.items()}
    _write(folder, render_summary(contents, abouts))
    return {
        "schema": SCHEMA,
        "experiments": [experiment.name for experiment in experiments],
        "runs": len(plan.cells),
        "failed": [
            {"run": cell.name, "folder": str(cell.folder), "error": cell.error}
            for cell in plan.cells
            if cell.error
        ],
        "absent": {name: missing for name, missing in plan.absent.items() if missing},
        "cells": _count_cells(contents),
        "claims": [
            {"name": found.claim.name, "statement": found.claim.statement, "verdict": found.verdict}
            for found in weigh_claims(contents)
        ],
        "pages": [str(folder / f"{name}.md") for name in ("README", *contents)],
        "out": str(folder),
    }


def _count_cells(contents: Mapping[str, Content]) -> dict[str, dict[str, int]]:
    """How many cells are within two standard deviations of the paper's, better and worse."""
    judged = [cell for cells in judge_all(contents).values() for cell in cells]
    counted = {"all cells": count_verdicts(judged)}
    for preset in ("paper", "best"):
        counted[f"hpn, preset {preset}"] = count_verdicts(cell for cell in judged if is_hpn(cell, preset))
    return {name: {str(verdict): num for verdict, num in counts.items()} for name, counts in counted.items()}


def _write(folder: Path, page: Page) -> None:
    """Write a page and its figures; figures of an earlier version that it no longer has go."""
    for name, figure in page.figures.items():
        write_atomic(folder / name, figure.encode())
    write_atomic(folder / f"{page.name}.md", page.markdown.encode())
    for old in folder.glob(f"{page.name}-*.svg"):
        if old.name not in page.figures:
            old.unlink()
