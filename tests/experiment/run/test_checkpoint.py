from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from hpn.errors import CheckpointError
from hpn.experiment.run.checkpoint import FORMAT, load_checkpoint, save_checkpoint

CONTENT: dict[str, Any] = {
    "learner": {"weight": torch.randn(3, 2), "empty": torch.zeros(0, 4), "step": torch.tensor(7.0)},
    "rng": torch.get_rng_state(),
    "rows": [[1.0], [2.0, 3.0]],
    "name": "x/y",
    "nothing": None,
}


def tensor_file(folder: Path) -> Path:
    (file,) = folder.glob("*.safetensors")
    return file


def test_round_trip(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, CONTENT)
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    for key in ("weight", "empty", "step"):
        assert torch.equal(loaded["learner"][key], CONTENT["learner"][key])
        assert loaded["learner"][key].dtype == CONTENT["learner"][key].dtype
    assert torch.equal(loaded["rng"], CONTENT["rng"])
    assert {key: loaded[key] for key in ("rows", "name", "nothing")} == {
        key: CONTENT[key] for key in ("rows", "name", "nothing")
    }


def test_shared_and_strided_tensors_are_saved(tmp_path: Path) -> None:
    base = torch.arange(6.0).reshape(2, 3)
    save_checkpoint(tmp_path, {"a": base, "b": base, "c": base.t()})
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    assert torch.equal(loaded["c"], base.t())


def test_only_json_and_safetensors_are_written_and_old_ones_go(tmp_path: Path) -> None:
    for number in range(3):
        save_checkpoint(tmp_path, {"x": torch.full((2,), float(number))})
    names = sorted(path.suffix for path in tmp_path.iterdir())
    assert names == [".json", ".safetensors"]


def test_none_where_there_is_none(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path) is None


def test_a_crash_between_the_two_files_keeps_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(tmp_path, {"x": torch.zeros(1)})

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hpn.experiment.run.checkpoint.write_json", crash)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(tmp_path, {"x": torch.ones(1)})
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    assert loaded["x"].item() == 0


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, CONTENT)
    file = tmp_path / "checkpoint.json"
    header = json.loads(file.read_text())
    file.write_text(json.dumps({**header, "format": FORMAT + 1}))
    with pytest.raises(CheckpointError, match=f"format {FORMAT + 1}, this version .* up to {FORMAT}"):
        load_checkpoint(tmp_path)


def damage_json(folder: Path) -> None:
    file = folder / "checkpoint.json"
    file.write_bytes(file.read_bytes()[:50])


def damage_header(folder: Path) -> None:
    (folder / "checkpoint.json").write_text("[1]")


def damage_content(folder: Path) -> None:
    file = folder / "checkpoint.json"
    file.write_text(file.read_text().replace("x/y", "x/z"))


def damage_tensors(folder: Path) -> None:
    file = tensor_file(folder)
    file.write_bytes(file.read_bytes()[:-3])


def remove_tensors(folder: Path) -> None:
    tensor_file(folder).unlink()


@pytest.mark.parametrize("damage", [damage_json, damage_header, damage_content, damage_tensors, remove_tensors])
def test_damage_is_named(tmp_path: Path, damage: Any) -> None:
    save_checkpoint(tmp_path, CONTENT)
    damage(tmp_path)
    with pytest.raises(CheckpointError, match=r"checkpoint\.json is damaged .* delete") as error:
        load_checkpoint(tmp_path)
    assert "\n" not in str(error.value)
