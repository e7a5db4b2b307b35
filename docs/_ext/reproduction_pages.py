"""The pages of ``hpn reproduce`` as part of the site."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

OVERVIEW = "reproduction/README"


def add_contents(_app: Sphinx, page: str, source: list[str]) -> None:
    """List the pages that the overview links to in the navigation, in its order."""
    if page == OVERVIEW:
        linked = dict.fromkeys(re.findall(r"\]\(([\w-]+)\.md\)", source[0]))
        source[0] += "\n```{toctree}\n:hidden:\n\n" + "\n".join(linked) + "\n```\n"


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to the events of a build."""
    app.connect("source-read", add_contents)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
