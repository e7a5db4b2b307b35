"""Learning one task: warm-up, establishment of prototypes, and refinement.

What has to survive an interruption between two epochs is in :class:`Trace`; everything else can be made again
from the task.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hpn.learners.base import State
from hpn.learners.hpn.attempts import Attempt, Leaves
from hpn.learners.hpn.establish import Establishment
from hpn.learners.hpn.pieces import (
    Move,
    check_together,
    cut,
    found_together,
)
from hpn.learners.hpn.presets import Settings
from hpn.learners.hpn.slots import batches
from hpn.learners.hpn.steps import Lesson, Steps
from hpn.nn import prototypes
from hpn.nn.device import CPU, one_thread
from hpn.nn.losses import classification_loss, divergence_loss, unit_columns
from hpn.nn.narrow import MOST_DIMENSIONS
from hpn.nn.network import PrototypeNetwork, Selection
from hpn.nn.processes import ALONE, Processes

KINDS = ("node", "structure")
PULL_EVERY = 5
"""Epochs between two computations of the divergence gradient, which cost more than a small task's epoch."""


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
        processes: Those that learn it together.
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
        processes: Processes = ALONE,
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
        self.processes = processes
        self.steps = Steps(s, network, lesson, task, processes)
        chosen = zip(network.extractors, (selection.node, selection.structure), strict=True)
        self.others = [
            unit_columns(bank.detach()[[number for number in range(len(bank)) if number not in own]])
            for bank, own in chosen
        ]

    def start(self) -> None:
        """Establish prototypes at once if there is no warm-up to wait for."""
        if self.trace.epoch == 0 and self.s.warmup_epochs == 0:
            self.establish()
            self._keep_if_best()

    def run_epoch(self) -> float:
        """One pass over the training nodes; returns the mean loss."""
        lesson, network = self.lesson, self.network
        leaves = self._take_leaves()
        if self.trace.epoch % PULL_EVERY == 0:
            self.trace.pull = self._divergence_gradient(leaves)
        is_warm_up = self.trace.epoch < self.s.warmup_epochs
        total, moves = 0.0, [Move() for _ in network.levels]
        tried: list[Attempt] = []
        order = torch.randperm(len(lesson.slots), device=CPU)
        self.steps.look_ahead(order, self.trace.epoch)
        with self._threads():
            plan = list(batches(len(lesson.slots), self.s.batch_size, order))
            for rows, upcoming in zip(plan, [*plan[1:], None], strict=True):
                loss, gradients, tried = self.steps.run(rows, leaves, self.trace.epoch, upcoming)
                total += loss * len(rows)
                self._descend(gradients, leaves, moves, is_warm_up=is_warm_up)
        self.processes.align([leaf for leaf in leaves.values() if leaf.requires_grad])
        network.put_extractors(self.selection, leaves["node"], leaves["structure"])
        if not is_warm_up:
            self._refine(tried, moves)
        self.trace.epoch += 1
        if not is_warm_up:
            self._keep_if_best()
        return total / len(lesson.slots)

    def _threads(self) -> AbstractContextManager[None]:
        """More of them gain next to nothing on operations as small as those of few dimensions.

        And where the machine is busy with something else each waits for the slowest: a step then takes
        several times as long.
        """
        return one_thread() if self.s.dim <= MOST_DIMENSIONS else nullcontext()

    @torch.no_grad()
    def establish(self) -> Tensor:
        """Cover the training nodes as the extractors now see them.

        Returns:
            The usual length of an atomic embedding, one a slot.
        """
        extractors, turn = self.network.get_extractors(self.selection), max(0, self.trace.epoch - 1)
        slots, network = self.lesson.slots, self.network
        with self._threads():
            return Establishment(self.s, network, slots, extractors, turn, self.task, self.processes).run()

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

    def _take_leaves(self) -> Leaves:
        """What moves, or would: copies of the task's extractors, and the shared layers themselves."""
        extractors = zip(KINDS, self.network.get_extractors(self.selection), strict=True)
        leaves = {kind: copy.requires_grad_(self.moves_extractors) for kind, copy in extractors}
        for name, layer in self.network.shared_parameters.items():
            leaves[name] = layer.requires_grad_(self.moves_layers)
        return leaves

    def _divergence_gradient(self, leaves: Leaves) -> dict[str, Tensor]:
        """Gradient of α L_div, which changes slowly."""
        pull = {}
        for kind, others in zip(KINDS, self.others, strict=True):
            leaf = leaves[kind]
            if self.s.alpha and leaf.requires_grad and (others.shape[1] or len(leaf) > 1):
                (pull[kind],) = torch.autograd.grad(self.s.alpha * divergence_loss(leaf, others), leaf)
        return pull

    @torch.no_grad()
    def _descend(
        self, gradients: list[Tensor], leaves: Leaves, moves: list[Move], *, is_warm_up: bool
    ) -> None:
        """One step of gradient descent on extractors and layers; prototypes collect theirs."""
        s, trace = self.s, self.trace
        moving = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
        for (name, leaf), gradient in zip(moving.items(), gradients, strict=False):
            # Shared layers cool down once, with the first task; each task's own extractors with it.
            is_cool = not is_warm_up or (name not in KINDS and not self.is_first)
            step = gradient + trace.pull[name] if name in trace.pull else gradient
            if s.momentum:
                if name not in trace.velocity:
                    trace.velocity[name] = torch.zeros_like(leaf)
                step = trace.velocity[name].mul_(s.momentum).add_(step)
            leaf.sub_(step, alpha=s.lr_refine if is_cool else s.lr)
        for move, gradient in zip(moves, gradients[len(moving) :], strict=False):
            move.add(gradient)

    @torch.no_grad()
    def _refine(self, tried: list[Attempt], moves: list[Move]) -> None:
        """Move prototypes by what an epoch told them.

        Once an epoch, because every move may break cover and packing and has to be checked.
        """
        s = self.s
        rate = s.lr_prototypes if self.trace.epoch < s.late_epoch else s.lr_prototypes_late
        for at, (book, move) in enumerate(zip(self.network.books, moves, strict=False)):
            if move.total is None or not rate:
                continue
            move.add(torch.zeros_like(book.vectors))
            moved = book.vectors - rate * move.total
            self.processes.align([moved])
            placed = [attempt.placed(at) for attempt in tried]
            embeddings = [embeddings for embeddings, _ in placed]
            is_broken = book.move(moved) or any(book.loses(*pair) for pair in placed)
            if self.processes.any(is_broken):
                found_together(book, embeddings, self.task, self.processes)
            elif prototypes.DEBUG:
                check_together(book, embeddings, self.processes)

    @torch.no_grad()
    def _keep_if_best(self) -> None:
        """Remember this state if validation nodes were never answered better."""
        lesson, network = self.lesson, self.network
        if self.s.keep == "last" or len(lesson.val) == 0:
            return
        lengths = self.establish()
        node, structure = network.get_extractors(self.selection)
        right, loss = self._examine(node, structure)
        score = [right, -loss]
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

    def _examine(self, node: Tensor, structure: Tensor) -> tuple[float, float]:
        """Share of validation nodes answered right, and their mean loss."""
        lesson, count = self.lesson, len(self.lesson.val)
        pieces = cut(torch.arange(count, device=CPU), max(self.s.piece_size, 1024))
        told = []
        for number in self.processes.share(len(pieces)):
            rows = None if len(pieces) == 1 else pieces[number]
            logits = lesson.pick(self.network(lesson.val.embed(rows, 0, node, structure)).logits)
            target = lesson.val_target[pieces[number]].to(logits.device)
            loss = classification_loss(logits, target)
            loss = loss if rows is None else loss * (len(rows) / count)
            told.append([(logits.argmax(dim=1) == target).sum().float(), loss])
        right, loss = self.processes.add(told or [list(torch.zeros(2, device=node.device))], len(pieces))
        return float(right) / count, float(loss)
