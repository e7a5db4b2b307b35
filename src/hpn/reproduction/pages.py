"""The page of an experiment: tables and figures from its JSON, nothing else; the same JSON, the same page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hpn.report.comparison_table import PARAMETERS_REMARK
from hpn.report.format import plain_markdown
from hpn.report.wording import plural
from hpn.reproduction.page_cells import Verdicts, case_label, failure, safe_label
from hpn.reproduction.page_figures import (
    dynamics_figure,
    extractors_figures,
    intervals_figure,
    losses_figures,
    matrix_figure,
    threshold_figures,
    view_figures,
)
from hpn.reproduction.page_findings import agreement, claim_blocks, claims_of
from hpn.reproduction.page_memory import (
    bounds_table,
    growth_figures,
    largest_share,
    memory_table,
    paper_memory,
)
from hpn.reproduction.page_parts import Figures, Page, bullets, code, details, finish_page, listed
from hpn.reproduction.page_tables import (
    ablation_table,
    comparison_table,
    dynamics_table,
    matrix_table,
    metrics_table,
    separation_table,
    steps_table,
    sweep_table,
)
from hpn.reproduction.results import Content, Section

__all__ = ["Page", "render_page"]

About = Mapping[str, str]

_PROTOCOL = (
    "task-incremental, with the task of every test node given and edges within a task only; the paper’s "
    "tasks in its order where it has the data set"
)
_PICTURE = (
    "The paper shows this as a picture and prints no numbers of it, so that ours stand alone; what it says "
    "in words is tested below."
)
_STEPS = (
    "What a step adds is measured seed by seed: mean ± standard error over pairs of runs with the same "
    "seed. The paper’s are differences of its means."
)


def render_page(content: Content, about: About) -> Page:
    """Make the page of an experiment.

    Args:
        content: The JSON of the experiment.
        about: Its ``title``, where it is in the ``paper``, and in a sentence what it is ``about``.
    """
    name, sections = content.experiment, content.sections
    figures = Figures(name)
    judged = []
    blocks = [f"# {plain_markdown(about['title'])}", _lead(content, about)]
    blocks += _REMARKS[name]
    for section in sections:
        verdicts = Verdicts(name, section)
        judged += verdicts.judged
        blocks += [f"## {plain_markdown(section.dataset)}", _setting(section)]
        blocks += _BODIES[name](verdicts, figures) if section.cases else ["Nothing was run."]
    if name in _OVERVIEWS and sections:
        blocks += _OVERVIEWS[name](sections, figures)
    blocks += ["## What agrees, what does not and why", *agreement(judged, name)]
    claims = claims_of(content)
    if claims:
        blocks += ["## What the paper says", *claim_blocks(claims)]
    blocks += _again(content)
    return finish_page(name, blocks, figures)


def _lead(content: Content, about: About) -> str:
    datasets = [plain_markdown(section.dataset) for section in content.sections]
    ran = f"Run here on {listed(datasets)}: {_PROTOCOL}." if datasets else "Nothing was run here."
    return f"{plain_markdown(about['about'])} In the paper: {plain_markdown(about['paper'])}. {ran}"


def _setting(section: Section) -> str:
    sizes = [f"{section.nodes:,} nodes", plural(len(section.tasks), "task")]
    own = "" if section.is_paper_protocol else " Not the paper’s data or tasks: it has no numbers for them."
    return f"{', '.join(sizes)}, seeds {', '.join(map(str, section.seeds))}.{own}"


def _comparison(verdicts: Verdicts, figures: Figures) -> list[str]:
    return [comparison_table(verdicts), intervals_figure(figures, verdicts, "every method")]


def _matrices(verdicts: Verdicts, figures: Figures) -> list[str]:
    section = verdicts.section
    blocks = [metrics_table(section)]
    for case in section.cases:
        blocks.append(f"### {safe_label(case)}")
        if case.error:
            blocks.append(failure(case))
        else:
            blocks += [matrix_table(verdicts, case), matrix_figure(figures, section, case)]
    return blocks


def _ablation(verdicts: Verdicts, figures: Figures) -> list[str]:
    return [
        ablation_table(verdicts, "am"),
        ablation_table(verdicts, "fm"),
        intervals_figure(figures, verdicts, "every configuration"),
        steps_table(verdicts),
    ]


def _dynamics(verdicts: Verdicts, figures: Figures) -> list[str]:
    return [dynamics_figure(figures, verdicts.section), dynamics_table(verdicts.section)]


def _extractors(verdicts: Verdicts, figures: Figures) -> list[str]:
    settings = {"num_extractors": "extractors", "dim": "dimension"}
    return [*extractors_figures(figures, verdicts.section), sweep_table(verdicts.section, settings)]


def _threshold(verdicts: Verdicts, figures: Figures) -> list[str]:
    table = sweep_table(verdicts.section, {"threshold_atomic": "t\\_A"})
    return [*threshold_figures(figures, verdicts.section), table]


def _losses(verdicts: Verdicts, _figures: Figures) -> list[str]:
    return [sweep_table(verdicts.section, {"alpha": "α", "beta": "β"})]


def _memory(verdicts: Verdicts, figures: Figures) -> list[str]:
    section = verdicts.section
    return [
        memory_table(section),
        *growth_figures(figures, section),
        bounds_table(section),
        largest_share(section),
    ]


def _visualization(verdicts: Verdicts, figures: Figures) -> list[str]:
    section = verdicts.section
    failed = [f"{safe_label(case)} {failure(case)}" for case in section.cases if case.error]
    shown = separation_table(section) if any(case.separation for case in section.measured) else ""
    return [
        *view_figures(figures, section),
        shown,
        bullets(failed),
    ]


def _weights(sections: Sequence[Section], figures: Figures) -> list[str]:
    return ["## Over the weights", *losses_figures(figures, sections)]


_BODIES: dict[str, Callable[[Verdicts, Figures], list[str]]] = {
    "comparison": _comparison,
    "accuracy-matrices": _matrices,
    "ablation-levels": _ablation,
    "ablation-losses": _ablation,
    "dynamics": _dynamics,
    "sensitivity-extractors": _extractors,
    "sensitivity-threshold": _threshold,
    "sensitivity-losses": _losses,
    "memory": _memory,
    "visualization": _visualization,
}
_OVERVIEWS = {"sensitivity-losses": _weights}
_REMARKS: dict[str, list[str]] = {
    "comparison": [
        "Bold: the highest AM of a method that does not see earlier tasks again; joint training does. "
        "Stored: every number a method keeps between tasks. Seconds to fit and to answer, the mean over "
        "seeds; what ran at the same time shared the machine. Δ: ours − the paper’s, which is the same for "
        "both presets of `hpn`."
    ],
    "accuracy-matrices": [
        "A row is the moment after a task, a column the task tested. The paper prints a single run, without "
        "a standard deviation."
    ],
    "ablation-levels": [
        f"Levels: A atomic, N node, C class. {_STEPS}",
        "Run with the preset `paper`: with `best` the levels cannot change the answer, by construction, "
        "since its upper levels keep the order of the evidence that the atomic prototypes give.",
    ],
    "ablation-losses": [
        f"Losses: cls classification, div diversity, dis distance. {_STEPS}",
        "Run with the preset `paper`: `best` is solved in closed form and has no losses to leave out.",
    ],
    "dynamics": [_PICTURE],
    "sensitivity-extractors": [_PICTURE],
    "sensitivity-threshold": [_PICTURE],
    "sensitivity-losses": [_PICTURE],
    "memory": [
        "The paper prints final amounts and draws how HPNs get there; what it says of the picture in words "
        f"is tested below. {paper_memory()}",
        PARAMETERS_REMARK,
    ],
    "visualization": [
        _PICTURE,
        "Silhouette, from −1 to 1: how far the classes are apart in the representation itself, not in the "
        "picture. Neighbours: per cent of the nodes whose nearest others in the representation are mostly of "
        "their class; within a task: the same among nodes of the node’s own task. Mean ± standard deviation "
        "over seeds; the picture is of the first.",
    ],
}


def _again(content: Content) -> list[str]:
    """What is needed to check the page, and to make it again."""
    name, sections = content.experiment, content.sections
    blocks = ["## Run it again", f"The numbers behind it: [{name}.json]({name}.json)."]
    if not sections:
        return blocks
    blocks.append(code(*(section.command for section in sections)))
    blocks.append(_versions(sections))
    blocks += _reruns(sections)
    for section in sections:
        lines = []
        for case in section.cases:
            lines += [f"# {' '.join(case_label(case.label).split())}", case.command]
        if lines:
            blocks += details(f"Each case on {section.dataset} by itself", [code(*lines)])
    return blocks


def _reruns(sections: Sequence[Section]) -> list[str]:
    """Which rows were run again by themselves, and how."""
    commands: dict[str, None] = {}
    groups: dict[tuple[str, str], list[str]] = {}
    for section in sections:
        for case in section.cases:
            if again := case.again:
                commands[again.command] = None
                key = safe_label(case), plain_markdown(_listed_versions(again.versions))
                groups.setdefault(key, []).append(plain_markdown(section.dataset))
    if not groups:
        return []
    return [
        "Some rows are of later runs, with the same seeds; all others are as the commands above left them.",
        code(*commands),
        bullets(
            f"{label} on {listed(datasets)}: {versions}." for (label, versions), datasets in groups.items()
        ),
    ]


def _listed_versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _versions(sections: Sequence[Section]) -> str:
    """Seeds and versions, once if they are the same everywhere."""
    groups: dict[str, list[str]] = {}
    for section in sections:
        versions = _listed_versions(section.versions)
        text = plain_markdown(f"seeds {', '.join(map(str, section.seeds))}; {versions}.")
        groups.setdefault(text, []).append(plain_markdown(section.dataset))
    if len(groups) == 1:
        return f"All with {next(iter(groups))}"
    return bullets(f"{', '.join(datasets)}: {text}" for text, datasets in groups.items())
