"""Where the learners of a run compute, which is no part of what the run is."""

from __future__ import annotations

import torch

from hpn.errors import ConfigError
from hpn.experiment.execute.local import worker_number
from hpn.nn.device import choose_device


def choose_job_device(device: str, *, ray: str | None = None) -> str:
    """Check the choice of a device for jobs, and resolve ``auto``.

    On a Ray cluster, whose machines may differ, ``auto`` stands for the CPU; with ``cuda`` every job
    requests a GPU from Ray.

    Args:
        device: As :func:`hpn.nn.device.choose_device` takes it.
        ray: Address of the cluster that runs the jobs, if one does.

    Raises:
        ConfigError: If there is no such device.

    Example:
        >>> choose_job_device("auto", ray="local")
        'cpu'
    """
    if ray is None:
        return str(choose_device(device))
    if device not in {"auto", "cpu", "cuda"}:
        raise ConfigError(f"device {device!r} is not available on a Ray cluster; choose cpu, cuda or auto")
    return "cuda" if device == "cuda" else "cpu"


def device_here(device: str) -> str:
    """The device of this process: worker processes take turns at the GPUs, if there are several."""
    count = torch.cuda.device_count() if device == "cuda" else 0
    return f"cuda:{worker_number() % count}" if count > 1 else device
