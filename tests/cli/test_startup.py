"""What commands import: a package that takes long is loaded only by commands that use it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import hpn

NEVER = {"torch_geometric", "sklearn", "pandas", "optuna", "ray", "duckdb", "matplotlib", "torch._dynamo"}
"""Not even a run on ``digits`` needs these."""
COMPUTING = {"torch", "numpy", "scipy", "threadpoolctl", "safetensors", "yaml", "filelock"}
"""What was computed can be shown without these."""


def loaded_by(folder: Path, *words: str) -> set[str]:
    """Modules that a command has loaded when it ends."""
    code = (
        "import json, sys, hpn.cli\n"
        "try:\n"
        "    hpn.cli.main()\n"
        "finally:\n"
        "    open('modules.json', 'w').write(json.dumps(list(sys.modules)))\n"
    )
    subprocess.run([sys.executable, "-c", code, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return set(json.loads((folder / "modules.json").read_text()))


@pytest.mark.parametrize("words", [(), ("--help",), ("theory",), ("run", "--help")])
def test_help_loads_nothing_that_computes(tmp_path: Path, words: tuple[str, ...]) -> None:
    loaded = loaded_by(tmp_path, *words)
    assert "typer" in loaded
    assert not loaded & (NEVER | COMPUTING)


@pytest.mark.parametrize("words", ["datasets", "recipes", "theory choose --budget 1kB --dim 2"])
def test_what_needs_no_torch_does_not_import_it(tmp_path: Path, words: str) -> None:
    assert not loaded_by(tmp_path, *words.split()) & (NEVER | {"torch", "safetensors"})


def test_a_finished_run_is_shown_without_what_computes(tmp_path: Path) -> None:
    words = ("run", "digits", "--tasks", "0,1;2,3", "--quiet")
    loaded = loaded_by(tmp_path, *words)
    assert "torch" in loaded
    assert not loaded & NEVER
    loaded = loaded_by(tmp_path, *words)
    assert "hpn.experiment.run.finished" in loaded
    assert not loaded & (NEVER | COMPUTING)


def test_a_model_is_shown_without_what_fits_it(tmp_path: Path) -> None:
    graph = hpn.load_dataset("synthetic", num_nodes=60, num_links=200, num_features=4, num_classes=3)
    hpn.HPNClassifier(width=20).fit(graph).save(tmp_path / "model")
    assert not loaded_by(tmp_path, "show", "model") & (NEVER | COMPUTING)
