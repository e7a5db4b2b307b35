"""A search for hyper-parameters, resolved: every choice written out."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hpn.datasets import Graph
from hpn.errors import ConfigError
from hpn.experiment.run.config import DATA_PREFIX, RunConfig, resolve_config, setting_words, short_hash
from hpn.experiment.tune.search import GENERATION, RANDOM_TRIALS, Settings, Space
from hpn.params import check_space


@dataclass(frozen=True)
class TunePlan:
    """A search, whatever its number of trials."""

    config: RunConfig  # the run with the learner's defaults and the fixed settings
    space: Space
    fixed: dict[str, Any]  # settings that are given and not searched, options of the data set included
    seeds: tuple[int, ...]  # that a trial is averaged over
    num_val: int  # validation nodes of all tasks

    @property
    def defaults(self) -> Settings:
        """The settings of the first trial."""
        effective = self.config.effective_params()
        return {name: effective[name] for name in self.space}

    def noise(self, am: float) -> float:
        """Standard error of a validation AM, as if nodes were independent and all tasks of one size."""
        return math.sqrt(am * (100 - am) / self.num_val)

    def describe_space(self) -> dict[str, Any]:
        """The search space as plain data."""
        return {name: choice.describe() for name, choice in self.space.items()}

    def to_json(self) -> dict[str, Any]:
        """The content of ``config.json``."""
        content = self.config.to_json()
        content["versions"]["optuna"] = version("optuna")
        return {
            **content,
            "kind": "tune",
            "tuned_for": self.config.learner.tuned_for,
            "space": self.describe_space(),
            "seeds": list(self.seeds),
            "search": {"generation": GENERATION, "random": RANDOM_TRIALS},
        }

    def default_folder(self) -> Path:
        """The folder of the search unless one is given: ``runs/tune-DATASET-METHOD-…-HASH``."""
        return self.config.default_folder("tune", short_hash(self.to_json()))

    def command(self, trials: int, final_seeds: int) -> str:
        """The command line that repeats the search."""
        counts = {"--trials": trials, "--seeds": len(self.seeds), "--final-seeds": final_seeds}
        words = [word for name, count in counts.items() for word in (name, str(count))]
        protocol = [self.config.dataset, *self.config.protocol_words()]
        return shlex.join(["hpn", "tune", *protocol, *words, *setting_words(self.fixed)])


def make_plan(
    dataset: str, *, seeds: int, choices: Mapping[str, Any], data_root: Path | None
) -> tuple[TunePlan, Graph]:
    """Check every argument, load the data, and write out the defaults."""
    config, graph = resolve_config(dataset, data_root=data_root, recipe=None, **choices)
    resolved = {**config.params, **{DATA_PREFIX + name: value for name, value in config.data_options.items()}}
    fixed = {name: resolved[name] for name in choices.get("settings") or {} if name != "backbone"}
    learner = config.learner.variant(config.params)
    check_space(learner)
    space = {name: choice for name, choice in learner.search_space.items() if name not in fixed}
    for name, choice in space.items():
        try:
            learner(**{**config.params, name: choice.values[0]})
        except ConfigError as error:
            raise ConfigError(f"hpn tune searches {name} of {config.method}, but {error}") from None
    is_single = config.evaluate == "oracle" and all(len(task) == 1 for task in config.tasks)
    if is_single or len({label for task in config.tasks for label in task}) == 1:
        raise ConfigError("there is a single class to choose from, so there is nothing to tune by")
    stream = config.make_stream(graph, 0)
    counts = [len(stream.step(index).val) for index in range(len(stream))]
    if 0 in counts:
        where = f"step {counts.index(0)} of {dataset}"
        raise ConfigError(f"{where} has no validation nodes, and tuning chooses by them")
    return TunePlan(config, space, fixed, tuple(range(seeds)), sum(counts)), graph
