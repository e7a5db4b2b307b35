"""Pages in a real browser, which is skipped where Chromium or Playwright is missing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpn.report import write_report
from hpn.report.page import comparison_page
from hpn.report.theme import DARK, LIGHT

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
expect = sync_api.expect

CONTRAST = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const color = rgb(getComputedStyle(node).backgroundColor);
      if (color.length < 4 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const faint = [];
  const walker = document.createTreeWalker(document.querySelector(".page"), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const holder = node.parentElement, style = getComputedStyle(holder);
    if (!node.textContent.trim() || holder.closest("script") || !holder.getClientRects().length) continue;
    if (holder.closest(".role-mark")) continue;  // text on the cells of a matrix has that cell below it
    const ink = rgb(holder instanceof SVGElement ? style.fill : style.color);
    const [low, high] = [light(ink), light(ground(holder))].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) faint.push(`${node.textContent.trim()}: ${ratio.toFixed(2)}`);
  }
  return faint;
}"""


@pytest.fixture
def open_page(browser: Any) -> Iterator[Any]:
    """Open a file; at the end there must have been no error and no request but for the file itself."""
    contexts, faults = [], []

    def open_file(file: Path, *, width: int = 1200, height: int = 6000, scheme: str = "light") -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: request.url == file.as_uri() or faults.append(request.url))
        page.goto(file.as_uri())
        expect(page.locator(".chart svg.marks")).to_have_count(page.locator(".chart").count())
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture
def report(make_run: Any, tmp_path: Path) -> Path:
    growth = [
        {"parameters": 9, "stored": 20 * k, "prototypes": {"atomic": 5 * k, "class": k}, "most_prototypes": None}
        for k in (1, 2, 3)
    ]
    view = {"points": [[0, 1], [2, 3], [4, 5]], "classes": [0, 1, 4], "silhouette": 0.2, "neighbors": 80.0}
    low = [[[88.0], [70.0, 85.0], [50.0, 60.0, 84.0]], [[86.0], [70.0, 85.0], [50.0, 60.0, 84.0]]]
    runs = [
        make_run("hpn", method="hpn", backbone=None, growth=growth, bounds={"atomic": 40, "class": 9}),
        make_run("ewc", method="ewc", matrices=low, growth=growth, am={"mean": 64.7, "std": 0.0, "values": [64.7] * 2}),
    ]
    views = {"seeds": [0, 1], "views": [[{**view, "after": k} for k in range(3)], []]}
    (runs[0] / "views.json").write_text(json.dumps(views))
    return write_report(runs, tmp_path / "report.html")


def lines(page: Any) -> Any:
    """Lines in the first chart."""
    return page.locator(".chart").first.locator(".mark-line path")


def test_a_run_is_hidden_and_shown_again_by_its_button(open_page: Any, report: Path) -> None:
    page = open_page(report)
    expect(lines(page)).to_have_count(2)
    button = page.get_by_role("button", name="ewc · gcn", exact=True).first
    button.focus()
    page.keyboard.press("Enter")
    expect(lines(page)).to_have_count(1)
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    expect(lines(page)).to_have_count(2)


def test_a_legend_entry_is_chosen(open_page: Any, report: Path) -> None:
    page = open_page(report)
    chart = page.locator("figure", has_text="Prototypes after each task, hpn").first
    chart.locator(".role-legend-symbol path").first.click()
    page.wait_for_timeout(200)
    opacities = chart.locator(".mark-line path").evaluate_all("list => list.map((e) => e.getAttribute('opacity'))")
    assert sorted(map(float, opacities)) == [0.1, 1.0]


def test_a_click_on_a_head_sorts_and_another_turns_it(open_page: Any, report: Path) -> None:
    page = open_page(report)
    head = page.get_by_role("button", name=re.compile("^AM")).first
    names = page.locator("table").first.locator("tbody tr:not(.set) th a")
    head.click()
    assert names.all_inner_texts() == ["hpn", "ewc · gcn"]
    head.click()
    assert names.all_inner_texts() == ["ewc · gcn", "hpn"]
    assert page.locator("th[aria-sort=ascending]").count() == 1


def test_hover_lists_all_runs_the_highest_first(open_page: Any, report: Path) -> None:
    page = open_page(report)
    page.locator(".chart").first.locator(".mark-symbol path").first.hover(force=True)
    tip = page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    text = tip.inner_text()
    assert text.index("hpn") < text.index("ewc · gcn")


@pytest.mark.parametrize("kind", ["SVG", "PNG"])
def test_a_chart_is_saved_as_a_file(open_page: Any, report: Path, kind: str) -> None:
    page = open_page(report)
    link = page.get_by_role("link", name=f"Save as {kind}").first
    with page.expect_download() as download:
        link.click()
    saved = Path(download.value.path()).read_bytes()
    assert saved[:8] == b"\x89PNG\r\n\x1a\n" if kind == "PNG" else b"<svg" in saved
    assert download.value.suggested_filename == f"am-after-each-task.{kind.lower()}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(open_page: Any, report: Path, scheme: str) -> None:
    assert open_page(report, scheme=scheme).evaluate(CONTRAST) == []


def test_a_change_of_scheme_redraws(open_page: Any, report: Path) -> None:
    page = open_page(report)
    label = page.locator(".chart .role-axis-label text").first
    expect(label).to_have_attribute("fill", LIGHT.muted)
    page.emulate_media(color_scheme="dark")
    expect(label).to_have_attribute("fill", DARK.muted)
    assert page.evaluate(CONTRAST) == []


@pytest.mark.parametrize("width", [390, 820, 1200])
def test_the_page_itself_never_scrolls_sideways(open_page: Any, report: Path, width: int) -> None:
    page = open_page(report, width=width, height=12000)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    rights = "list => list.map((one) => one.getBoundingClientRect().right)"
    assert max(page.locator("figure").evaluate_all(rights)) <= width


def test_every_chart_and_button_has_a_name(open_page: Any, report: Path) -> None:
    page = open_page(report)
    assert page.locator(".chart-wrapper").evaluate_all("list => list.every((e) => e.getAttribute('aria-label'))")
    assert page.locator("button").evaluate_all("list => list.every((e) => e.textContent.trim())")


def test_the_page_of_a_comparison(open_page: Any, make_comparison: Any, tmp_path: Path) -> None:
    file = tmp_path / "comparison.html"
    file.write_text(comparison_page(make_comparison()), encoding="utf-8")
    page = open_page(file)
    assert page.locator(".chart svg.marks").count() == 3
    page.get_by_role("button", name=re.compile("^AM")).first.click()
    assert page.locator("tbody th").all_inner_texts()[:2] == ["joint · gcn", "hpn"]
