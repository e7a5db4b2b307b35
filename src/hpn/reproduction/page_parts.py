"""What pages are made of: blocks of Markdown, and figures in files of their own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hpn.report.format import esc, plain_markdown


@dataclass(frozen=True)
class Page:
    """A page and its figures.

    Args:
        name: File name without its ending.
        markdown: The text; it links figures by file name.
        figures: SVG documents by file name.
    """

    name: str
    markdown: str
    figures: dict[str, str]


class Figures:
    """The figures of a page, each under a file name of its own.

    Args:
        page: Name of the page, which the names of its figures begin with.

    Example:
        >>> figures = Figures("dynamics")
        >>> figures.add("my graph", "<svg/>", "What is retained")
        '![What is retained](dynamics-my-graph.svg)'
        >>> figures.files
        {'dynamics-my-graph.svg': '<svg/>'}
    """

    def __init__(self, page: str) -> None:
        self.page = page
        self.files: dict[str, str] = {}

    def add(self, name: str, svg: str, alt: str) -> str:
        """Keep a figure; returns the Markdown that shows it.

        Args:
            name: What tells it from the other figures of the page.
            svg: The figure.
            alt: What is to be seen in it.
        """
        own = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-.") or "graph"
        stem = f"{self.page}-{own}"
        file, number = f"{stem}.svg", 1
        while file in self.files:
            number += 1
            file = f"{stem}-{number}.svg"
        self.files[file] = svg
        return f"![{plain_markdown(alt)}]({file})"


def finish_page(name: str, blocks: Iterable[str], figures: Figures | None = None) -> Page:
    """Put blocks, with an empty line between them, into a page; empty ones are left out."""
    text = "\n\n".join(block for block in blocks if block)
    lines = [line.rstrip() for line in text.split("\n")]
    safe = "\n".join(lines).encode("utf-8", "replace").decode()  # a file name may hold what UTF-8 cannot
    return Page(name, safe + "\n", dict(figures.files) if figures else {})


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, align: str = "l") -> str:
    """A table.

    Args:
        heads: What the columns show.
        rows: Cells, as many a row as there are heads, in Markdown.
        align: A letter a column, ``l`` for texts, ``r`` for numbers; those without one hold numbers.

    Example:
        >>> print(table(["method", "AM"], [["ewc", "88.7"]]))
        | method | AM |
        |---|--:|
        | ewc | 88.7 |
    """
    rules = ["---" if letter == "l" else "--:" for letter in align.ljust(len(heads), "r")]
    lines = [_row(heads), f"|{'|'.join(rules)}|"]
    for row in rows:
        if len(row) != len(heads):
            raise ValueError(f"a row needs {len(heads)} cells, got {len(row)}")
        lines.append(_row(row))
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def bullets(items: Iterable[str]) -> str:
    """A list."""
    return "\n".join(f"- {item}" for item in items)


def code(*lines: str) -> str:
    """Lines as they are, fenced so that none of them can end it.

    Example:
        >>> print(code("hpn run cora"))
        ```
        hpn run cora
        ```
    """
    text = "\n".join(lines)
    runs = [len(run) for run in re.findall(r"`{3,}", text)]
    fence = "`" * max([3, *(run + 1 for run in runs)])
    return f"{fence}\n{text}\n{fence}"


def details(summary: str, blocks: Iterable[str]) -> list[str]:
    """Blocks that are folded away until asked for; the summary is text."""
    return [f"<details>\n<summary>{esc(' '.join(summary.split()))}</summary>", *blocks, "</details>"]


def listed(names: Iterable[str]) -> str:
    """Names in a sentence.

    Example:
        >>> listed(["cora"]), listed(["cora", "actor", "digits"])
        ('cora', 'cora, actor and digits')
    """
    *firsts, last = names
    return " and ".join(filter(None, (", ".join(firsts), last)))
