"""Checkpoints: tensors in safetensors, everything else in JSON, nothing pickled.

``checkpoint.json`` is the commit point. It names the tensor file that belongs to it, which is written first
under a new name. So the JSON on disk and its tensors fit together whenever a crash happens.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from hpn.errors import CheckpointError, ConfigError
from hpn.experiment.run.folder import write_atomic, write_json

FORMAT = 1
NAME = "checkpoint.json"
TENSOR_KEY = "$tensor"


def save_checkpoint(folder: Path, content: Mapping[str, Any]) -> None:
    """Replace the checkpoint in ``folder``."""
    tensors: dict[str, Tensor] = {}
    tree = _split(content, "", tensors)
    payload = save_tensors(tensors)
    digest = hashlib.sha256(payload).hexdigest()
    file = f"state-{digest[:16]}.safetensors"
    write_atomic(folder / file, payload)
    header = {"format": FORMAT, "tensors": file, "sha256": digest, "content_sha256": _digest(tree)}
    write_json(folder / NAME, {**header, "content": tree})
    for old in folder.glob("state-*.safetensors"):
        if old.name != file:
            old.unlink()


def load_checkpoint(folder: Path) -> dict[str, Any] | None:
    """Read the checkpoint in ``folder``; ``None`` if there is none."""
    path = folder / NAME
    try:
        header = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "it is not JSON") from error
    if not isinstance(header, dict) or not isinstance(header.get("format"), int):
        raise _damaged(path, "it has no format number")
    if header["format"] > FORMAT:
        raise CheckpointError(
            f"{path} has format {header['format']}, this version of hpn reads up to {FORMAT}; "
            "upgrade hpn, or choose another --out"
        )
    try:
        payload = (folder / header["tensors"]).read_bytes()
        if hashlib.sha256(payload).hexdigest() != header["sha256"]:
            raise _damaged(path, f"{header['tensors']} is not what was written")
        digest = _digest(header["content"])
        if header["content_sha256"] != digest:
            raise _damaged(path, "it is not what was written")
        content = _join(header["content"], load_tensors(payload))
    except (OSError, KeyError, TypeError, ValueError, SafetensorError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error
    if not isinstance(content, dict):
        raise _damaged(path, "it has no content")
    return content


def _digest(tree: Any) -> str:
    read = json.loads(json.dumps(tree))  # as it will be read: keys are strings
    return hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()


def _split(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """Move tensors out of a nested structure; their names replace them."""
    if isinstance(value, Tensor):
        tensors[path] = value.detach().clone().contiguous()
        return {TENSOR_KEY: path}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise ConfigError(f"{path} cannot be saved: its keys should be text, such as {str(key)!r}, got {key!r}")
        return {key: _split(item, f"{path}/{key}" if path else key, tensors) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_split(item, f"{path}/{number}", tensors) for number, item in enumerate(value)]
    if not isinstance(value, str | int | float | None):
        kinds = "tensors, numbers, text, or lists and dictionaries of these"
        raise ConfigError(f"{path} cannot be saved: it should be {kinds}, got {type(value).__name__}")
    return value


def _join(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_join(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {TENSOR_KEY}:
        return tensors[value[TENSOR_KEY]]
    return {key: _join(item, tensors) for key, item in value.items()}


def _damaged(path: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"{path} is damaged ({why}); delete {path.parent} to start that seed over, or choose another --out"
    )
