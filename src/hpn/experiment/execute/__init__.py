"""Where jobs run: processes of this machine, or a Ray cluster."""

from __future__ import annotations

from hpn.errors import ConfigError
from hpn.experiment.execute.jobs import Executor
from hpn.experiment.execute.local import LocalExecutor
from hpn.experiment.execute.ray import RayExecutor
from hpn.nn.device import choose_device


def open_executor(workers: int, ray: str | None, device: str) -> Executor:
    """What runs jobs inside a ``with`` block.

    Args:
        workers: How many processes of this machine; one means this process.
        ray: Address of a Ray cluster to use instead.
        device: Where learners compute; with ``cuda``, each job on a cluster takes a GPU.

    Raises:
        ConfigError: If there are no workers.
    """
    if workers < 1:
        raise ConfigError(f"workers must be at least 1, got {workers}")
    return LocalExecutor(workers) if ray is None else RayExecutor(ray, gpus=device == "cuda")


def choose_job_device(device: str, *, ray: str | None = None) -> str:
    """Check the choice of a device for jobs, and resolve ``auto``.

    On a Ray cluster, whose machines may differ, ``auto`` stands for the CPU; with ``cuda`` every job
    requests a GPU from Ray.

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
