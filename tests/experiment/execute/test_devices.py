from __future__ import annotations

import pytest
import torch

from hpn.errors import ConfigError
from hpn.experiment.execute import devices
from hpn.experiment.execute.devices import choose_job_device, device_here


def test_the_machines_of_a_cluster_compute_on_the_cpu_or_on_a_gpu_each() -> None:
    assert choose_job_device("cuda", ray="auto") == "cuda"
    assert choose_job_device("auto", ray="auto") == "cpu"
    for word in ("cuda:1", "mps", "gpu"):
        with pytest.raises(
            ConfigError, match=f"^device '{word}' is not available on a Ray cluster; choose cpu, cuda"
        ):
            choose_job_device(word, ray="auto")


def test_workers_take_turns_at_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    found = []
    for number in range(3):
        monkeypatch.setattr(devices, "worker_number", lambda number=number: number)
        found.append(device_here("cuda"))
        assert device_here("cpu") == "cpu"
        assert device_here("cuda:1") == "cuda:1"
    assert found == ["cuda:0", "cuda:1", "cuda:0"]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert device_here("cuda") == "cuda"
