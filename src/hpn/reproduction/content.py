"""The JSON behind a page: what an experiment measured, data set by data set."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hpn.errors import ConfigError, DataError
from hpn.experiment.compare.runs import CellRun
from hpn.experiment.published import published_cell
from hpn.experiment.run.config import seed_words
from hpn.experiment.run.folder import VIEWS, write_atomic
from hpn.experiment.run.result import View, Views, parse_result, read_object
from hpn.metrics import METRICS, summarize
from hpn.reproduction.experiments import EXPERIMENTS, Case
from hpn.reproduction.plan import PlannedSection
from hpn.reproduction.results import SCHEMA, Again, CaseResult, Content, Section, Separation

DIGITS = 4

_MEASURED = (
    *("matrices", "parameters", "stored", "prototypes", "bounds", "parameter_bound"),
    *("growth", "params"),
)


def make_section(planned: PlannedSection) -> Section:
    """What an experiment measured on one data set."""
    cases = [_case(case, run, planned.dataset) for case, run in planned.cases]
    return _head(planned).model_copy(update={"cases": cases})


def _head(planned: PlannedSection) -> Section:
    """All that is known of a section before anything has run."""
    first = planned.cases[0][1]
    config = first.config
    return Section(
        dataset=Path(planned.dataset).stem,
        nodes=planned.graph.num_nodes,
        classes={str(c): planned.graph.class_names[c] for task in config.tasks for c in task},
        tasks=[list(task) for task in config.tasks],
        seeds=list(first.seeds),
        is_paper_protocol=published_cell(planned.dataset, "hpn", None) is not None,
        command=_command(planned, first.seeds),
        versions=config.versions,
        cases=[],
    )


def check_rows_fit(contents: Mapping[str, Content], sections: Iterable[PlannedSection]) -> None:
    """Check that the rows of these sections can take the place of rows that earlier calls have left.

    Raises:
        ConfigError: If a page has no such section, or one with other seeds, nodes or tasks.
    """
    for planned in sections:
        name, head = planned.experiment.name, _head(planned)
        place = f"{name} on {head.dataset}"
        kept = contents[name].sections if name in contents else []
        section = next((section for section in kept if section.dataset == head.dataset), None)
        if section is None:
            raise ConfigError(f"{place} is on no page yet; run it without --only first")
        if section.seeds != head.seeds:
            there, asked = (", ".join(map(str, seeds)) for seeds in (section.seeds, head.seeds))
            raise ConfigError(f"{place} has seeds {there} on its page, not {asked}; --only needs the same")
        if any(getattr(section, key) != getattr(head, key) for key in ("nodes", "classes", "tasks")):
            raise ConfigError(f"{place} has other nodes or tasks on its page; run it without --only")


def read_contents(folder: Path) -> dict[str, Content]:
    """What earlier calls have left in a folder, by experiment.

    Raises:
        DataError: If a file cannot be read.
    """
    found = {}
    for name in EXPERIMENTS:
        file = folder / f"{name}.json"
        if not file.exists():
            continue
        content = read_object(file)
        if content.get("schema") != SCHEMA:
            raise DataError(f"{file} is not what this version writes; move it away, or choose another --out")
        found[name] = parse_result(Content, content, file)
    return found


def add_sections(
    content: Content | None, name: str, sections: Sequence[Section], *, rows_only: bool = False
) -> Content:
    """Put sections into what is there: those of the same data set are replaced, others stay.

    Args:
        content: What is there.
        name: The experiment.
        sections: What was run.
        rows_only: Replace single rows, those of the same label, and keep the other rows of a section.
    """
    kept = {section.dataset: section for section in (content.sections if content else [])}
    for section in sections:
        old = kept.get(section.dataset)
        kept[section.dataset] = _with_rows(old, section) if rows_only and old else section
    return Content(experiment=name, sections=list(kept.values()))


def _with_rows(section: Section, rerun: Section) -> Section:
    """A section with rows of a later call, each of which states how it was run."""
    again = Again(command=rerun.command, versions=rerun.versions)
    cases = {_compact(case.label): case for case in section.cases}
    cases |= {_compact(case.label): case.model_copy(update={"again": again}) for case in rerun.cases}
    return section.model_copy(update={"cases": list(cases.values())})


def write_content(folder: Path, content: Content) -> None:
    """Write the JSON of an experiment, one line per case."""
    parts = []
    for section in content.sections:
        head = section.model_dump(mode="json", exclude={"cases"})
        cases = ",\n".join(_compact(case.to_json()) for case in section.cases)
        parts.append(f'{_compact(head)[:-1]},"cases":[\n{cases}\n]}}')
    start = _compact({"schema": content.version, "experiment": content.experiment})[:-1]
    text = f'{start},"sections":[\n{",".join(parts)}\n]}}\n'
    write_atomic(folder / f"{content.experiment}.json", text.encode())


def _case(case: Case, run: CellRun, dataset: str) -> CaseResult:
    result, views = run.result, None
    if case.views and result is not None:
        views = parse_result(Views, read_object(run.folder / VIEWS), run.folder / VIEWS).views
    seconds = result.seconds if result is not None else None
    content = {} if result is None else result.to_json()
    # A path means nothing to readers elsewhere; the name of the file does.
    command = run.config.command(run.seeds).replace(shlex.quote(dataset), shlex.quote(Path(dataset).name), 1)
    record = {
        "case": dict(case.label),
        "method": run.config.method,
        "backbone": run.config.backbone,
        **{name: content.get(name) for name in (*METRICS, *_MEASURED)},
        "seconds": seconds
        and {"fit": seconds.fit / len(run.seeds), "predict": seconds.predict / len(run.seeds)},
        "views": [view.model_dump(mode="json") for view in views[0]] if views else None,
        "separation": [step.model_dump(mode="json") for step in _separation(views)] if views else None,
        "command": command,
        "error": run.error,
    }
    return CaseResult.model_validate(_rounded(record))


def _separation(views: Sequence[Sequence[View]]) -> list[Separation]:
    """How far classes are apart after each task, over seeds."""
    names = ("silhouette", "neighbors", "neighbors_within")
    return [
        Separation(
            after=step[0].after, **{name: summarize([getattr(view, name) for view in step]) for name in names}
        )
        for step in zip(*views, strict=True)
    ]


def _command(planned: PlannedSection, seeds: Sequence[int]) -> str:
    words = ["hpn", "reproduce", planned.experiment.name, "--datasets", Path(planned.dataset).name]
    words += seed_words(seeds)
    return shlex.join([*words, "--only", planned.only] if planned.only else words)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, Mapping):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(part) for part in value]
    return value
