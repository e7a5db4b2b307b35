"""The result of a run: what it writes, and what everything downstream reads.

Nothing here needs PyTorch, so that results are shown and compared without importing it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    Strict,
    ValidationError,
    model_serializer,
    model_validator,
)

from hpn.errors import DataError
from hpn.experiment.run.folder import CONFIG, RESULT
from hpn.metrics import METRICS, Measured, Metric, Summary, summarize

if TYPE_CHECKING:
    from hpn.experiment.run.config import RunConfig

SCHEMA = 1

Float = Annotated[float, Strict()]
Number = Annotated[int, Strict()] | Float
Rows = list[list[Float]]
Counts = Mapping[str, Number]
Model = TypeVar("Model", bound=BaseModel)


class Part(BaseModel):
    """A part of a result file; nothing in it changes."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, populate_by_name=True)


class WithMetrics(Part):
    """Has metrics, which in JSON are fields of their own.

    Args:
        metrics: Summary of every metric of :data:`hpn.metrics.METRICS` by name; ``None`` where it does not
            apply.
    """

    metrics: dict[str, Summary | None]

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, content: Any) -> Any:
        if not isinstance(content, Mapping) or "metrics" in content:
            return content
        content = dict(content)
        if "am" not in content:
            raise ValueError("am is missing")
        content["metrics"] = {name: content.pop(name) for name in METRICS if name in content}
        return content

    @model_serializer(mode="wrap")
    def _spread(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = write(self)
        metrics = content.pop("metrics")
        return {**{name: metrics.get(name) for name in METRICS}, **content}


class Protocol(Part):
    """What results of one protocol share; with other values, numbers are not to be compared."""

    version: Literal[1] = Field(default=1, alias="schema")
    dataset: str
    scenario: str
    evaluate: str
    edges: str
    stream: str = "tasks"


class Costs(Part):
    """Seconds by what they were spent on."""

    fit: float
    predict: float
    total: float


class Growth(Part):
    """What a learner has grown to after a step: the mean over seeds, or that of one seed.

    Args:
        parameters: Numbers needed to answer.
        stored: Numbers kept between steps.
        prototypes: Prototypes of each level.
        most_prototypes: The largest of any seed.
    """

    parameters: Number
    stored: Number
    prototypes: Counts | None = None
    most_prototypes: Counts | None = None


class SeedResult(Part):
    """What one seed gave; accuracies are in per cent."""

    seed: int
    matrix: Rows
    balanced: Rows
    chance: Rows | None = None
    parameters: int
    stored: int | None = None
    prototypes: Counts | None = None
    bounds: Mapping[str, int | None] | None = None
    parameter_bound: int | None = None
    growth: list[Growth] | None = None
    seconds: Costs
    peak_rss_mb: float | None = None
    device: str | None = None


class StepResult(Part):
    """A step of the stream, and what is evaluated after it.

    Args:
        name: What people call it.
        classes: Classes of the nodes that arrive with it.
    """

    name: str
    classes: list[int] = Field(min_length=1)


class Balanced(Part):
    """Metrics of class-balanced accuracies."""

    am: Summary | None = None
    fm: Summary | None = None
    ars: Summary | None = None
    matrices: list[Rows] = []


def _empty_if_null(value: Any) -> Any:
    return {} if value is None else value


class RunResult(Protocol, WithMetrics):
    """A finished run over its seeds.

    Accuracies and metrics are in per cent. Row ``i`` of a matrix is what was measured after step ``i``: on
    the steps up to ``i``, and on those still to come that were asked about.

    Args:
        stream: The kind of stream.
        steps: Its steps.
        matrices: The accuracy matrix of each seed.
        chance: Accuracies of guessing in the same shape.
        left_out: Names of the classes that are in no step.
        reference: The run folder that intransigence refers to.
    """

    method: str
    backbone: str | None = None
    data_sha256: str | None = None
    steps: list[StepResult] = Field(min_length=1)
    seeds: list[int] = Field(min_length=1)
    matrices: list[Rows]
    chance: list[Rows] | None = None
    parameters: Number | None = None
    stored: Number | None = None
    prototypes: Counts | None = None
    bounds: Mapping[str, int | None] | None = None
    parameter_bound: int | None = None
    seconds: Costs | None = None
    peak_rss_mb: float | None = None
    device: str | None = None
    versions: Annotated[dict[str, str], BeforeValidator(_empty_if_null)] = {}
    out: str | None = None
    balanced: Balanced | None = None
    class_names: Annotated[dict[str, str], BeforeValidator(_empty_if_null)] = {}
    left_out: list[str] = []
    growth: list[Growth] | None = None
    params: Annotated[dict[str, Any], BeforeValidator(_empty_if_null)] = {}
    recipe: str | None = None
    reference: str | None = None
    command: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _name_steps(cls, content: Any) -> Any:
        """Take the steps of older files from their tasks."""
        if isinstance(content, Mapping) and isinstance(content.get("tasks"), list) and "steps" not in content:
            tasks = [{"name": str(task).strip("[]"), "classes": task} for task in content["tasks"]]
            return {**content, "steps": tasks}
        return content

    @model_validator(mode="after")
    def _check(self) -> RunResult:
        if len(self.matrices) != len(self.seeds):
            raise ValueError(f"matrices must hold one matrix per seed, {len(self.seeds)}")
        for matrix in self.matrices:
            if len(matrix) != len(self.steps):
                raise ValueError(f"matrices must have one row per step, {len(self.steps)}")
            Measured(matrix)
        for name, others in (("balanced", self.balanced and self.balanced.matrices), ("chance", self.chance)):
            if others and [list(map(len, rows)) for rows in others] != [list(map(len, rows)) for rows in self.matrices]:
                raise ValueError(f"{name} must have the shape of matrices")
        if self.growth is not None and len(self.growth) != len(self.steps):
            raise ValueError(f"growth must have one entry per step, {len(self.steps)}")
        return self

    def __getitem__(self, name: str) -> Any:
        """A field as in JSON, such as ``result["am"]["mean"]``."""
        return self.to_json()[name]

    @property
    def am(self) -> Summary | None:
        """Average accuracy after the last step."""
        return self.metrics["am"]

    @property
    def tasks(self) -> list[list[int]]:
        """Classes of each step."""
        return [step.classes for step in self.steps]

    @property
    def trivial_steps(self) -> list[int]:
        """Steps whose questions have a single possible answer when they are learned."""
        rows = self.chance[0] if self.chance else []
        return [step for step, row in enumerate(rows) if row[step] >= 100]

    @property
    def is_trivial(self) -> bool:
        """Whether every question has a single possible answer, so that accuracy measures nothing."""
        chance = None if self.chance is None else [cell for rows in self.chance for row in rows for cell in row]
        return bool(chance) and min(chance or [0]) >= 100

    def measured(self) -> list[Measured]:
        """What was measured with each seed."""
        forgets = self.metrics.get("fm") is not None or len(self.steps) == 1
        balanced = self.balanced.matrices if self.balanced and self.balanced.matrices else None
        return [
            Measured(
                matrix,
                balanced=balanced[at] if balanced else None,
                chance=self.chance[at] if self.chance else None,
                forgets=forgets,
            )
            for at, matrix in enumerate(self.matrices)
        ]

    def curve(self, metric: Metric) -> list[Summary | None]:
        """A metric after each step, over seeds."""
        return [summarize(values) for values in zip(*map(metric.curve, self.measured()), strict=True)]

    def mean_matrix(self) -> list[list[Summary | None]]:
        """The accuracy matrix over seeds."""
        return [[summarize(cell) for cell in zip(*rows, strict=True)] for rows in zip(*self.matrices, strict=True)]

    def with_seconds(self, more: float) -> RunResult:
        """The same, with seconds that were spent on no seed added to the total."""
        if self.seconds is None:
            return self
        total = self.seconds.total + more
        return self.model_copy(update={"seconds": self.seconds.model_copy(update={"total": total})})

    def seconds_per_seed(self) -> Costs | None:
        """The mean seconds of a seed."""
        parts = self.seconds and {name: value / len(self.seeds) for name, value in self.seconds}
        return Costs(**parts) if parts else None

    def class_name(self, label: int) -> str:
        """What a class is called."""
        return self.class_names.get(str(label), f"class {label}")

    def to_json(self) -> dict[str, Any]:
        """The fields of ``hpn run --json``."""
        content = self.model_dump(mode="json", by_alias=True)
        first = ("schema", "dataset", "method", "backbone", "scenario", "evaluate", "edges")
        return {**{name: content.pop(name) for name in first}, "tasks": self.tasks, **content}


class View(Part):
    """The test nodes of all steps so far as a learner sees them.

    Args:
        after: The step learned last.
        points: t-SNE of the representations.
        classes: The class of each point.
        silhouette: How far the classes are apart in the representation itself, from −1 to 1.
        neighbors: Per cent of the nodes whose nearest others are mostly of their own class.
        neighbors_within: The same with others of the node's own step only, the mean over steps.
    """

    after: int = Field(ge=0)
    points: list[tuple[float, float]]
    classes: list[int]
    silhouette: float | None = None
    neighbors: float | None = None
    neighbors_within: float | None = None

    @model_validator(mode="after")
    def _check(self) -> View:
        if len(self.points) != len(self.classes):
            raise ValueError(f"{len(self.points)} points but {len(self.classes)} classes")
        return self


class Views(Part):
    """Views of all seeds of a run: a list of them for each seed."""

    seeds: list[int] = Field(min_length=1)
    views: list[list[View]]


def load_result(path: Path) -> RunResult:
    """Read the result of a finished run.

    Args:
        path: A run folder, or the ``result.json`` in it.

    Raises:
        DataError: If the run has not finished, or the file is damaged or of another version.
    """
    file = path / RESULT if path.is_dir() else path
    content = read_object(file)
    if content.get("schema") != SCHEMA:
        raise DataError(
            f"{file} has schema {content.get('schema')!r}, expected {SCHEMA}; "
            "read it with the version of hpn that wrote it, or run its command again"
        )
    content["out"] = content.get("out") or str(file.parent)
    return parse_result(RunResult, content, file)


def parse_result(kind: type[Model], content: Any, file: Path, advice: str = "run its command again") -> Model:
    """Check the content of a file.

    Raises:
        DataError: If it is damaged; states the first field that is.
    """
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        problem = first["msg"].removeprefix("Value error, ")
        what = f"{where}{': ' if where else ''}{problem[:1].lower()}{problem[1:]}"
        raise DataError(f"{file} is damaged ({' '.join(what.split())}); {advice}") from None


def read_object(file: Path) -> dict[str, Any]:
    """Read a JSON object that a command wrote.

    Raises:
        DataError: If it is not there, or not a JSON object.
    """
    try:
        content = json.loads(file.read_bytes())
    except FileNotFoundError:
        if file.name == RESULT and (file.parent / CONFIG).exists():
            raise DataError(
                f"{file.parent} has no {RESULT}, so the run has not finished; run its command again"
            ) from None
        raise DataError(f"{file} does not exist; name the folder of a run or its {RESULT}") from None
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror}); check its permissions") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file} is not a JSON result ({' '.join(str(error).split())})") from None
    if not isinstance(content, dict):
        raise DataError(f"{file} is not a JSON result (expected an object, got {type(content).__name__})")
    return content


def combine_seeds(
    config: RunConfig,
    class_names: Sequence[str],
    finished: Sequence[SeedResult],
    *,
    command: str,
    out: Path,
    reference: RunResult | None = None,
) -> RunResult:
    """Put the finished seeds of a run together.

    Args:
        config: The run.
        class_names: Names of all classes of the data.
        finished: Result of each seed, in order.
        command: The command line that repeats the run.
        out: The run folder.
        reference: The run that intransigence refers to.
    """
    chance = [seed.chance for seed in finished if seed.chance is not None]
    result = RunResult(
        dataset=config.dataset,
        method=config.method,
        backbone=config.backbone,
        scenario=config.scenario,
        evaluate=config.evaluate,
        edges=config.edges,
        stream=config.stream,
        data_sha256=config.data_sha256,
        steps=[StepResult(name=step.name, classes=list(step.classes)) for step in config.plan.steps],
        seeds=[seed.seed for seed in finished],
        metrics={},
        matrices=[seed.matrix for seed in finished],
        chance=chance if len(chance) == len(finished) else None,
        parameters=_mean([seed.parameters for seed in finished]),
        stored=_mean([seed.stored for seed in finished]),
        prototypes=_mean_counts([seed.prototypes for seed in finished]),
        bounds=finished[0].bounds,
        parameter_bound=finished[0].parameter_bound,
        seconds=Costs(**{name: sum(getattr(seed.seconds, name) for seed in finished) for name in Costs.model_fields}),
        peak_rss_mb=max((seed.peak_rss_mb for seed in finished if seed.peak_rss_mb), default=None),
        device=finished[-1].device,
        versions=config.versions,
        out=str(out),
        class_names={str(c): class_names[c] for step in config.plan.steps for c in step.classes},
        left_out=[class_names[c] for c in config.plan.left_out],
        growth=_mean_growth([seed.growth for seed in finished], len(config.plan.steps)),
        params=config.effective_params(),
        recipe=config.recipe,
        reference=None if reference is None else reference.out,
        command=command,
    )
    forgets = not config.learner.sees_past
    measured = [
        Measured(seed.matrix, seed.balanced, seed.chance, _reference_matrix(reference, seed.seed), forgets=forgets)
        for seed in finished
    ]
    balanced = [Measured(seed.balanced, forgets=forgets) for seed in finished]
    parts = {
        name: None if result.is_trivial else summarize([METRICS[name](seed) for seed in balanced])
        for name in ("am", "fm", "ars")
    }
    return result.model_copy(
        update={
            "metrics": {
                name: None if result.is_trivial else summarize([metric(seed) for seed in measured])
                for name, metric in METRICS.items()
            },
            "balanced": Balanced(**parts, matrices=[seed.balanced for seed in finished]),
        }
    )


def check_reference(reference: RunResult, config: RunConfig, seeds: Sequence[int]) -> None:
    """Refuse a reference run of other questions.

    Raises:
        DataError: If it has other data, steps, seeds or another evaluation.
    """
    for name in ("dataset", "data_sha256", "stream", "scenario", "edges", "evaluate"):
        value = getattr(config, name)
        if getattr(reference, name) not in {value, None}:  # results of earlier versions have no data_sha256
            raise DataError(
                f"reference {reference.out} has {name} {getattr(reference, name)}, this run {value}; "
                "give a run of the same questions"
            )
    if reference.tasks != [list(step.classes) for step in config.plan.steps]:
        raise DataError(f"reference {reference.out} has other steps; give a run of the same questions")
    missing = sorted(set(seeds) - set(reference.seeds))
    if missing:
        raise DataError(f"reference {reference.out} has no seed {missing[0]}; run it with the same seeds")


def _reference_matrix(reference: RunResult | None, seed: int) -> Rows | None:
    return None if reference is None else reference.matrices[reference.seeds.index(seed)]


def _mean(values: Sequence[Number | None]) -> Number | None:
    """The mean, a whole number where it is one; none where a seed was finished before this was counted."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    mean = sum(known) / len(known)
    return int(mean) if mean == int(mean) else mean


def _mean_counts(counts: Sequence[Counts | None]) -> Counts | None:
    known = [count for count in counts if count is not None]
    if not known:
        return None
    return {level: _mean([count[level] for count in known]) or 0 for level in known[0]}


def _mean_growth(seeds: Sequence[list[Growth] | None], num_steps: int) -> list[Growth] | None:
    """What the seeds had grown to after each step; seeds from before this was counted have none."""
    known = [steps for steps in seeds if steps is not None and len(steps) == num_steps]
    if len(known) < len(seeds):
        return None
    grown = []
    for step in zip(*known, strict=True):
        counts = [entry.prototypes for entry in step if entry.prototypes is not None]
        grown.append(
            Growth(
                parameters=_mean([entry.parameters for entry in step]) or 0,
                stored=_mean([entry.stored for entry in step]) or 0,
                prototypes=_mean_counts(counts),
                most_prototypes={level: max(count[level] for count in counts) for level in counts[0]}
                if counts
                else None,
            )
        )
    return grown
