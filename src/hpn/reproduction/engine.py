"""``hpn reproduce``: plan every configuration once, run those that are missing, write the pages."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from hpn.datasets import CATALOG, Graph, default_data_root
from hpn.errors import ConfigError, nearest
from hpn.experiment.compare.cells import with_cell
from hpn.experiment.compare.runs import CellRun, run_cells
from hpn.experiment.execute import choose_job_device, open_executor
from hpn.experiment.published import published_cell
from hpn.experiment.run.config import RunConfig, check_seeds, resolve_config, seed_words
from hpn.experiment.run.folder import VIEWS, make_folder, write_atomic
from hpn.experiment.run.result import View, Views, parse_result, read_object
from hpn.experiment.watch import Watcher
from hpn.metrics import METRICS, summarize
from hpn.report.figures import chart_svg, require_svg
from hpn.reproduction.content import MEASURED, SCHEMA, CaseResult, Content, Section, read_contents, write_content
from hpn.reproduction.experiments import Case, Experiment, choose_experiments
from hpn.reproduction.pages import Page, render_page, render_summary
from hpn.reproduction.verdicts import count_verdicts, is_hpn, judge_all, weigh_claims

OUT = Path("docs/reproduction")
DIGITS = 4


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
    """Run experiments of the paper and write a page about each, with the paper's numbers next to ours.

    No configuration runs twice, even if several experiments need it, or an earlier call, a comparison or a run has its
    result. The same call again resumes an interrupted one. Data sets of earlier calls stay on their pages.

    Args:
        names: Experiments, or ``all``; the names are in :data:`EXPERIMENTS`.
        datasets: Names or paths that each experiment runs on; by default its own, as far as they are on disk.
        only: A method or a preset of ``hpn``, such as ``ewc`` or ``best``. Only its rows are run and
            replaced; the other rows stay as an earlier call with the same seeds left them.
        seeds: How many seeds (0, 1, …), or which.
        workers: How many processes; one means this process.
        ray: Address of a Ray cluster to run on instead.
        device: ``cpu``, ``cuda``, ``cuda:N``, ``mps``, or ``auto`` for the best that is available. On a
            cluster, ``auto`` stands for ``cpu``, and with ``cuda`` every job takes a GPU.
        runs: Folder with the run folders.
        out: Folder for the pages.
        data_root: Folder with the data.
        fresh: Delete the results of earlier runs in the run folders.
        watcher: Receives the progress.

    Returns:
        The content of ``hpn reproduce --json``: the pages, how the cells compare with the paper's, the
        claims, and the runs that failed.

    Raises:
        ConfigError: If an argument cannot be used; then nothing has run.
        DataError: If data that was named cannot be loaded.
    """
    experiments = choose_experiments([names] if isinstance(names, str) else names)
    require_svg()  # known before hours of runs, not after
    device = choose_job_device(device, ray=ray)
    executor = open_executor(workers, ray, device)
    folder, root = Path(out), Path(data_root) if data_root else None
    contents = read_contents(folder)
    plan = make_plan(experiments, datasets, check_seeds(seeds), Path(runs), root, device, only)
    cells = list({run.folder: run for part in plan for _, run in part.cases}.values())
    if only is not None:
        _check_rows_fit(contents, plan)
    make_folder(folder)
    with executor:
        if cells:
            run_cells(cells, executor, fresh=fresh, watcher=watcher or Watcher())
    for experiment in experiments:
        sections = [part.measure() for part in plan if part.experiment is experiment]
        if not sections and experiment.name not in contents:
            continue
        content = contents.get(experiment.name, Content(experiment=experiment.name, sections=[]))
        contents[experiment.name] = content.add(sections, rows_only=only is not None)
        write_content(folder, contents[experiment.name])
        _write(folder, render_page(contents[experiment.name]))
    _write(folder, render_summary(contents))
    return {
        "schema": SCHEMA,
        "experiments": [experiment.name for experiment in experiments],
        "runs": len(cells),
        "failed": [{"run": cell.name, "folder": str(cell.folder), "error": cell.error} for cell in cells if cell.error],
        "absent": {} if datasets else {one.name: names for one in experiments if (names := _on_disk(one, root, False))},
        "cells": _count_cells(contents),
        "claims": [
            {"name": found.claim.name, "statement": found.claim.statement, "verdict": found.verdict}
            for found in weigh_claims(contents)
        ],
        "pages": [str(folder / f"{name}.md") for name in ("README", *contents)],
        "out": str(folder),
    }


@dataclass(frozen=True)
class PlannedSection:
    """An experiment on one data set: its cases, each with the run that has its numbers."""

    experiment: Experiment
    dataset: str  # name or path
    graph: Graph
    cases: Sequence[tuple[Case, CellRun]]
    only: str | None = None  # the method or preset that the cases are limited to

    def head(self) -> Section:
        """The section before anything has run."""
        first = self.cases[0][1]
        words = ["hpn", "reproduce", self.experiment.name, "--datasets", Path(self.dataset).name]
        words += [*seed_words(first.seeds), *(["--only", self.only] if self.only else [])]
        return Section(
            dataset=Path(self.dataset).stem,
            nodes=self.graph.num_nodes,
            classes={str(c): self.graph.class_names[c] for task in first.config.tasks for c in task},
            tasks=[list(task) for task in first.config.tasks],
            seeds=list(first.seeds),
            is_paper_protocol=published_cell(self.dataset, "hpn", None) is not None,
            command=shlex.join(words),
            versions=first.config.versions,
            cases=[],
        )

    def measure(self) -> Section:
        """The section with the results of its runs."""
        cases = [_measure_case(case, run, self.dataset) for case, run in self.cases]
        return self.head().model_copy(update={"cases": cases})


def make_plan(
    experiments: Sequence[Experiment],
    datasets: Sequence[str] | None,
    seeds: Sequence[int],
    runs: Path,
    data_root: Path | None = None,
    device: str = "cpu",
    only: str | None = None,
) -> list[PlannedSection]:
    """List the sections of all experiments; equal configurations share a run.

    Raises:
        ConfigError: If a setting cannot be used, or no case has the method or preset ``only``.
        DataError: If data that was named cannot be loaded.
    """
    bases = dict[str, tuple[RunConfig, Graph]]()
    cells = dict[Path, CellRun]()
    plan = list[PlannedSection]()
    words = dict[str, None]()
    for experiment in experiments:
        for dataset in dict.fromkeys(datasets or _on_disk(experiment, data_root)):
            if dataset not in bases:
                bases[dataset] = resolve_config(dataset, recipe=None, data_root=data_root)
            base, graph = bases[dataset]
            members = []
            for case in experiment.cases(graph):
                words |= dict.fromkeys(case.words)
                if only is not None and only not in case.words:
                    continue
                config = with_cell(base, case.cell, case.settings)
                folder = runs / config.default_folder().name
                name = f"{Path(dataset).stem} {case}"
                cell = CellRun(config, folder, seeds, data_root, graph, name, case.views, device)
                found = cells.setdefault(folder, cell)
                found.views |= case.views
                members.append((case, found))
            if members:
                plan.append(PlannedSection(experiment, dataset, graph, members, only))
    if words and not plan:
        raise ConfigError(
            f"no case has the method or preset {only!r}; {nearest(str(only), words)}known: {', '.join(words)}"
        )
    return plan


def _on_disk(experiment: Experiment, data_root: Path | None, wanted: bool = True) -> list[str]:
    """The data sets of an experiment that are on disk, or those that are not."""
    root = data_root or default_data_root()
    return [name for name in experiment.datasets if CATALOG[name].is_on_disk(root) == wanted]


def _check_rows_fit(contents: Mapping[str, Content], plan: Iterable[PlannedSection]) -> None:
    """Check that the pages have sections with the same seeds, nodes and tasks, whose rows these can replace."""
    for planned in plan:
        name, head = planned.experiment.name, planned.head()
        place = f"{name} on {head.dataset}"
        kept = {section.dataset: section for section in contents[name].sections} if name in contents else {}
        if head.dataset not in kept:
            raise ConfigError(f"{place} is not on a page yet; run it without --only first")
        section = kept[head.dataset]
        if section.seeds != head.seeds:
            there, here = (", ".join(map(str, seeds)) for seeds in (section.seeds, head.seeds))
            raise ConfigError(f"{place} has seeds {there} on its page, not {here}; --only needs the same")
        if any(getattr(section, key) != getattr(head, key) for key in ("nodes", "classes", "tasks")):
            raise ConfigError(f"{place} has other nodes or tasks on its page; run it without --only")


def _measure_case(case: Case, run: CellRun, dataset: str) -> CaseResult:
    result, views = run.result, None
    if case.views and result is not None:
        views = parse_result(Views, read_object(run.folder / VIEWS), run.folder / VIEWS).views
    content = {} if result is None else result.to_json()
    seconds = result and result.seconds_per_seed()
    # The page shows the name of a file, not its path on this machine.
    command = run.config.command(run.seeds).replace(shlex.quote(dataset), shlex.quote(Path(dataset).name), 1)
    record = {
        "case": dict(case.label),
        "method": run.config.method,
        "backbone": run.config.backbone,
        **{name: content.get(name) for name in (*METRICS, *MEASURED)},
        "seconds": seconds and {"fit": seconds.fit, "predict": seconds.predict},
        "views": [view.model_dump(mode="json") for view in views[0]] if views else None,
        "separation": [_separation(step) for step in zip(*views, strict=True)] if views else None,
        "command": command,
        "error": run.error,
    }
    return CaseResult.model_validate(_rounded(record))


def _separation(views: Sequence[View]) -> dict[str, Any]:
    """How well classes are separated after a task, over seeds."""
    names = ("silhouette", "neighbors", "neighbors_within")
    summaries = {name: summarize([getattr(view, name) for view in views]) for name in names}
    return {"after": views[0].after, **{name: value and asdict(value) for name, value in summaries.items()}}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, Mapping):
        return {key: _rounded(part) for key, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, (list, tuple)) else value


def _count_cells(contents: Mapping[str, Content]) -> dict[str, dict[str, int]]:
    """How many numbers are within two standard deviations of the paper's, better and worse."""
    judged = list(chain(*judge_all(contents).values()))
    groups = {"all cells": judged}
    groups |= {f"hpn, preset {name}": [cell for cell in judged if is_hpn(cell, name)] for name in ("paper", "best")}
    return {name: {str(one): num for one, num in count_verdicts(group).items()} for name, group in groups.items()}


def _write(folder: Path, page: Page) -> None:
    """Write a page and its figures, and delete figures of an earlier version that it no longer has."""
    for name, figure in page.figures.items():
        write_atomic(folder / name, chart_svg(figure).encode())
    write_atomic(folder / f"{page.name}.md", page.markdown.encode())
    for old in folder.glob(f"{page.name}-*.svg"):
        if old.name not in page.figures:
            old.unlink()
