"""A run that several processes share: rank 0 keeps the folder, the others compute along.

``torchrun`` starts the same command N times. Every process loads the data, and rank 0 tells the others which
seed to learn from which state; from there on all of them go through the same steps, each computing its share.
Only rank 0 reads and writes the run folder, so the others need not see it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from hpn.datasets import Graph
from hpn.errors import ConfigError, HPNError, ProcessesError, SaidElsewhereError
from hpn.evaluation import evaluate
from hpn.experiment.config import RunConfig
from hpn.learners import LEARNERS, Learner
from hpn.learners.base import State
from hpn.nn.device import check_precision, choose_device
from hpn.nn.processes import ALONE, Processes

Value = TypeVar("Value")


@dataclass(frozen=True)
class Place:
    """Where a run computes.

    Args:
        device: A word of :func:`hpn.nn.device.choose_device`.
        precision: ``float32`` or ``mixed``.
        processes: Those that compute it.
    """

    device: str = "cpu"
    precision: str = "float32"
    processes: Processes = ALONE

    @classmethod
    def choose(cls, device: str, precision: str, processes: Processes) -> Place:
        """Check the words; of several processes on a machine each takes a GPU of its own.

        Raises:
            ConfigError: If there is no such device or precision.
        """
        kind = str(choose_device(device))
        if kind == "cuda" and processes.size > 1:
            kind = str(choose_device(f"cuda:{os.environ.get('LOCAL_RANK', '0')}"))
        return cls(kind, check_precision(precision), processes)

    def settle(self, learner: Learner) -> Learner:
        """Let a learner compute here."""
        learner.processes = self.processes
        return learner.to(self.device, precision=self.precision)


def agree(processes: Processes, make: Callable[[], Value]) -> Value:
    """Do the same in all processes, and fail in all of them if one fails; one says why.

    Raises:
        SaidElsewhereError: If another process says it.
    """
    error: HPNError | None = None
    value: Any = None
    try:
        value = make()
    except HPNError as failure:
        error = failure
    first = processes.lowest(error is not None)
    if first is None:
        return value  # type: ignore[no-any-return]
    if error is not None and first == processes.rank:
        raise error
    raise SaidElsewhereError(f"process {first} of this job failed")


def check_shared(config: RunConfig, processes: Processes, *, views: bool) -> None:
    """Refuse what several processes cannot share, and processes that do not run the same.

    Raises:
        ConfigError: If so.
    """
    if processes.size == 1:
        return
    own = config.to_json()
    theirs = processes.lead(lambda: own)  # before anything that may fail in one process and not in another
    kind = LEARNERS[config.method]
    if kind.shares_batches and not kind(**config.params).shares_batches:  # a preset that does not
        raise ConfigError(
            f"{config.method} with the preset {config.params['preset']} learns in one process; "
            "with torchrun, choose --set preset=paper or --set preset=large"
        )
    if not kind.shares_batches:
        able = ", ".join(name for name, learner in LEARNERS.items() if learner.shares_batches)
        raise ConfigError(
            f"{config.method} runs in one process; with torchrun, --method must be one of: {able} "
            "(several methods or seeds side by side: hpn compare --workers, or --ray)"
        )
    if views:
        raise ConfigError("views are drawn by one process; run the same command without torchrun for them")
    for key, value in theirs.items():
        if own.get(key) != value:
            raise ConfigError(
                f"process {processes.rank} has other {key} than process 0; "
                "all machines need the same data, command and versions"
            )


@contextmanager
def leading(processes: Processes) -> Iterator[Crew]:
    """Rank 0's side; the others are told when there is nothing more to do."""
    crew = Crew(processes)
    try:
        yield crew
    except BaseException:
        if not crew.is_busy:  # else they notice by themselves
            crew.dismiss()
        raise
    crew.call(None)


class Crew:
    """The other processes, as rank 0 sees them."""

    def __init__(self, processes: Processes = ALONE) -> None:
        self.processes = processes
        self.is_busy = False

    def call(self, order: State | None) -> None:
        """Tell the others what to do next; ``None`` is to go home."""
        self.is_busy = order is not None
        self.processes.lead(lambda: order)

    def rest(self) -> None:
        """The others have done what they were told, and wait."""
        self.is_busy = False

    def dismiss(self) -> None:
        """Tell the others that rank 0 failed and says why; they may be gone already."""
        with suppress(SaidElsewhereError, ProcessesError):
            self.processes.lead(_say_elsewhere)


def _say_elsewhere() -> State | None:
    raise SaidElsewhereError("process 0 of this job failed")


def assist(config: RunConfig, graph: Graph, place: Place) -> None:
    """The others' side: learn what rank 0 says, until there is nothing more to do."""
    while True:
        order: State | None = place.processes.lead(lambda: None)
        if order is None:
            return
        torch.set_num_threads(order["threads"])  # sums depend on it
        learner = place.settle(config.make_learner(order["seed"]))
        learner.load_state_dict(order["state"])
        stream = config.make_stream(graph, order["seed"], place.processes.make)
        for index in range(order["task"], len(stream)):
            learner.fit_task(stream.task(index, with_past=learner.sees_past))
            evaluate(learner, stream, after=index, mode=config.evaluate)
