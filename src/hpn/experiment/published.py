"""What the paper reports for a data set, method and backbone, from ``published.yaml``."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Table = Literal["comparison", "levels", "losses", "matrices", "memory"]


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over repetitions, as percentages."""

    mean: float
    std: float


@dataclass(frozen=True)
class PublishedResult:
    """AM and FM of one cell of the paper's table; joint training has no FM."""

    am: Spread
    fm: Spread | None


def published_cell(dataset: str, method: str, backbone: str | None) -> PublishedResult | None:
    """The paper's AM and FM; ``None`` where it reports none."""
    return _cell(_find("cells", dataset, row_name(method, backbone)))


def published_ablation(ablation: Literal["levels", "losses"], dataset: str, conf: str) -> PublishedResult | None:
    """The paper's AM and FM of HPNs without some levels of prototypes, or some terms of the loss."""
    return _cell(_find(ablation, dataset, conf))


def published_matrix(dataset: str, method: str, backbone: str | None) -> list[list[float]] | None:
    """Accuracies that the paper prints task by task: a single run, row ``i`` after task ``i``."""
    found: list[list[float]] | None = deepcopy(_find("matrices", dataset, row_name(method, backbone)))
    return found


def published_parameters(method: str, backbone: str | None) -> int | None:
    """Final number of parameters that the paper reports on OGB-Products."""
    found: int | None = _find("parameters", row_name(method, backbone))
    return found


def published_memory() -> dict[str, Any]:
    """The bound on the parameters of HPNs that the paper draws, and their final number."""
    return {**_tables()["memory"], "hpn": published_parameters("hpn", None)}


def published_source(table: Table = "comparison") -> str:
    """The paper, and the table of it that numbers are from."""
    return f"{_tables()['paper']}, {_tables()['sources'][table]}"


def row_name(method: str, backbone: str | None) -> str:
    """A method with its backbone, as tables and recipes name it: ``ewc-gcn``, ``hpn``."""
    return f"{method}-{backbone}" if backbone else method


def _cell(found: Any) -> PublishedResult | None:
    return PublishedResult(Spread(**found["am"]), found["fm"] and Spread(**found["fm"])) if found else None


def _find(*keys: str) -> Any:
    """An entry of the tables, or ``None``."""
    found: Any = _tables()
    for key in keys:
        found = found.get(key, {})
    return found or None


@cache
def _tables() -> dict[str, Any]:
    import yaml  # takes a while, and showing results does not need it

    text = (files("hpn.experiment") / "published.yaml").read_text(encoding="utf-8")
    tables: dict[str, Any] = yaml.safe_load(text)
    return tables
