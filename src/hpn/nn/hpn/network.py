r"""The network: extractors, three levels of prototypes, and a classifier on all of them (Section 3.3).

For a node with atomic embeddings :math:`e_1, \dots, e_s`,

.. math::
    a_i = p_A(e_i) \qquad
    n = p_N\bigl(\mathrm{FC}_{A \to N}(a_1 \oplus \dots \oplus a_s)\bigr) \qquad
    c = p_C\bigl(\mathrm{FC}_{N \to C}(n)\bigr) \qquad
    P_H = a_1 \oplus \dots \oplus a_s \oplus n \oplus c

where :math:`p_L` finds the nearest prototype of a level and the classifier sees :math:`P_H` (Eq. 11).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from hpn.nn.hpn.codebook import Codebook, unit

INITIAL_SCALE = 0.3
"""Spread of initial extractors. Only directions count: a smaller one means larger steps at the same rate."""

Levels = Literal["A", "AN", "ANC"]


@dataclass(eq=False)
class Output:
    """What a forward pass gives.

    Shapes:
        - ``logits``: ``[n, num_outputs]``
        - ``representation``: :math:`P_H` of each node ``[n, (num_slots + num_levels - 1) * dim]``
        - ``embeddings``, ``matched``, ``cosines``: per level ``[m, dim]``, ``[m, dim]`` and ``[m]``: unit
          vectors, the prototypes they were matched to, and their cosines (without gradient); the latter two
          are empty before there are prototypes
    """

    logits: Tensor
    representation: Tensor
    embeddings: list[Tensor]
    matched: list[Tensor]
    cosines: list[Tensor]


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
        num_features: Features of a node, d_v.
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
        scale = INITIAL_SCALE * num_features**-0.5
        node, structure = torch.randn(2, num_extractors, num_features, dim) * scale
        self.node_extractors = nn.ParameterList(node.unbind())
        self.structure_extractors = nn.ParameterList(structure.unbind())
        self.atomic_prototypes, self.node_prototypes, self.class_prototypes = (
            Codebook(dim, threshold) for threshold in thresholds
        )
        width = num_slots * dim
        self.to_node = nn.Linear(width, dim)
        self.to_class = nn.Linear(dim, dim)
        self.head = nn.Linear(width + dim * (len(levels) - 1), num_outputs)

    @property
    def codebooks(self) -> tuple[Codebook, ...]:
        """The prototypes of the levels in use."""
        return (self.atomic_prototypes, self.node_prototypes, self.class_prototypes)[: len(self.levels)]

    @property
    def layers(self) -> nn.ModuleList:
        """What all tasks share: the layers between the levels in use, and the classifier."""
        return nn.ModuleList([*[self.to_node, self.to_class][: len(self.levels) - 1], self.head])

    def forward(
        self,
        atomic: Tensor,
        *,
        task: int | None = None,
        visible: Sequence[int] | None = None,
        use_prototypes: bool = True,
    ) -> Output:
        """Compute representations and logits from atomic embeddings.

        Args:
            atomic: Atomic embeddings, of any length ``[n, num_slots, dim]``.
            task: Add prototypes for what is not covered, in the name of this task; ``None`` adds none.
            visible: How many prototypes of each level to look at; ``None`` is all of them.
            use_prototypes: Whether embeddings are matched; before prototypes exist they stand for themselves.
        """
        parts: list[Tensor] = []
        output = Output(atomic, atomic, [], [], [])
        raw = atomic.reshape(-1, self.dim)
        for number, codebook in enumerate(self.codebooks):
            if number:
                raw = (self.to_node, self.to_class)[number - 1](parts[-1])
            embeddings = unit(raw)
            output.embeddings.append(embeddings)
            values = embeddings
            if use_prototypes:
                if task is None:
                    index, cosine = codebook.match(embeddings, visible[number] if visible else None)
                else:
                    index, cosine = codebook.grow(embeddings, task)
                matched = codebook.storage.index_select(0, index)
                output.matched.append(matched)
                output.cosines.append(cosine)
                # The value is the prototype; the gradient goes to it and straight through to the embedding.
                values = matched + (embeddings - embeddings.detach())
            parts.append(values.view(len(atomic), self.dim if number else atomic.shape[1] * self.dim))
        output.representation = torch.cat(parts, dim=1)
        output.logits = self.head(output.representation)
        return output

    def grow_head(self, num_outputs: int) -> None:
        """Append logits; the present ones stay as they are."""
        old = self.head
        if num_outputs > old.out_features:
            self.head = nn.Linear(old.in_features, num_outputs, device="cpu").to(old.weight.device)
            with torch.no_grad():
                self.head.weight[: old.out_features] = old.weight
                self.head.bias[: old.out_features] = old.bias

    def digest(self, node: Sequence[int], structure: Sequence[int], columns: list[int], visible: Sequence[int]) -> str:
        """Hash of every number that answers with these extractors, columns of the head and prototypes use."""
        parts = [self.node_extractors[number] for number in node]
        parts += [self.structure_extractors[number] for number in structure]
        parts += [*list(self.layers.parameters())[:-2], self.head.weight[columns], self.head.bias[columns]]
        parts += [book.vectors[:size] for book, size in zip(self.codebooks, visible, strict=True)]
        digest = hashlib.sha256(repr((tuple(node), tuple(structure), tuple(visible))).encode())
        for part in parts:
            digest.update(part.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()
