"""``--device`` and ``--ray`` on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

Cli = Callable[..., tuple[int, str, str]]

SMALL = ("synthetic", "--set", "data.num_nodes=120", "--set", "data.num_links=400", "--set", "data.num_classes=4")
COMMANDS = {
    "run": ("run", *SMALL, "--method", "ncm"),
    "compare": ("compare", *SMALL, "--methods", "ncm"),
    "tune": ("tune", *SMALL, "--method", "ncm"),
    "reproduce": ("reproduce", "memory", "--datasets", "digits"),
}
WRONG = {
    ("--device", "gpu"): "unknown device 'gpu'; known: cpu, cuda, cuda:N, mps, auto",
    ("--device", "cuda"): "device 'cuda' is not available; available: cpu (or use auto)",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_device_that_is_not_available_is_one_line_and_code_2(
    cli: Cli, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for words, message in WRONG.items():
        assert cli(*COMMANDS[command], *words) == (2, "", f"hpn: {message}\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["compare", "tune"])
def test_a_cluster_and_workers_exclude_each_other(cli: Cli, command: str, tmp_path: Path) -> None:
    message = "hpn: give --workers N or --ray ADDRESS, not both: a cluster uses the cores it has\n"
    assert cli(*COMMANDS[command], "--workers", "2", "--ray", "auto") == (2, "", message)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["compare", "tune"])
def test_a_cluster_that_does_not_answer_is_one_line_and_code_2(cli: Cli, command: str) -> None:
    code, out, err = cli(*COMMANDS[command], "--ray", "127.0.0.1:1", "--quiet")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "cannot reach the Ray cluster 127.0.0.1:1 (" in err


def test_auto_is_the_cpu_bit_for_bit_where_there_is_nothing_else(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)

    def outcome(*words: str) -> tuple[Any, list[bytes]]:
        folder = tmp_path / "-".join(["out", *words])
        settings = ("--method", "finetune", "--backbone", "gcn", "--set", "epochs=3")
        code, out, err = cli("run", *SMALL, *settings, *words, "--out", str(folder), "--json", "--quiet")
        assert (code, err) == (0, "")
        result = json.loads(out)
        tensors = [path.read_bytes() for path in sorted(folder.rglob("*.safetensors"))]
        return [result[key] for key in ("am", "fm", "parameters", "command")], tensors

    first = outcome()
    assert len(first[1]) == 1
    assert outcome("--device", "auto") == outcome("--device", "cpu") == first
