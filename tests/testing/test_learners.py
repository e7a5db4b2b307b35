"""Every check can fail: a learner that breaks one rule, and what its verdict states."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
import torch
from pydantic import Field
from torch import Tensor

from hpn.errors import ConfigError
from hpn.learners import Learner, Observer, Progress
from hpn.params import OneOf
from hpn.streams import Query, Step
from hpn.testing import ContractError, check_learner, learner_checks


class Means(Learner):
    """Nearest mean of a class; keeps the contract.

    Args:
        scale: Scale of the distances.
        seed: Not used.
    """

    def __init__(self, *, scale: Annotated[float, Field(gt=0)] = 1.0, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.scale = scale

    def _learn(self, step: Step, observer: Observer) -> None:
        means = dict(self.means_) if step.index else {}
        for label in step.train_y.unique().tolist():
            means[str(label)] = step.graph.take(step.train[step.train_y == label]).to_dense().mean(dim=0)
        self.means_ = means

    def _scores(self, query: Query) -> Tensor:
        x = query.graph.take(query.nodes).to_dense()
        means = torch.stack([self.means_[str(label)] for label in query.classes])
        return (-self.scale * torch.cdist(x, means)).log_softmax(dim=1)


def broken(**methods: Any) -> type[Learner]:
    """Means with other methods."""
    return type("Broken", (Means,), methods)


class StoresMore(Means):
    def __init__(self, *, scale: float = 1.0, seed: int = 0) -> None:
        super().__init__(scale=scale, seed=seed)
        self.cache: dict[str, Tensor] = {}


class Undocumented(Means):
    def __init__(self, *, secret: int = 1, **others: Any) -> None:
        super().__init__(**others)
        self.secret = secret


class ChangesTasks(Means):
    def _learn(self, step: Step, observer: Observer) -> None:
        super()._learn(step, observer)
        step.train_y.zero_()


class MovesGenerator(Means):
    def fit_task(self, step: Step, observer: Observer | None = None) -> Learner:
        torch.rand(1)
        return super().fit_task(step, observer)


class LearnsWhilePredicting(Means):
    def _scores(self, query: Query) -> Tensor:
        self.count_ = getattr(self, "count_", 0) + 1
        return super()._scores(query)


class NotSeeded(Means):
    count = 0

    def _learn(self, step: Step, observer: Observer) -> None:
        super()._learn(step, observer)
        NotSeeded.count += 1
        self.count_ = NotSeeded.count


class ForgetsEpochs(Means):
    def _learn(self, step: Step, observer: Observer) -> None:
        for epoch in (1, 2):
            super()._learn(step, observer)
            self.total_ = getattr(self, "total_", 0) + epoch  # begins at the first epoch when it is resumed
            self._epoch_done(observer, Progress(step.index, epoch, 2))


class ForgetsRepeatedClasses(Means):
    def _learn(self, step: Step, observer: Observer) -> None:
        super()._learn(step, observer)
        if not step.is_task:
            self.means_ = {label: -mean for label, mean in self.means_.items()}


class NeedsTwoClasses(Means):
    def _scores(self, query: Query) -> Tensor:
        scores = super()._scores(query)
        return scores - scores[:, [1]]


class LikesSparse(Means):
    def _learn(self, step: Step, observer: Observer) -> None:
        super()._learn(step, observer)
        if step.graph.is_sparse:
            self.means_ = {label: mean.flip(0) for label, mean in self.means_.items()}


class NeedsValidation(Means):
    def _learn(self, step: Step, observer: Observer) -> None:
        super()._learn(step, observer)
        self.best_ = int(step.val_y.max())


class TakesAnyOrder(Means):
    def _arrive(self, step: Step) -> None:
        self.tasks_, self.scenario_, self.in_progress_ = [step.classes], step.scenario, True
        self.num_features_, self.means_ = step.graph.num_features, {}


class TakesAnyFeatures(Means):
    def predict_scores(self, query: Query) -> Tensor:
        self.num_features_ = query.graph.num_features
        self.means_ = {label: mean[: self.num_features_] for label, mean in self.means_.items()}
        return super().predict_scores(query)


class IgnoresRanges(Means):
    def fit_task(self, step: Step, observer: Observer | None = None) -> Learner:
        given, self.scale = self.scale, 1.0
        super().fit_task(step, observer)
        self.scale = given
        return self


class Batched(Means):
    """In batches.

    Args:
        batch_size: Nodes per batch.
        num_neighbors: Neighbours per node.
    """

    def __init__(self, *, batch_size: int | None = None, num_neighbors: int | None = None, **others: Any) -> None:
        super().__init__(**others)
        self.batch_size, self.num_neighbors = batch_size, num_neighbors

    def _scores(self, query: Query) -> Tensor:
        return super()._scores(query) / (0 if self.batch_size else 1)


BROKEN: dict[str, tuple[type[Learner], str]] = {
    "constructor_only_stores_its_arguments": (StoresMore, "the constructor sets cache, which are not hyper-parameters"),
    "hyper_parameters_are_documented": (Undocumented, "not in the Args of the docstring: secret"),
    "fit_returns_self_and_changes_no_task": (ChangesTasks, "fit_task changes train_y"),
    "fit_uses_its_own_generator": (MovesGenerator, "fit_task moves PyTorch's global random generator"),
    "predict_changes_nothing": (LearnsWhilePredicting, "the state before and after predict differ in count"),
    "predict_before_fit_raises": (
        broken(predict=lambda self, query: Means.predict(self, query) if hasattr(self, "means_") else query.nodes),
        "expected NotFittedError, but nothing was raised",
    ),
    "predicts_only_classes_of_the_query": (
        broken(predict=lambda self, query: Means.predict(self, query) + 1),
        "the classes of the query are",
    ),
    "same_seed_gives_the_same_result": (NotSeeded, "two fits with the same seed differ in count of state_dict"),
    "resuming_equals_an_uninterrupted_fit": (ForgetsEpochs, "differ in total of state_dict"),
    "state_is_complete_and_plain": (
        broken(_state=lambda self: {"means": {label: torch.ones_like(mean) for label, mean in self.means_.items()}}),
        "a loaded learner scores differently",
    ),
    "is_better_than_chance": (
        broken(_scores=lambda self, query: Means._scores(self, query).neg().log_softmax(dim=1)),
        "% on the task learned last, of two classes",
    ),
    "repeated_classes_are_learned_or_refused": (ForgetsRepeatedClasses, "% on the nodes of step 0"),
    "nodes_are_answered_independently": (
        broken(_scores=lambda self, query: Means._scores(self, query).roll(int(len(query.nodes) > 3), dims=1)),
        "three nodes alone get other predictions",
    ),
    "uneven_tasks_are_learned": (NeedsTwoClasses, "raised IndexError: "),
    "sparse_and_dense_features_agree": (LikesSparse, "between sparse and dense features"),
    "edges_and_validation_nodes_may_be_missing": (NeedsValidation, "raised RuntimeError: max()"),
    "tasks_must_come_in_order_and_be_new": (TakesAnyOrder, "task 1 before task 0: expected ConfigError"),
    "other_features_are_refused": (TakesAnyFeatures, "expected DataError, but nothing was raised"),
    "values_out_of_range_are_refused": (IgnoresRanges, "fit_task with scale=-1: expected ConfigError"),
    "search_space_can_be_searched": (
        broken(search_space={"width": OneOf(1, 2)}),
        "the search space of Broken has no 'width'",
    ),
    "mini_batches_are_learned_and_resumed": (Batched, "scores are not finite"),
    "tensors_are_made_on_its_device": (
        broken(_scores=lambda self, query: Means._scores(self, query) + torch.zeros(len(query.classes))),
        "a tensor is made without device=",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_check_fails_with_one_readable_line(name: str) -> None:
    learner, expected = BROKEN[name]
    (check,) = [one for one in learner_checks(learner) if one.name == name]
    verdict = check.run()
    assert verdict.outcome == "failed"
    assert expected in verdict.reason
    assert "\n" not in str(verdict)
    assert str(verdict).startswith(f"failed   {name}: ")
    assert verdict.about.endswith(".")


class HasNetwork(Means):
    def _learn(self, step: Step, observer: Observer) -> None:
        super()._learn(step, observer)
        self.net_ = torch.nn.Linear(2, 1)


class NumbersClasses(Means):
    def _learn(self, step: Step, observer: Observer) -> None:
        super()._learn(step, observer)
        self.seen_ = dict.fromkeys(step.classes, 1)


class GivesProbabilities(Means):
    def _scores(self, query: Query) -> Tensor:
        return super()._scores(query).exp()


class GivesOneColumn(Means):
    def _scores(self, query: Query) -> Tensor:
        return super()._scores(query)[:, :1]


class GivesNothing(Means):
    def _scores(self, query: Query) -> Tensor:
        return None  # type: ignore[return-value]


class Raises(Means):
    def _scores(self, query: Query) -> Tensor:
        return super()._scores(query)[:, [99]]


class UnnamedDevice(Means):
    def _scores(self, query: Query) -> Tensor:
        return super()._scores(query) + torch.zeros(len(query.classes))


class SearchesAList(Means):
    search_space = {"scale": [1, 2]}  # type: ignore[dict-item]  # noqa: RUF012


@pytest.mark.parametrize(
    ("learner", "name", "expected"),
    [
        (HasNetwork, "state_is_complete_and_plain", "HasNetwork has the network net_, but not how to load it: define"),
        (
            NumbersClasses,
            "state_is_complete_and_plain",
            "learner/seen cannot be saved: its keys should be text, such as",
        ),
        (GivesProbabilities, "predicts_only_classes_of_the_query", "scores are not log-probabilities: those of a node"),
        (GivesOneColumn, "predict_changes_nothing", "GivesOneColumn._scores should return a tensor of shape (28, 2)"),
        (GivesNothing, "predict_changes_nothing", "nodes by classes, got NoneType"),
        (Raises, "predict_changes_nothing", " at test_learners.py:"),
        (UnnamedDevice, "tensors_are_made_on_its_device", "device=self.device (test_learners.py:"),
        (SearchesAList, "search_space_can_be_searched", "scale needs OneOf(…) or LogRange(low, high) of hpn.params"),
    ],
)
def test_verdicts_state_the_reason_and_the_place(learner: type[Learner], name: str, expected: str) -> None:
    assert expected in next(one for one in learner_checks(learner) if one.name == name).run().reason


def test_state_that_is_not_plain_is_named() -> None:
    objects = broken(_state=lambda self: {**Means._state(self), "other": {1, 2}})
    assert check_learner(objects)["state_is_complete_and_plain"].reason.startswith("state_dict has set at other;")


def test_verdicts_by_name_or_the_first_failure() -> None:
    verdicts = check_learner(Means, scale=2)
    assert list(verdicts) == list(BROKEN)
    skipped = verdicts.pop("mini_batches_are_learned_and_resumed")
    assert (skipped.outcome, skipped.reason) == ("skipped", "it has no batch_size and num_neighbors")
    assert {verdict.outcome for verdict in verdicts.values()} == {"passed"}
    with pytest.raises(ContractError, match=r"^hyper_parameters_are_documented: not in the Args"):
        check_learner(Undocumented, raise_on_failure=True)
    with pytest.raises(ConfigError, match="has no 'scal'; did you mean 'scale'"):
        check_learner(Means, scal=1)


CODE = """
import torch
from hpn.learners import NCM

class Mine(NCM):
    pass

class Broken(NCM):
    def predict(self, query):
        return super().predict(query) + 100

class Failing(NCM):
    def _learn(self, step, observer):
        raise RuntimeError("no luck")
"""


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from hpn.cli import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "checked_module.py").write_text(CODE)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hpn", "check", *words])
        with pytest.raises(SystemExit) as stop:
            main()
        return int(stop.value.code or 0), *capsys.readouterr()

    code, out, _ = run("checked_module:Mine", "--set", "max_hops=1", "--json")
    found = json.loads(out)
    assert (code, found["failed"], found["settings"]) == (0, 0, {"max_hops": "1"})
    assert [one["name"] for one in found["checks"]] == list(BROKEN)
    code, out, _ = run("checked_module:Broken")
    assert code == 1
    assert "failed   predicts_only_classes_of_the_query: predict gives [" in out
    assert out.splitlines()[-1].startswith("checked_module:Broken: ")
    out = run("checked_module:Failing")[1]
    assert (out.count("no luck"), "failed   predict_changes_nothing: same as fit_returns" in out) == (1, True)
    for words in (("checked_module:Gone",), ("checked_module:Mine", "--set", "hops=1"), ("no_such:Mine",), ()):
        code, out, err = run(*words)
        assert (code, out, err.count("\n")) == (2, "", 1), words
