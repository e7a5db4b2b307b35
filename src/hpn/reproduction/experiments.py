"""The experiments of the paper and its supplement, from ``experiments.yaml``.

X. Zhang, D. Song, D. Tao, *Hierarchical Prototype Networks for Continual Graph Representation Learning*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict

from hpn.datasets import Graph
from hpn.errors import ConfigError, nearest
from hpn.experiment.compare.cells import MethodCell, choose_cells
from hpn.learners.hpn.paper import PaperHPN

HPN = MethodCell("hpn", None)


class Entry(BaseModel):
    """An entry of a YAML file of this package; a key that is not expected is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def read_yaml(name: str) -> Any:
    """The content of a YAML file of this package."""
    return yaml.safe_load((files("hpn.reproduction") / name).read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Case:
    """One run of an experiment, over its seeds."""

    label: Mapping[str, Any]  # what distinguishes it from the other cases of the experiment
    cell: MethodCell
    settings: Mapping[str, Any]  # hyper-parameters that differ from the defaults
    views: bool = False  # whether the test nodes are drawn after each task

    def __str__(self) -> str:
        rest = {key: value for key, value in self.label.items() if key not in {"method", "backbone"} and value}
        return " ".join([str(self.cell), *(f"{key}={value}" for key, value in rest.items())])

    @property
    def words(self) -> tuple[str, ...]:
        """The values of ``--only`` that select it: its method and, of ``hpn``, its preset."""
        preset = self.label.get("preset") or self.settings.get("preset")
        return (self.cell.method, preset) if preset else (self.cell.method,)


class CaseGroup(Entry):
    """Cases that are described together; ``experiments.yaml`` explains the fields."""

    methods: str | list[str] | None = None
    presets: list[str] = ["paper"]
    grids: list[dict[str, list[Any]]] = []
    variants: dict[str, dict[str, dict[str, Any]]] = {}

    def expand(self) -> Iterator[tuple[dict[str, Any], MethodCell, str | None, dict[str, Any]]]:
        """The label, cell, preset and settings of each case."""
        for cell in choose_cells(self.methods) if self.methods else ():
            for preset in self.presets if cell == HPN else (None,):
                yield {"method": cell.method, "backbone": cell.backbone, "preset": preset}, cell, preset, {}
        for preset in () if self.methods else self.presets:
            for grid in self.grids:
                for values in product(*grid.values()):
                    point = dict(zip(grid, values, strict=True))
                    yield point, HPN, preset, point
            for key, variants in self.variants.items():
                for name, settings in variants.items():
                    yield {"preset": preset, key: name}, HPN, preset, settings
            if not self.grids and not self.variants:
                yield {"preset": preset}, HPN, preset, {}


class Show(Entry):
    """A part of a section of a page: a table of cases with columns, another table, or figures."""

    columns: list[str] = []
    heads: dict[str, str] = {}
    bold: str | None = None
    table: str | None = None
    figures: str | None = None
    title: str | None = None


class Experiment(Entry):
    """A table or figure of the paper; ``experiments.yaml`` explains the fields."""

    name: str
    title: str
    paper: str
    about: str
    datasets: tuple[str, ...]
    groups: list[CaseGroup]
    remarks: list[str]
    shows: list[Show]
    overview: Show | None = None
    views: bool = False
    published: Literal["cells", "levels", "losses", "matrices"] | None = None
    unjudged: str = "The paper prints no number that one of these can be compared with."

    def words(self) -> dict[str, str]:
        """The texts of ``hpn reproduce list``."""
        return {"title": self.title, "paper": self.paper, "about": self.about}

    def cases(self, graph: Graph) -> list[Case]:
        """What is run on a graph; settings that the paper's preset has anyway are left out."""
        usual, cases = PaperHPN(), []
        for label, cell, preset, settings in (case for group in self.groups for case in group.expand()):
            chosen = dict(_FILE["presets"][preset]) if preset else {}
            if "preset" in chosen and graph.num_nodes >= _FILE["large"]["nodes"]:
                chosen |= _FILE["large"]["settings"]
            chosen |= {key: value for key, value in settings.items() if value != getattr(usual, key)}
            cases.append(Case(label, cell, chosen, self.views))
        return cases


_FILE = read_yaml("experiments.yaml")
EXPERIMENTS = {name: Experiment(name=name, **entry) for name, entry in _FILE["experiments"].items()}


def choose_experiments(names: Iterable[str]) -> list[Experiment]:
    """Experiments by name, in the order of the list; ``all`` for all of them.

    Raises:
        ConfigError: If a name is unknown, or none is given.
    """
    wanted = set(names)
    if not wanted:
        raise ConfigError("no experiment given; name one or more, or all (hpn reproduce list)")
    for name in sorted(wanted - {"all", *EXPERIMENTS}):
        known = ", ".join([*EXPERIMENTS, "all"])
        raise ConfigError(f"unknown experiment {name!r}; {nearest(name, EXPERIMENTS)}known: {known}")
    return [entry for entry in EXPERIMENTS.values() if "all" in wanted or entry.name in wanted]
