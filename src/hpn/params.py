"""Hyper-parameters and options: the keyword-only signature is the only list of them."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from hpn.errors import ConfigError, nearest

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, init=False)
class OneOf:
    """A hyper-parameter that is searched among given values."""

    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        object.__setattr__(self, "values", values)

    def describe(self) -> list[Any]:
        """As plain data, for configurations and recipes."""
        return list(self.values)


@dataclass(frozen=True)
class LogRange:
    """A hyper-parameter that is searched from ``low`` to ``high`` on a logarithmic scale."""

    low: float
    high: float

    @property
    def values(self) -> tuple[float, float]:
        """The limits."""
        return (self.low, self.high)

    def describe(self) -> dict[str, Any]:
        """As plain data, for configurations and recipes."""
        return {"low": self.low, "high": self.high, "scale": "log"}


SearchChoice = OneOf | LogRange


def declared_params(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Keyword-only parameters of a class or function, in order, with the types that their annotations stand for.

    Fields of a dataclass come before those that it inherits. A constructor that ends in ``**others`` passes them on,
    so those of the class it extends come after.
    """
    declared: dict[str, inspect.Parameter] = {}
    kinds: Any = function.__mro__ if inspect.isclass(function) else ()
    for owner in [kind for kind in kinds if "__init__" in vars(kind)] or [function]:
        target: Any = owner.__init__ if inspect.isclass(owner) else owner  # __new__ may choose what a class makes
        parameters = inspect.signature(target).parameters
        names, hinted = list(parameters), target.func if isinstance(target, partial) else target
        if "__dataclass_fields__" in vars(owner):
            names = [name for kind in owner.__mro__ for name in inspect.get_annotations(kind) if name in parameters]
            hinted = owner
        hints = get_type_hints(hinted, include_extras=True)
        for name in names:
            if parameters[name].kind is inspect.Parameter.KEYWORD_ONLY:
                kind = hints.get(name, _kind_of(parameters[name].default))
                declared.setdefault(name, parameters[name].replace(annotation=kind))
        if all(parameter.kind is not inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
            break
    return declared


def _kind_of(default: Any) -> Any:
    """The type of a parameter without annotation: that of its default, if it is plain."""
    return type(default) if isinstance(default, bool | int | float | str) else Any


def resolve_params(
    function: Callable[..., Any], given: Mapping[str, Any], *, owner: str, without: Collection[str] = ()
) -> dict[str, Any]:
    """Check ``given`` against a signature and fill in the defaults.

    Strings are read as the declared type, so values may come straight from a command line.

    Args:
        function: A class or function with keyword-only parameters.
        given: Values by name.
        owner: What messages call the owner of the parameters.
        without: Parameters that are not to be given here.

    Raises:
        ConfigError: For an unknown name (the nearest right one is named) or a value out of range.

    Example:
        >>> def train(*, epochs: int = 10, lr: float = 0.1) -> None: ...
        >>> resolve_params(train, {"lr": "0.01"}, owner="train")
        {'epochs': 10, 'lr': 0.01}
        >>> resolve_params(train, {"epoch": 3}, owner="train")
        Traceback (most recent call last):
        ...
        hpn.errors.ConfigError: train has no 'epoch'; did you mean 'epochs'? it takes: epochs, lr
    """
    # A class may stand for several, chosen by a parameter.
    variants: dict[str, Any] = getattr(function, "variants", dict)()
    function = function.variant(given) if variants else function  # type: ignore[attr-defined]
    declared = {key: value for key, value in declared_params(function).items() if key not in without}
    for name in given:
        if name not in declared:
            takes = f"it takes: {', '.join(declared)}" if declared else "it takes no options"
            others = {other: key for key, kind in variants.items() for other in declared_params(kind)}
            others = {other: key for other, key in others.items() if other not in without}
            hint = f"preset={others[name]} has it; " if name in others else nearest(name, others or declared)
            raise ConfigError(f"{owner} has no {name!r}; {hint}{takes}")
    resolved = {}
    for name, parameter in declared.items():
        if name in given:
            resolved[name] = _read(parameter.annotation, given[name], f"{owner}: {name}")
        elif parameter.default is inspect.Parameter.empty:
            raise ConfigError(f"{owner} needs a value for {name!r}")
        else:
            resolved[name] = parameter.default
    return resolved


class NamedArguments:
    """Base of classes whose constructor refuses an unknown argument by name, with the nearest right one.

    Example:
        >>> class Trained(NamedArguments):
        ...     def __init__(self, *, epochs: int = 1) -> None: ...
        >>> Trained(epoch=3)
        Traceback (most recent call last):
        ...
        TypeError: Trained has no 'epoch'; did you mean 'epochs'? it takes: epochs
    """

    __signature__: inspect.Signature

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        signature = inspect.signature(cls.__init__)  # and not that of __new__
        cls.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])

    def __new__(cls, *_args: Any, **given: Any) -> Self:
        """Check the names before ``__init__`` is called."""
        known = cls.__signature__.parameters
        for name in given:
            if name not in known:
                takes = f"it takes: {', '.join(known)}"
                raise TypeError(f"{cls.__name__} has no {name!r}; {nearest(name, known)}{takes}")
        return super().__new__(cls)


def read_meanings(owner: type) -> dict[str, str]:
    """What each parameter of a class means, without markup: the ``Args`` of its docstring and its bases."""
    meanings: dict[str, str] = {}
    for kind in reversed(owner.__mro__):
        _, _, section = inspect.cleandoc(vars(kind).get("__doc__") or "").partition("\nArgs:\n")
        section = re.split(r"\n(?=\S)", section)[0]
        for entry in re.split(r"\n(?=    \S)", f"\n{section}"):
            name, colon, meaning = entry.partition(":")
            if colon:
                plain = re.sub(r":\w+:`~?([^`]*)`|``", r"\1", meaning)
                meanings[name.strip()] = " ".join(plain.split())
    return meanings


def check_space(learner: Any) -> None:
    """Check that a learner's ``search_space`` can be searched.

    Raises:
        ConfigError: If it names something that is not a hyper-parameter, or a value or limit that is not allowed.
    """
    owner = f"the search space of {learner.__name__}"
    for name, choice in learner.search_space.items():
        if name in {"seed", "backbone"}:
            raise ConfigError(f"{owner} has {name!r}, which is chosen and not searched")
        if not isinstance(choice, SearchChoice):
            raise ConfigError(f"{owner}: {name} needs OneOf(…) or LogRange(low, high) of hpn.params, got {choice!r}")
        if not choice.values or len(set(choice.values)) != len(choice.values):
            raise ConfigError(f"{owner}: {name} needs one or more different values, got {choice}")
        if isinstance(choice, LogRange) and not 0 < choice.low < choice.high:
            raise ConfigError(f"{owner}: {name} needs 0 < low < high, got {choice}")
        values = choice.values
        if isinstance(choice, LogRange):  # between its limits a range has broken numbers too
            values = (*values, choice.low + (choice.high - choice.low) / math.pi)
        for value in values:
            resolve_params(learner, {name: value}, owner=owner)


def _read(hint: Any, value: Any, what: str) -> Any:
    # JSON rules turn "0.1" into 0.1 and "true" into True, but never 1.5 into 1.
    if isinstance(value, str) and value.lower() == "none" and "none" not in get_args(hint):
        value = None
    try:
        result = TypeAdapter(hint).validate_python(value)
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        problem = problem[:1].lower() + problem[1:]
        raise ConfigError(f"{what} = {value!r}: {problem}") from error
    if isinstance(result, float) and not math.isfinite(result):
        raise ConfigError(f"{what} = {value!r}: input should be finite")
    return result
