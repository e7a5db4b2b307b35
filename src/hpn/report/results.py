"""Result files: read and checked, grouped into what may be compared, reduced to curves."""

from __future__ import annotations

import json
import reprlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from hpn.errors import DataError
from hpn.metrics import Summary, accuracy_means, average_retainings, summarize
from hpn.report.checks import OPTIONAL, result_faults, view_faults
from hpn.report.variants import variant_names

SCHEMA = 1
FILE_NAME = "result.json"
VIEWS_NAME = "views.json"

Result = Mapping[str, Any]


def load_result(path: Path) -> dict[str, Any]:
    """Read the result of a finished run.

    Args:
        path: A run folder, or the ``result.json`` in it.

    Returns:
        The result as stored; optional fields that are absent are ``None``. ``views`` is what the folder's
        ``views.json`` holds, if there is one.

    Raises:
        DataError: The run has not finished, or the file is not a result this version reads.
    """
    file = path / FILE_NAME if path.is_dir() else path
    result = _parse(_read(file), file)
    if result.get("schema") != SCHEMA:
        raise _error(
            f"{file} has schema {reprlib.repr(result.get('schema'))}, expected {SCHEMA}: "
            "read it with the hpn version that wrote it, or run its command again with this one"
        )
    for name in OPTIONAL:
        result.setdefault(name, None)
    if result.get("out") is None:
        result["out"] = str(file.parent)
    fault = next(result_faults(result), None)
    if fault is not None:
        raise _error(f"{file} is damaged ({fault}): run its command again")
    result["views"] = _load_views(file, len(result["tasks"]))
    return result


def group_results(results: Iterable[Result]) -> list[list[Result]]:
    """Split results into groups that may share a chart, in the order they first appear.

    Results are comparable when data set, scenario, evaluation, edges and tasks agree.
    """
    groups: dict[tuple[object, ...], list[Result]] = {}
    for result in results:
        tasks = tuple(tuple(task) for task in result["tasks"])
        key = (*(result[name] for name in ("dataset", "scenario", "evaluate", "edges")), tasks)
        groups.setdefault(key, []).append(result)
    return list(groups.values())


def label_results(results: Sequence[Result]) -> list[str]:
    """Name each result by method and backbone, and where that is not enough by what differs.

    Results of one method are told apart by the hyper-parameters that differ, if they are three or fewer,
    else by run folder; and by number where nothing else helps.

    Example:
        >>> hpn = {"method": "hpn", "backbone": None, "out": "runs/a"}
        >>> label_results([hpn, {"method": "ewc", "backbone": "gcn", "out": "runs/b"}])
        ['hpn', 'ewc · gcn']
        >>> label_results([hpn, {**hpn, "out": "runs/b"}, {**hpn, "out": "runs/b"}])
        ['hpn (a)', 'hpn (b)', 'hpn (b) #2']
        >>> label_results([{**hpn, "params": {"dim": dim}} for dim in (8, 16)])
        ['hpn (dim 8)', 'hpn (dim 16)']
    """
    bases = [method_label(result) for result in results]
    variants = _variants(results, bases)
    shared = Counter(zip(bases, variants, strict=True))
    labels = []
    for result, base, variant in zip(results, bases, variants, strict=True):
        folder = PurePath(str(result.get("out") or "")).name if shared[base, variant] > 1 else ""
        apart = ", ".join(filter(None, (variant, folder)))
        labels.append(f"{base} ({apart})" if apart else base)
    seen: Counter[str] = Counter()
    for i, label in enumerate(labels):
        seen[label] += 1
        if seen[label] > 1:
            labels[i] = f"{label} #{seen[label]}"
    return labels


def method_label(result: Result) -> str:
    """Method and backbone."""
    return " · ".join(filter(None, (result["method"], result.get("backbone"))))


def _variants(results: Sequence[Result], bases: Sequence[str]) -> list[str]:
    """What tells each result from the others of its method; empty where nothing short does."""
    variants = [""] * len(results)
    for base in dict.fromkeys(bases):
        members = [i for i, name in enumerate(bases) if name == base]
        names = variant_names([results[i].get("params") or {} for i in members])
        for i, name in zip(members, names, strict=True):
            variants[i] = name
    return variants


def class_names(result: Result, task: int) -> list[str]:
    """Names of the classes of a task, ``class 3`` where a class has none.

    Example:
        >>> class_names({"tasks": [[0, 1]], "class_names": {"0": "Theory"}}, 0)
        ['Theory', 'class 1']
    """
    names = result.get("class_names") or {}
    return [str(names.get(str(label), f"class {label}")) for label in result["tasks"][task]]


def all_class_names(result: Result) -> dict[int, str]:
    """Name of every class of the stream."""
    return {
        label: name
        for j, task in enumerate(result["tasks"])
        for label, name in zip(task, class_names(result, j), strict=True)
    }


def accuracy_curve(result: Result) -> list[Summary | None]:
    """AM after each task, in per cent, over seeds."""
    return _over_seeds([accuracy_means(matrix) for matrix in result["matrices"]])


def retaining_curve(result: Result) -> list[Summary | None]:
    """ARS after each task, in per cent, over seeds; ``None`` after the first.

    Where the result has no ARS, as for a learner that sees the past again and cannot forget it, the
    curve has none either.
    """
    if result.get("ars") is None:
        return [None] * len(result["tasks"])
    return _over_seeds(
        [
            [None if ratio is None else 100 * ratio for ratio in average_retainings(matrix)]
            for matrix in result["matrices"]
        ]
    )


def mean_matrix(result: Result) -> list[list[Summary | None]]:
    """The accuracy matrix over seeds."""
    num_tasks = len(result["tasks"])
    return [_over_seeds([m[i] for m in result["matrices"]]) for i in range(num_tasks)]


def prototype_growth(result: Result) -> dict[str, list[float | None]]:
    """Prototypes of each level after each task; empty for a learner that has none."""
    steps = [entry.get("prototypes") or {} for entry in result.get("growth") or []]
    levels = dict.fromkeys(level for step in steps for level in step)
    return {level: [step.get(level) for step in steps] for level in levels}


def first_views(result: Result) -> list[Mapping[str, Any]]:
    """Views of the first seed, in the order of the tasks; empty for a run without."""
    seeds = (result.get("views") or {}).get("views") or [[]]
    return sorted(seeds[0], key=lambda view: int(view["after"]))


def _over_seeds(rows: Sequence[Sequence[float | None]]) -> list[Summary | None]:
    return [summarize(column) for column in zip(*rows, strict=True)]


def _load_views(file: Path, num_tasks: int) -> dict[str, Any] | None:
    """Read the views beside a result, if it is in a run folder that has them."""
    beside = file.with_name(VIEWS_NAME)
    if file.name != FILE_NAME or not beside.exists():
        return None
    views = _parse(_read(beside), beside)
    fault = next(view_faults(views, num_tasks), None)
    if fault is not None:
        raise _error(f"{beside} is damaged ({fault}): delete it, or run its command again")
    return views


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        if file.name == FILE_NAME and file.parent.is_dir():
            raise _error(
                f"{file.parent} has no {FILE_NAME}, so the run has not finished: "
                "start its command again and let it end"
            ) from None
        raise _error(f"{file} does not exist: name a run folder or its {FILE_NAME}") from None
    except OSError as error:
        raise _error(f"{file} cannot be read ({error.strerror}): check its permissions") from None
    except UnicodeDecodeError:
        raise _not_json(file, "not UTF-8") from None


def _parse(text: str, file: Path) -> dict[str, Any]:
    try:
        result = json.loads(text)
    except json.JSONDecodeError as error:
        raise _not_json(file, f"line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise _not_json(file, str(error)) from None
    if not isinstance(result, dict):
        raise _not_json(file, f"expected an object, got {type(result).__name__}")
    return result


def _not_json(file: Path, why: str) -> DataError:
    return _error(f"{file} is not a JSON result ({why}): name a run folder, or run its command again")


def _error(message: str) -> DataError:
    return DataError(" ".join(message.split()))
