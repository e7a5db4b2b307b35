from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import torch

from hpn.errors import ConfigError
from hpn.nn.device import (
    CPU,
    available_devices,
    choose_device,
    generator_states,
    move_features,
    one_thread,
    own_generator,
    to_cpu,
)


@pytest.fixture
def accelerators(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Simulates accelerators."""

    def pretend(*, cuda: int = 0, mps: bool = False) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return pretend


@pytest.mark.parametrize(
    ("there", "chosen"),
    [({}, "cpu"), ({"mps": True}, "mps"), ({"cuda": 1}, "cuda"), ({"cuda": 2, "mps": True}, "cuda")],
)
def test_auto_is_an_accelerator_if_there_is_one(accelerators: Any, there: dict[str, Any], chosen: str) -> None:
    accelerators(**there)
    assert choose_device("auto") == torch.device(chosen)
    assert choose_device("cpu") == CPU


def test_unavailable_devices_are_refused_and_available_ones_named(accelerators: Any) -> None:
    accelerators()
    for word in ("cuda", "cuda:0", "mps"):
        with pytest.raises(ConfigError, match=rf"^device '{word}' is not available; available: cpu \(or use auto\)$"):
            choose_device(word)
    accelerators(cuda=2)
    assert available_devices() == ["cpu", "cuda", "cuda:0", "cuda:1"]
    assert choose_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(ConfigError, match=r"device 'cuda:2' is not available; available: cpu, cuda, cuda:0, cuda:1"):
        choose_device("cuda:2")


@pytest.mark.parametrize("word", ["gpu", "cuda0", "cuda:", "cuda:x", "cpu:0", "mps:1", "meta", "", "CPU"])
def test_unknown_words_are_refused(word: str) -> None:
    with pytest.raises(ConfigError, match=r"^unknown device .*known: cpu, cuda, cuda:N, mps, auto$"):
        choose_device(word)


def test_features_are_moved_in_single_precision_and_dense_where_there_are_no_sparse_rows() -> None:
    x = torch.eye(3)
    assert move_features(x, CPU) is x
    assert move_features(x.half(), CPU).dtype == torch.float32
    sparse = x.to_sparse_csr()
    assert move_features(sparse, CPU) is sparse
    assert move_features(x, torch.device("meta")).is_meta


def test_states_are_moved_to_the_cpu() -> None:
    there = torch.zeros(2, dtype=torch.int64)
    assert to_cpu({"a": [there, "word"], "b": {"c": 1}}) == {"a": [there, "word"], "b": {"c": 1}}
    assert to_cpu(there) is there, "tensors on the CPU are not copied"


def test_the_generator_of_a_device_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the generator of the CPU in the place of one on a GPU."""
    device, generator = torch.device("cuda"), torch.Generator()
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda *_: generator.get_state())
    monkeypatch.setattr(torch.cuda, "set_rng_state", generator.set_state)
    monkeypatch.setattr(torch.cuda, "manual_seed", generator.manual_seed)
    monkeypatch.setattr(torch.cuda, "device", lambda _: torch.no_grad())

    def draw() -> list[float]:
        return torch.rand(3, generator=generator).tolist()

    before = generator.get_state()
    with own_generator(device, 5, {}):
        first, states, second = draw(), generator_states(device), draw()
    assert torch.equal(generator.get_state(), before)
    with own_generator(device, 5, {}):
        assert draw() == first
    with own_generator(device, 5, states):
        assert draw() == second
    with own_generator(device, 5, {"mps": states["cuda"]}):
        assert draw() == first, "the state of another kind of device is ignored"
    assert generator_states(CPU) == {}


def test_the_number_of_threads_is_restored() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with suppress(KeyError), one_thread():
            assert torch.get_num_threads() == 1
            raise KeyError
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
