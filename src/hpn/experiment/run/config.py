"""A run, resolved: every choice written out, so that it can be repeated and compared."""

from __future__ import annotations

import hashlib
import inspect
import json
import shlex
import sys
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from hpn.datasets import Graph, find_loader
from hpn.errors import ConfigError, nearest
from hpn.experiment.recipes import AUTO, find_recipe, read_recipe, variant_of
from hpn.experiment.run.environment import installed_versions
from hpn.experiment.run.folder import FORMAT
from hpn.learners import LEARNERS, Learner
from hpn.learners.finding import find_learner
from hpn.params import declared_params, resolve_params
from hpn.streams import STREAMS, Classes, Edges, Evaluate, Scenario, Stream, StreamPlan

DATA_PREFIX = "data."


@dataclass(frozen=True)
class RunConfig:
    """A resolved run, without its seeds."""

    dataset: str  # name or path
    data_options: dict[str, Any]
    method: str
    params: dict[str, Any]  # every hyper-parameter of the learner but its seed
    scenario: Scenario
    edges: Edges
    evaluate: Evaluate
    stream: str
    plan: StreamPlan
    ahead: int  # later steps that are evaluated after each step
    data_sha256: str
    versions: dict[str, str]
    learner: type[Learner] = field(compare=False)
    learner_code: str | None  # hash of the code of a learner outside this package
    settings: dict[str, Any] = field(compare=False)  # the hyper-parameters that were given
    recipe: str | None = field(default=None, compare=False)  # the recipe that was used
    recipe_choice: str | None = field(default=AUTO, compare=False)  # auto, a file or name, or None

    @property
    def backbone(self) -> str | None:
        """The backbone, for methods that have one."""
        return self.params.get("backbone")

    @property
    def tasks(self) -> tuple[Classes, ...]:
        """Classes of each step."""
        return self.plan.classes

    @property
    def kind(self) -> type[Stream]:
        """The class of the stream."""
        return STREAMS[self.stream]

    def to_json(self) -> dict[str, Any]:
        """The content of ``config.json``."""
        names = ("dataset", "data_options", "method", "params", "scenario", "edges", "evaluate", "tasks")
        content = {name: getattr(self, name) for name in (*names, "data_sha256", "versions")}
        # Values that are as usual are left out, as they were before there were others: folders stay valid.
        if not self.kind.has_tasks:
            content |= {"stream": self.stream, "steps": [step.name for step in self.plan.steps]}
        if self.ahead != self.kind.num_ahead:
            content["ahead"] = self.ahead
        if self.learner_code is not None:
            content["learner_code"] = self.learner_code
        return json.loads(json.dumps({"format": FORMAT, **content}))  # type: ignore[no-any-return]

    def short_hash(self) -> str:
        """Eight hex digits that differ for different configurations, versions or data."""
        return short_hash(self.to_json())

    def default_folder(self, prefix: str | None = None, digits: str | None = None) -> Path:
        """The folder of the run unless one is given: ``runs/DATASET-METHOD-…-HASH``."""
        method = self.method.replace(":", ".")
        parts = [prefix, Path(self.dataset).stem, method, self.backbone, digits or self.short_hash()]
        return Path("runs") / "-".join(part for part in parts if part)

    def make_learner(self, seed: int) -> Learner:
        """A new learner with these hyper-parameters."""
        if self.backbone:
            import torch_geometric.nn  # noqa: F401  (takes seconds, which must not count as fitting)
        return self.learner(seed=seed, **self.params)

    def effective_params(self) -> dict[str, Any]:
        """Every hyper-parameter, with the values of a preset written out."""
        return self.learner(**self.params).effective_params()

    def make_stream(self, graph: Graph, seed: int) -> Stream:
        """The stream of one seed."""
        return self.kind(graph, self.plan, scenario=self.scenario, edges=self.edges, seed=seed)

    def with_params(self, settings: Mapping[str, Any]) -> RunConfig:
        """The same run with other values of some hyper-parameters, which must be in range."""
        return replace(self, params={**self.params, **settings}, settings={**self.settings, **settings})

    def command(
        self, seeds: Sequence[int], data_root: Path | None = None, *, name: str = "run", without: Collection[str] = ()
    ) -> str:
        """The command line that repeats this run, or another command without some of the options."""
        settings = {name: value for name, value in self.settings.items() if name != "backbone"}
        defaults = declared_params(find_loader(self.dataset, data_root))
        options = {DATA_PREFIX + key: v for key, v in self.data_options.items() if v != defaults[key].default}
        words = ["hpn", name, self.dataset, *self.protocol_words(without), *seed_words(seeds)]
        words += setting_words(settings | options)
        if self.recipe_choice != AUTO:
            words += ["--recipe", self.recipe_choice] if self.recipe_choice else ["--no-recipe"]
        return shlex.join([*words, *(["--data-root", str(data_root)] if data_root else [])])

    def protocol_words(self, without: Collection[str] = ()) -> list[str]:
        """Method and protocol as words of a command line, without some of the options."""
        names = ("method", "backbone", "scenario", "edges", "evaluate")
        options = {f"--{name}": getattr(self, name) for name in names}
        has_tasks = self.kind.has_tasks
        options |= (
            {"--tasks": ";".join(step.name for step in self.plan.steps)} if has_tasks else {"--stream": self.stream}
        )
        words = [word for key, value in options.items() if value and key not in without for word in (key, value)]
        return [*words, "--evaluate-ahead"] if self.ahead > self.kind.num_ahead else words


def resolve_config(
    dataset: str,
    *,
    method: str | type[Learner] = "hpn",
    backbone: str | None = None,
    scenario: str | None = None,
    edges: str | None = None,
    evaluate: str | None = None,
    stream: str = "tasks",
    evaluate_ahead: bool = False,
    tasks: str | Sequence[Sequence[int]] | None = None,
    classes_per_task: int | None = None,
    settings: Mapping[str, Any] | None = None,
    recipe: Path | str | None = AUTO,
    data_root: Path | None = None,
) -> tuple[RunConfig, Graph]:
    """Check every argument, load the data, and write out the defaults.

    A hyper-parameter is taken from ``settings``, else from the recipe, else from the learner's defaults.

    Args:
        dataset: Name or path.
        method: Name of the learner, ``MODULE:CLASS``, or a class.
        backbone: Backbone, for methods that have one.
        scenario: ``task`` or ``class``; by default what ``evaluate`` and the stream need.
        edges: ``within`` or ``seen``; by default what the stream has.
        evaluate: ``oracle``, ``global`` or ``grouped``; by default ``oracle`` in the task scenario and
            ``global`` in the class scenario.
        stream: The kind of stream: ``tasks`` or ``time``.
        evaluate_ahead: Whether all later steps are evaluated after each step.
        tasks: See :func:`hpn.streams.plan_tasks`.
        classes_per_task: Classes per task.
        settings: Hyper-parameters by name, and options of the data set as ``data.NAME``.
        recipe: ``auto`` for the packaged recipe, if there is one; a file or the name of a packaged recipe; or
            ``None`` for no recipe.
        data_root: Folder with the data.

    Raises:
        ConfigError: If an argument cannot be used.
        DataError: If the data cannot be loaded.
    """
    name, learner = find_learner(method)
    _choose("stream", stream, STREAMS)
    kind = STREAMS[stream]
    given, options = _split_settings(name, learner, backbone, settings or {})
    scenario, evaluate = _resolve_scenario(kind, scenario, evaluate)
    edges = kind.edge_modes[0] if edges is None else edges
    _choose("edges", edges, get_args(Edges), kind.edge_modes, stream)
    chosen = choose_method(name, learner, given, dataset, kind, scenario, ahead=evaluate_ahead, recipe=recipe)
    loader = find_loader(dataset, data_root)
    data_options = resolve_params(loader, options, owner=f"data set {dataset}")
    graph = loader(**data_options)
    given_plan = (("tasks", tasks), ("classes_per_task", classes_per_task))
    wanted = {key: value for key, value in given_plan if value is not None}
    for key in wanted:
        if key not in declared_params(kind.make_plan):
            raise ConfigError(f"--stream {stream} takes no --{key.replace('_', '-')}")
    plan = kind.make_plan(graph, **wanted)
    config = RunConfig(
        dataset=dataset,
        data_options=data_options,
        scenario=scenario,
        edges=edges,  # type: ignore[arg-type]
        evaluate=evaluate,
        stream=stream,
        plan=plan,
        ahead=len(plan.steps) - 1 if evaluate_ahead else kind.num_ahead,
        data_sha256=graph.fingerprint(),
        versions=installed_versions(),
        **chosen,
    )
    return config, graph


def choose_method(
    name: str,
    learner: type[Learner],
    given: Mapping[str, Any],
    dataset: str,
    kind: type[Stream],
    scenario: str,
    *,
    ahead: bool,
    recipe: Path | str | None,
) -> dict[str, Any]:
    """The fields of a :class:`RunConfig` that belong to the method; ``given`` are its settings."""
    _check_learner(name, learner, kind, scenario, ahead=ahead)
    found, used = None, None
    known = {**{key: value.default for key, value in declared_params(learner.variant(given)).items()}, **given}
    if recipe == AUTO and kind.has_tasks:  # packaged recipes are for streams of tasks
        found = find_recipe(dataset, name, variant_of(known), scenario)
        used = found.name if found else None
    elif recipe not in {AUTO, None}:
        found, used = read_recipe(str(recipe)), str(recipe)
        for what, wanted in {"method": name, "scenario": scenario, "backbone": known.get("backbone")}.items():
            if getattr(found, what) != wanted:
                raise ConfigError(f"recipe {recipe} is for {what} {getattr(found, what)}, but this run has {wanted}")
    params = resolve_params(learner, {**(found.settings if found else {}), **given}, owner=name, without={"seed"})
    learner(**params)  # refuses combinations, before anything is loaded
    return {
        "method": name,
        "learner": learner,
        "learner_code": _hash_code(name, learner),
        "params": params,
        "settings": {key: params[key] for key in given},
        "recipe": used,
        "recipe_choice": None if recipe is None else str(recipe),
    }


def _hash_code(name: str, learner: type[Learner]) -> str | None:
    """A hash of the files of a learner outside this package, and of its bases: when one changes, it is another run.

    If there is no source file, as in an interactive session, every run is another one.
    """
    if name in LEARNERS:
        return None
    others = {"hpn", *sys.stdlib_module_names}
    kinds = [kind for kind in learner.__mro__ if kind.__module__.partition(".")[0] not in others]
    try:
        files = dict.fromkeys(Path(inspect.getsourcefile(kind) or "") for kind in kinds)
        code = b"".join(file.read_bytes() for file in files)
    except (OSError, TypeError):
        code = uuid.uuid4().bytes
    return hashlib.sha256(code).hexdigest()


def check_choices(owner: str, choices: Mapping[str, Any]) -> None:
    """Refuse arguments that :func:`resolve_config` does not take."""
    known = declared_params(resolve_config)
    for name in choices:
        if name not in known:
            raise TypeError(f"{owner} has no argument {name!r}; {nearest(name, known)}it takes: {', '.join(known)}")


def _split_settings(
    method: str, learner: type[Learner], backbone: str | None, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The given hyper-parameters of the learner, and options of the data set."""
    given = {name: value for name, value in settings.items() if not name.startswith(DATA_PREFIX)}
    options = {name.removeprefix(DATA_PREFIX): value for name, value in settings.items() if name not in given}
    if "seed" in given:
        raise ConfigError("seed is not set with --set; use --seed or --seeds")
    if backbone is not None:
        if "backbone" not in declared_params(learner):
            raise ConfigError(f"{method} has no backbone; leave --backbone out")
        if given.setdefault("backbone", backbone) != backbone:
            raise ConfigError("--backbone and --set backbone=… disagree")
    return given, options


def _resolve_scenario(kind: type[Stream], scenario: str | None, evaluate: str | None) -> tuple[Scenario, Evaluate]:
    if scenario is None:
        needed = "task" if evaluate in {None, "oracle"} else "class"
        scenario = needed if needed in kind.scenarios else kind.scenarios[0]
    _choose("scenario", scenario, get_args(Scenario), kind.scenarios, kind.kind)
    if evaluate is None:
        evaluate = "oracle" if scenario == "task" else "global"
    _choose("evaluate", evaluate, get_args(Evaluate))
    if scenario == "task" and evaluate != "oracle":
        raise ConfigError(
            f"the task scenario gives the task of every node, so evaluate {evaluate!r} does not "
            "go with it; use --scenario class"
        )
    if not kind.has_tasks and evaluate != "global":
        raise ConfigError(f"--stream {kind.kind} has no tasks to name or to infer; use --evaluate global")
    return scenario, evaluate  # type: ignore[return-value]


def _check_learner(name: str, learner: type[Learner], kind: type[Stream], scenario: str, *, ahead: bool) -> None:
    """Refuse a stream that a learner cannot learn, or steps that it cannot be evaluated on."""
    if learner.needs_tasks and not kind.has_tasks:
        raise ConfigError(f"{name} needs tasks, which --stream {kind.kind} does not have; choose another method")
    if ahead and kind.has_tasks and scenario != "task":
        raise ConfigError(
            "--evaluate-ahead on tasks needs --scenario task: without a task, the answer would be one "
            "of the classes that it has not seen"
        )
    if ahead and kind.has_tasks and not learner.answers_ahead:
        raise ConfigError(
            f"--evaluate-ahead: {name} cannot answer about classes that it has not seen; use --stream time, "
            "or a network with a head that all tasks share, such as finetune"
        )


def _choose(what: str, word: str, known: Collection[str], allowed: Collection[str] = (), stream: str = "") -> None:
    """Refuse a word that is unknown, or that the stream does not have."""
    if word not in known:
        raise ConfigError(f"unknown {what} {word!r}; {nearest(word, known)}known: {', '.join(known)}")
    if allowed and word not in allowed:
        raise ConfigError(f"--stream {stream} has {what} {', '.join(allowed)}, got {word!r}")


def short_hash(content: Any) -> str:
    """Eight hex digits of a hash of a JSON value."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]


def check_seeds(seeds: int | Sequence[int]) -> list[int]:
    """Seeds 0, 1, … if given how many, else those given."""
    chosen = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not chosen or len(set(chosen)) != len(chosen) or min(chosen) < 0:
        raise ConfigError(f"seeds must be one or more different numbers from 0 up, got {seeds}")
    return chosen


def seed_words(seeds: Sequence[int]) -> list[str]:
    """Seeds as words of a command line: ``--seeds 2`` for 0 and 1, else ``--seed`` for each."""
    if list(seeds) == list(range(len(seeds))):
        return ["--seeds", str(len(seeds))]
    return [word for seed in seeds for word in ("--seed", str(seed))]


def setting_words(settings: Mapping[str, Any]) -> list[str]:
    """Settings as words of a command line."""
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
