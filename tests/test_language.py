"""Code, messages, tests and documentation use the standard terms of the field, and no dialect."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "docs", "examples", "benchmarks", ".github")
KINDS = {".py", ".md", ".j2", ".yaml", ".yml", ".js"}
SKIPPED = {"_build", "vega.js", "test_language.py", "recipes"}

TERMS = {
    r"mend(s|ed|ing)?": "fix",
    r"(can|could|cannot|to) be had": "be available",
    r"go(es)? on (from|where|with)": "resumes",
    r"strangers?": "uncovered embedding",
    r"founders?": "founding task",
    r"crews?": "workers",
    r"errands?": "callback",
    r"lessons?": "training data",
    r"asked": "evaluated, queried or requested",
    r"told": "notified, given or reported",
    r"rivals?": "baseline",
    r"per cent": "percent",
    r"(?<!there )is no (run|valid|known|hyper|graph|file|folder)\w*": "is not a …",
    r"(numbers?|seconds|labels?|classifiers?|extractors?|nodes|features|epochs|points|bytes|slots?|classes|logits) "
    r"an? (task|node|seed|class|hop|second|run|step|epoch|batch|query)": "per …",
}
"""What is not used, and the standard term for it."""


def files() -> list[Path]:
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in KINDS]
    found = [path for path in found if not SKIPPED & set(path.parts)]
    return sorted(found) + [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile")]


@pytest.mark.parametrize("pattern", TERMS)
def test_standard_terms_are_used(pattern: str) -> None:
    search = re.compile(rf"\b({pattern})\b", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (match := search.search(line))
    ]
    assert not found, f"use {TERMS[pattern]!r} instead:\n" + "\n".join(found)


def test_the_search_finds_what_is_not_used() -> None:
    text = "a classifier a task, 50 per cent, is no run folder, it goes on where it was, told"
    assert sum(bool(re.search(rf"\b({pattern})\b", text)) for pattern in TERMS) == 5


def test_no_two_classes_share_a_name() -> None:
    homes = defaultdict(list)
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(str(path.relative_to(ROOT)))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_folders_stay_small() -> None:
    sizes = {folder: len(list(folder.glob("*.py"))) for folder in [ROOT / "src", *(ROOT / "src").rglob("*/")]}
    assert {str(folder.relative_to(ROOT)): size for folder, size in sizes.items() if size > 15} == {}


def test_lines_of_markdown_wrap() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files()
        if path.suffix == ".md" and "reproduction" not in path.parts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 120 and not line.startswith("|") and "](" not in line
    ]
    assert not long, "lines wrap at 120 characters: " + ", ".join(long)
