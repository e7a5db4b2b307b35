from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from hpn.errors import CheckpointError
from hpn.experiment.run.checkpoint import FORMAT, load_checkpoint, save_checkpoint

BASE = torch.arange(6.0).reshape(2, 3)
CONTENT: dict[str, Any] = {
    "learner": {"weight": torch.randn(3, 2), "empty": torch.zeros(0, 4), "step": torch.tensor(7.0)},
    "views": {"same": BASE, "again": BASE, "strided": BASE.t(), "rng": torch.get_rng_state()},
    "rows": [[1.0], [2.0, 3.0]],
    "name": "x/y",
    "nothing": None,
}


def load(folder: Path) -> dict[str, Any]:
    loaded = load_checkpoint(folder)
    assert loaded is not None
    return loaded


def test_round_trip(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path) is None
    save_checkpoint(tmp_path, CONTENT)
    loaded = load(tmp_path)
    for part in ("learner", "views"):
        for name, tensor in CONTENT[part].items():
            assert torch.equal(loaded[part][name], tensor)
            assert loaded[part][name].dtype == tensor.dtype
    assert all(loaded[key] == CONTENT[key] for key in ("rows", "name", "nothing"))


def test_only_json_and_safetensors_are_written_and_old_ones_are_deleted(tmp_path: Path) -> None:
    for number in range(3):
        save_checkpoint(tmp_path, {"x": torch.full((2,), float(number))})
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".safetensors"]


def test_a_crash_between_the_two_files_keeps_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(tmp_path, {"x": torch.zeros(1)})

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hpn.experiment.run.checkpoint.write_json", crash)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(tmp_path, {"x": torch.ones(1)})
    assert load(tmp_path)["x"].item() == 0


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, CONTENT)
    file = tmp_path / "checkpoint.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": FORMAT + 1}))
    with pytest.raises(CheckpointError, match=f"format {FORMAT + 1}, this version .* up to {FORMAT}"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [
        ("*.json", lambda content: content[:50]),
        ("*.json", lambda _: b"[1]"),
        ("*.json", lambda content: content.replace(b"x/y", b"x/z")),
        ("*.safetensors", lambda content: content[:-3]),
        ("*.safetensors", None),
    ],
)
def test_damage_is_named(tmp_path: Path, pattern: str, damage: Any) -> None:
    save_checkpoint(tmp_path, CONTENT)
    (file,) = tmp_path.glob(pattern)
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(CheckpointError, match=r"checkpoint\.json is damaged .* delete") as error:
        load_checkpoint(tmp_path)
    assert "\n" not in str(error.value)
