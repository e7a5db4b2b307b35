"""The result of a run: what it writes, and what everything downstream reads.

Nothing here needs PyTorch, so that results are shown and compared without importing it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    Strict,
    ValidationError,
    computed_field,
    model_serializer,
    model_validator,
)

from hpn.errors import DataError
from hpn.experiment.run.folder import CONFIG, RESULT
from hpn.metrics import METRICS, Measured, Metric, Summary, summarize

if TYPE_CHECKING:
    from hpn.experiment.run.config import RunConfig

SCHEMA = 1
# Fields that come before the metrics in JSON.
FIRST = ("schema", "dataset", "method", "backbone", "scenario", "evaluate", "edges", "tasks")

Float = Annotated[float, Strict()]
Number = Annotated[int, Strict()] | Float
Rows = list[list[Float]]
Counts = Mapping[str, Number]
Model = TypeVar("Model", bound=BaseModel)


class Part(BaseModel):
    """A part of a result file; it is immutable."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, populate_by_name=True)

    def to_json(self) -> dict[str, Any]:
        """As plain data: what files hold, and what the commands print with ``--json``."""
        return self.model_dump(mode="json", by_alias=True)


class WithMetrics(Part):
    """Has a summary of every metric of :data:`hpn.metrics.METRICS`, each a field of its own in JSON."""

    metrics: dict[str, Summary | None]  # None where a metric does not apply

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, content: Any) -> Any:
        if not isinstance(content, Mapping) or "metrics" in content:
            return content
        if "am" not in content:
            raise ValueError("am is missing")
        return {**content, "metrics": {name: content[name] for name in METRICS if name in content}}

    @model_serializer(mode="wrap")
    def _spread(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = write(self)
        metrics = content.pop("metrics")
        first = {name: content.pop(name) for name in FIRST if name in content}
        return {**first, **{name: metrics.get(name) for name in METRICS}, **content}


class ProtocolFields(Part):
    """The protocol of a result; numbers under different protocols are not comparable."""

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
    """The size of a learner after a step: the mean over seeds, or that of one seed."""

    parameters: Number
    stored: Number
    prototypes: Counts | None = None
    most_prototypes: Counts | None = None  # the largest of any seed


class Sizes(Part):
    """What a learner takes: numbers to predict with and to keep between steps, prototypes, time and memory."""

    parameters: Number | None = None
    stored: Number | None = None
    prototypes: Counts | None = None
    bounds: Mapping[str, int | None] | None = None
    parameter_bound: int | None = None
    growth: list[Growth] | None = None
    seconds: Costs | None = None
    peak_rss_mb: float | None = None
    device: str | None = None


class SeedResult(Sizes):
    """The result of one seed; accuracies are percentages."""

    seed: int
    matrix: Rows
    balanced: Rows
    chance: Rows
    parameters: int
    stored: int
    growth: list[Growth]
    seconds: Costs


class StepResult(Part):
    """A step of the stream: its name, and the classes of the nodes that arrive with it."""

    name: str
    classes: list[int] = Field(min_length=1)


class Balanced(Part):
    """Metrics of class-balanced accuracies."""

    am: Summary | None = None
    fm: Summary | None = None
    ars: Summary | None = None
    matrices: list[Rows] = []


class RunResult(Sizes, WithMetrics, ProtocolFields):
    """A finished run over its seeds; accuracies and metrics are percentages.

    Row ``i`` of a matrix was measured after step ``i``: on the steps up to ``i``, and on later ones that were
    evaluated ahead.

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
    versions: dict[str, str] = {}
    out: str | None = None
    balanced: Balanced | None = None
    class_names: dict[str, str] = {}
    left_out: list[str] = []
    params: dict[str, Any] = {}
    recipe: str | None = None
    reference: str | None = None
    command: str | None = None

    @model_validator(mode="after")
    def _check(self) -> RunResult:
        if list(map(len, self.matrices)) != [len(self.steps)] * len(self.seeds):
            raise ValueError(f"matrices must hold {len(self.seeds)} matrices, one per seed, of {len(self.steps)} rows")
        for name, others in (("balanced", self.balanced and self.balanced.matrices), ("chance", self.chance)):
            if others and [list(map(len, rows)) for rows in others] != [list(map(len, rows)) for rows in self.matrices]:
                raise ValueError(f"{name} must have the shape of matrices")
        self.measured()  # checks the lengths of rows
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

    @computed_field  # type: ignore[prop-decorator]
    @property
    def tasks(self) -> list[list[int]]:
        """Classes of each step."""
        return [step.classes for step in self.steps]

    @property
    def trivial_steps(self) -> list[int]:
        """Steps that have a single class to choose from when they are learned."""
        rows = self.chance[0] if self.chance else []
        return [step for step, row in enumerate(rows) if row[step] >= 100]

    @property
    def is_trivial(self) -> bool:
        """Whether there is never more than one class to choose from, so that accuracy measures nothing."""
        return _is_trivial(self.chance)

    def measured(self) -> list[Measured]:
        """The measurements of each seed."""
        forgets = self.metrics.get("fm") is not None or len(self.steps) == 1
        balanced = self.balanced.matrices if self.balanced else []
        nothing = [None] * len(self.seeds)
        rows = zip(self.matrices, balanced or nothing, self.chance or nothing, strict=True)
        return [Measured(*matrices, forgets=forgets) for matrices in rows]

    def curve(self, metric: Metric) -> list[Summary | None]:
        """A metric after each step, over seeds."""
        return [summarize(values) for values in zip(*map(metric.curve, self.measured()), strict=True)]

    def mean_matrix(self) -> list[list[Summary | None]]:
        """The accuracy matrix over seeds."""
        return [[summarize(cell) for cell in zip(*rows, strict=True)] for rows in zip(*self.matrices, strict=True)]

    def seconds_per_seed(self) -> Costs | None:
        """The mean seconds per seed."""
        return self.seconds and Costs(**{name: value / len(self.seeds) for name, value in self.seconds})

    def class_name(self, label: int) -> str:
        """The name of a class."""
        return self.class_names.get(str(label), f"class {label}")


class View(Part):
    """The test nodes of all steps so far as a learner represents them."""

    after: int = Field(ge=0)  # the step learned last
    points: list[tuple[float, float]]  # t-SNE of the representations
    classes: list[int]  # of the points
    silhouette: float | None = None  # how well classes separate in the representation itself, from −1 to 1
    neighbors: float | None = None  # percentage of nodes whose nearest neighbours are mostly of their own class
    neighbors_within: float | None = None  # the same among the nodes of one step, averaged over steps

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
    """Read the result of a finished run."""
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
    """Check the content of a file."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise DataError(f"{file} is damaged ({describe_problem(error)}); {advice}") from None


def describe_problem(error: ValidationError) -> str:
    """The first problem that a validation found, on one line: where and what."""
    first = error.errors()[0]
    where, problem = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
    return " ".join(f"{where}{': ' if where else ''}{problem[:1].lower()}{problem[1:]}".split())


def read_object(file: Path) -> dict[str, Any]:
    """Read a JSON object that a command wrote."""
    try:
        content = json.loads(file.read_bytes())
    except FileNotFoundError:
        is_unfinished = file.name == RESULT and (file.parent / CONFIG).exists()
        unfinished = f"{file.parent} has no {RESULT}, so the run has not finished; run its command again"
        missing = f"{file} does not exist; name the folder of a run or its {RESULT}"
        raise DataError(unfinished if is_unfinished else missing) from None
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
    command: str,
    out: Path,
    reference: RunResult | None = None,  # that intransigence refers to
    load_seconds: float = 0.0,  # time that no seed counts
) -> RunResult:
    """Combine the finished seeds of a run."""
    steps, forgets = config.plan.steps, not config.learner.sees_past
    chance = [seed.chance for seed in finished]
    references = dict(zip(reference.seeds, reference.matrices, strict=True)) if reference else {}

    def summaries(names: Iterable[str], measured: Sequence[Measured]) -> dict[str, Any]:
        skip = _is_trivial(chance)
        return {name: None if skip else summarize([METRICS[name](seed) for seed in measured]) for name in names}

    measured = [
        Measured(seed.matrix, seed.balanced, seed.chance, references.get(seed.seed), forgets=forgets)
        for seed in finished
    ]
    balanced = summaries(("am", "fm", "ars"), [Measured(seed.balanced, forgets=forgets) for seed in finished])
    seconds = {name: sum(getattr(seed.seconds, name) for seed in finished) for name in Costs.model_fields}
    seconds["total"] += load_seconds
    same = ("dataset", "method", "backbone", "scenario", "evaluate", "edges", "stream", "data_sha256", "versions")
    return RunResult(
        **{name: getattr(config, name) for name in (*same, "recipe")},
        steps=[StepResult(name=step.name, classes=list(step.classes)) for step in steps],
        seeds=[seed.seed for seed in finished],
        metrics=summaries(METRICS, measured),
        balanced=Balanced(**balanced, matrices=[seed.balanced for seed in finished]),
        matrices=[seed.matrix for seed in finished],
        chance=chance,
        **_mean_sizes(finished),
        bounds=finished[0].bounds,
        parameter_bound=finished[0].parameter_bound,
        growth=[_mean_growth(step) for step in zip(*(seed.growth for seed in finished), strict=True)],
        seconds=Costs(**seconds),
        peak_rss_mb=max((seed.peak_rss_mb for seed in finished if seed.peak_rss_mb), default=None),
        device=finished[-1].device,
        out=str(out),
        class_names={str(c): class_names[c] for step in steps for c in step.classes},
        left_out=[class_names[c] for c in config.plan.left_out],
        params=config.effective_params(),
        reference=None if reference is None else reference.out,
        command=command,
    )


def check_reference(reference: RunResult, config: RunConfig, seeds: Sequence[int]) -> None:
    """Refuse a reference run that was evaluated differently."""
    for name in ("dataset", "data_sha256", "stream", "scenario", "edges", "evaluate"):
        found, value = getattr(reference, name), getattr(config, name)
        if found != value:
            raise DataError(
                f"reference {reference.out} has {name} {found}, this run {value}; "
                "give a run with the same data and protocol"
            )
    if reference.tasks != [list(step.classes) for step in config.plan.steps]:
        raise DataError(f"reference {reference.out} has other steps; give a run with the same data and protocol")
    if missing := sorted(set(seeds) - set(reference.seeds)):
        raise DataError(f"reference {reference.out} has no seed {missing[0]}; run it with the same seeds")


def _is_trivial(chance: Sequence[Rows] | None) -> bool:
    cells = [cell for rows in chance or () for row in rows for cell in row]
    return bool(cells) and min(cells) >= 100


def _mean(values: Sequence[Number]) -> Number:
    """The mean, a whole number where it is one."""
    mean = sum(values) / len(values)
    return int(mean) if mean == int(mean) else mean


def _mean_sizes(seeds: Sequence[SeedResult | Growth]) -> dict[str, Any]:
    counts = _per_level(seeds)
    return {
        "parameters": _mean([seed.parameters for seed in seeds]),
        "stored": _mean([seed.stored for seed in seeds]),
        "prototypes": {level: _mean(values) for level, values in counts.items()} or None,
    }


def _mean_growth(seeds: Sequence[Growth]) -> Growth:
    """The sizes after a step over seeds."""
    most = {level: max(values) for level, values in _per_level(seeds).items()}
    return Growth(**_mean_sizes(seeds), most_prototypes=most or None)


def _per_level(seeds: Sequence[SeedResult | Growth]) -> dict[str, list[Number]]:
    """Prototypes of every seed by level; none if the learner has no prototypes."""
    return {level: [(seed.prototypes or {})[level] for seed in seeds] for level in seeds[0].prototypes or {}}
