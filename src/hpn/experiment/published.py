"""What the paper reports for a data set, method and backbone, from ``published.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over repetitions, in per cent."""

    mean: float
    std: float


@dataclass(frozen=True)
class Cell:
    """AM and FM of one cell of the paper's table; joint training has no FM."""

    am: Spread
    fm: Spread | None


def published_cell(dataset: str, method: str, backbone: str | None) -> Cell | None:
    """What the paper reports; ``None`` where it reports nothing.

    Args:
        dataset: Name of a data set; never a path.
        method: Name of a learner; the paper's "None" is ``finetune``.
        backbone: Its backbone, if it has one.

    Example:
        >>> published_cell("cora", "mas", "gat")
        Cell(am=Spread(mean=84.7, std=0.7), fm=Spread(mean=-5.6, std=2.0))
        >>> published_cell("digits", "mas", "gat") is None
        True
    """
    found = _tables()["cells"].get(dataset, {}).get(row_name(method, backbone))
    if found is None:
        return None
    return Cell(am=Spread(**found["am"]), fm=None if found["fm"] is None else Spread(**found["fm"]))


def published_parameters(method: str, backbone: str | None) -> int | None:
    """Final number of parameters that the paper reports on OGB-Products.

    Example:
        >>> published_parameters("hpn", None)
        4908
    """
    found: int | None = _tables()["parameters"].get(row_name(method, backbone))
    return found


def published_source() -> str:
    """Where the cells are from."""
    source: str = _tables()["source"]
    return source


def row_name(method: str, backbone: str | None) -> str:
    """A method with its backbone, as tables and recipes name it: ``ewc-gcn``, ``hpn``."""
    return f"{method}-{backbone}" if backbone else method


@cache
def _tables() -> dict[str, Any]:
    text = (files("hpn.experiment") / "published.yaml").read_text(encoding="utf-8")
    tables: dict[str, Any] = yaml.safe_load(text)
    return tables
