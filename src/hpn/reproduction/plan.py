"""From experiments to runs: every configuration once, however many experiments need it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpn.datasets import CATALOG, Graph, default_data_root
from hpn.errors import ConfigError, nearest
from hpn.experiment.compare.cells import with_cell
from hpn.experiment.compare.runs import CellRun
from hpn.experiment.run.config import RunConfig, resolve_config
from hpn.reproduction.experiments import Case, Experiment


@dataclass(frozen=True)
class PlannedSection:
    """An experiment on one data set: its cases, each with the run that has its numbers.

    Args:
        experiment: The experiment.
        dataset: Name or path.
        graph: What it holds.
        cases: All cases of the experiment, or those of one method or preset.
        only: That method or preset.
    """

    experiment: Experiment
    dataset: str
    graph: Graph
    cases: Sequence[tuple[Case, CellRun]]
    only: str | None = None


@dataclass(frozen=True)
class Plan:
    """What has to be run.

    Args:
        sections: The experiments, data set by data set.
        cells: The runs, each once.
        absent: Data sets, by experiment, that are not on disk and were not asked for by name.
    """

    sections: Sequence[PlannedSection]
    cells: Sequence[CellRun]
    absent: dict[str, list[str]]


def make_plan(
    experiments: Sequence[Experiment],
    *,
    datasets: Sequence[str] | None,
    seeds: Sequence[int],
    runs: Path,
    data_root: Path | None,
    device: str = "cpu",
    only: str | None = None,
) -> Plan:
    """Find out what the experiments need.

    Args:
        experiments: The experiments.
        datasets: Names or paths; by default those of each experiment that are on disk.
        seeds: The seeds.
        runs: Folder with the run folders.
        data_root: Folder with the data.
        device: Where learners compute.
        only: Method or preset that cases must have; by default all cases.

    Raises:
        ConfigError: If a setting cannot be used, or no case has the method or preset asked for.
        DataError: If data that was asked for cannot be loaded.
    """
    bases: dict[str, tuple[RunConfig, Graph]] = {}
    cells: dict[Path, CellRun] = {}
    planned: list[tuple[Experiment, str, list[tuple[Case, Path]]]] = []
    absent: dict[str, list[str]] = {}
    words: dict[str, None] = {}
    for experiment in experiments:
        wanted = list(dict.fromkeys(datasets)) if datasets else _on_disk(experiment, data_root)
        if not datasets:
            absent[experiment.name] = [name for name in experiment.datasets if name not in wanted]
        for dataset in wanted:
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
                members.append((case, folder))
            if members:
                planned.append((experiment, dataset, members))
    if words and not planned:
        raise ConfigError(
            f"nothing asked for has the method or preset {only!r}; {nearest(str(only), words)}"
            f"known: {', '.join(words)}"
        )
    sections = [
        PlannedSection(
            experiment, dataset, bases[dataset][1], [(case, cells[at]) for case, at in members], only
        )
        for experiment, dataset, members in planned
    ]
    return Plan(sections, list(cells.values()), absent)


def _on_disk(experiment: Experiment, data_root: Path | None) -> list[str]:
    root = data_root or default_data_root()
    return [name for name in experiment.datasets if CATALOG[name].is_on_disk(root)]
