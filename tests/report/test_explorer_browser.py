"""The explorer in a browser, which is skipped where Chromium or Playwright is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hpn.datasets import Graph
from hpn.experiment.exploration import Exploration
from hpn.model.core import ClassifierCore
from hpn.report.page import explorer_page


@pytest.fixture(scope="module")
def explored(graph: Graph) -> Exploration:
    return ClassifierCore(width=50).partial_fit(graph, torch.arange(200)).explore(graph)


@pytest.fixture(scope="module")
def file(explored: Exploration, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("page") / "page.html"
    made.write_text(explorer_page(explored, "synthetic"))
    return made


class Opened:
    """A page, and everything that it logged or requested from the network."""

    def __init__(self, browser: Any, file: Path, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.page, self.trouble = self.context.new_page(), []
        self.page.on("console", lambda message: self.trouble.append(message.text))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("request", lambda request: self.trouble.append(request.url))
        self.page.goto(file.as_uri())
        self.trouble.remove(file.as_uri())
        self.page.wait_for_selector(".explorer[data-ready]")

    def pixels(self) -> str:
        self.page.wait_for_timeout(60)
        return str(self.page.evaluate("document.querySelector('.ex-map>canvas').toDataURL()"))

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))


@pytest.fixture
def opened(browser: Any, file: Path) -> Iterator[Opened]:
    made = Opened(browser, file)
    yield made
    made.context.close()
    assert made.trouble == []


def find(opened: Opened, name: str) -> None:
    opened.page.fill(".explorer input", name)
    opened.page.press(".explorer input", "Enter")


def check_panel(opened: Opened, explored: Exploration, node: int) -> None:
    text = opened.text(".ex-node")
    verdict = "right" if explored.label[node] == explored.answer[node] else "wrong"
    assert opened.text(".ex-node h3") == str(node)
    assert f"{explored.classes[explored.answer[node]]}, {explored.probability[0, node]} %: {verdict}" in text
    assert explored.classes[explored.runner_up[node]] in text
    shown = opened.page.eval_on_selector_all(
        ".ex-node table:first-of-type td button", "all => all.map((one) => one.textContent)"
    )
    weights = np.array(explored.weights[0])
    banks = [bank for bank in np.argsort(-weights, kind="stable") if weights[bank] > 0]
    expected = [f"{p:+d}" if p else "0" for bank in banks for p in explored.atomic[bank, :, node].tolist()]
    assert [one.replace("−", "-") for one in shown] == expected
    near = explored.indices[explored.indptr[node] : explored.indptr[node + 1]].tolist()
    names = opened.page.eval_on_selector_all(".ex-near button", "all => all.map((one) => one.firstChild.data)")
    assert names == [str(other) for other in near]


def test_a_click_shows_the_account_of_a_node(opened: Opened, explored: Exploration) -> None:
    box = opened.page.locator(".ex-map>canvas").bounding_box()
    size = min(box["width"], box["height"]) - 56
    lonely = 0  # a node with nothing near it, so that the click is about it
    places = np.stack([explored.x, explored.y], axis=1).astype(float)
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(gaps, np.inf)
    lonely = int(gaps.min(axis=1).argmax())
    x = box["x"] + (box["width"] - size) / 2 + places[lonely, 0] / 65535 * size
    y = box["y"] + (box["height"] - size) / 2 + (1 - places[lonely, 1] / 65535) * size
    before = opened.pixels()
    opened.page.mouse.move(x, y)
    assert str(lonely) in opened.text(".ex-tip")
    opened.page.mouse.click(x, y)
    check_panel(opened, explored, lonely)
    assert opened.pixels() != before
    opened.page.keyboard.press("ArrowRight")
    check_panel(opened, explored, (lonely + 1) % 300)
    opened.page.mouse.wheel(0, -300)
    assert opened.pixels() != before
    opened.page.keyboard.press("Escape")
    opened.page.keyboard.press("0")
    opened.page.mouse.move(1, 1)
    assert opened.pixels() == before


def test_search_and_neighbours(opened: Opened, explored: Exploration) -> None:
    find(opened, "17")
    check_panel(opened, explored, 17)
    opened.page.locator(".ex-near button").first.click()
    check_panel(opened, explored, int(explored.indices[explored.indptr[17]]))
    find(opened, "no such node")
    assert "No node on the map is called “no such node”" in opened.text(".ex-node")


def test_colours_and_legend(opened: Opened, explored: Exploration) -> None:
    seen = {opened.pixels()}
    for colour, entries in (("answer", 6), ("verdict", 2), ("step", 2), ("label", 6)):
        opened.page.select_option(".explorer select", colour)
        seen.add(opened.pixels())
        assert opened.page.locator(".ex-legend button").count() == entries
    assert len(seen) >= 4
    first = opened.page.locator(".ex-legend button").first
    first.click()
    assert first.get_attribute("aria-pressed") == "false"
    assert opened.pixels() not in seen
    first.click()
    assert opened.pixels() in seen


def test_the_codebook_highlights_its_nodes(opened: Opened, explored: Exploration) -> None:
    before, one = opened.pixels(), explored.prototypes[3]
    assert opened.page.locator(".ex-circle g").count() == len(explored.prototypes)
    assert f"of at most {explored.bounds['atomic']} in use" in opened.text(".ex-circle")
    dot = opened.page.locator(".ex-circle g").nth(3)
    dot.click()
    said = opened.text(".ex-proto")
    assert f"serves {one.nodes} node" in said
    assert f"of {one.classes} class" in said
    assert dot.get_attribute("aria-pressed") == "true"
    assert opened.pixels() != before
    dot.focus()
    opened.page.keyboard.press("Enter")
    assert opened.pixels() == before
    assert opened.page.locator(".ex-table tbody tr").count() == len(explored.prototypes)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_horizontal_scrolling(browser: Any, file: Path, scheme: str) -> None:
    opened = Opened(browser, file, viewport={"width": 390, "height": 844}, color_scheme=scheme)
    find(opened, "17")
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 390
    opened.context.close()
    assert opened.trouble == []
