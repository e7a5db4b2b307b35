r"""The network: extractors, three levels of prototypes, and a classifier on all of them (Section 3.3).

For a node with atomic embeddings :math:`e_1, \dots, e_s`,

.. math::
    a_i = p_A(e_i) \qquad
    n = p_N\bigl(\mathrm{FC}_{A \to N}(a_1 \oplus \dots \oplus a_s)\bigr) \qquad
    c = p_C\bigl(\mathrm{FC}_{N \to C}(n)\bigr) \qquad
    P_H = a_1 \oplus \dots \oplus a_s \oplus n \oplus c

where :math:`p_L` is the nearest prototype of a level and :math:`P_H` the input of the classifier (Eq. 11).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from hpn.nn.hpn.codebook import Codebook, unit

INITIAL_SCALE = 0.3
"""Spread of initial extractors. Only directions matter: a smaller one means larger steps at the same rate."""

Levels = Literal["A", "AN", "ANC"]


class Forward(NamedTuple):
    """The result of a forward pass; ``matched`` and ``cosines`` are empty before there are prototypes.

    Shapes:
        - ``logits``: ``[n, num_outputs]``
        - ``representation``: :math:`P_H` of each node ``[n, (num_slots + num_levels - 1) * dim]``
        - ``embeddings``: per level, unit vectors ``[m, dim]``
        - ``matched``: per level, their matched prototypes ``[m, dim]``
        - ``cosines``: per level, the cosines of both, without gradient ``[m]``
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
        num_features: Features per node, d_v.
        num_outputs: Number of logits.
        num_extractors: Extractors of each kind, l_a = l_r.
        num_slots: Atomic embeddings per node.
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
    def extractors(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """Node extractors and structure extractors."""
        return list(self.node_extractors), list(self.structure_extractors)

    @property
    def codebooks(self) -> tuple[Codebook, ...]:
        """The prototypes of the levels in use."""
        return (self.atomic_prototypes, self.node_prototypes, self.class_prototypes)[: len(self.levels)]

    @property
    def layers(self) -> nn.ModuleList:
        """The layers that all tasks share: those between the levels in use, and the classifier."""
        return nn.ModuleList([*[self.to_node, self.to_class][: len(self.levels) - 1], self.head])

    def forward(
        self,
        atomic: Tensor,
        *,
        task: int | None = None,
        visible: Sequence[int] | None = None,
        use_prototypes: bool = True,
    ) -> Forward:
        """Compute representations and logits from atomic embeddings.

        Args:
            atomic: Atomic embeddings, of any length ``[n, num_slots, dim]``.
            task: Add prototypes of this task for uncovered embeddings; ``None`` adds none.
            visible: Number of prototypes of each level that may be matched; ``None`` for all.
            use_prototypes: Whether embeddings are matched; otherwise, before prototypes exist, they replace them.
        """
        parts: list[Tensor] = []
        embedded: list[Tensor] = []
        matched: list[Tensor] = []
        cosines: list[Tensor] = []
        for number, codebook in enumerate(self.codebooks):
            raw = (self.to_node, self.to_class)[number - 1](parts[-1]) if number else atomic.reshape(-1, self.dim)
            values = embeddings = unit(raw)
            embedded.append(embeddings)
            if use_prototypes:
                if task is None:
                    index, cosine = codebook.match(embeddings, visible[number] if visible else None)
                else:
                    index, cosine = codebook.grow(embeddings, task)
                matched.append(codebook.storage.index_select(0, index))
                cosines.append(cosine)
                # The value is the prototype; its gradient also goes straight through to the embedding.
                values = matched[-1] + (embeddings - embeddings.detach())
            parts.append(values.view(len(atomic), self.dim if number else atomic.shape[1] * self.dim))
        representation = torch.cat(parts, dim=1)
        return Forward(self.head(representation), representation, embedded, matched, cosines)

    def grow_head(self, num_outputs: int) -> None:
        """Append logits; the existing ones do not change."""
        old = self.head
        if num_outputs > old.out_features:
            self.head = nn.Linear(old.in_features, num_outputs, device="cpu").to(old.weight.device)
            with torch.no_grad():
                self.head.weight[: old.out_features] = old.weight
                self.head.bias[: old.out_features] = old.bias

    def digest(self, node: Sequence[int], structure: Sequence[int], columns: list[int], visible: Sequence[int]) -> str:
        """Hash of every number that predictions with these extractors, head columns and prototypes use."""
        parts = [self.node_extractors[number] for number in node]
        parts += [self.structure_extractors[number] for number in structure]
        parts += [*list(self.layers.parameters())[:-2], self.head.weight[columns], self.head.bias[columns]]
        parts += [codebook.vectors[:size] for codebook, size in zip(self.codebooks, visible, strict=True)]
        digest = hashlib.sha256(repr((tuple(node), tuple(structure), tuple(visible))).encode())
        for part in parts:
            digest.update(part.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()
