"""The learner ``hpn``: the network of each preset."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field
from torch import Tensor

from hpn.errors import ConfigError, nearest
from hpn.learners.base import Learner
from hpn.streams import Query

Count = Annotated[int, Field(ge=1)]
Distance = Annotated[float, Field(ge=1e-5, le=1)]  # less is lost in single precision
Rate = Annotated[float, Field(ge=0)]

WIDTHS = ((100_000, 2000), (300_000, 1000))
"""Number of random features for graphs with up to this many nodes; larger ones have ``LEAST_WIDTH``."""
LEAST_WIDTH = 500


@dataclass(frozen=True)
class SolvedSettings:
    """Hyper-parameters of the preset ``best``; see :class:`hpn.learners.hpn.SolvedHPN`."""

    width: int | None = None
    strength: float = 0.1
    balance: float = 0.75
    threshold_atomic: float = 0.003
    threshold_node: float = 0.01
    threshold_class: float = 0.1

    def fit_to(self, num_nodes: int) -> SolvedSettings:
        """The same with the width for graphs with this many nodes, unless a width is given."""
        if self.width is not None:
            return self
        return replace(self, width=next((w for most, w in WIDTHS if num_nodes <= most), LEAST_WIDTH))


class HPN(Learner):
    """Hierarchical prototype network (Zhang, Song and Tao, IEEE TPAMI 2023).

    ``HPN(preset="best")``, the default, is solved from sums over learned nodes and predicts with or without a task:
    :class:`~hpn.learners.hpn.SolvedHPN`. ``HPN(preset="paper")`` is trained by gradient descent, as in the paper:
    :class:`~hpn.learners.hpn.PaperHPN`. Each has its own hyper-parameters.

    Example:
        >>> type(HPN()).__name__, type(HPN(preset="paper", dim=8)).__name__
        ('SolvedHPN', 'PaperHPN')
    """

    preset: str

    def __new__(cls, **params: Any) -> HPN:
        """Make the network of the preset."""
        return super().__new__(cls.variant(params))

    @classmethod
    def variants(cls) -> dict[str, type[HPN]]:
        """The presets by name."""
        from hpn.learners.hpn import PaperHPN, SolvedHPN

        return {"best": SolvedHPN, "paper": PaperHPN}

    @classmethod
    def variant(cls, params: Mapping[str, Any]) -> type[HPN]:
        """The class of the preset among some hyper-parameters."""
        if cls is not HPN:
            return cls
        name, known = params.get("preset", "best"), cls.variants()
        if name not in known:
            raise ConfigError(f"unknown preset {name!r}; {nearest(str(name), known)}known: {', '.join(known)}")
        return known[name]

    @abstractmethod
    def represent(self, query: Query) -> Tensor | None:
        """The matched prototypes of all levels, side by side."""
