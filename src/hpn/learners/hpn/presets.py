"""The learner ``hpn``: its presets, and the hyper-parameters that each of them takes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field
from torch import Tensor

from hpn.errors import ConfigError
from hpn.learners.base import Learner
from hpn.nn.network import Levels
from hpn.params import LogRange, OneOf, SearchChoice
from hpn.streams import Query

Count = Annotated[int, Field(ge=1)]
Distance = Annotated[float, Field(ge=1e-5, le=1)]  # less is lost in single precision
Rate = Annotated[float, Field(ge=0)]
Preset = Literal["best", "paper", "large"]


WIDTHS = ((100_000, 2000), (300_000, 1000))
"""Random features of graphs with up to so many nodes; larger ones have ``LEAST_WIDTH``."""
LEAST_WIDTH = 500


@dataclass(frozen=True)
class SolvedSettings:
    """Hyper-parameters of the preset ``best``; see :class:`HPN` for what they mean."""

    width: int | None = None
    strength: float = 0.1
    balance: float = 0.75
    threshold_atomic: float = 0.003
    threshold_node: float = 0.01
    threshold_class: float = 0.1

    def fit_to(self, num_nodes: int) -> SolvedSettings:
        """The same with a width for graphs of so many nodes, unless it is given.

        Example:
            >>> [SolvedSettings().fit_to(count).width for count in (60_000, 170_000, 2_400_000)]
            [2000, 1000, 500]
        """
        if self.width is not None:
            return self
        return replace(self, width=next((w for most, w in WIDTHS if num_nodes <= most), LEAST_WIDTH))


@dataclass(frozen=True)
class Settings:
    """Hyper-parameters of the presets ``paper`` and ``large``; see :class:`HPN` for what they mean."""

    num_extractors: int
    num_selected: int
    dim: int
    threshold_atomic: float
    threshold_node: float
    threshold_class: float
    levels: Levels
    slots: Literal["drawn", "means"]
    drawn: str
    hops: int
    selection: Literal["similarity", "reserve"]
    retention: Literal["paper", "certified"]
    use_cls: bool
    alpha: float
    beta: float
    epochs: int
    warmup_epochs: int
    late_epoch: int
    lr: float
    lr_refine: float
    lr_prototypes: float
    lr_prototypes_late: float
    momentum: float
    batch_size: int
    piece_size: int
    keep: Literal["best", "last"]

    @property
    def counts(self) -> tuple[int, ...]:
        """Neighbours drawn from each hop, the nearest first."""
        return tuple(int(word) for word in self.drawn.split(","))

    @property
    def num_slots(self) -> int:
        """Atomic embeddings of a node."""
        structure = {"drawn": sum(self.counts), "means": self.hops}[self.slots]
        return self.num_selected * (1 + structure)


_PAPER = Settings(
    num_extractors=22,
    num_selected=1,
    dim=16,
    threshold_atomic=0.3,
    threshold_node=0.3,
    threshold_class=0.4,
    levels="ANC",
    slots="drawn",
    drawn="5,7",
    hops=2,
    selection="reserve",
    retention="paper",
    use_cls=True,
    alpha=1.0,
    beta=1.0,
    epochs=90,
    warmup_epochs=35,
    late_epoch=85,
    lr=0.1,
    lr_refine=0.001,
    lr_prototypes=0.1,
    lr_prototypes_late=0.01,
    momentum=0.0,
    batch_size=100,
    piece_size=2048,
    keep="last",
)

PRESETS = {
    "paper": _PAPER,
    "large": replace(
        _PAPER,
        num_extractors=64,
        dim=4,
        drawn="1",
        hops=1,
        epochs=10,
        warmup_epochs=0,
        lr_refine=0.3,
        batch_size=4000,
    ),
}
"""``paper``: what the paper states. ``large``: what it states for large graphs, its one neighbour, few
dimensions and few epochs; see docs/scaling.md."""


class HPN(Learner):
    """Hierarchical prototype network (Zhang, Song and Tao, IEEE TPAMI 2023).

    ``HPN(preset=…)`` makes one of two networks. ``best``, the default, is solved from sums of what was
    learned and answers with or without a task (:class:`~hpn.learners.hpn.solved.SolvedHPN`). ``paper`` and
    ``large`` are trained by gradient descent, as the paper has it
    (:class:`~hpn.learners.hpn.paper.PaperHPN`).

    Every argument but ``preset`` and ``seed`` may be left out: ``None`` is the preset's value. An argument
    that the preset does not use must be left out.

    Args:
        preset: ``best``, ``paper`` or ``large`` (the paper's settings for graphs of a hundred thousand nodes
            and more: one neighbour, few dimensions, few epochs).
        width: ``best``: random features of each bank of evidence. By default 2,000, 1,000 or 500, by the number
            of nodes of the graph that is learned first; see docs/scaling.md.
        strength: ``best``: regularisation of least squares, as a multiple of the mean squared length of the
            encoded training nodes.
        balance: ``best``: how much rare classes weigh; with 0 every node weighs the same, with 1 every class.
        threshold_atomic: Cosine distance t_A within which an embedding belongs to an atomic prototype.
        threshold_node: The same on the node level, t_N.
        threshold_class: The same on the class level, t_C.
        num_extractors: ``paper``, as all that follow: node extractors, and structure extractors, in all:
            l_a = l_r.
        num_selected: Extractors of each kind a task uses: l_a' = l_r'.
        dim: Dimension of every level: d_a = d_n = d_c.
        levels: Levels in the representation: ``A``, ``AN`` or ``ANC``.
        slots: What structure extractors see: ``drawn`` neighbours, or the ``means`` over hop 1, 2, … up to
            ``hops``.
        drawn: Neighbours drawn from hop 1, hop 2, …, as in ``5,7``.
        hops: The farthest hop of ``means``.
        selection: ``reserve`` (unused extractors while there are any, then the most similar) or
            ``similarity`` (always those whose embeddings are closest to the prototypes).
        retention: ``paper`` (later tasks may move what earlier ones use) or ``certified`` (never: with the
            task given, its predictions stay bit-identical).
        use_cls: Whether the classification loss is used.
        alpha: Weight of the divergence loss; 0 switches it off.
        beta: Weight of the distance loss; 0 switches it off.
        epochs: Passes over each task, warm-up included.
        warmup_epochs: Passes before prototypes are established.
        late_epoch: From this pass on, prototypes learn at ``lr_prototypes_late``.
        lr: Learning rate of extractors and layers in the warm-up.
        lr_refine: The same afterwards.
        lr_prototypes: Learning rate of prototypes.
        lr_prototypes_late: The same from ``late_epoch`` on.
        momentum: Momentum of gradient descent on extractors and layers.
        batch_size: Nodes of a step.
        piece_size: Nodes of a step that one process computes at once.
        keep: ``best`` (the state that did best on validation nodes after any epoch of the refinement) or
            ``last``.
        seed: Draws random features, initial weights, batches and neighbours.

    Example:
        >>> type(HPN()).__name__, type(HPN(preset="paper")).__name__
        ('SolvedHPN', 'PaperHPN')
    """

    shares_batches: ClassVar[bool] = True

    preset: Preset

    search_space: ClassVar[Mapping[str, SearchChoice]] = {
        "strength": LogRange(0.01, 1.0),
        "balance": OneOf(0.0, 0.5, 0.75, 1.0),
    }

    def __new__(cls, *, preset: Preset = "best", **_: Any) -> HPN:
        """Make the network that the preset stands for."""
        if cls is HPN:
            from hpn.learners.hpn import PaperHPN, SolvedHPN

            cls = SolvedHPN if preset == "best" else PaperHPN  # noqa: PLW0642
        return super().__new__(cls)

    def __init__(
        self,
        *,
        preset: Preset = "best",
        width: Count | None = None,
        strength: Annotated[float, Field(gt=0)] | None = None,
        balance: Annotated[float, Field(ge=0, le=1)] | None = None,
        threshold_atomic: Distance | None = None,
        threshold_node: Distance | None = None,
        threshold_class: Distance | None = None,
        num_extractors: Count | None = None,
        num_selected: Count | None = None,
        dim: Count | None = None,
        levels: Levels | None = None,
        slots: Literal["drawn", "means"] | None = None,
        drawn: Annotated[str, Field(pattern=r"^[1-9]\d*(,[1-9]\d*)*$")] | None = None,
        hops: Count | None = None,
        selection: Literal["similarity", "reserve"] | None = None,
        retention: Literal["paper", "certified"] | None = None,
        use_cls: bool | None = None,
        alpha: Rate | None = None,
        beta: Rate | None = None,
        epochs: Annotated[int, Field(ge=0)] | None = None,
        warmup_epochs: Annotated[int, Field(ge=0)] | None = None,
        late_epoch: Annotated[int, Field(ge=0)] | None = None,
        lr: Rate | None = None,
        lr_refine: Rate | None = None,
        lr_prototypes: Rate | None = None,
        lr_prototypes_late: Rate | None = None,
        momentum: Annotated[float, Field(ge=0, lt=1)] | None = None,
        batch_size: Count | None = None,
        piece_size: Count | None = None,
        keep: Literal["best", "last"] | None = None,
        seed: int = 0,
    ) -> None:
        stored = {name: value for name, value in locals().items() if name not in {"self", "__class__"}}
        super().__init__(seed=seed)
        vars(self).update(stored)

    @abstractmethod
    def represent(self, query: Query) -> Tensor | None:
        """The matched prototypes of all levels, side by side."""

    def __repr__(self) -> str:
        params = ", ".join(
            f"{name}={value!r}" for name, value in self.get_params().items() if value is not None
        )
        return f"HPN({params})"

    def given_params(self, applies: Any) -> dict[str, Any]:
        """The hyper-parameters that were given, all of which must be among those of a preset.

        Args:
            applies: The settings of the preset, a data class.

        Raises:
            ConfigError: If one is not.
        """
        known = applies.__dataclass_fields__
        given = {name: value for name, value in self.get_params().items() if value is not None}
        for name in given:
            if name not in known and name not in {"preset", "seed"}:
                raise ConfigError(
                    f"{name} does not apply to the preset {self.preset}; leave it out, "
                    f"or choose among: {', '.join(known)}"
                )
        return {name: value for name, value in given.items() if name in known}
