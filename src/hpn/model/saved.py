"""Saved models: a folder of safetensors and JSON that is checked when it is read; nothing is unpickled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from hpn.errors import CheckpointError, HPNError
from hpn.experiment.run.checkpoint import NAME, load_checkpoint, save_checkpoint

KIND, FORMAT, OLDEST = "hpn-model", 3, 2

T = TypeVar("T")


def is_model(folder: Path) -> bool:
    """Whether a folder holds a model, of whatever version and in whatever condition."""
    try:
        text = (folder / NAME).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return f'"kind": "{KIND}"' in text


def save_model(folder: Path, content: Mapping[str, Any]) -> None:
    """Write a model to a folder; an earlier one stays until the new one is complete.

    Raises:
        CheckpointError: If the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_checkpoint(folder, {"kind": KIND, "model_format": FORMAT, **content})
        for part in folder.glob(".*.part"):  # what an interrupted command has left
            part.unlink(missing_ok=True)
    except OSError as error:
        raise CheckpointError(f"cannot write {folder} ({error.strerror}); choose another folder") from error


def load_model(folder: Path, restore: Callable[[dict[str, Any]], T]) -> T:
    """Read what :func:`save_model` wrote, and make a model of it.

    Raises:
        CheckpointError: If there is nothing of the kind, or it is damaged or of a newer version.
    """
    try:
        content = load_checkpoint(folder)
    except CheckpointError as error:
        raise CheckpointError(f"{str(error).partition(';')[0]}; save the model again") from None
    except OSError as error:
        raise CheckpointError(
            f"cannot read {folder} ({error.strerror}); give the folder of a model"
        ) from None
    if content is None or content.get("kind") != KIND:
        raise CheckpointError(
            f"{folder} is not a saved model ({NAME} of one is missing); give the folder of one"
        )
    found = content.get("model_format")
    if not isinstance(found, int) or isinstance(found, bool):
        raise CheckpointError(f"{folder} is damaged (it has no format number); save the model again")
    if found > FORMAT:
        raise CheckpointError(
            f"{folder} has format {found}, this version of hpn reads up to {FORMAT}; upgrade hpn"
        )
    if found < OLDEST:
        raise CheckpointError(
            f"{folder} has format {found} of an earlier version of hpn, which did not know what it learned; "
            "fit the model again"
        )
    try:
        return restore(content)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, IndexError, HPNError) as error:
        raise CheckpointError(f"{folder} is damaged ({error!r}); save the model again") from error
