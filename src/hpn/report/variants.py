"""Runs of one method that differ in their hyper-parameters: in which, and how to name them by that."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hpn.report.format import MISSING, is_number, plain

MAX_NAMED = 3
"""Most hyper-parameters that a name lists; a longer list would be no name."""

Params = Mapping[str, Any]


def differing(settings: Sequence[Params]) -> list[str]:
    """Names of the hyper-parameters that are not the same in all settings.

    Example:
        >>> differing([{"lr": 0.1, "epochs": 9}, {"lr": 0.2, "epochs": 9}])
        ['lr']
    """
    names = dict.fromkeys(name for params in settings for name in params)
    return [name for name in names if len({_token(params.get(name)) for params in settings}) > 1]


def variant_names(settings: Sequence[Params]) -> list[str]:
    """Name each setting by what differs; empty where nothing does, or too much.

    Example:
        >>> variant_names([{"lr": 0.1, "epochs": 9}, {"lr": 0.05, "epochs": 9}])
        ['lr 0.1', 'lr 0.05']
    """
    names = differing(settings)
    if len(names) > MAX_NAMED:
        names = []
    return [", ".join(f"{name} {_text(params.get(name))}" for name in names) for params in settings]


def setting_key(params: Params, *, without: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Something equal for settings that agree in all hyper-parameters but some."""
    return tuple(sorted((name, _token(value)) for name, value in params.items() if name not in without))


def _token(value: object) -> str:
    """Text that is equal for equal values: 1 is 1.0, but not true."""
    return repr(float(value)) if is_number(value) else json.dumps(value, sort_keys=True, default=str)


def _text(value: object) -> str:
    if value is None:
        return MISSING
    return plain(value) if is_number(value) else str(value)
