"""Hyper-parameters of hierarchical prototype networks, and the two presets they default to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from hpn.nn.network import Levels

Count = Annotated[int, Field(ge=1)]
Distance = Annotated[float, Field(ge=1e-5, le=1)]  # less is lost in single precision
Rate = Annotated[float, Field(ge=0)]


@dataclass(frozen=True)
class Settings:
    """Every hyper-parameter with a value; see :class:`hpn.learners.HPN` for what they mean."""

    num_extractors: int
    num_selected: int
    dim: int
    threshold_atomic: float
    threshold_node: float
    threshold_class: float
    levels: Levels
    slots: Literal["drawn", "means", "reach"]
    drawn: str
    hops: int
    selection: Literal["similarity", "reserve"]
    retention: Literal["paper", "certified"]
    warmup: Literal["epochs", "solve"]
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
        structure = {"drawn": sum(self.counts), "means": self.hops, "reach": 1}[self.slots]
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
    warmup="epochs",
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
    "best": Settings(
        num_extractors=64,
        num_selected=1,
        dim=16,
        threshold_atomic=0.01,
        threshold_node=0.01,
        threshold_class=0.05,
        levels="ANC",
        slots="reach",
        drawn="5,7",
        hops=3,
        selection="reserve",
        retention="certified",
        warmup="solve",
        use_cls=True,
        alpha=1.0,
        beta=1.0,
        epochs=10,
        warmup_epochs=0,
        late_epoch=8,
        lr=0.01,
        lr_refine=0.01,
        lr_prototypes=0.1,
        lr_prototypes_late=0.01,
        momentum=0.9,
        batch_size=4096,
        piece_size=2048,
        keep="best",
    ),
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
"""``paper``: what the paper states. ``best``: chosen on validation nodes; see docs/hpn.md. ``large``: what
the paper states for large graphs, its one neighbour, few dimensions and few epochs; see docs/scaling.md."""


class HPNParams:
    """The keyword-only constructor that the learner and the estimator share; it only stores."""

    def __init__(
        self,
        *,
        preset: Literal["best", "paper", "large"] = "best",
        num_extractors: Count | None = None,
        num_selected: Count | None = None,
        dim: Count | None = None,
        threshold_atomic: Distance | None = None,
        threshold_node: Distance | None = None,
        threshold_class: Distance | None = None,
        levels: Levels | None = None,
        slots: Literal["drawn", "means", "reach"] | None = None,
        drawn: Annotated[str, Field(pattern=r"^[1-9]\d*(,[1-9]\d*)*$")] | None = None,
        hops: Count | None = None,
        selection: Literal["similarity", "reserve"] | None = None,
        retention: Literal["paper", "certified"] | None = None,
        warmup: Literal["epochs", "solve"] | None = None,
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
        self.preset = preset
        self.num_extractors = num_extractors
        self.num_selected = num_selected
        self.dim = dim
        self.threshold_atomic = threshold_atomic
        self.threshold_node = threshold_node
        self.threshold_class = threshold_class
        self.levels = levels
        self.slots = slots
        self.drawn = drawn
        self.hops = hops
        self.selection = selection
        self.retention = retention
        self.warmup = warmup
        self.use_cls = use_cls
        self.alpha = alpha
        self.beta = beta
        self.epochs = epochs
        self.warmup_epochs = warmup_epochs
        self.late_epoch = late_epoch
        self.lr = lr
        self.lr_refine = lr_refine
        self.lr_prototypes = lr_prototypes
        self.lr_prototypes_late = lr_prototypes_late
        self.momentum = momentum
        self.batch_size = batch_size
        self.piece_size = piece_size
        self.keep = keep
        self.seed = seed

    def settings(self) -> Settings:
        """Every hyper-parameter: as given, else as the preset has it."""
        given = {name: getattr(self, name) for name in Settings.__dataclass_fields__}
        return replace(
            PRESETS[self.preset], **{name: value for name, value in given.items() if value is not None}
        )
