"""Saved models: a folder of safetensors and JSON that is checked on reading. Nothing is unpickled."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpn.errors import CheckpointError, describe_disk_full, disk_full

KIND, FORMAT = "hpn-model", 4
NAME = "checkpoint.json"  # that of hpn.experiment.run.checkpoint, which needs PyTorch


def is_model(folder: Path) -> bool:
    """Whether a folder holds a model of any version, damaged or not."""
    try:
        text = (folder / NAME).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return f'"kind": "{KIND}"' in text


def read_summary(folder: Path) -> dict[str, Any] | None:
    """The summary of a saved model, read without PyTorch; ``None`` if loading it would report what is wrong."""
    try:
        header = json.loads((folder / NAME).read_bytes())
        content = header["content"]
        written = json.dumps(content, sort_keys=True).encode(), (folder / header["tensors"]).read_bytes()
        found = [hashlib.sha256(part).hexdigest() for part in written]
        is_whole = found == [header["content_sha256"], header["sha256"]]
        is_model = (content["kind"], content["model_format"]) == (KIND, FORMAT)
        return dict(content["summary"]) if is_whole and is_model else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def save_model(folder: Path, content: Mapping[str, Any]) -> None:
    """Write a model to a folder; an earlier one stays until the new one is complete."""
    from hpn.experiment.run.checkpoint import save_checkpoint

    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_checkpoint(folder, {"kind": KIND, "model_format": FORMAT, **content})
        for part in folder.glob(".*.part"):  # left by an interrupted command
            part.unlink(missing_ok=True)
    except OSError as error:
        if disk_full(error):
            kept = "the model saved there before is kept" if is_model(folder) else "no model is there yet"
            raise CheckpointError(describe_disk_full(folder, kept)) from error
        raise CheckpointError(f"cannot write {folder} ({error.strerror}); choose another folder") from error


def load_model(folder: Path) -> dict[str, Any]:
    """Read what :func:`save_model` wrote."""
    from hpn.experiment.run.checkpoint import load_checkpoint

    try:
        content = load_checkpoint(folder)
    except CheckpointError as error:
        raise CheckpointError(f"{str(error).partition(';')[0]}; save the model again") from None
    except OSError as error:
        raise CheckpointError(f"cannot read {folder} ({error.strerror}); give the folder of a model") from None
    if content is None or content.get("kind") != KIND:
        raise CheckpointError(f"{folder} is not a saved model ({NAME} of a model is missing); give the folder of one")
    if content["model_format"] != FORMAT:
        advice = "upgrade hpn, or fit the model again with this version"
        raise CheckpointError(f"{folder} has format {content['model_format']}, hpn reads format {FORMAT}; {advice}")
    return content
