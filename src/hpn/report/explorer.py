"""The node explorer: a section of a page, and a page of its own for a saved model."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from hpn.report.page import frame_page

if TYPE_CHECKING:
    from hpn.experiment.exploration import Exploration


@cache
def _templates() -> Environment:
    loader = PackageLoader("hpn.report")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)


@cache
def explorer_css() -> str:
    """Style sheet of the section, for the one of the page."""
    return _read("explorer.css")


@cache
def explorer_script() -> str:
    """Script of the section, for the one of the page; it finds all explorers of the page."""
    return _read("explorer.js")


def explorer_section(exploration: Exploration, number: int = 1) -> Markup:
    """The section of one exploration; ``number`` tells several on a page apart."""
    template = _templates().get_template("explorer.html.j2")
    data, caption = exploration.to_json(), describe(exploration)
    return Markup(template.render(id=f"explorer-{number}", data=data, caption=caption))  # noqa: S704


def explorer_page(exploration: Exploration, title: str) -> str:
    """A whole HTML document with one explorer."""
    body = f'<header><p class="over">hpn report</p><h1>{escape(title)}</h1></header>'
    body += f"<main>{explorer_section(exploration)}</main>"
    return frame_page(title, body, more_css=explorer_css(), more_script=explorer_script())


def describe(exploration: Exploration) -> str:
    """What is on the map, in a few sentences."""
    shown, total = len(exploration.x), exploration.num_nodes
    nodes = (
        f"{shown:,} nodes" if shown == total else f"{shown:,} of {total:,} nodes, chosen by hash of their id"
    )
    how = {"pca": "the first two principal components", "tsne": "t-SNE"}[exploration.drawing]
    given = " Answers are those with the task given; the map is made without it." * exploration.is_task_given
    founded = {
        "recorded": "The step that founded a prototype was recorded when it was learned.",
        "derived": "The step of a prototype is the earliest one whose nodes on the map are matched to it.",
        "unknown": "The step that founded a prototype is not known.",
    }[exploration.founding]
    return (
        f"{exploration.name}: {nodes}, placed by {how} of the prototypes they are matched to.{given} "
        f"A prototype serves a node if a bank matches it for the answer or the runner-up. {founded}"
    )


def _read(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")
