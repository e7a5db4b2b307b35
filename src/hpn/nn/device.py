"""Where tensors live.

Data stays on the CPU; a learner moves what it needs, and hands back CPU tensors. Whatever a seed draws for
learning (initial weights, orders, samples) is drawn on the CPU and is the same everywhere; dropout is drawn
where the network is. CUDA and MPS follow the same code as the CPU but have not been run by this project's
tests, which prove only that nothing is made on an implicit device.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from hpn.datasets.sparse import is_sparse
from hpn.errors import ConfigError

CPU = torch.device("cpu")

WORDS = ("auto", "cpu", "cuda", "mps")


def choose_device(word: str) -> torch.device:
    """The device that a word of the command line stands for.

    Args:
        word: ``cpu``, ``cuda``, ``cuda:N`` (the N-th, from 0), ``mps``, or ``auto``: CUDA if there is any,
            else MPS if there is any, else the CPU.

    Raises:
        ConfigError: If the word is none of these, or there is no such device.

    Example:
        >>> choose_device("cpu")
        device(type='cpu')
    """
    there = available_devices()
    if word == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if kind in there))
    kind, _, number = word.partition(":")
    is_known = word in WORDS or (kind == "cuda" and number.isascii() and number.isdigit())
    if not is_known:
        raise ConfigError(f"unknown device {word!r}; known: cpu, cuda, cuda:N, mps, auto")
    if word not in there:
        raise ConfigError(f"there is no device {word!r} here; there is {', '.join(there)} (or say auto)")
    return torch.device(word)


def available_devices() -> list[str]:
    """Words of the devices there are, the CPU first."""
    there = ["cpu"]
    if torch.cuda.is_available():
        there += ["cuda", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        there.append("mps")
    return there


def move_features(x: Tensor, device: torch.device) -> Tensor:
    """Features on ``device``, in float32. Sparse ones stay sparse, but on MPS, which has no sparse rows."""
    if device.type == "mps" and is_sparse(x):
        x = x.to_dense()
    return x.to(device, torch.float32)


def to_cpu(state: Any) -> Any:
    """Nested dictionaries and lists with all their tensors on the CPU; what is there already is shared."""
    return to_device(state, CPU)


def to_device(state: Any, device: torch.device) -> Any:
    """Nested dictionaries and lists with all their tensors on a device; what is there already is shared."""
    if isinstance(state, Tensor):
        return state.to(device)
    if isinstance(state, dict):
        return {key: to_device(entry, device) for key, entry in state.items()}
    if isinstance(state, list):
        return [to_device(entry, device) for entry in state]
    return state


@contextlib.contextmanager
def own_generator(device: torch.device, seed: int, states: Mapping[str, Tensor]) -> Iterator[None]:
    """Let a device's random generator be the caller's own inside; it is as before outside.

    The generator of the CPU is left alone.

    Args:
        device: Whose generator.
        seed: What it starts from if ``states`` does not say.
        states: What :func:`generator_states` gave.
    """
    if device.type == "cpu":
        yield
        return
    before = generator_states(device)
    if device.type in states:
        _set_generator(device, states)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)
    else:
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
    try:
        yield
    finally:
        _set_generator(device, before)


def generator_states(device: torch.device) -> dict[str, Tensor]:
    """State of a device's random generator, a CPU tensor, by the kind of device; nothing for the CPU."""
    if device.type == "cpu":
        return {}
    state = torch.mps.get_rng_state() if device.type == "mps" else torch.cuda.get_rng_state(device)
    return {device.type: state}


def _set_generator(device: torch.device, states: Mapping[str, Tensor]) -> None:
    if device.type == "mps":
        torch.mps.set_rng_state(states["mps"])
    else:
        torch.cuda.set_rng_state(states["cuda"], device)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """One thread for PyTorch inside, as before outside."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
