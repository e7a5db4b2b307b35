"""The experiments of the paper and its supplement: what is run for each, on which data.

X. Zhang, D. Song, D. Tao, *Hierarchical Prototype Networks for Continual Graph Representation Learning*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hpn.datasets import Graph
from hpn.errors import ConfigError, nearest
from hpn.experiment.compare.cells import Cell, choose_cells
from hpn.learners.hpn.paper import PaperHPN

THRESHOLDS = (0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
COEFFICIENTS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)
NUM_EXTRACTORS = (1, 2, 4, 8, 22)
DIMS = (2, 4, 8, 16)
LOSSES = {
    "cls": {"alpha": 0.0, "beta": 0.0},
    "cls+div": {"alpha": 1.0, "beta": 0.0},
    "cls+dis": {"alpha": 0.0, "beta": 1.0},
    "cls+div+dis": {},
}
LARGE_GRAPH = 20_000
"""From this many nodes on, the paper's settings for large graphs take the place of its usual ones."""
LARGE_SETTINGS = {"drawn": "1", "batch_size": 1000}
"""One neighbour, one hop away. The paper does not tell its batches."""
SMALL_DATASETS = ("cora", "citeseer", "actor", "digits")
LARGE_DATASETS = ("ogbn-arxiv", "ogbn-products")


@dataclass(frozen=True)
class Case:
    """One run of an experiment, its seeds aside.

    Args:
        label: What tells it from the other cases of the experiment.
        cell: Method and backbone.
        settings: Hyper-parameters that are not as usual.
        views: Whether the test nodes are drawn after each task.
    """

    label: Mapping[str, Any]
    cell: Cell
    settings: Mapping[str, Any]
    views: bool = False

    def __str__(self) -> str:
        parts = [str(self.cell)] + [
            f"{key}={value}"
            for key, value in self.label.items()
            if key not in {"method", "backbone"} and value
        ]
        return " ".join(parts)

    @property
    def words(self) -> tuple[str, ...]:
        """What ``--only`` knows it by: its method and, of ``hpn``, its preset."""
        preset = self.label.get("preset") or self.settings.get("preset")
        return (self.cell.method, preset) if preset else (self.cell.method,)


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    Args:
        name: What it is called on the command line.
        title: Heading of its page.
        paper: Where it is in the paper.
        about: What it shows, in one sentence.
        datasets: Data sets that it runs on unless told.
        cases: What is run on a graph.
    """

    name: str
    title: str
    paper: str
    about: str
    datasets: tuple[str, ...]
    cases: Callable[[Graph], list[Case]]

    def words(self) -> dict[str, str]:
        """What its page says of it."""
        return {"title": self.title, "paper": self.paper, "about": self.about}


def _hpn(graph: Graph, preset: str, label: Mapping[str, Any], **settings: Any) -> Case:
    if preset == "paper" and graph.num_nodes >= LARGE_GRAPH:
        settings = {**LARGE_SETTINGS, **settings}
    chosen = {} if preset == "best" else {"preset": "paper"}
    return Case(label, Cell("hpn", None), {**chosen, **settings})


def _method(graph: Graph, word: str, preset: str | None = None) -> Case:
    """A method by name; ``small`` is the paper's ``hpn`` with the dimension it has on OGB-Products."""
    (cell,) = choose_cells(word)
    label = {"method": cell.method, "backbone": cell.backbone, "preset": preset}
    if cell.method != "hpn":
        return Case(label, cell, {})
    if preset == "small":
        return _hpn(graph, "paper", label, dim=2)
    return _hpn(graph, preset or "best", label)


def _comparison(graph: Graph) -> list[Case]:
    cases = []
    for cell in choose_cells():
        presets = ("paper", "best") if cell.method == "hpn" else (None,)
        cases += [_method(graph, str(cell), preset) for preset in presets]
    return cases


def _accuracy_matrices(graph: Graph) -> list[Case]:
    rivals = [_method(graph, word) for word in ("finetune:gat", "gem:gcn", "mas:gat")]
    return [*rivals, _method(graph, "hpn", "paper"), _method(graph, "hpn", "best")]


def _ablation_levels(graph: Graph) -> list[Case]:
    """With the preset ``paper``: in ``best`` upper levels keep the order of evidence, so all are the same."""
    return [
        _hpn(
            graph,
            "paper",
            {"preset": "paper", "levels": levels},
            **({} if levels == "ANC" else {"levels": levels}),
        )
        for levels in ("A", "AN", "ANC")
    ]


def _ablation_losses(graph: Graph) -> list[Case]:
    """With the preset ``paper``: ``best`` is solved and has no losses."""
    return [
        _hpn(graph, "paper", {"preset": "paper", "losses": losses}, **settings)
        for losses, settings in LOSSES.items()
    ]


def _dynamics(graph: Graph) -> list[Case]:
    rivals = [_method(graph, word) for word in ("finetune:gat", "twp:gat")]
    return [*rivals, _method(graph, "hpn", "paper"), _method(graph, "hpn", "best")]


def _extractors(graph: Graph) -> list[Case]:
    return [_swept(graph, num_extractors=num, dim=dim) for num in NUM_EXTRACTORS for dim in DIMS]


def _thresholds(graph: Graph) -> list[Case]:
    return [_swept(graph, threshold_atomic=threshold) for threshold in THRESHOLDS]


def _coefficients(graph: Graph) -> list[Case]:
    pairs = [(1.0, beta) for beta in COEFFICIENTS] + [(alpha, 1.0) for alpha in COEFFICIENTS if alpha != 1.0]
    return [_swept(graph, alpha=alpha, beta=beta) for alpha, beta in pairs]


def _swept(graph: Graph, **settings: Any) -> Case:
    """Hyper-parameters of the paper's preset, those that are as it has them left out."""
    usual = PaperHPN()
    changed = {name: value for name, value in settings.items() if value != getattr(usual, name)}
    return _hpn(graph, "paper", settings, **changed)


def _memory(graph: Graph) -> list[Case]:
    return [*_comparison(graph), _method(graph, "hpn", "small")]


def _visualization(graph: Graph) -> list[Case]:
    cases = [_hpn(graph, preset, {"preset": preset}) for preset in ("paper", "best")]
    return [Case(case.label, case.cell, case.settings, views=True) for case in cases]


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "comparison",
            "Prototype networks and every rival",
            "Table 1",
            "AM and FM of HPNs and of seven rivals and joint training, each on GCN, GAT and GIN.",
            (*SMALL_DATASETS, *LARGE_DATASETS),
            _comparison,
        ),
        Experiment(
            "accuracy-matrices",
            "Accuracy on each task after each task",
            "Tables “Accuracy changes of GAT and HPNs” and “of GCN+GEM and GAT+MAS”",
            "How accuracy on each task of Cora changes while later ones are learned.",
            ("cora",),
            _accuracy_matrices,
        ),
        Experiment(
            "ablation-levels",
            "What the levels of prototypes are worth",
            "Table “Ablation study on prototypes of different levels” (Cora; OGB-Arxiv in the supplement)",
            "AM and FM with atomic prototypes only, with node-level and with class-level ones as well.",
            ("cora", "ogbn-arxiv"),
            _ablation_levels,
        ),
        Experiment(
            "ablation-losses",
            "What the losses are worth",
            "Table “Ablation study on different loss terms” (Cora; OGB-Arxiv in the supplement)",
            "AM and FM with the classification loss alone, and with diversity and distance losses added.",
            ("cora", "ogbn-arxiv"),
            _ablation_losses,
        ),
        Experiment(
            "dynamics",
            "What is retained, task by task",
            "Figure “dynamics of ARS” (OGB-Arxiv; OGB-Products in the supplement)",
            "The average retaining score after each task of a long stream, for HPNs, GAT and GAT with TWP.",
            ("digits", *LARGE_DATASETS),
            _dynamics,
        ),
        Experiment(
            "sensitivity-extractors",
            "How many extractors, of what dimension",
            "Figure “AM and FM with different number of AFEs and prototype dimensions” (OGB-Arxiv)",
            "AM and FM over the number of extractors of each kind and the dimension of all prototypes.",
            ("digits", "ogbn-arxiv"),
            _extractors,
        ),
        Experiment(
            "sensitivity-threshold",
            "The threshold of atomic prototypes",
            "Figures “AM and FM when t_A varies” and “impact of t_A on the number of prototypes”",
            "AM, FM and the number of prototypes over the threshold t_A.",
            ("cora", "citeseer"),
            _thresholds,
        ),
        Experiment(
            "sensitivity-losses",
            "The weights of the losses",
            "Figure “fixing α and tuning β, fixing β and tuning α” (Cora, Citeseer)",
            "AM and FM over the weight of the diversity loss, α, and of the distance loss, β.",
            ("cora", "citeseer"),
            _coefficients,
        ),
        Experiment(
            "memory",
            "What has to be kept",
            "Table “Final parameter amount” and figure “dynamics of memory consumption” (OGB-Products)",
            "Parameters of every method after the last task, and how HPNs grow under their bound.",
            (*SMALL_DATASETS, *LARGE_DATASETS),
            _memory,
        ),
        Experiment(
            "visualization",
            "Representations of test nodes",
            "Figures “Visualization of hierarchical prototype representations” (Cora, Citeseer)",
            "t-SNE of what HPNs make of the test nodes, after each task.",
            ("cora", "citeseer"),
            _visualization,
        ),
    )
}


def choose_experiments(names: Iterable[str]) -> list[Experiment]:
    """Experiments by name, in the order of the list; ``all`` for all of them.

    Raises:
        ConfigError: If a name is unknown, or none is given.

    Example:
        >>> [experiment.name for experiment in choose_experiments(["memory", "comparison"])]
        ['comparison', 'memory']
    """
    wanted = set(names)
    unknown = wanted - {*EXPERIMENTS, "all"}
    for name in sorted(unknown):
        raise ConfigError(
            f"unknown experiment {name!r}; {nearest(name, EXPERIMENTS)}known: all, {', '.join(EXPERIMENTS)}"
        )
    if not wanted:
        raise ConfigError("no experiment given; name one or more, or all (hpn reproduce list)")
    return [entry for entry in EXPERIMENTS.values() if "all" in wanted or entry.name in wanted]
