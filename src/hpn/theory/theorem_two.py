r"""When learning a task leaves the representations of the previous one unchanged (the paper's Theorem 2).

A node :math:`v` and one neighbour :math:`u_k` per structure extractor give the latent vector

.. math::
    z = W x' \qquad x' = [x(v); x(u_1); \dots; x(u_{l_r})] \qquad
    W = \operatorname{diag}\bigl([A_1; \dots; A_{l_a}],\; R_1,\; \dots,\; R_{l_r}\bigr)

where :math:`A_i \in R^{d_a \times d_v}` are the node extractors, :math:`R_k \in R^{d_r \times d_v}` the structure
extractors, and :math:`\operatorname{diag}` puts blocks on the diagonal. With :math:`\lambda_{\min}` the smallest
eigenvalue of :math:`W^\top W`, nodes of two tasks whose features are at least :math:`\mathbf{dist}` apart, neighbours
included, satisfy

.. math:: \lVert z - z' \rVert \ge \sqrt{\lambda_{\min}\,(l_r + 1)}\; \mathbf{dist}

and the theorem concludes that no prototype of the earlier task changes as long as :math:`t_A` is smaller. The
inequality is true and is computed here. It does not imply "no forgetting", for five reasons:

1. *Rank.* The bound is useful only if :math:`\lambda_{\min} > 0`, that is, if W has full column rank. Each :math:`R_k`
is
   alone in its block, so this needs :math:`l_a d_a \ge d_v` *and* :math:`d_r \ge d_v`. The size condition printed in
   the theorem, :math:`l_a d_a + l_r d_r \ge (l_r + 1) d_v`, is weaker and not sufficient.
2. *Statement and proof.* The theorem prints :math:`t_A < \lambda_{\min} (l_r + 1)\, \mathbf{dist}`; its proof ends with
the
   root. Only the root is a bound, and it decides here; both are reported.
3. *Length and angle.* The proof compares the Euclidean distance of concatenated embeddings of any length with
   :math:`t_A`. Matching uses the angle of single ones: one direction at two lengths is one prototype, however large the
   distance. So tasks can share prototypes although the condition is met.
4. *Other parameters.* The theorem is about prototypes. Shared extractors, and the layers above the prototypes, which
are
   always shared, continue to learn with ``retention="paper"``.
5. *Selection.* The proof uses all extractors for both tasks, and one neighbour per extractor. A task uses a few of the
   extractors, perhaps others than the previous task, and may see many neighbours through one.

``retention="certified"`` holds without conditions; :mod:`hpn.theory.retention` measures it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpn.errors import ConfigError
from hpn.nn.hpn.network import PrototypeNetwork
from hpn.theory.task_distance import task_distance

EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class TheoremTwo:
    """The theorem's condition for two consecutive tasks: its numbers, and whether they meet it.

    Args:
        num_features: Features per node, d_v.
        dim: Rows of an extractor, d_a = d_r.
        num_node_extractors: l_a.
        num_structure_extractors: l_r.
        threshold: t_A.
        distance: The smallest distance between nodes of the two tasks, dist.
        eigenvalue: The smallest eigenvalue of WᵀW, λ_min; 0 if W does not have full column rank.
        neighbors_stay: Whether all neighbours of a task's nodes belong to the task, as the proof assumes.
        slots_are_nodes: Whether structure extractors see single nodes, as the proof assumes, and not means.

    Example:
        >>> TheoremTwo(1433, 16, 22, 22, threshold=0.3, distance=0.1, eigenvalue=0.0).is_satisfied
        False
        >>> TheoremTwo(4, 4, 3, 3, threshold=0.3, distance=1.0, eigenvalue=0.25).right_proved
        1.0
    """

    num_features: int
    dim: int
    num_node_extractors: int
    num_structure_extractors: int
    threshold: float
    distance: float
    eigenvalue: float
    neighbors_stay: bool = True
    slots_are_nodes: bool = True

    @property
    def can_have_full_rank(self) -> bool:
        """Whether every block of W has at least as many rows as columns: l_a d_a >= d_v and d_r >= d_v."""
        return self.num_node_extractors * self.dim >= self.num_features and self.dim >= self.num_features

    @property
    def meets_printed_size(self) -> bool:
        """Whether l_a d_a + l_r d_r >= (l_r + 1) d_v, so that W has as many rows as columns."""
        rows, columns = self._shape
        return rows >= columns

    @property
    def has_full_rank(self) -> bool:
        """Whether the columns of W are independent, to the precision of float64."""
        return self.can_have_full_rank and self.eigenvalue > 0

    @property
    def right_printed(self) -> float:
        """The limit of t_A as the theorem is printed: λ_min (l_r + 1) dist."""
        return self.eigenvalue * (self.num_structure_extractors + 1) * self.distance

    @property
    def right_proved(self) -> float:
        """The limit of t_A as the theorem is proved: √(λ_min (l_r + 1)) dist."""
        return math.sqrt(self.eigenvalue * (self.num_structure_extractors + 1)) * self.distance

    @property
    def is_satisfied(self) -> bool:
        """Whether all assumptions of the proof hold. Tasks may still share prototypes."""
        return not self.reasons

    @property
    def reasons(self) -> tuple[str, ...]:
        """Every reason why the condition is not satisfied, one sentence each; empty if it is."""
        rows, columns = self._shape
        stacked = self.num_node_extractors * self.dim
        reasons = (
            (
                self.dim < self.num_features,
                f"a structure extractor has {self.dim:,} rows for {self.num_features:,} features, so no R_k can have "
                "full column rank (d_r >= d_v is needed) and λ_min is 0",
            ),
            (
                stacked < self.num_features,
                f"the node extractors have {stacked:,} rows in all for {self.num_features:,} features, so the block of "
                "the A_i cannot have full column rank (l_a d_a >= d_v is needed) and λ_min is 0",
            ),
            (
                not self.meets_printed_size,
                f"the theorem's own size condition fails: l_a d_a + l_r d_r is {rows:,}, and "
                f"(l_r + 1) d_v is {columns:,}",
            ),
            (
                self.can_have_full_rank and not self.has_full_rank,
                "the extractors have dependent columns, to the precision of float64, so λ_min is 0",
            ),
            (
                self.distance == 0,
                "a node of one task has the features of a node of the other, so the tasks' distance is 0",
            ),
            (
                self.distance != 0 and self.has_full_rank and self.threshold >= self.right_proved,
                f"t_A = {self.threshold:.3g} is not below √(λ_min (l_r + 1)) dist = {self.right_proved:.3g} "
                f"(λ_min = {self.eigenvalue:.3g}, l_r = {self.num_structure_extractors}, dist = {self.distance:.3g})",
            ),
            (
                not self.neighbors_stay,
                "edges lead to nodes of other tasks; the proof needs neighbours from a node's own task",
            ),
            (not self.slots_are_nodes, "structure extractors see means over neighbours; the proof needs single nodes"),
        )
        return tuple(reason for applies, reason in reasons if applies)

    def to_json(self) -> dict[str, Any]:
        """Numbers and verdicts as plain data."""
        names = ("can_have_full_rank", "meets_printed_size", "has_full_rank", "right_printed", "right_proved")
        verdicts = {name: getattr(self, name) for name in (*names, "is_satisfied")}
        return {**asdict(self), **verdicts, "reasons": list(self.reasons)}

    @property
    def _shape(self) -> tuple[int, int]:
        """Rows and columns of W."""
        rows = (self.num_node_extractors + self.num_structure_extractors) * self.dim
        return rows, (self.num_structure_extractors + 1) * self.num_features


def check_theorem_two(
    network: PrototypeNetwork,
    threshold: float,
    x_before: Tensor,
    x_after: Tensor,
    *,
    neighbors_stay: bool = True,
    slots_are_nodes: bool = True,
) -> TheoremTwo:
    """Compute the theorem's condition for a network and two tasks.

    Args:
        network: The network whose extractors form W.
        threshold: t_A.
        x_before: Features of the earlier task's nodes ``[n, num_features]``, dense or sparse.
        x_after: Features of the later task's nodes.
        neighbors_stay: Whether neighbours of a task's nodes are nodes of the task.
        slots_are_nodes: Whether structure extractors see single nodes.

    Raises:
        ConfigError: If extractors and features do not match, or are not finite.
    """
    num_features, dim = network.node_extractors[0].shape
    if x_before.shape[1] != num_features:
        raise ConfigError(
            f"nodes have {x_before.shape[1]:,} features, but the extractors are for {num_features:,}; "
            "use the data that the network was trained on"
        )
    return TheoremTwo(
        num_features=num_features,
        dim=dim,
        num_node_extractors=len(network.node_extractors),
        num_structure_extractors=len(network.structure_extractors),
        threshold=threshold,
        distance=task_distance(x_before, x_after),
        eigenvalue=smallest_eigenvalue(extractor_blocks(network)),
        neighbors_stay=neighbors_stay,
        slots_are_nodes=slots_are_nodes,
    )


def extractor_blocks(network: PrototypeNetwork) -> list[Tensor]:
    """The diagonal blocks of W: the stacked node extractors, then each structure extractor, all with d_v columns."""
    node = torch.cat([matrix.detach().t() for matrix in network.node_extractors])
    return [node, *(matrix.detach().t() for matrix in network.structure_extractors)]


def smallest_eigenvalue(blocks: Iterable[Tensor]) -> float:
    r"""The smallest eigenvalue of :math:`W^\top W`, where W has the given blocks on its diagonal.

    It is the smallest squared singular value of any block. It is 0 for a block with fewer rows than columns, and for
    one whose rank is not full to the precision of float64.

    Raises:
        ConfigError: If there is no block, or one is not a matrix of finite numbers.
    """
    blocks = list(blocks)
    if not blocks or any(block.ndim != 2 for block in blocks):
        raise ConfigError(f"W needs matrices as blocks, got shapes {[tuple(block.shape) for block in blocks]}")
    if any(block.shape[0] < block.shape[1] for block in blocks):
        return 0.0
    if not all(bool(torch.isfinite(block).all()) for block in blocks):
        raise ConfigError("extractors hold numbers that are not finite; train with a smaller lr")
    smallest = math.inf
    for block in blocks:
        values = np.linalg.svd(block.detach().double().numpy(), compute_uv=False)
        is_lost = values[-1] <= max(block.shape) * EPSILON * values[0]  # in the rounding of the largest
        smallest = min(smallest, 0.0 if is_lost else float(values[-1]) ** 2)
    return smallest
