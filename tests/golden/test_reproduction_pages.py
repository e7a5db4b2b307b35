"""The pages in docs/reproduction are what their JSON gives: text to the byte, figures by their definition."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpn.report.figures import spec_digest
from hpn.reproduction.content import Content, read_contents, write_content
from hpn.reproduction.experiments import EXPERIMENTS
from hpn.reproduction.pages import Page, render_page, render_summary

FOLDER = Path(__file__).parents[2] / "docs" / "reproduction"


@pytest.fixture(scope="module")
def contents() -> dict[str, Content]:
    return read_contents(FOLDER)


def check_page(page: Page) -> None:
    assert page.markdown == (FOLDER / f"{page.name}.md").read_text(encoding="utf-8")
    for name, chart in page.figures.items():
        first, svg = (FOLDER / name).read_text(encoding="utf-8").split("\n", 1)
        assert first == f"<!-- Vega-Lite {spec_digest(chart)} -->", name
        assert svg.startswith("<svg"), name


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment(name: str, contents: dict[str, Content], tmp_path: Path) -> None:
    check_page(render_page(contents[name]))
    write_content(tmp_path, contents[name])
    assert (tmp_path / f"{name}.json").read_bytes() == (FOLDER / f"{name}.json").read_bytes()


def test_the_summary(contents: dict[str, Content]) -> None:
    check_page(render_summary(contents))
