from __future__ import annotations

import pytest
import torch

from hpn.errors import ConfigError
from hpn.experiment import computing as computing_module
from hpn.experiment.computing import Computing, choose_computing


@pytest.mark.parametrize("word", ["cuda:1", "mps", "gpu"])
def test_a_cluster_has_its_own_say_about_devices(word: str) -> None:
    assert choose_computing("cuda", "mixed", ray="auto") == Computing("cuda", "mixed")
    assert choose_computing("auto", "float32", ray="auto") == Computing("cpu", "float32")
    with pytest.raises(
        ConfigError, match=f"^device '{word}' cannot be had on a Ray cluster; choose cpu, cuda"
    ):
        choose_computing(word, "float32", ray="auto")


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^unknown precision 'half'; known: float32, mixed$"):
        choose_computing("cpu", "half")


def test_workers_take_turns_at_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    found = []
    for number in range(3):
        monkeypatch.setattr(computing_module, "worker_number", lambda number=number: number)
        found.append(Computing("cuda", "mixed").here())
        assert Computing("cpu").here() == Computing("cpu")
        assert Computing("cuda:1").here() == Computing("cuda:1")
    assert found == [Computing(f"cuda:{number}", "mixed") for number in (0, 1, 0)]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert Computing("cuda").here() == Computing("cuda")
