"""Learners by name: those of this package, those of installed packages, and a caller's own ``MODULE:CLASS``.

A package offers learners as entry points of the group ``hpn.learners``; in its ``pyproject.toml``::

    [project.entry-points."hpn.learners"]
    mine = "my_package.my_module:MyLearner"

A name of this package always stands for the learner of this package, so that installing another one changes
no result.
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from hpn.errors import ConfigError, nearest
from hpn.learners import LEARNERS, Learner
from hpn.params import declared_params

GROUP = "hpn.learners"


@dataclass(frozen=True, order=True)
class Offer:
    """A learner that an installed package offers: its name, the package, and ``MODULE:CLASS``."""

    name: str
    package: str
    target: str

    def __str__(self) -> str:
        return f"{self.package} ({self.target})"


def installed_offers() -> list[Offer]:
    """What installed packages offer, without importing them."""
    offers = set()
    for point in entry_points(group=GROUP):
        package = f"{point.dist.name} {point.dist.version}" if point.dist else "an installed package"
        offers.add(Offer(point.name, package, point.value))
    return sorted(offers)


def known_names() -> list[str]:
    """Every name that stands for a learner: of this package, then of installed ones."""
    return list(dict.fromkeys([*LEARNERS, *(offer.name for offer in installed_offers())]))


def find_learner(method: str | type[Learner]) -> tuple[str, type[Learner]]:
    """Find a learner, and what configurations and commands call it.

    Args:
        method: A name of :func:`known_names`, ``MODULE:CLASS`` (the current folder is searched as well), or a
            class.

    Raises:
        ConfigError: If there is no such learner, or it cannot be imported or used.

    Example:
        >>> find_learner("ncm")[1].__name__, find_learner(LEARNERS["ncm"])[0]
        ('NCM', 'ncm')
    """
    if isinstance(method, type):
        own = {learner: name for name, learner in LEARNERS.items()}
        return own.get(method) or _name_class(method), _check(method.__name__, method)
    if method in LEARNERS:
        return method, LEARNERS[method]
    for offer in installed_offers():
        if offer.name == method:
            return method, import_offer(offer)
    module, _, name = str(method).partition(":")
    if not module or not name:
        names = known_names()
        hint = f"{nearest(str(method), names)}known: {', '.join(names)}; your own is MODULE:CLASS"
        raise ConfigError(f"unknown method {method!r}; {hint}")
    return method, _import(repr(method), method)


def import_offer(offer: Offer) -> type[Learner]:
    """Import what an installed package offers.

    Raises:
        ConfigError: If its name stands for another learner as well, or it cannot be imported or used.
    """
    others = [str(other) for other in installed_offers() if other.name == offer.name and other != offer]
    others += ["hpn"] if offer.name in LEARNERS else []
    if others:
        both = f"both {offer} and {' and '.join(others)} have a method {offer.name!r}"
        raise ConfigError(f"{both}; use --method {offer.target} for that of {offer.package}")
    return _import(f"{offer.name!r} of {offer.package}", offer.target)


def _import(what: str, target: str) -> type[Learner]:
    """Import ``MODULE:CLASS``, which messages call ``what``."""
    module, _, name = target.partition(":")
    if module.endswith(".py") or not all(part.isidentifier() for part in module.split(".")):
        dotted = ".".join(re.findall(r"\w+", module.removesuffix(".py")))
        raise ConfigError(f"method {what}: {module!r} is not the name of a module; did you mean {dotted}:{name}?")
    if not {"", str(Path.cwd())} & set(sys.path):  # the installed command does not look in the current folder
        sys.path.append(str(Path.cwd()))
    main = sys.modules["__main__"]
    try:
        is_running = module == _main_name() and hasattr(main, name.split(".")[0])  # then it is not run a second time
        found: Any = main if is_running else import_module(module)
    except (Exception, SystemExit) as error:  # whatever the module does
        why = " ".join(f"{type(error).__name__}: {error}".split())
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            why = f"there is no module {error.name!r} in {Path.cwd()}, on PYTHONPATH or among installed packages"
        raise ConfigError(f"method {what} cannot be imported ({why})") from error
    for part in name.split("."):
        owner, found = found, getattr(found, part, None)
        if found is None:
            where = f"{module} ({getattr(import_module(module), '__file__', 'built in')})"
            packaged = {Learner, *LEARNERS.values()}
            learners = [key for key, value in vars(owner).items() if _is_learner(value) and value not in packaged]
            hint = f"its learners are {', '.join(learners)}" if learners else "it has no learner"
            raise ConfigError(f"method {what}: {where} has no {part!r}; {nearest(part, learners)}{hint}")
    return _check(what, found)


def _is_learner(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, Learner)


def _check(what: str, found: Any) -> type[Learner]:
    if not _is_learner(found):
        raise ConfigError(f"method must be a name or a subclass of hpn.Learner, got {what}")
    if inspect.isabstract(found) and found not in LEARNERS.values():
        missing = ", ".join(sorted(found.__abstractmethods__))
        raise ConfigError(f"method {what} cannot be used yet: it does not define {missing}")
    for name, parameter in [*inspect.signature(found.__init__).parameters.items()][1:]:
        if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}:
            rule = f"write def __init__(self, *, {name}, …), or @dataclass(kw_only=True)"
            raise ConfigError(f"method {what}: the argument {name!r} of its constructor must be keyword-only; {rule}")
    if "seed" not in declared_params(found):
        rule = "add seed: int = 0, and call super().__init__(seed=seed)"
        raise ConfigError(f"method {what}: its constructor has no argument 'seed'; {rule}")
    return found  # type: ignore[no-any-return]


def _name_class(learner: type) -> str:
    """``MODULE:CLASS``; for the script that is running, the name under which it can be imported."""
    module = learner.__module__
    return f"{_main_name() if module == '__main__' else module}:{learner.__qualname__}"


def _main_name() -> str:
    """The name under which the script that is running can be imported."""
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    return str(spec.name) if spec else Path(file).stem if file else "__main__"
