"""The pages in docs/reproduction are what their JSON gives, to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpn.reproduction.content import read_contents, write_content
from hpn.reproduction.experiments import EXPERIMENTS
from hpn.reproduction.page_parts import Page
from hpn.reproduction.pages import render_page
from hpn.reproduction.results import Content
from hpn.reproduction.summary import render_summary

FOLDER = Path(__file__).parents[2] / "docs" / "reproduction"


@pytest.fixture(scope="module")
def contents() -> dict[str, Content]:
    return read_contents(FOLDER)


def check_page(page: Page) -> None:
    assert page.markdown == (FOLDER / f"{page.name}.md").read_text(encoding="utf-8")
    for name, svg in page.figures.items():
        assert svg == (FOLDER / name).read_text(encoding="utf-8"), name


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment(name: str, contents: dict[str, Content], tmp_path: Path) -> None:
    check_page(render_page(contents[name], EXPERIMENTS[name].words()))
    write_content(tmp_path, contents[name])
    assert (tmp_path / f"{name}.json").read_bytes() == (FOLDER / f"{name}.json").read_bytes()


def test_the_summary(contents: dict[str, Content]) -> None:
    check_page(render_summary(contents, {name: entry.words() for name, entry in EXPERIMENTS.items()}))
