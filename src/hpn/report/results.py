"""Results to report on: found in folders, grouped into what may be compared, and named."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from hpn.errors import DataError
from hpn.experiment.compare.result import FILE_NAME, Comparison, load_comparison
from hpn.experiment.run.folder import CONFIG, EXPLORER, RESULT, VIEWS
from hpn.experiment.run.result import RunResult, View, Views, load_result, parse_result, read_object
from hpn.metrics import METRICS, Metric, Summary
from hpn.report.format import MISSING, is_number, plain

if TYPE_CHECKING:
    from hpn.experiment.exploration import Exploration

MAX_NAMED = 3  # most hyper-parameters in the name of a run
Params = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """A finished run, and the views and the exploration of its test nodes if there are any."""

    result: RunResult
    views: Views | None = None
    exploration: Exploration | None = None

    @property
    def first_views(self) -> list[View]:
        """Views of the first seed, in the order of the steps."""
        return sorted(self.views.views[0], key=lambda view: view.after) if self.views else []


@dataclass
class Found:
    """Runs and comparisons to report on, by the file that they were read from; each counts once."""

    runs: dict[Path, Run] = field(default_factory=dict)
    comparisons: dict[Path, Comparison] = field(default_factory=dict)

    def add(self, path: Path, on_skip: Callable[[str], object]) -> None:
        """Read what a path stands for: a run, a comparison with its runs, or the final runs of tuning."""
        folder = path.parent if path.name == FILE_NAME else path
        finals = sorted(path.glob(f"final-*/{RESULT}"))
        if (folder / FILE_NAME).is_file():
            self.add_comparison(folder, on_skip)
        elif finals:
            for file in finals:
                self.add_run(file.parent)
        elif path.is_dir() and not (path / RESULT).exists():
            why = f"has not finished ({RESULT} is missing); run its command again"
            is_run = (path / CONFIG).exists()
            on_skip(f"{path} {why if is_run else 'is not a run, comparison or tuning folder'}; skipped")
        elif path.is_file() and path.suffix != ".json":
            on_skip(f"{path} is not a result; skipped")
        else:
            self.add_run(path)

    def add_run(self, path: Path) -> None:
        """Read a run, unless it was read before."""
        file = (path / RESULT if path.is_dir() else path).resolve()
        if file not in self.runs:
            self.runs[file] = load_run(path)

    def add_comparison(self, folder: Path, on_skip: Callable[[str], object]) -> None:
        """Read a comparison and its runs."""
        comparison = self.comparisons[(folder / FILE_NAME).resolve()] = load_comparison(folder)
        for row in comparison.rows:
            # Paths of runs are relative to where the comparison was made; usually the runs are next to it.
            places = Path(row.run), folder.parent / PurePath(row.run).name
            if run := next((place for place in places if (place / RESULT).is_file()), None):
                self.add_run(run)
            elif row.error is None:
                on_skip(f"{row.run} of {folder} is missing; only its row is shown")


@dataclass(frozen=True)
class RunGroup:
    """Comparable runs with their names."""

    runs: Sequence[Run]
    labels: Sequence[str]
    domain: Sequence[str]  # all names on the page, which decide the colours

    @classmethod
    def of(cls, results: Sequence[RunResult], labels: Sequence[str] | None = None) -> RunGroup:
        """A group of all results on a page."""
        labels = labels or label_results(results)
        return cls([Run(result) for result in results], labels, labels)

    @property
    def results(self) -> list[RunResult]:
        """Their results."""
        return [run.result for run in self.runs]

    @property
    def named(self) -> list[tuple[str, RunResult]]:
        """Their results, each with its name."""
        return list(zip(self.labels, self.results, strict=True))

    def single(self, number: int) -> RunGroup:
        """One run of the group, in its colour."""
        return RunGroup([self.runs[number]], [self.labels[number]], self.domain)


def find_results(paths: Iterable[Path], on_skip: Callable[[str], object]) -> Found:
    """Read runs from run folders, comparisons with their runs, and the final runs of tuning.

    Args:
        paths: Folders, or the JSON files in them; one named twice counts once.
        on_skip: Receives one line about each folder that has no result, or a damaged one.

    Raises:
        DataError: If a path does not exist.
    """
    found = Found()
    for path in paths:
        if not path.exists():
            raise DataError(f"{path} does not exist; name the folder of a run, comparison or search")
        try:
            found.add(path, on_skip)
        except DataError as error:
            on_skip(f"{error}; skipped")
    return found


def load_run(path: Path) -> Run:
    """Read a finished run with its views.

    Args:
        path: A run folder, or the ``result.json`` in it.

    Raises:
        DataError: If the run has not finished, or a file is damaged.
    """
    result = load_result(path)
    file = path / VIEWS if path.is_dir() else path.with_name(VIEWS)
    if (not path.is_dir() and path.name != RESULT) or not file.exists():
        return Run(result)
    views = parse_result(Views, read_object(file), file)
    if len(views.views) != len(views.seeds):
        raise DataError(f"{file} is damaged (views must be one list per seed); run its command again")
    last = len(result.steps) - 1
    for view in itertools.chain(*views.views):
        if view.after > last:
            fault = f"after must be a step from 0 to {last}, got {view.after}"
            raise DataError(f"{file} is damaged ({fault}); run its command again")
    explored = file.parent / f"seed-{views.seeds[0]}" / EXPLORER
    if not explored.exists():
        return Run(result, views)
    from hpn.experiment.exploration import Exploration  # which needs PyTorch

    return Run(result, views, parse_result(Exploration, read_object(explored), explored))


def group_runs(runs: Iterable[Run]) -> list[RunGroup]:
    """Split runs into groups that may share a chart, in the order they first appear.

    Runs are comparable when data set, stream, scenario, evaluation, edges and steps agree.
    """
    groups: dict[object, list[Run]] = {}
    for run in runs:
        same = [getattr(run.result, name) for name in ("dataset", "stream", "scenario", "evaluate", "edges")]
        steps = [(step.name, *step.classes) for step in run.result.steps]
        groups.setdefault((*same, *steps), []).append(run)
    labels = [label_results([run.result for run in members]) for members in groups.values()]
    domain = list(dict.fromkeys(itertools.chain(*labels)))
    return [RunGroup(members, names, domain) for members, names in zip(groups.values(), labels, strict=True)]


def shown_metrics(results: Iterable[RunResult]) -> list[Metric]:
    """The metrics that any of the results has a value of."""
    results = list(results)
    return [metric for metric in METRICS.values() if any(result.metrics.get(metric.name) for result in results)]


def best_value(metric: Metric, values: Iterable[Summary | None]) -> float | None:
    """The best mean of a metric by its direction; none where all are the same."""
    means = {value.mean for value in values if value is not None}
    if len(means) < 2:
        return None
    return max(means) if metric.higher_is_better else min(means)


def label_results(results: Sequence[RunResult]) -> list[str]:
    """Name each result by method and backbone, and where that is not enough by what differs.

    Results of one method are distinguished by the hyper-parameters that differ, if they are three or fewer,
    else by run folder; and by number where nothing else helps: ``hpn``, ``ewc · gcn``, ``hpn (dim 8)``,
    ``hpn (folder) #2``.
    """
    labels = [method_name(result.method, result.backbone) for result in results]
    for base in dict.fromkeys(labels):
        members = [i for i, label in enumerate(labels) if label == base]
        variants = variant_names([results[i].params for i in members])
        for i, variant in zip(members, variants, strict=True):
            folder = PurePath(results[i].out or "").name if variants.count(variant) > 1 else ""
            apart = ", ".join(filter(None, (variant, folder)))
            labels[i] = f"{base} ({apart})" if apart else base
    seen: Counter[str] = Counter()
    for i, label in enumerate(labels):
        seen[label] += 1
        if seen[label] > 1:
            labels[i] = f"{label} #{seen[label]}"
    return labels


def method_name(method: str, backbone: str | None) -> str:
    """Method and backbone: ``ewc · gat``."""
    return f"{method} · {backbone}" if backbone else method


def differing(settings: Sequence[Params]) -> list[str]:
    """Names of the hyper-parameters that are not the same in all settings."""
    names = dict.fromkeys(name for params in settings for name in params)
    return [name for name in names if len({_token(params.get(name)) for params in settings}) > 1]


def variant_names(settings: Sequence[Params]) -> list[str]:
    """Name each setting by what differs (``lr 0.1``); empty where nothing differs, or too much."""
    names = differing(settings)
    return [
        ", ".join(f"{name} {_setting_text(params.get(name))}" for name in names if len(names) <= MAX_NAMED)
        for params in settings
    ]


def setting_key(params: Params, *, without: Collection[str]) -> tuple[tuple[str, str], ...]:
    """A key that is equal for settings that agree in all hyper-parameters but some."""
    return tuple(sorted((name, _token(value)) for name, value in params.items() if name not in without))


def _token(value: object) -> str:
    """Text that is equal for equal values: 1 is 1.0, but not true."""
    return repr(float(value)) if is_number(value) else json.dumps(value, sort_keys=True, default=str)


def _setting_text(value: object) -> str:
    if value is None:
        return MISSING
    return plain(value) if is_number(value) else str(value)


def step_noun(result: RunResult | Comparison) -> str:
    """What a step of the stream is called."""
    return "task" if result.stream == "tasks" else "step"


def step_text(result: RunResult, step: int) -> str:
    """What arrives with a step: the names of the classes of a task, or the name of the step as well."""
    names = ", ".join(map(result.class_name, result.steps[step].classes))
    return names if result.stream == "tasks" else f"{result.steps[step].name}: {names}"


def prototype_growth(result: RunResult) -> dict[str, list[float | None]]:
    """Prototypes of each level after each step; empty for a learner that has none."""
    steps = [entry.prototypes or {} for entry in result.growth or []]
    levels = dict.fromkeys(level for step in steps for level in step)
    return {level: [step.get(level) for step in steps] for level in levels}
