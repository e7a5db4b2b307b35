"""Learning one task: warm-up, establishment of prototypes, and refinement.

What has to survive an interruption between two epochs is in :class:`Trace`; everything else can be made again
from the task.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from hpn.learners.base import State
from hpn.learners.hpn_params import Settings
from hpn.learners.hpn_slots import batches
from hpn.nn.extractors import Slots
from hpn.nn.losses import classification_loss, distance_loss, divergence_loss, unit_columns
from hpn.nn.network import Pass, PrototypeNetwork, Selection

KINDS = ("node", "structure")
MIXED = 512
"""Mixtures of training nodes to establish prototypes for, at least."""
PULL_EVERY = 5
"""Epochs between two computations of the divergence gradient, which cost more than a small task's epoch."""


@dataclass(frozen=True, eq=False)
class Lesson:
    """A task made ready for all its epochs.

    Shapes:
        - ``target``, ``val_target``: ``[num_train]`` and ``[num_val]``, positions in ``columns``
        - ``columns``: columns of the head that compete
    """

    slots: Slots
    target: Tensor
    val: Slots
    val_target: Tensor
    columns: Tensor

    def pick(self, logits: Tensor) -> Tensor:
        """The logits that compete."""
        is_all = torch.equal(self.columns, torch.arange(logits.shape[1]))
        return logits if is_all else logits[:, self.columns]


@dataclass
class Trace:
    """How far a task is.

    Args:
        epoch: Finished epochs.
        velocity: Momentum of what moves, by name.
        pull: Gradient of the divergence loss, by kind of extractor.
        best: The state that did best on validation nodes, and its score.
    """

    epoch: int = 0
    velocity: dict[str, Tensor] = field(default_factory=dict)
    pull: dict[str, Tensor] = field(default_factory=dict)
    best: State = field(default_factory=dict)

    def state(self) -> State:
        """For a checkpoint."""
        velocity = {name: entry.clone() for name, entry in self.velocity.items()}
        return {"epoch": self.epoch, "velocity": velocity, "pull": dict(self.pull), "best": self.best}


class Training:
    """One task, being learned.

    Args:
        s: Settings.
        network: The network, changed in place.
        selection: Extractors of the task.
        lesson: Its nodes.
        task: Its number.
        moves_extractors: Whether its extractors may be trained.
        moves_layers: Whether the layers all tasks share may be trained.
        is_first: Whether this is the first task.
        trace: How far it is.
    """

    def __init__(
        self,
        s: Settings,
        network: PrototypeNetwork,
        selection: Selection,
        lesson: Lesson,
        task: int,
        *,
        moves_extractors: bool,
        moves_layers: bool,
        is_first: bool,
        trace: Trace,
    ) -> None:
        self.s = s
        self.network = network
        self.selection = selection
        self.lesson = lesson
        self.task = task
        self.moves_extractors = moves_extractors
        self.moves_layers = moves_layers
        self.is_first = is_first
        self.trace = trace
        chosen = zip(network.extractors, (selection.node, selection.structure), strict=True)
        self.others = [
            unit_columns(bank.detach()[[number for number in range(len(bank)) if number not in own]])
            for bank, own in chosen
        ]

    @property
    def num_epochs(self) -> int:
        """Without validation nodes nothing tells whether refining what was solved does any good."""
        is_blind = self.s.warmup == "solve" and self.s.keep == "best" and len(self.lesson.val) == 0
        return 0 if is_blind else self.s.epochs

    def start(self) -> None:
        """Establish prototypes at once if there is no warm-up to wait for."""
        if self.trace.epoch == 0 and self.s.warmup_epochs == 0:
            self.establish()
            self._keep_if_best()

    def run_epoch(self) -> float:
        """One pass over the training nodes; returns the mean loss."""
        s, lesson, network = self.s, self.lesson, self.network
        leaves = self._take_leaves()
        if self.trace.epoch % PULL_EVERY == 0:
            self.trace.pull = self._divergence_gradient(leaves)
        is_warm_up = self.trace.epoch < s.warmup_epochs
        total, moves = 0.0, [_Move() for _ in network.books]
        passed: Pass | None = None
        for rows in batches(len(lesson.slots), s.batch_size, torch.randperm(len(lesson.slots))):
            raw, layout = lesson.slots.embed_distinct(
                rows, self.trace.epoch, leaves["node"], leaves["structure"]
            )
            passed = None if is_warm_up else network(raw, grow_for=self.task, layout=layout)
            logits = network.warm_up(raw, layout) if passed is None else passed.logits
            loss = self._loss(lesson.pick(logits), lesson.target[rows], passed, layout)
            total += float(loss.detach()) * len(rows)
            if loss.requires_grad:
                self._descend(loss, leaves, passed, moves)
        network.put_extractors(self.selection, leaves["node"], leaves["structure"])
        if passed is not None:
            self._refine(passed, moves)
        self.trace.epoch += 1
        if not is_warm_up:
            self._keep_if_best()
        return total / len(lesson.slots)

    @torch.no_grad()
    def establish(self) -> Tensor:
        """Cover the training nodes as the extractors now see them.

        Returns:
            The usual length of an atomic embedding, one a slot.
        """
        s, slots = self.s, self.lesson.slots
        node, structure = self.network.get_extractors(self.selection)
        length = torch.zeros(s.num_slots)
        for rows in batches(len(slots), max(s.batch_size, 1024)):
            raw = slots.embed(rows, max(0, self.trace.epoch - 1), node, structure)
            self.network(raw, grow_for=self.task)
            if s.warmup == "solve":
                self.network(_mix(raw), grow_for=self.task)
            length += torch.linalg.vector_norm(raw, dim=2).sum(dim=0)
        return length / len(slots)

    @torch.no_grad()
    def finish(self) -> Tensor:
        """Go back to the best state, if states were compared, or establish what the last one needs.

        Returns:
            The usual length of an atomic embedding, one a slot.
        """
        best = self.trace.best
        if not best:
            return self.establish()
        self.network.put_extractors(self.selection, best["node"], best["structure"])
        for number, book in enumerate(self.network.books):
            book.load_state_dict(best["books"][str(number)])
        for name, layer in self.network.shared_parameters.items():
            layer.copy_(best["layers"][name])
        lengths: Tensor = best["lengths"]
        return lengths

    def _take_leaves(self) -> dict[str, Tensor]:
        """What moves, or would: copies of the task's extractors, and the shared layers themselves."""
        extractors = zip(KINDS, self.network.get_extractors(self.selection), strict=True)
        leaves = {kind: copy.requires_grad_(self.moves_extractors) for kind, copy in extractors}
        for name, layer in self.network.shared_parameters.items():
            leaves[name] = layer.requires_grad_(self.moves_layers)
        return leaves

    def _loss(
        self, logits: Tensor, target: Tensor, passed: Pass | None, layout: Tensor | None = None
    ) -> Tensor:
        """L_cls and L_dis; L_div does not depend on the batch and joins in as a gradient."""
        loss = classification_loss(logits, target) if self.s.use_cls else logits.sum() * 0.0
        if passed is not None and self.s.beta:
            atomic = passed.levels[0].cosine
            everywhere = atomic if layout is None else atomic.index_select(0, layout.flatten())
            cosine = torch.cat([everywhere, *(level.cosine for level in passed.levels[1:])])
            loss = loss + self.s.beta * distance_loss(cosine, len(target))
        return loss

    def _divergence_gradient(self, leaves: dict[str, Tensor]) -> dict[str, Tensor]:
        """Gradient of α L_div, which changes slowly."""
        pull = {}
        for kind, others in zip(KINDS, self.others, strict=True):
            leaf = leaves[kind]
            if self.s.alpha and leaf.requires_grad and (others.shape[1] or len(leaf) > 1):
                (pull[kind],) = torch.autograd.grad(self.s.alpha * divergence_loss(leaf, others), leaf)
        return pull

    def _descend(
        self, loss: Tensor, leaves: dict[str, Tensor], passed: Pass | None, moves: list[_Move]
    ) -> None:
        """One step of gradient descent on extractors and layers; prototypes collect theirs."""
        s, trace = self.s, self.trace
        moving = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
        levels = passed.levels if passed is not None else []
        wanted = [*moving.values(), *(level.prototypes for level in levels)]
        gradients: tuple[Tensor | None, ...] = torch.autograd.grad(loss, wanted, allow_unused=True)
        with torch.no_grad():
            for (name, leaf), gradient in zip(moving.items(), gradients, strict=False):
                if gradient is None:
                    continue
                # Shared layers cool down once, with the first task; each task's own extractors with it.
                is_cool = passed is not None or (name not in KINDS and not self.is_first)
                step = gradient + trace.pull[name] if name in trace.pull else gradient
                if s.momentum:
                    if name not in trace.velocity:
                        trace.velocity[name] = torch.zeros_like(leaf)
                    step = trace.velocity[name].mul_(s.momentum).add_(step)
                leaf.sub_(step, alpha=s.lr_refine if is_cool else s.lr)
            for move, gradient in zip(moves, gradients[len(moving) :], strict=False):
                if gradient is not None:
                    move.add(gradient)

    @torch.no_grad()
    def _refine(self, passed: Pass, moves: list[_Move]) -> None:
        """Move prototypes by what an epoch told them.

        Once an epoch, because every move may break cover and packing and has to be checked.
        """
        s = self.s
        rate = s.lr_prototypes if self.trace.epoch < s.late_epoch else s.lr_prototypes_late
        for book, level, move in zip(self.network.books, passed.levels, moves, strict=False):
            if move.total is not None and rate:
                move.add(torch.zeros(len(book), book.dim))
                book.refine(book.vectors - rate * move.total, level.embeddings, level.index, self.task)

    @torch.no_grad()
    def _keep_if_best(self) -> None:
        """Remember this state if validation nodes were never answered better."""
        lesson, network = self.lesson, self.network
        if self.s.keep == "last" or len(lesson.val) == 0:
            return
        lengths = self.establish()
        node, structure = network.get_extractors(self.selection)
        logits = lesson.pick(network(lesson.val.embed(None, 0, node, structure)).logits)
        right = float((logits.argmax(dim=1) == lesson.val_target).double().mean())
        score = [right, -float(classification_loss(logits, lesson.val_target))]
        if not self.trace.best or score > self.trace.best["score"]:
            books = {str(number): book.state_dict() for number, book in enumerate(network.books)}
            layers = {name: layer.detach().clone() for name, layer in network.shared_parameters.items()}
            self.trace.best = {
                "score": score,
                "lengths": lengths,
                "node": node,
                "structure": structure,
                "books": books,
                "layers": layers,
            }


class _Move:
    """The sum of gradients of a growing set of prototypes."""

    def __init__(self) -> None:
        self.total: Tensor | None = None

    def add(self, gradient: Tensor) -> None:
        if self.total is None:
            self.total = gradient
            return
        if len(gradient) > len(self.total):
            new = torch.zeros(len(gradient) - len(self.total), gradient.shape[1])
            self.total = torch.cat([self.total, new])
        self.total += gradient


def _mix(raw: Tensor) -> Tensor:
    """What nodes between two training nodes would look like.

    Extractors are linear, so embeddings mix as features do. Training nodes are surer of their class than
    others will be; prototypes are needed in between as well.
    """
    first, second = torch.randint(len(raw), (2, max(len(raw), MIXED)))
    share = torch.rand(len(first), 1, 1)
    return share * raw[first] + (1 - share) * raw[second]
