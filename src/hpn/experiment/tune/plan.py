"""What a search for hyper-parameters is, resolved: every choice written out."""

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
from hpn.experiment.run.config import DATA_PREFIX, RunConfig, resolve_config, short_hash
from hpn.experiment.tune.search import GENERATION, RANDOM_TRIALS, Settings, Space
from hpn.params import check_space


@dataclass(frozen=True)
class TunePlan:
    """A search, however many trials it makes.

    Args:
        config: The run with the learner's defaults and the fixed settings.
        space: What is searched.
        fixed: Settings that are given and not searched, options of the data set included.
        seeds: Seeds that a trial is averaged over.
        num_val: Validation nodes of all tasks.
    """

    config: RunConfig
    space: Space
    fixed: dict[str, Any]
    seeds: tuple[int, ...]
    num_val: int

    @property
    def defaults(self) -> Settings:
        """The settings of the first trial."""
        effective = self.config.effective_params()
        return {name: effective[name] for name in self.space}

    def noise(self, am: float) -> float:
        """Standard error of an accuracy mean in per cent that comes from so many validation nodes.

        As if nodes were drawn independently and all tasks were of one size.
        """
        return math.sqrt(am * (100 - am) / self.num_val)

    def describe_space(self) -> dict[str, Any]:
        """What is searched, as plain data."""
        return {name: choice.describe() for name, choice in self.space.items()}

    def to_json(self) -> dict[str, Any]:
        """The configuration as it stands in ``config.json``."""
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
        """Where the search goes unless told: ``runs/tune-DATASET-METHOD-…-HASH``."""
        method = self.config.method.replace(":", ".")
        parts = ["tune", Path(self.config.dataset).stem, method, self.config.backbone, short_hash(self.to_json())]
        return Path("runs") / "-".join(part for part in parts if part)

    def command(self, trials: int, final_seeds: int) -> str:
        """The command line that repeats the search."""
        words = ["hpn", "tune", *self.config.protocol_words(), "--trials", str(trials)]
        words += ["--seeds", str(len(self.seeds)), "--final-seeds", str(final_seeds)]
        words += [word for name, value in self.fixed.items() for word in ("--set", f"{name}={value}")]
        return shlex.join(words)


def make_plan(
    dataset: str, *, seeds: int, choices: Mapping[str, Any], data_root: Path | None
) -> tuple[TunePlan, Graph]:
    """Check every argument, load the data, and write out what was left to defaults.

    Raises:
        ConfigError: If an argument cannot be used, or there are no validation nodes to choose by.
        DataError: If the data cannot be loaded.
    """
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
    is_single = all(len(task) == 1 for task in config.tasks) if config.evaluate == "oracle" else False
    if is_single or len({label for task in config.tasks for label in task}) == 1:
        raise ConfigError("there is a single class to choose from, so there is nothing to tune by")
    stream = config.make_stream(graph, 0)
    counts = [len(stream.step(index).val) for index in range(len(stream))]
    if 0 in counts:
        where = f"step {counts.index(0)} of {dataset}"
        raise ConfigError(f"{where} has no validation nodes, and tuning chooses by them")
    return TunePlan(config, space, fixed, tuple(range(seeds)), sum(counts)), graph
