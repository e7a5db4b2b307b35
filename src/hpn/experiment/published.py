"""What the paper reports for a data set, method and backbone, from ``published.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypedDict

Table = Literal["comparison", "levels", "losses", "matrices", "memory"]


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


class Memory(TypedDict):
    """Parameters of HPNs: the data set, the most there can be, and how many there were at the end."""

    dataset: str
    bound: int
    hpn: int


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
    return _cell(_tables()["cells"].get(dataset, {}).get(row_name(method, backbone)))


def published_ablation(ablation: Literal["levels", "losses"], dataset: str, conf: str) -> Cell | None:
    """What the paper reports for HPNs without some of their parts; ``None`` where it reports nothing.

    Args:
        ablation: What was left out: levels of prototypes, or terms of the loss.
        dataset: Name of a data set; never a path.
        conf: What was left in: ``A``, ``AN`` or ``ANC``; ``cls`` with or without ``+div`` and ``+dis``.

    Example:
        >>> published_ablation("losses", "ogbn-arxiv", "cls+div")
        Cell(am=Spread(mean=82.3, std=1.0), fm=Spread(mean=0.4, std=0.9))
        >>> published_ablation("levels", "citeseer", "AN") is None
        True
    """
    return _cell(_tables()[ablation].get(dataset, {}).get(conf))


def published_matrix(dataset: str, method: str, backbone: str | None) -> list[list[float]] | None:
    """Accuracies that the paper prints task by task: a single run, row ``i`` after task ``i``.

    Example:
        >>> published_matrix("cora", "mas", "gat")
        [[94.12], [90.5, 77.97], [90.05, 70.84, 93.25]]
        >>> published_matrix("cora", "mas", "gcn") is None
        True
    """
    found = _tables()["matrices"].get(dataset, {}).get(row_name(method, backbone))
    return None if found is None else [list(row) for row in found]


def published_parameters(method: str, backbone: str | None) -> int | None:
    """Final number of parameters that the paper reports on OGB-Products.

    Example:
        >>> published_parameters("hpn", None)
        4908
    """
    found: int | None = _tables()["parameters"].get(row_name(method, backbone))
    return found


def published_memory() -> Memory:
    """The bound on the parameters of HPNs that the paper draws, and their final number.

    Example:
        >>> published_memory()
        {'dataset': 'ogbn-products', 'bound': 6163, 'hpn': 4908}
    """
    tables = _tables()
    memory, hpn = tables["memory"], tables["parameters"]["hpn"]
    return {"dataset": memory["dataset"], "bound": memory["bound"], "hpn": hpn}


def published_source(table: Table = "comparison") -> str:
    """The paper, and the table of it that numbers are from.

    Example:
        >>> published_source("losses").partition("Learning, ")[2]
        'tables "Ablation study on different loss terms over Cora" and "… over OGB-Arxiv"'
    """
    tables = _tables()
    return f"{tables['paper']}, {tables['sources'][table]}"


def row_name(method: str, backbone: str | None) -> str:
    """A method with its backbone, as tables and recipes name it: ``ewc-gcn``, ``hpn``."""
    return f"{method}-{backbone}" if backbone else method


def _cell(found: dict[str, Any] | None) -> Cell | None:
    if found is None:
        return None
    return Cell(am=Spread(**found["am"]), fm=None if found["fm"] is None else Spread(**found["fm"]))


@cache
def _tables() -> dict[str, Any]:
    import yaml  # takes a while, and showing results does not need it

    text = (files("hpn.experiment") / "published.yaml").read_text(encoding="utf-8")
    tables: dict[str, Any] = yaml.safe_load(text)
    return tables
