"""Where and how the learners of a run compute, which is no part of what the run is."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from hpn.errors import ConfigError
from hpn.experiment.parallel import worker_number
from hpn.nn.device import check_precision, choose_device


@dataclass(frozen=True)
class Computing:
    """Where and how a learner computes.

    Args:
        device: ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.
        precision: ``float32`` or ``mixed``.
    """

    device: str = "cpu"
    precision: str = "float32"

    def here(self) -> Computing:
        """The same in this process: worker processes take turns at the GPUs, if there are several."""
        count = torch.cuda.device_count() if self.device == "cuda" else 0
        return replace(self, device=f"cuda:{worker_number() % count}") if count > 1 else self


ON_CPU = Computing()


def choose_computing(device: str, precision: str, *, ray: str | None = None) -> Computing:
    """Check a choice, and settle what ``auto`` stands for.

    On a Ray cluster, whose machines may differ, ``auto`` stands for the CPU; with ``cuda`` every job asks
    Ray for a GPU.

    Args:
        device: As :func:`hpn.nn.device.choose_device` takes it.
        precision: ``float32`` or ``mixed``.
        ray: Address of a cluster that is to do it.

    Raises:
        ConfigError: If there is no such device or precision.

    Example:
        >>> choose_computing("auto", "float32", ray="local")
        Computing(device='cpu', precision='float32')
    """
    if ray is None:
        return Computing(str(choose_device(device)), check_precision(precision))
    if device not in {"auto", "cpu", "cuda"}:
        raise ConfigError(f"device {device!r} cannot be had on a Ray cluster; choose cpu, cuda or auto")
    return Computing("cuda" if device == "cuda" else "cpu", check_precision(precision))
