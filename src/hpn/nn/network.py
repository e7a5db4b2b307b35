r"""The network: extractors, three levels of prototypes, and a classifier on all of them.

For a node :math:`v` with atomic embeddings :math:`e_1, \dots, e_s`,

.. math::
    a_i = p_A(e_i) \qquad
    n = p_N\bigl(W_N [a_1 \oplus \dots \oplus a_s]\bigr) \qquad
    c = p_C(W_C\, n) \qquad
    z = W [a_1 \oplus \dots \oplus a_s \oplus n \oplus c]

where :math:`p_L` finds the nearest prototype of a level and :math:`z` are the logits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hpn.nn.prototypes import PrototypeBook
from hpn.nn.snapping import snap, unit

INITIAL_SCALE = 0.3
"""Spread of initial extractors. Only directions count: a smaller one means larger steps at the same rate."""

Levels = Literal["A", "AN", "ANC"]
Visible = tuple[int, int, int]


@dataclass(frozen=True)
class Selection:
    """What a task uses, remembered with it.

    Args:
        node: Its node extractors.
        structure: Its structure extractors.
        visible: Prototypes of each level that existed when it was learned.
        lengths: Usual length of its atomic embeddings, one a slot.
    """

    node: tuple[int, ...]
    structure: tuple[int, ...]
    visible: Visible | None = None
    lengths: tuple[float, ...] = ()

    @classmethod
    def restore(cls, entry: Mapping[str, Any]) -> Selection:
        """Make it again of what :func:`dataclasses.asdict` made of it, lists for tuples."""
        return cls(
            node=tuple(entry["node"]),
            structure=tuple(entry["structure"]),
            visible=None if entry["visible"] is None else tuple(entry["visible"]),
            lengths=tuple(entry["lengths"]),
        )


@dataclass(eq=False)
class Level:
    """One level's part of a forward pass.

    Shapes:
        - ``embeddings``, ``values``: ``[n, dim]``, before and after matching
        - ``index``, ``cosine``: ``[n]``; empty before prototypes exist
        - ``prototypes``: ``[num_prototypes, dim]``, a leaf that collects a gradient
    """

    embeddings: Tensor
    values: Tensor
    index: Tensor
    cosine: Tensor
    prototypes: Tensor


@dataclass(eq=False)
class Pass:
    """What a forward pass gives: the levels in use, their concatenation, and logits."""

    levels: list[Level]
    representation: Tensor
    logits: Tensor


Stages = Generator[Tensor, None, Pass]


def finish_pass(stages: Stages) -> Pass:
    """Go through the levels that are left."""
    try:
        while True:
            next(stages)
    except StopIteration as stop:
        passed: Pass = stop.value
        return passed


class PrototypeNetwork(nn.Module):
    """Hierarchical prototype network.

    ============================  ==========================
    paper                         attribute
    ============================  ==========================
    AFE node, A_i                 ``node_extractors``
    AFE struct, R_j               ``structure_extractors``
    P_A, P_N, P_C                 ``atomic_prototypes``, ``node_prototypes``, ``class_prototypes``
    FC A→N, FC N→C                ``to_node``, ``to_class``
    FC (classifier)               ``head``
    ============================  ==========================

    Args:
        num_features: Features a node has, d_v.
        num_outputs: Logits.
        num_extractors: Extractors of each kind, l_a = l_r.
        num_slots: Atomic embeddings of a node.
        dim: Dimension of every level, d_a = d_n = d_c.
        thresholds: t_A, t_N, t_C.
        levels: ``A``, ``AN`` or ``ANC``.
    """

    def __init__(
        self,
        num_features: int,
        num_outputs: int,
        *,
        num_extractors: int,
        num_slots: int,
        dim: int,
        thresholds: tuple[float, float, float],
        levels: Levels = "ANC",
    ) -> None:
        super().__init__()
        self.dim = dim
        self.levels = levels
        shape = (num_extractors, num_features, dim)
        scale = INITIAL_SCALE * num_features**-0.5
        self.node_extractors = nn.Parameter(torch.randn(shape) * scale)
        self.structure_extractors = nn.Parameter(torch.randn(shape) * scale)
        self.atomic_prototypes = PrototypeBook(dim, thresholds[0])
        self.node_prototypes = PrototypeBook(dim, thresholds[1])
        self.class_prototypes = PrototypeBook(dim, thresholds[2])
        width = num_slots * dim
        self.to_node = nn.Linear(width, dim)
        self.to_class = nn.Linear(dim, dim)
        self.head = nn.Linear(width + dim * (len(levels) - 1), num_outputs)

    @property
    def books(self) -> tuple[PrototypeBook, PrototypeBook, PrototypeBook]:
        """The three levels."""
        return self.atomic_prototypes, self.node_prototypes, self.class_prototypes

    @property
    def books_in_use(self) -> tuple[PrototypeBook, ...]:
        """Those of the levels in use."""
        return self.books[: len(self.levels)]

    @property
    def extractors(self) -> tuple[nn.Parameter, nn.Parameter]:
        """Node and structure extractors."""
        return self.node_extractors, self.structure_extractors

    @property
    def shared_parameters(self) -> dict[str, nn.Parameter]:
        """What all tasks use, by name: the layers between the levels in use, and the classifier."""
        layers = {"N": ("to_node", self.to_node), "C": ("to_class", self.to_class)}
        used = [layers[level] for level in self.levels[1:]] + [("head", self.head)]
        return {
            f"{name}.{part}": parameter
            for name, layer in used
            for part, parameter in layer.named_parameters()
        }

    def get_extractors(self, selection: Selection) -> tuple[Tensor, Tensor]:
        """Copies of the selected extractors, ``[num_selected, num_features, dim]`` each."""
        node = self.node_extractors.detach()[list(selection.node)]
        return node, self.structure_extractors.detach()[list(selection.structure)]

    @torch.no_grad()
    def put_extractors(self, selection: Selection, node: Tensor, structure: Tensor) -> None:
        """Write the selected extractors."""
        self.node_extractors[list(selection.node)] = node.detach()
        self.structure_extractors[list(selection.structure)] = structure.detach()

    def forward(
        self,
        raw: Tensor,
        visible: Visible | None = None,
        grow_for: int | None = None,
        layout: Tensor | None = None,
    ) -> Pass:
        """Compute representation and logits from atomic embeddings.

        Args:
            raw: Atomic embeddings, of any length ``[n, num_slots, dim]``.
            visible: Prototypes of each level to look at; ``None`` is all of them.
            grow_for: Found prototypes for what is not covered yet, in the name of this task.
            layout: Which atomic embedding is in which slot ``[n, num_slots]``, if ``raw`` has each only once.
        """
        stages = self.stages(raw, visible, layout)
        for book in self.books_in_use:
            embeddings = next(stages)
            if grow_for is not None:
                book.cover(embeddings, grow_for)
        return finish_pass(stages)

    def stages(self, raw: Tensor, visible: Visible | None = None, layout: Tensor | None = None) -> Stages:
        """A forward pass that stops before each level, so that prototypes may be founded there.

        Yields:
            The embeddings that are about to be matched, of length 1.
        """
        atomic = yield from self._match(0, raw.reshape(-1, self.dim), visible)
        passed, parts = [atomic], [self._lay_out(atomic.values, layout)]
        if "N" in self.levels:
            passed.append((yield from self._match(1, self.to_node(parts[0]), visible)))
        if "C" in self.levels:
            passed.append((yield from self._match(2, self.to_class(passed[1].values), visible)))
        parts += [level.values for level in passed[1:]]
        representation = torch.cat(parts, dim=1)
        return Pass(passed, representation, self.head(representation))

    @property
    def is_empty(self) -> bool:
        """Whether a level in use has no prototypes yet."""
        return any(len(book) == 0 for book in self.books_in_use)

    def covers(self, passed: Pass) -> bool:
        """Whether everything in a pass is near enough to the prototype it was matched to."""
        levels = zip(self.books, passed.levels, strict=False)
        return all(float(level.cosine.detach().amin()) >= book.nearly for book, level in levels)

    def warm_up(self, raw: Tensor, layout: Tensor | None = None) -> Tensor:
        """Logits before prototypes exist: embeddings stand in for them."""
        atomic = self._lay_out(unit(raw), layout)
        parts = [atomic]
        if "N" in self.levels:
            parts.append(unit(self.to_node(atomic)))
        if "C" in self.levels:
            parts.append(unit(self.to_class(parts[1])))
        logits: Tensor = self.head(torch.cat(parts, dim=1))
        return logits

    def digest(self, selection: Selection, columns: list[int]) -> str:
        """Hash of every number that predictions with a selection, for some columns of the head, depend on."""
        parts = list(self.get_extractors(selection))
        for name, layer in self.shared_parameters.items():
            parts.append(layer[columns] if name.startswith("head.") else layer)
        seen = selection.visible or (0, 0, 0)
        parts += [book.vectors[:size] for book, size in zip(self.books, seen, strict=True)]
        digest = hashlib.sha256(repr(selection).encode())
        for part in parts:
            digest.update(part.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def grow_head(self, num_outputs: int) -> None:
        """Append logits; those there already stay as they are."""
        old = self.head
        if num_outputs > old.out_features:
            self.head = nn.Linear(old.in_features, num_outputs, device="cpu").to(old.weight.device)
            with torch.no_grad():
                self.head.weight[: old.out_features] = old.weight
                self.head.bias[: old.out_features] = old.bias

    def _match(self, level: int, raw: Tensor, visible: Visible | None) -> Generator[Tensor, None, Level]:
        book = self.books[level]
        with torch.no_grad():
            embeddings = unit(raw)
        yield embeddings
        index, cosine = book.match(embeddings, visible[level] if visible else None)
        prototypes = book.vectors.detach()
        if not torch.is_grad_enabled():
            return Level(embeddings, prototypes[index], index, cosine, prototypes)
        values, cosine = snap(raw, embeddings, prototypes.requires_grad_(), index)
        return Level(embeddings, values, index, cosine, prototypes)

    def _lay_out(self, values: Tensor, layout: Tensor | None) -> Tensor:
        """One row a node: the values in its slots, side by side."""
        flat = values if layout is None else values.index_select(0, layout.flatten())
        width = self.to_node.in_features
        return flat.reshape(flat.numel() // width, width)
