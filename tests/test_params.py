from __future__ import annotations

from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import Field

from hpn.errors import ConfigError
from hpn.learners import LEARNERS
from hpn.params import LogRange, OneOf, check_space, declared_params, read_meanings, resolve_params


def train(
    name: str,
    *,
    epochs: Annotated[int, Field(ge=1)] = 10,
    rate: float = 0.1,
    mode: Literal["fast", "slow"] = "fast",
    limit: int | None = None,
    shuffle: bool = False,
) -> None: ...


def test_strings_are_read_as_the_declared_type() -> None:
    given = {"epochs": "3", "rate": "1e-3", "mode": "slow", "limit": "none", "shuffle": "true"}
    resolved = resolve_params(train, given, owner="train")
    assert resolved == {"epochs": 3, "rate": 0.001, "mode": "slow", "limit": None, "shuffle": True}
    assert resolve_params(train, {"limit": "5"}, owner="train")["limit"] == 5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epoch": 1}, "train has no 'epoch'; did you mean 'epochs'? it takes: epochs, rate"),
        ({"epochs": "0"}, "train: epochs = '0': input should be greater than or equal to 1"),
        ({"epochs": "2.5"}, "epochs = '2.5'"),
        ({"mode": "medium"}, "mode = 'medium': input should be 'fast' or 'slow'"),
        ({"shuffle": "perhaps"}, "shuffle = 'perhaps'"),
        ({"rate": "-inf"}, "rate = '-inf': input should be finite"),
        ({"name": "x"}, "train has no 'name'"),
    ],
)
def test_messages(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        resolve_params(train, given, owner="train")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_what_has_no_default_must_be_given() -> None:
    def strict(*, size: int) -> None: ...

    with pytest.raises(ConfigError, match="strict needs a value for 'size'"):
        resolve_params(strict, {}, owner="strict")


def test_partial_functions_and_hidden_parameters() -> None:
    bound = partial(train, "x", epochs=5)
    assert resolve_params(bound, {"rate": "2"}, owner="train")["epochs"] == 5
    assert "epochs" not in resolve_params(train, {}, owner="train", without={"epochs"})
    with pytest.raises(ConfigError, match="has no 'epochs'"):
        resolve_params(train, {"epochs": 1}, owner="train", without={"epochs"})
    assert next(iter(declared_params(bound))) == "epochs"


class Searched:
    search_space: ClassVar[dict[str, Any]] = {}

    def __init__(
        self, *, backbone: str = "gcn", rate: Annotated[float, Field(gt=0, le=1)] = 0.1, size: int = 5, seed: int = 0
    ) -> None: ...


@pytest.mark.parametrize(
    "space", [{}, {"rate": LogRange(0.01, 1)}, {"rate": OneOf(0.5)}, {"rate": OneOf(0.01, 0.1, 1)}]
)
def test_spaces_that_can_be_searched(monkeypatch: pytest.MonkeyPatch, space: dict[str, Any]) -> None:
    monkeypatch.setattr(Searched, "search_space", space)
    check_space(Searched)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"rat": OneOf(0.5)}, "search space of Searched has no 'rat'; did you mean 'rate'"),
        ({"seed": OneOf(1)}, "has 'seed', which is chosen"),
        ({"backbone": OneOf("gcn")}, "has 'backbone', which is chosen"),
        ({"rate": OneOf(0.5, 2)}, "rate = 2: input should be less than or equal to 1"),
        ({"rate": LogRange(0.1, 10)}, "rate = 10"),
        ({"rate": LogRange(0.1, 0.01)}, "needs 0 < low < high"),
        ({"rate": LogRange(0, 1)}, "needs 0 < low < high"),
        ({"size": LogRange(1, 100)}, "size = 32.5"),
        ({"rate": OneOf()}, "one or more different values"),
        ({"rate": OneOf(0.5, 0.5)}, "one or more different values"),
    ],
)
def test_spaces_that_cannot(monkeypatch: pytest.MonkeyPatch, space: dict[str, Any], message: str) -> None:
    monkeypatch.setattr(Searched, "search_space", space)
    with pytest.raises(ConfigError) as error:
        check_space(Searched)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_none_is_a_word_where_it_is_a_choice() -> None:
    def load(*, normalize: Literal["none", "row"] = "row", most: int | None = 3) -> None: ...

    given = {"normalize": "none", "most": "none"}
    assert resolve_params(load, given, owner="load") == {"normalize": "none", "most": None}


@pytest.mark.parametrize("name", LEARNERS)
def test_every_hyper_parameter_has_a_meaning(name: str) -> None:
    learner = LEARNERS[name]
    for kind in getattr(learner, "variants", lambda: {name: learner})().values():
        meanings = read_meanings(kind)
        assert all(meanings.get(key, "")[-1:] == "." for key in declared_params(kind)), kind
        assert not any(mark in text for text in meanings.values() for mark in ("`", "\n", "  "))


def test_meanings_of_a_class_come_before_those_of_what_it_extends() -> None:
    class Base:
        """Trains.

        Args:
            lr: Learning rate: above 0.
            epochs: Passes
                over the nodes.

        Raises:
            ValueError: Never.
        """

    class Derived(Base):
        """Trains longer.

        Args:
            epochs: Many passes.
        """

    assert read_meanings(Derived) == {"lr": "Learning rate: above 0.", "epochs": "Many passes."}
