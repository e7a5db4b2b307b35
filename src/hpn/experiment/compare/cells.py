"""The cells of a comparison: methods with their backbones, in order, and the run of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from hpn.datasets import Graph
from hpn.errors import ConfigError, nearest
from hpn.experiment.recipes import AUTO
from hpn.experiment.run.config import DATA_PREFIX, RunConfig, choose_method, resolve_config
from hpn.learners import LEARNERS, Learner
from hpn.learners.finding import find_learner, known_names
from hpn.nn.backbones import BACKBONES
from hpn.params import declared_params
from hpn.streams import STREAMS

ALL = "all"
Methods = str | type[Learner] | Sequence[str | type[Learner]]
ORDER = (
    *("finetune", "ewc", "lwf", "gem", "mas", "ergnn", "twp", "joint", "hpn"),  # the paper's table
    *("probe", "ncm", "ridge"),
)


class MethodCell(NamedTuple):
    """A method, with a backbone if it has one."""

    method: str
    backbone: str | None

    def __str__(self) -> str:
        return f"{self.method}:{self.backbone}" if self.backbone else self.method


def choose_cells(
    methods: Methods = ALL, backbones: str | Sequence[str] = tuple(BACKBONES), *, stream: str = "tasks"
) -> list[MethodCell]:
    """Write out a choice of methods, in the order of the paper's table; other methods come last.

    Args:
        methods: ``all``, or names of learners, each as it is (every backbone) or as ``name:backbone``, or
            ``MODULE:CLASS`` or a class for one of your own; a string may hold several, with commas.
        backbones: Backbones of the methods that have one and are given without.
        stream: The kind of stream; ``all`` leaves out methods that cannot learn it.

    Raises:
        ConfigError: If a method or backbone is unknown, or none is given.
    """
    has_tasks = stream not in STREAMS or STREAMS[stream].has_tasks
    known = [name for name, learner in LEARNERS.items() if has_tasks or not learner.needs_tasks]
    names = [name for word in _words(methods) for name in (known if word == ALL else [word])]
    usual, cells = _words(backbones), set()
    for name in names:
        method, colon, backbone = name.partition(":")
        if method not in known_names():  # MODULE:CLASS
            method, colon, backbone = name, "", ""
        if "backbone" not in declared_params(find_learner(method)[1]):
            if colon:
                raise ConfigError(f"{method} has no backbone; write {method} instead of {name}")
            cells.add(MethodCell(method, None))
        elif colon or usual:
            cells |= {MethodCell(method, one) for one in ([backbone] if colon else usual)}
        else:
            raise ConfigError(f"{method} needs a backbone; known: {', '.join(BACKBONES)}")
    if not cells:
        raise ConfigError("no method given; name one or more, or all")
    for backbone in [*usual, *(cell.backbone for cell in cells if cell.backbone is not None)]:
        if backbone not in BACKBONES:
            hint = f"{nearest(backbone, BACKBONES)}known: {', '.join(BACKBONES)}"
            raise ConfigError(f"unknown backbone {backbone!r}; {hint}")
    order = [*ORDER, *sorted({cell.method for cell in cells} - set(ORDER))]
    return sorted(cells, key=lambda one: (order.index(one.method), [None, *BACKBONES].index(one.backbone)))


def resolve_cells(
    dataset: str,
    cells: Sequence[MethodCell],
    *,
    settings: Mapping[str, Any] | None = None,
    use_recipes: bool = True,
    data_root: Path | None = None,
    **protocol: Any,
) -> tuple[list[RunConfig], Graph]:
    """The run of each cell, with arguments as :func:`hpn.compare` takes them; the data is loaded once."""
    options, given = _split_settings(settings or {}, cells)
    shared, graph = resolve_config(
        dataset, method=cells[0].method, settings=options, recipe=None, data_root=data_root, **protocol
    )
    return [with_cell(shared, cell, given[cell.method], use_recipes=use_recipes) for cell in cells], graph


def with_cell(
    config: RunConfig, cell: MethodCell, settings: Mapping[str, Any], *, use_recipes: bool = True
) -> RunConfig:
    """The run of a cell with these hyper-parameters, on the data and under the protocol of ``config``."""
    name, learner = find_learner(cell.method)
    given = {**settings, **({"backbone": cell.backbone} if cell.backbone else {})}
    kind, recipe = config.kind, AUTO if use_recipes else None
    ahead = config.ahead > kind.num_ahead
    return replace(
        config, **choose_method(name, learner, given, config.dataset, kind, config.scenario, ahead=ahead, recipe=recipe)
    )


def _split_settings(
    settings: Mapping[str, Any], cells: Sequence[MethodCell]
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Options of the data set, and hyper-parameters by method."""
    options: dict[str, Any] = {}
    given: dict[str, dict[str, Any]] = {cell.method: {} for cell in cells}
    for name, value in settings.items():
        method, dot, key = name.partition(".")
        if name.startswith(DATA_PREFIX):
            options[name] = value
        elif not dot:
            raise ConfigError(f"setting {name!r} names no method; write METHOD.{name}, or data.{name}")
        elif method not in given:
            raise ConfigError(
                f"setting {name!r} is of a method that is not compared; {nearest(method, given)}"
                f"compared: {', '.join(given)}"
            )
        elif key == "backbone":
            raise ConfigError(f"backbones are not set; write {method}:{value} among the methods")
        else:
            given[method][key] = value
    return options, given


def _words(given: Methods) -> list[str]:
    listed = [given] if isinstance(given, str | type) else given
    parts = [part if isinstance(part, str) else find_learner(part)[0] for part in listed]
    return [word.strip() for part in parts for word in part.split(",") if word.strip()]
