"""Where tensors live.

Data stays on the CPU. A learner moves what it needs to its device and returns CPU tensors. Initial weights, orders
and samples are drawn on the CPU, so a seed gives the same ones everywhere; dropout is drawn where the network is.
CUDA and MPS run the same code as the CPU, but the tests of this project only show that no tensor is created on an
implicit device.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from hpn.datasets.sparse import is_sparse
from hpn.errors import ConfigError

CPU = torch.device("cpu")


def choose_device(word: str) -> torch.device:
    """The device that a word of the command line stands for.

    Args:
        word: ``cpu``, ``cuda``, ``cuda:N`` (the N-th, from 0), ``mps``, or ``auto``: CUDA if it is available, else
            MPS if it is available, else the CPU.

    Raises:
        ConfigError: If the word is none of these, or the device is not available.
    """
    available = available_devices()
    if word == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if kind in available))
    if not re.fullmatch(r"cpu|mps|cuda(:[0-9]+)?", word):
        raise ConfigError(f"unknown device {word!r}; known: cpu, cuda, cuda:N, mps, auto")
    if word not in available:
        raise ConfigError(f"device {word!r} is not available; available: {', '.join(available)} (or use auto)")
    return torch.device(word)


def available_devices() -> list[str]:
    """Words of the devices of this machine, the CPU first."""
    num_cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    cuda = ["cuda", *(f"cuda:{number}" for number in range(num_cuda))] if num_cuda else []
    return ["cpu", *cuda, *(["mps"] if torch.backends.mps.is_available() else [])]


def move_features(x: Tensor, device: torch.device) -> Tensor:
    """Features on ``device`` in float32. Sparse features stay sparse, except on MPS, which has no sparse rows."""
    if device.type == "mps" and is_sparse(x):
        x = x.to_dense()
    return x.to(device, torch.float32)


def to_cpu(state: Any) -> Any:
    """Nested dictionaries and lists with all tensors on the CPU; tensors that are there already are shared."""
    if isinstance(state, dict):
        return {key: to_cpu(entry) for key, entry in state.items()}
    if isinstance(state, list):
        return [to_cpu(entry) for entry in state]
    return state.to(CPU) if isinstance(state, Tensor) else state


@contextlib.contextmanager
def own_generator(device: torch.device, seed: int, states: Mapping[str, Tensor]) -> Iterator[None]:
    """Use a separate state of a device's random generator inside, and restore the previous one afterwards.

    The device is the current one inside. The generator of the CPU is not touched.

    Args:
        device: The device of the generator.
        seed: Starts the generator if ``states`` has no state for this kind of device.
        states: Result of :func:`generator_states`.
    """
    if device.type == "cpu":
        yield
        return
    module = getattr(torch, device.type)  # torch.cuda or torch.mps
    with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
        before = module.get_rng_state()
        if device.type in states:
            module.set_rng_state(states[device.type])
        else:
            module.manual_seed(seed)
        try:
            yield
        finally:
            module.set_rng_state(before)


def generator_states(device: torch.device) -> dict[str, Tensor]:
    """State of a device's random generator by the kind of device, a CPU tensor; empty for the CPU."""
    if device.type == "cpu":
        return {}
    return {device.type: torch.mps.get_rng_state() if device.type == "mps" else torch.cuda.get_rng_state(device)}


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """One thread for PyTorch inside; the previous number is restored afterwards."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
