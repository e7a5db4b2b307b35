"""Formulas as MathML, which browsers draw themselves: the site needs neither MathJax nor a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)


def convert(translator: HTML5Translator, node: nodes.Element, *, block: bool) -> str:
    """The MathML of a formula; one that cannot be read is a warning."""
    try:
        found: str = tex2mathml(node.astext().replace(r"\dots", r"\ldots"), as_block=block)
    except Exception as error:
        logger.warning("this formula cannot be read: %s", error, location=node)
        return f"<code>{translator.encode(node.astext())}</code>"
    return found


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    self.body.append(convert(self, node, block=False))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on a line of its own, which scrolls where it is wider than the page."""
    self.body.append(f'<div class="formula">{convert(self, node, block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the renderer; ``html_math_renderer`` chooses it."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
