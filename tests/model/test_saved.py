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
from hpn.model.saved import FORMAT, OLDEST, load_model, save_model

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


def tensors_of(folder: Path) -> Path:
    (path,) = folder.glob("*.safetensors")
    return path


def change(folder: Path, where: str, value: Any) -> None:
    """Set an entry of the header; ``...`` takes it out."""
    header = json.loads((folder / HEADER).read_text())
    *path, last = where.split("/")
    entry = header
    for name in path:
        entry = entry[int(name) if isinstance(entry, list) else name]
    if value is ...:
        del entry[int(last) if isinstance(entry, list) else last]
    else:
        entry[int(last) if isinstance(entry, list) else last] = value
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


def test_a_saved_model_is_text_and_tensors(folder: Path) -> None:
    assert {path.suffix for path in folder.iterdir()} == {".json", ".safetensors"}
    header = json.loads((folder / HEADER).read_text())
    assert header["content"]["kind"] == "hpn-model"
    assert header["content"]["model_format"] == FORMAT
    assert header["content"]["params"]["threshold"] == 0.004


def test_saving_again_replaces(model: HPNClassifier, graph: Graph, folder: Path) -> None:
    other = learn(HPNClassifier(width=70), graph, 0, 1)
    other.save(folder)
    assert HPNClassifier.load(folder).classes_.tolist() == ["apple", "fig"]
    assert len(list(folder.iterdir())) == 2
    model.save(folder)
    assert answers(HPNClassifier.load(folder), graph) == answers(model, graph)
    assert len(list(folder.iterdir())) == 2


def test_files_of_others_in_the_folder_are_left_alone(model: HPNClassifier, folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    model.save(folder)
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
@pytest.mark.parametrize("place", ["header", "tensors", "tensors that are announced"])
def test_a_pickle_is_refused(place: str, write: Callable[[Trap, Path], Any], folder: Path, tmp_path: Path) -> None:
    mark = tmp_path / "unpickled"
    path = folder / HEADER if place == "header" else tensors_of(folder)
    write(Trap(mark), path)
    if place.endswith("announced"):
        change(folder, "sha256", hashlib.sha256(path.read_bytes()).hexdigest())
    check_refused(folder, "is damaged", "save the model again")
    assert not mark.exists()
    pickle.loads(pickle.dumps(Trap(mark)))
    assert mark.exists(), "the trap works"


def test_loading_does_not_use_pickle(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("something was unpickled")

    for name in ("pickle.load", "pickle.loads", "pickle.Unpickler", "torch.load", "numpy.load"):
        monkeypatch.setattr(name, fail)
    assert HPNClassifier.load(folder).tasks_ == ["own", "pooled", 7]


# ---------------------------------------------------------------------- what is refused


def test_there_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "missing", tmp_path / "empty"):
        check_refused(path, "is not a saved model", "give the folder of one")
    assert not (tmp_path / "missing").exists()


def test_it_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("{}")
    check_refused(tmp_path / "file", "cannot read", "Not a directory", "give the folder of a model")
    check_refused("/etc/passwd", "give the folder of")


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


def test_it_is_newer(folder: Path) -> None:
    save_checkpoint(folder, {"kind": "hpn-model", "model_format": FORMAT + 1})
    check_refused(folder, f"has format {FORMAT + 1}, this version of hpn reads up to {FORMAT}; upgrade hpn")
    change(folder, "format", 99)
    check_refused(folder, "has format 99, this version of hpn reads up to 1")


def test_it_is_older(model: HPNClassifier, graph: Graph, folder: Path) -> None:
    save_checkpoint(folder, {"kind": "hpn-model", "model_format": OLDEST - 1})
    check_refused(folder, f"has format {OLDEST - 1} of an earlier version of hpn", "fit the model again")
    model.save(folder)
    change(folder, "content_sha256", ...)
    change(folder, "content/model_format", 2)
    change(
        folder,
        "content/latest_graph",
        json.loads((folder / HEADER).read_text())["content"]["network"]["memory"]["graph"],
    )
    change(folder, "content/network/memory/graph", ...)
    loaded = HPNClassifier.load(folder)
    assert answers(loaded, graph) == answers(model, graph), "format 2 had the graph elsewhere"


def test_the_text_is_cut_short(folder: Path) -> None:
    whole = (folder / HEADER).read_bytes()
    for length in range(0, len(whole) - 2, len(whole) // 40):
        (folder / HEADER).write_bytes(whole[:length])
        check_refused(folder, "is damaged (it is not JSON)", "save the model again")


def test_tensors_are_cut_short_or_changed(folder: Path) -> None:
    path = tensors_of(folder)
    whole = path.read_bytes()
    for length in (0, 7, 8, 500, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        check_refused(folder, f"{path.name} is not what was written")
        change(folder, "sha256", hashlib.sha256(whole[:length]).hexdigest())
        check_refused(folder, "is damaged")
        change(folder, "sha256", hashlib.sha256(whole).hexdigest())
    for place in (0, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        check_refused(folder, f"{path.name} is not what was written")
    path.write_bytes(whole + b"\0")
    check_refused(folder, f"{path.name} is not what was written")
    path.unlink()
    check_refused(folder, "is damaged")
    path.write_bytes(whole)
    assert HPNClassifier.load(folder).tasks_ == ["own", "pooled", 7]


MEMORY, TASKS_AT, PARAMS = "content/network/memory", "content/network/tasks", "content/params"
DAMAGE: dict[str, tuple[Any, ...]] = {
    "format": ("one", ...),
    "tensors": (..., 5, "../model", "/etc/passwd"),
    "sha256": (..., None),
    "content": ([], "x"),
    PARAMS: (..., [1, 2]),
    f"{PARAMS}/width": (..., 65),
    f"{PARAMS}/depth": (3,),
    "content/num_features": (...,),
    "content/labels": (..., 5),
    "content/labels/0": (["x", "y"], [1, 2, 3]),
    "content/network": (..., "x"),
    MEMORY: (...,),
    f"{MEMORY}/remembered": (..., {"$tensor": "nothing"}),
    f"{MEMORY}/learned/0": (...,),
    f"{MEMORY}/learned/0/sums": (..., 3),
    TASKS_AT: (...,),
    f"{TASKS_AT}/0/name": (..., []),
    f"{TASKS_AT}/1/kind": ("TaskExtractor",),
    "content/network/extractors": (...,),
    "content/network/extractors/0/weight": (...,),
}
"""Refused even without the hash of the text, which earlier versions did not write."""
HASHED: dict[str, tuple[Any, ...]] = {
    "content/model_format": (None, "one", [1]),
    "tensors": ("a\0b",),
    f"{PARAMS}/strength": ("x", None),
    f"{PARAMS}/random_state": (1.5,),
    "content/num_features": (13,),
    "content/labels": ([],),
    "content/labels/0": (...,),
    "content/labels/0/1": (4,),
    f"{MEMORY}/learned/0/gram": (...,),
    f"{MEMORY}/learned/0/counts": ({"$tensor": "network/memory/learned/0/sums"},),
    f"{TASKS_AT}/0/classes/0": (5,),
    "content/network/extractors/0/hop": ("x",),
}


@pytest.mark.parametrize("where", [*DAMAGE, *HASHED])
def test_the_text_is_damaged(where: str, folder: Path) -> None:
    whole = (folder / HEADER).read_bytes()
    for value in (*DAMAGE.get(where, ()), *HASHED.get(where, ())):
        change(folder, where, value)
        check_refused(folder, "is damaged", "save the model again")
        (folder / HEADER).write_bytes(whole)
    change(folder, "content_sha256", ...)
    assert HPNClassifier.load(folder).tasks_ == ["own", "pooled", 7], "as earlier versions wrote it"
    bare = (folder / HEADER).read_bytes()
    for value in DAMAGE.get(where, ()):
        change(folder, where, value)
        check_refused(folder, "is damaged", "save the model again")
        (folder / HEADER).write_bytes(bare)


def test_the_text_is_something_else(folder: Path) -> None:
    texts = ["", "null", "[]", "5", '"x"', "{}", "{", "\0", "NaN", '{"format": 1}', "[" * 10**6]
    for content in (*map(str.encode, texts), b"\xff\xfe\x80"):
        (folder / HEADER).write_bytes(content)
        check_refused(folder, "is damaged", "save the model again")


def test_what_a_model_cannot_be_made_of_is_damaged(tmp_path: Path) -> None:
    """Whatever way the content does not fit."""
    save_model(tmp_path, {"values": {"a": torch.ones(2)}, "number": 3})
    assert load_model(tmp_path, lambda content: content["number"]) == 3
    for error in (KeyError("a"), TypeError("a"), ValueError("a\nb"), AttributeError(), RuntimeError(), IndexError()):

        def fail(_: dict[str, Any], error: Exception = error) -> None:
            raise error

        with pytest.raises(CheckpointError, match=r"is damaged \(.*\); save the model again") as caught:
            load_model(tmp_path, fail)
        assert "\n" not in str(caught.value)


# ---------------------------------------------------------------------- what cannot be written


def check_not_written(model: HPNClassifier, folder: Path | str, *words: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        model.save(folder)
    text = str(caught.value)
    assert "\n" not in text
    for word in (f"cannot write {folder}", "choose another folder", *words):
        assert word in text


def test_a_folder_that_cannot_be_made(model: HPNClassifier, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    check_not_written(model, tmp_path / "file", "File exists")
    check_not_written(model, tmp_path / "file" / "below", "Not a directory")
    assert (tmp_path / "file").read_text() == "mine"
    check_not_written(model, "/proc/hpn-model")


def test_a_folder_that_may_not_be_written(
    model: HPNClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "open", refuse)
    check_not_written(model, tmp_path, "Permission denied")
    assert not list(tmp_path.iterdir())


def _full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("make_error", [KeyboardInterrupt, _full], ids=["interrupt", "full disk"])
@pytest.mark.parametrize(
    ("target", "calls"),
    [
        ("hpn.experiment.run.checkpoint.save_tensors", 1),
        ("hpn.experiment.run.checkpoint.write_atomic", 1),
        ("hpn.experiment.run.checkpoint.write_json", 1),
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


def test_a_model_that_cannot_be_saved_stays_as_it_is(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = learn(HPNClassifier(width=64), graph, 0, 1)
    expected = model.predict_proba(graph).tobytes()
    with monkeypatch.context() as patch:
        patch.setattr("hpn.experiment.run.checkpoint.write_atomic", lambda *_: (_ for _ in ()).throw(_full()))
        with pytest.raises(CheckpointError, match=r"no space left to write .*; no model is there yet, free"):
            model.save(tmp_path)
    assert model.predict_proba(graph).tobytes() == expected
    model.save(tmp_path)
    assert HPNClassifier.load(tmp_path).predict_proba(graph).tobytes() == expected
