"""Recipes: settings of a method for a data set, found by ``hpn tune`` or stated by the paper.

A recipe also states how the settings were chosen and their results. A file of the package holds the recipes for
one data set, one YAML document each, in the form that ``hpn tune`` writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from hpn.errors import ConfigError, nearest
from hpn.experiment.published import Spread, row_name
from hpn.experiment.run.folder import write_atomic
from hpn.experiment.run.result import describe_problem
from hpn.params import resolve_params

# Use the packaged recipe, if there is one.
AUTO = "auto"
FOLDER = Path(str(files("hpn.experiment"))) / "recipes"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Chosen(_Part):
    """How the settings were chosen."""

    # All tasks, evaluated after the last one, or each task, evaluated right after it was learned.
    tuned_for: Literal["remembering", "learning"]
    validation_am: Spread  # accuracy mean on validation nodes over the tuning seeds
    default_am: Spread | None  # with the learner's defaults; None if they failed
    noise: float  # standard error of such a mean; a smaller gain over the defaults does not count
    trials: int  # settings tried
    seeds: list[int]  # tuning seeds
    space: dict[str, Any]
    protocol: dict[str, Any]  # edges, evaluation, tasks and data options
    command: str


class Published(_Part):
    """The paper's numbers."""

    source: str
    am: Spread
    fm: Spread | None


class Ours(_Part):
    """The results of the settings on test nodes, and the command that repeats them."""

    seeds: list[int]
    am: Spread
    fm: Spread | None
    command: str


class Recipe(_Part):
    """The settings of a method for a data set, in one scenario."""

    dataset: str
    method: str
    backbone: str | None = None
    scenario: Literal["task", "class"]
    settings: dict[str, Any]  # those left out stay at their defaults
    chosen: Chosen | None = None  # if by ``hpn tune``
    published: Published | None = None
    ours: Ours | None = None

    @property
    def variant(self) -> str | None:
        """The variant of the method that it is for; see :func:`variant_of`."""
        return self.backbone or variant_of(self.settings)

    @property
    def name(self) -> str:
        """The name of a packaged recipe: ``cora/ewc-gcn``, ``ogbn-arxiv/hpn-paper``."""
        ending = "" if self.scenario == "task" else f"-{self.scenario}"
        return f"{self.dataset}/{row_name(self.method, self.variant)}{ending}"


def variant_of(params: Mapping[str, Any]) -> str | None:
    """The backbone or the preset among hyper-parameters; different variants have different recipes."""
    return params.get("backbone") or params.get("preset")


def find_recipe(dataset: str, method: str, variant: str | None, scenario: str) -> Recipe | None:
    """The packaged recipe for a data set, method, variant of it and scenario, if there is one."""
    for recipe in packaged_recipes(dataset):
        if (recipe.method, recipe.variant, recipe.scenario) == (method, variant, scenario):
            return recipe
    return None


def packaged_recipes(dataset: str | None = None) -> Iterator[Recipe]:
    """Every recipe of the package, or those for one data set."""
    for path in sorted(FOLDER.glob("*.yaml")):
        if dataset in {None, path.stem}:
            yield from _read_once(path, path.stat().st_mtime_ns)


def read_recipe(path: Path | str) -> Recipe:
    """Read a recipe and check that its learner takes the settings."""
    from hpn.learners.finding import find_learner

    packaged = {} if Path(path).exists() else {recipe.name: recipe for recipe in packaged_recipes()}
    recipe, *others = [packaged[str(path)]] if str(path) in packaged else _read_file(Path(path))
    if others:
        raise ConfigError(f"recipe {path} holds {1 + len(others)} recipes; give a file with one of them")
    try:
        _, learner = find_learner(recipe.method)
    except ConfigError as error:
        raise ConfigError(f"recipe {path}: {error}") from error
    owner = f"recipe {path}: {recipe.method}"
    resolve_params(learner, recipe.settings, owner=owner, without={"seed", "backbone"})
    return recipe


def find_file(recipe: Path | str) -> Path:
    """The file of a recipe that is given by its path or, packaged, by its name."""
    packaged = FOLDER / f"{str(recipe).partition('/')[0]}.yaml"
    return packaged if packaged.is_file() and not Path(recipe).exists() else Path(recipe)


@cache
def _read_once(path: Path, _changed_at: int) -> list[Recipe]:
    return _read_file(path)


def _read_file(path: Path) -> list[Recipe]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the former is ten times as fast
    try:
        documents = list(yaml.load_all(path.read_text(encoding="utf-8"), loader))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"cannot read recipe {path}: {reason}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"recipe {path} is not YAML: {' '.join(str(error).split())}") from error
    if not documents or not all(isinstance(content, dict) for content in documents):
        raise ConfigError(f"recipe {path} is not a recipe: expected dataset, method, scenario and settings")
    try:
        return [Recipe.model_validate(content) for content in documents]
    except ValidationError as error:
        raise ConfigError(f"recipe {path}: {_problem(error)}") from error


def write_recipe(path: Path | str, recipe: Recipe) -> None:
    """Write a recipe as YAML, as a whole or not at all."""
    content = recipe.model_dump(mode="json")
    text = yaml.safe_dump(content, sort_keys=False, default_flow_style=None, allow_unicode=True, width=100)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_atomic(Path(path), text.encode())


def _problem(error: ValidationError) -> str:
    first = error.errors()[0]
    if first["type"] == "extra_forbidden":
        where = ".".join(str(part) for part in first["loc"])
        return f"it has no {where!r}; {nearest(where, Recipe.model_fields)}".rstrip("; ")
    return describe_problem(error)
