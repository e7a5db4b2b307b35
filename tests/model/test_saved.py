"""Saved models: what comes back, what is refused, and what a failure leaves behind."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hpn.datasets import Graph
from hpn.errors import CheckpointError
from hpn.experiment.run.checkpoint import save_checkpoint
from hpn.model import HPNClassifier
from hpn.model.saved import FORMAT

NAMES = np.array(["fig", "apple", "kiwi", "date", "plum", "lime"])
HEADER = "checkpoint.json"
TASKS = [None, "own", "pooled", 7]


def learn(model: HPNClassifier, graph: Graph, *classes: int, task: int | str | None = None) -> HPNClassifier:
    nodes = np.flatnonzero(np.isin(graph.y[:200], classes))
    return model.partial_fit(graph, nodes, NAMES[graph.y[nodes]], task=task)


@pytest.fixture(scope="module")
def model(graph: Graph) -> HPNClassifier:
    """Text labels and every kind of task; not to be fitted any further."""
    model = HPNClassifier(width=64, strength=0.2, balance=0.5, threshold=0.004, random_state=3)
    learn(model, graph, 0, 1, task="own")
    learn(model, graph, 2, task="pooled")
    learn(model, graph, 5)
    learn(model, graph, 3, task="pooled")
    return learn(model, graph, 4, task=7)


@pytest.fixture
def folder(model: HPNClassifier, tmp_path: Path) -> Path:
    model.save(tmp_path / "model")
    return tmp_path / "model"


def answers(model: HPNClassifier, graph: Graph) -> list[bytes]:
    return [model.predict_proba(graph, task=task).tobytes() for task in TASKS]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def change(folder: Path, where: str, value: Any) -> None:
    """Set an entry of the header; ``...`` takes it out."""
    header = json.loads((folder / HEADER).read_text())
    *path, last = [int(name) if name.isdigit() else name for name in where.split("/")]
    entry = header
    for name in path:
        entry = entry[name]
    entry[last] = value
    if value is ...:
        del entry[last]
    (folder / HEADER).write_text(json.dumps(header))


def check_refused(folder: Path | str, *words: str) -> None:
    """One line that names the folder, and says what to do."""
    with pytest.raises(CheckpointError) as caught:
        HPNClassifier.load(folder)
    text = str(caught.value)
    assert type(caught.value) is CheckpointError
    assert "\n" not in text
    assert str(folder) in text
    assert "; " in text, "what is wrong, and what to do about it"
    assert "--out" not in text, "there is no such option here"
    for word in words:
        assert word in text


# ---------------------------------------------------------------------- what comes back


def test_a_model_comes_back_as_it_was(model: HPNClassifier, graph: Graph, tmp_path: Path) -> None:
    model.save(str(tmp_path / "some" / "deep" / "folder"))
    loaded = HPNClassifier.load(str(tmp_path / "some" / "deep" / "folder"))
    assert loaded.get_params() == model.get_params()
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert loaded.classes_.dtype == model.classes_.dtype
    assert (loaded.tasks_, loaded.counts_) == (model.tasks_, model.counts_)
    assert loaded.n_features_in_ == 12
    assert loaded.prototype_counts_ == model.prototype_counts_
    assert answers(loaded, graph) == answers(model, graph)
    assert all(loaded.is_certified(task) for task in loaded.tasks_)
    assert loaded.explain(graph, [1, 2]) == model.explain(graph, [1, 2])
    loaded.save(tmp_path / "again")
    assert contents(tmp_path / "again") == contents(tmp_path / "some" / "deep" / "folder")


def test_a_loaded_model_learns_on_as_if_nothing_had_happened(
    model: HPNClassifier, graph: Graph, folder: Path, tmp_path: Path
) -> None:
    models = [HPNClassifier.load(folder), pickle.loads(pickle.dumps(model))]
    for at, other in enumerate(models):
        learn(other, graph, 1, 4, task="own")
        learn(other, graph, 0)
        other.save(tmp_path / str(at))
    assert answers(models[0], graph) == answers(models[1], graph)
    assert contents(tmp_path / "0") == contents(tmp_path / "1")


@pytest.mark.parametrize("labels", [[3, -7, 2**62], [True, False]])
def test_labels_come_back_as_they_were(labels: list[Any], graph: Graph, tmp_path: Path) -> None:
    y = np.array(labels)[np.arange(60) % len(labels)]
    model = HPNClassifier(width=64).fit(graph, np.arange(60), y)
    model.save(tmp_path)
    loaded = HPNClassifier.load(tmp_path)
    assert loaded.classes_.tolist() == sorted(labels)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.predict(graph).tolist() == model.predict(graph).tolist()


def test_saving_again_replaces_the_model_and_nothing_else(model: HPNClassifier, graph: Graph, folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    learn(HPNClassifier(width=70), graph, 0, 1).save(folder)
    assert HPNClassifier.load(folder).classes_.tolist() == ["apple", "fig"]
    model.save(folder)
    assert answers(HPNClassifier.load(folder), graph) == answers(model, graph)
    assert (folder / "notes.txt").read_text() == "mine"
    assert len(list(folder.iterdir())) == 3


# ---------------------------------------------------------------------- nothing is unpickled


class Trap:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("write", [lambda trap, path: path.write_bytes(pickle.dumps(trap)), torch.save])
@pytest.mark.parametrize("pattern", ["*.json", "*.safetensors"])
def test_a_pickle_is_refused(pattern: str, write: Callable[[Trap, Path], Any], folder: Path, tmp_path: Path) -> None:
    mark, (path,) = tmp_path / "unpickled", folder.glob(pattern)
    write(Trap(mark), path)
    if pattern == "*.safetensors":
        change(folder, "sha256", hashlib.sha256(path.read_bytes()).hexdigest())
    check_refused(folder, "is damaged", "save the model again")
    assert not mark.exists()
    pickle.loads(pickle.dumps(Trap(mark)))
    assert mark.exists(), "the trap works"


# ---------------------------------------------------------------------- what is refused


def test_there_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("{}")
    for path in (tmp_path / "missing", tmp_path / "empty"):
        check_refused(path, "is not a saved model", "give the folder of one")
    check_refused(tmp_path / "file", "cannot read", "Not a directory", "give the folder of a model")
    assert not (tmp_path / "missing").exists()


def test_it_cannot_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / HEADER).unlink()
    (folder / HEADER).mkdir()
    check_refused(folder, "cannot read", "Is a directory")

    def refuse(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    check_refused(folder, "cannot read", "Permission denied")


def test_it_is_something_else(folder: Path, tmp_path: Path) -> None:
    save_checkpoint(tmp_path, {"learner": {"weight": torch.ones(3)}})
    check_refused(tmp_path, "is not a saved model")
    save_checkpoint(folder, {"kind": "cake"})
    check_refused(folder, "is not a saved model")


def test_it_has_another_format(folder: Path) -> None:
    for found in (FORMAT + 1, FORMAT - 1):
        save_checkpoint(folder, {"kind": "hpn-model", "model_format": found})
        check_refused(folder, f"has format {found}, hpn reads format {FORMAT}; upgrade hpn, or fit the model again")
    change(folder, "format", 99)
    check_refused(folder, "has format 99, this version of hpn reads up to 1")


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        *((".json", lambda whole, part=part: whole[: len(whole) * part // 8]) for part in range(8)),
        *((".json", lambda _, text=text: text.encode()) for text in ("null", "[]", '"x"', "{}", "\0", "[" * 10**6)),
        (".json", lambda _: b"\xff\xfe\x80"),
        *((".safetensors", lambda whole, part=part: whole[: len(whole) * part // 4]) for part in range(4)),
        (".safetensors", lambda whole: whole + b"\0"),
        (".safetensors", lambda whole: bytes([whole[0] ^ 1]) + whole[1:]),
    ],
)
def test_files_are_damaged(suffix: str, damage: Callable[[bytes], bytes], folder: Path) -> None:
    (path,) = folder.glob(f"*{suffix}")
    path.write_bytes(damage(path.read_bytes()))
    check_refused(folder, "is damaged", "save the model again")
    path.unlink()
    check_refused(folder, "is damaged" if suffix == ".safetensors" else "is not a saved model")


@pytest.mark.parametrize(
    ("where", "values"),
    [
        ("format", ("one", ...)),
        ("tensors", (..., 5, "../model", "/etc/passwd", "a\0b")),
        ("sha256", (..., None)),
        ("content_sha256", (..., None, "0")),
        ("content", (..., [], "x")),
        ("content/model_format", (None, "one")),
        ("content/params/strength", (..., "x", 0.3)),
        ("content/labels/0/1", (4,)),
        ("content/network/memory/learned", (..., {"$tensor": "nothing"})),
    ],
)
def test_the_text_is_damaged(where: str, values: tuple[Any, ...], folder: Path) -> None:
    whole = (folder / HEADER).read_bytes()
    for value in values:
        change(folder, where, value)
        check_refused(folder, "is damaged", "save the model again")
        (folder / HEADER).write_bytes(whole)
    assert HPNClassifier.load(folder).tasks_ == ["own", "pooled", 7]


# ---------------------------------------------------------------------- what cannot be written


def test_a_folder_that_cannot_be_written(model: HPNClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    (tmp_path / "file").write_text("mine")
    for folder, why in ((tmp_path / "file", "File exists"), (tmp_path / "file" / "below", "Not a directory")):
        with pytest.raises(CheckpointError, match=rf"^cannot write {folder} \({why}\); choose another folder$"):
            model.save(folder)
    assert (tmp_path / "file").read_text() == "mine"
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(CheckpointError, match=rf"^cannot write {tmp_path} \(Permission denied\); choose another"):
        model.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def _full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("make_error", [KeyboardInterrupt, _full], ids=["interrupt", "full disk"])
@pytest.mark.parametrize(
    ("target", "calls"),
    [
        ("hpn.experiment.run.checkpoint.save_tensors", 1),
        ("os.fsync", 1),  # of the tensors
        ("os.fsync", 3),  # of the text; the folder is in between
        ("pathlib.Path.replace", 1),
        ("pathlib.Path.replace", 2),
    ],
)
def test_the_old_model_stays_if_the_new_one_cannot_be_written(
    target: str,
    calls: int,
    make_error: Callable[[], BaseException],
    model: HPNClassifier,
    graph: Graph,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = contents(folder)
    other = learn(HPNClassifier(width=70), graph, 0, 1)
    left = [calls]

    def fail(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise make_error()
        return original(*args, **kwargs)

    where, _, name = target.rpartition(".")
    with monkeypatch.context() as patch:
        owner = Path if where == "pathlib.Path" else __import__(where, fromlist=[name])
        original = getattr(owner, name)
        patch.setattr(owner, name, fail)
        with pytest.raises(KeyboardInterrupt if make_error is KeyboardInterrupt else CheckpointError):
            other.save(folder)
    assert left[0] <= 0
    now = contents(folder)
    assert {path: now.get(path) for path in old} == old
    assert not [name for name in now if name.endswith(".part")]
    assert answers(HPNClassifier.load(folder), graph) == answers(model, graph)
    other.save(folder)
    assert HPNClassifier.load(folder).classes_.tolist() == ["apple", "fig"]
    assert len(contents(folder)) == 2, "nothing of what failed is left"
