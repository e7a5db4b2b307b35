"""Who watches a learner while it learns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpn.learners.base import Learner


@dataclass(frozen=True)
class Progress:
    """How far a task is: ``done`` of ``total`` steps (epochs, or whatever a learner counts)."""

    task: int
    done: int
    total: int
    metrics: Mapping[str, float] = field(default_factory=dict)


class Observer:
    """Watches a learner; progress bars, logs and checkpoints are observers. It never changes learning."""

    def after_epoch(self, learner: Learner, progress: Progress) -> None:
        """Called when a step is finished and the learner's ``state_dict`` is complete."""
