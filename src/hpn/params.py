"""Hyper-parameters and options: the keyword-only signature is the only list of them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from hpn.errors import ConfigError, nearest


def declared_params(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Keyword-only parameters of a class or function, in order.

    Example:
        >>> def train(*, epochs: int = 10, lr: float = 0.1) -> None: ...
        >>> list(declared_params(train))
        ['epochs', 'lr']
    """
    signature = inspect.signature(function)
    return {
        name: parameter
        for name, parameter in signature.parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }


def resolve_params(
    function: Callable[..., Any], given: Mapping[str, Any], *, owner: str, without: Collection[str] = ()
) -> dict[str, Any]:
    """Check ``given`` against a signature and fill in the defaults.

    Strings are read as the declared type, so values may come straight from a command line.

    Args:
        function: A class or function with keyword-only parameters.
        given: Values by name.
        owner: Whom the parameters belong to, for messages.
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
    declared = {key: value for key, value in declared_params(function).items() if key not in without}
    for name in given:
        if name not in declared:
            takes = f"it takes: {', '.join(declared)}" if declared else "it takes no options"
            raise ConfigError(f"{owner} has no {name!r}; {nearest(name, declared)}{takes}")
    hints = _hints(function)
    resolved = {}
    for name, parameter in declared.items():
        if name in given:
            resolved[name] = _read(hints[name], given[name], f"{owner}: {name}")
        elif parameter.default is inspect.Parameter.empty:
            raise ConfigError(f"{owner} needs a value for {name!r}")
        else:
            resolved[name] = parameter.default
    return resolved


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    target = function.__init__ if inspect.isclass(function) else function
    return get_type_hints(target, include_extras=True)


def _read(hint: Any, value: Any, what: str) -> Any:
    # JSON rules turn "0.1" into 0.1 and "true" into True, but never 1.5 into 1.
    if isinstance(value, str) and value.lower() == "none":
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
