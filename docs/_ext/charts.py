"""Interactive charts: Vega-Altair charts that react to the pointer, with a picture in their place without JavaScript.

There are three ways to one. The figures of the reproduction are drawn from the JSON next to its pages. An image
``NAME.svg`` with a Vega-Lite specification ``NAME.vl.json`` next to it becomes that chart. The directive ``{chart}``
runs Python code that makes a variable called ``chart``.
"""

from __future__ import annotations

import json
import re
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import hpn.report
from hpn.report.figures import WIDTH, chart_spec, chart_svg
from hpn.report.theme import DARK, LIGHT
from hpn.reproduction.content import read_contents
from hpn.reproduction.pages import render_page

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

VEGA = Path(hpn.report.__file__).parent / "templates" / "vega.js"
OVERVIEW = "reproduction/README"


class chart(nodes.General, nodes.Element):  # noqa: N801  (nodes of docutils are in lower case)
    """A chart; its children are what is shown without JavaScript."""


def visit_chart(self: HTML5Translator, node: chart) -> None:
    """Open the figure."""
    self.body.append(self.starttag(node, "div", CLASS="chart", **{"data-name": node["name"]}))
    self.body.append('<div class="chart-view">')


def depart_chart(self: HTML5Translator, node: chart) -> None:
    """Write the specification and close the figure.

    The page shows title and subtitle as text, which wraps, and charts of normal width are as wide as the page allows.
    """
    spec = json.loads(node["spec"])
    title = spec.pop("title", "")
    title = title if isinstance(title, dict) else {"text": title}
    if spec.get("width") == WIDTH:
        spec |= {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
    caption = f"<strong>{escape(title['text'])}</strong> <span>{escape(title.get('subtitle', ''))}</span>"
    script = json.dumps(spec).replace("<", "\\u003c")
    self.body.append(f'</div><template><p class="chart-title">{caption}</p></template>')
    self.body.append(f'<script type="application/json">{script}</script></div>\n')


class Chart(SphinxDirective):
    """Runs its content at build time and shows the variable ``chart``, an Altair chart."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Make the node."""
        names: dict[str, Any] = {}
        exec(compile("\n".join(self.content), self.env.docname, "exec"), names)  # noqa: S102  (a page of ours)
        spec = json.dumps(chart_spec(names["chart"]))
        node = chart(spec=spec, name=f"{self.env.docname.rpartition('/')[2]}-{self.lineno}")
        node += nodes.raw("", f"<noscript>{chart_svg(names['chart'])}</noscript>", format="html")
        return [node]


def make_interactive(app: Sphinx, doctree: nodes.document) -> None:
    """Wrap images that there is a chart for."""
    for image in list(doctree.findall(nodes.image)):
        picture = Path(app.srcdir, image["uri"])  # by now relative to the folder of all pages
        app.env.note_dependency(str(picture.with_suffix(".vl.json")))
        if spec := specification(picture):
            wrapped = chart(spec=spec, name=Path(image["uri"]).stem)
            image.replace_self(wrapped)
            image["loading"] = "lazy"
            wrapped += image


def specification(picture: Path) -> str | None:
    """The chart that a picture was drawn from, if it is known."""
    if picture.parent.name == "reproduction":
        return reproduced(picture.parent).get(picture.name)
    beside = picture.with_suffix(".vl.json")
    return beside.read_text() if beside.is_file() else None


@cache
def reproduced(folder: Path) -> dict[str, str]:
    """Specifications of the figures of the reproduction, by file name."""
    pages = [render_page(content) for content in read_contents(folder).values()]
    return {name: json.dumps(chart_spec(figure)) for page in pages for name, figure in page.figures.items()}


def add_contents(_app: Sphinx, page: str, source: list[str]) -> None:
    """List the pages that the overview of the reproduction links to in the navigation, in its order."""
    if page == OVERVIEW:
        linked = dict.fromkeys(re.findall(r"\]\(([\w-]+)\.md\)", source[0]))
        source[0] += "\n```{toctree}\n:hidden:\n\n" + "\n".join(linked) + "\n```\n"


def add_scripts(app: Sphinx, _page: str, _template: str, _context: dict[str, Any], doctree: Any) -> None:
    """Load Vega on pages with charts only."""
    if doctree is not None and next(doctree.findall(chart), None) is not None:
        app.add_js_file("vega.js")
        app.add_js_file(None, body=f"const chartThemes={json.dumps({'light': LIGHT.config(), 'dark': DARK.config()})};")
        app.add_js_file("charts.js")


def copy_vega(app: Sphinx, error: Exception | None) -> None:
    """Put the bundle of the report beside the other static files, with names that do not clash with theirs."""
    if error is None and app.builder.format == "html":
        Path(app.outdir, "_static", "vega.js").write_text(f"(() => {{\n{VEGA.read_text()}\n}})();\n")


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to the events of a build."""
    app.add_node(chart, html=(visit_chart, depart_chart))
    app.add_directive("chart", Chart)
    app.connect("source-read", add_contents)
    app.connect("doctree-read", make_interactive)
    app.connect("html-page-context", add_scripts)
    app.connect("build-finished", copy_vega)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
