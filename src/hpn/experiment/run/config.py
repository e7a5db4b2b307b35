"""What a run is, resolved: every choice written out, so that it can be repeated and compared."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args

from hpn.datasets import Graph, find_loader
from hpn.errors import ConfigError, nearest
from hpn.experiment.recipes import AUTO, Recipe, find_recipe, read_recipe, variant_of
from hpn.experiment.run.folder import FORMAT
from hpn.experiment.run.seeds import seed_words
from hpn.experiment.run.versions import installed_versions
from hpn.learners import LEARNERS, Learner
from hpn.params import declared_params, resolve_params
from hpn.streams import Classes, Edges, Evaluate, Scenario, TaskStream, plan_tasks
from hpn.streams.splits import split_nodes

DATA_PREFIX = "data."


@dataclass(frozen=True)
class RunConfig:
    """A resolved run, seeds aside.

    Args:
        dataset: Name or path.
        data_options: Every option of the data set.
        method: Name of the learner.
        params: Every hyper-parameter of the learner but its seed.
        scenario: ``task`` or ``class``.
        edges: ``within`` or ``seen``.
        evaluate: ``oracle``, ``global`` or ``grouped``.
        tasks: Classes of each task.
        data_sha256: Hash of the loaded graph.
        versions: Versions the numbers depend on.
        recipe: The recipe that hyper-parameters came from, if one did. It does not make a run another run.
    """

    dataset: str
    data_options: dict[str, Any]
    method: str
    params: dict[str, Any]
    scenario: Scenario
    edges: Edges
    evaluate: Evaluate
    tasks: tuple[Classes, ...]
    data_sha256: str
    versions: dict[str, str] = field(default_factory=dict)
    recipe: str | None = field(default=None, compare=False)

    @property
    def backbone(self) -> str | None:
        """The backbone, for methods that have one."""
        return self.params.get("backbone")

    def to_json(self) -> dict[str, Any]:
        """The configuration as it stands in ``config.json``."""
        content = {"format": FORMAT, **asdict(self)}
        del content["recipe"]
        return json.loads(json.dumps(content))  # type: ignore[no-any-return]

    def short_hash(self) -> str:
        """Eight hex digits that differ for different configurations, versions or data."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def default_folder(self) -> Path:
        """Where the run goes unless told: ``runs/DATASET-METHOD-…-HASH``."""
        parts = [Path(self.dataset).stem, self.method, self.backbone, self.short_hash()]
        return Path("runs") / "-".join(part for part in parts if part)

    def make_learner(self, seed: int) -> Learner:
        """A new learner with these hyper-parameters."""
        if self.backbone:
            import torch_geometric.nn  # noqa: F401  (takes seconds, which are not to count as fitting)
        return LEARNERS[self.method](seed=seed, **self.params)

    def effective_params(self) -> dict[str, Any]:
        """Every hyper-parameter, with what a preset stands for written out."""
        return LEARNERS[self.method](**self.params).effective_params()

    def make_stream(self, graph: Graph, seed: int) -> TaskStream:
        """The task stream of one seed."""
        return TaskStream(graph, tasks=self.tasks, scenario=self.scenario, edges=self.edges, seed=seed)

    def command(self, seeds: Sequence[int], data_root: Path | None = None) -> str:
        """The command line that repeats this run."""
        words = ["hpn", "run", *self.protocol_words(), *seed_words(seeds)]
        settings = _changed(self.params, self._usual_params(), "")
        settings += _changed(self.data_options, _defaults(find_loader(self.dataset, data_root)), DATA_PREFIX)
        words += [word for setting in settings for word in ("--set", setting)]
        words += ["--data-root", str(data_root)] if data_root else []
        return shlex.join(words)

    def protocol_words(self) -> list[str]:
        """Data set, method and protocol as words of a command line."""
        words = [self.dataset, "--method", self.method]
        words += ["--backbone", self.backbone] if self.backbone else []
        words += ["--scenario", self.scenario, "--edges", self.edges, "--evaluate", self.evaluate]
        return [*words, "--tasks", ";".join(",".join(map(str, task)) for task in self.tasks)]

    def _usual_params(self) -> dict[str, Any]:
        """What ``hpn run`` takes if only the variant of the method is set."""
        learner = LEARNERS[self.method]
        variant: dict[str, Any] = {
            name: value for name, value in self.params.items() if name in {"backbone", "preset"}
        }
        recipe = find_recipe(self.dataset, self.method, variant_of(variant), self.scenario)
        settings = {**variant, **(recipe.settings if recipe else {})}
        usual = resolve_params(learner, settings, owner=self.method, without={"seed"})
        # The preset is written out unless it is the default; the backbone has an option of its own.
        default = resolve_params(learner, {}, owner=self.method, without={"seed"})
        return {**usual, **{name: default[name] for name in variant}}


def resolve_config(
    dataset: str,
    *,
    method: str = "hpn",
    backbone: str | None = None,
    scenario: str | None = None,
    edges: str = "within",
    evaluate: str | None = None,
    tasks: str | Sequence[Sequence[int]] | None = None,
    classes_per_task: int | None = None,
    settings: Mapping[str, Any] | None = None,
    recipe: Path | str | None = AUTO,
    data_root: Path | None = None,
) -> tuple[RunConfig, Graph]:
    """Check every argument, load the data, and write out what was left to defaults.

    A hyper-parameter is taken from ``settings``, else from the recipe, else from the learner's defaults.

    Args:
        dataset: Name or path.
        method: Name of the learner.
        backbone: Backbone, for methods that have one.
        scenario: ``task`` or ``class``; by default what ``evaluate`` needs.
        edges: ``within`` or ``seen``.
        evaluate: ``oracle``, ``global`` or ``grouped``; by default ``oracle`` in the task scenario and
            ``global`` in the class scenario.
        tasks: See :func:`hpn.streams.plan_tasks`.
        classes_per_task: Classes a task.
        settings: Hyper-parameters by name, and options of the data set as ``data.NAME``.
        recipe: ``auto`` for the packaged recipe, if there is one; a file or the name of a packaged recipe; or
            ``None`` for no recipe.
        data_root: Folder with the data.

    Raises:
        ConfigError: If an argument cannot be used.
        DataError: If the data cannot be loaded.
    """
    learner = _choose("method", method, LEARNERS)
    given, options = _split_settings(method, learner, backbone, dict(settings or {}))
    named = read_recipe(recipe).settings if recipe not in {None, AUTO} else {}
    variant = {name: value for name, value in named.items() if name == "preset"}
    params = resolve_params(learner, {**variant, **given}, owner=method, without={"seed"})
    data_options = resolve_params(find_loader(dataset, data_root), options, owner=f"data set {dataset}")
    scenario, evaluate = _resolve_scenario(scenario, evaluate)
    _choose("edges", edges, get_args(Edges))
    name, found = _take_recipe(recipe, dataset, method, params, scenario)
    if found is not None:
        params = resolve_params(learner, {**found.settings, **given}, owner=method, without={"seed"})
    learner(**params)  # refuses what does not go together, before anything is loaded
    graph = find_loader(dataset, data_root)(**data_options)
    plan = plan_tasks(graph, tasks, classes_per_task)
    split_nodes(graph, plan.tasks, seed=0)  # says what is wrong with it before anything is written
    config = RunConfig(
        dataset=dataset,
        data_options=data_options,
        method=method,
        params=params,
        scenario=scenario,
        edges=edges,  # type: ignore[arg-type]
        evaluate=evaluate,
        tasks=plan.tasks,
        data_sha256=graph.fingerprint(),
        versions=installed_versions(),
        recipe=name,
    )
    return config, graph


def _split_settings(
    method: str, learner: type[Learner], backbone: str | None, settings: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Hyper-parameters of the learner and options of the data set, as given."""
    options = {
        name.removeprefix(DATA_PREFIX): settings.pop(name)
        for name in list(settings)
        if name.startswith(DATA_PREFIX)
    }
    if "seed" in settings:
        raise ConfigError("seed is not set with --set; use --seed or --seeds")
    if backbone is not None:
        if "backbone" not in declared_params(learner):
            raise ConfigError(f"{method} has no backbone; leave --backbone out")
        if settings.setdefault("backbone", backbone) != backbone:
            raise ConfigError("--backbone and --set backbone=… disagree")
    return settings, options


def _take_recipe(
    recipe: Path | str | None, dataset: str, method: str, params: Mapping[str, Any], scenario: str
) -> tuple[str | None, Recipe | None]:
    """What to call the recipe, and the recipe."""
    if recipe is None:
        return None, None
    if recipe == AUTO:
        found = find_recipe(dataset, method, variant_of(params), scenario)
        return (found.name, found) if found else (None, None)
    found = read_recipe(recipe)
    this_run = {"method": method, "backbone": params.get("backbone"), "scenario": scenario}
    for what, wanted in this_run.items():
        is_for = getattr(found, what)
        if is_for != wanted:
            raise ConfigError(f"recipe {recipe} is for {what} {is_for}, but this run has {wanted}")
    return str(recipe), found


def _resolve_scenario(scenario: str | None, evaluate: str | None) -> tuple[Scenario, Evaluate]:
    if scenario is None:
        scenario = "task" if evaluate in {None, "oracle"} else "class"
    _choose("scenario", scenario, get_args(Scenario))
    if evaluate is None:
        evaluate = "oracle" if scenario == "task" else "global"
    _choose("evaluate", evaluate, get_args(Evaluate))
    if scenario == "task" and evaluate != "oracle":
        raise ConfigError(
            f"the task scenario gives the task with every question, so evaluate {evaluate!r} does not "
            "go with it; use --scenario class"
        )
    return scenario, evaluate  # type: ignore[return-value]


def _choose(what: str, word: str, known: Any) -> Any:
    if word not in known:
        raise ConfigError(f"unknown {what} {word!r}; {nearest(word, known)}known: {', '.join(known)}")
    return known[word] if isinstance(known, Mapping) else word


def _defaults(function: Any) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in declared_params(function).items()}


def _changed(values: Mapping[str, Any], usual: Mapping[str, Any], prefix: str) -> list[str]:
    """``NAME=VALUE`` for what is not as usual; the backbone has an option of its own."""
    return [
        f"{prefix}{name}={value}"
        for name, value in values.items()
        if value != usual[name] and name != "backbone"
    ]
