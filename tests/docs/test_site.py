"""The documentation site builds without a warning, and all its links lead somewhere."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
check = runpy.run_path(str(ROOT / "docs" / "scripts" / "check_links.py"))["check"]


@pytest.mark.slow
def test_the_site_builds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", tmp_path / "cache", ROOT / "docs"]
    built = subprocess.run([*command, tmp_path / "html"], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert check(tmp_path / "html") == []
    charts = (tmp_path / "html" / "reproduction" / "dynamics.html").read_text()
    assert charts.count('class="chart"') == 4
    assert "vega.js" in charts
    assert "hpn.HPNClassifier.partial_fit" in (tmp_path / "html" / "reference" / "api" / "estimators.html").read_text()

    if not CHROMIUM:
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page, errors = browser.new_page(viewport={"width": 390, "height": 800}), []  # a phone
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((tmp_path / "html" / "reproduction" / "dynamics.html").as_uri())
        drawing = page.wait_for_selector("p.chart-title + div svg.marks")
        box = drawing and drawing.bounding_box()
        assert box
        assert box["x"] + box["width"] <= 390
        browser.close()
    assert errors == []


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("other.html", None),
        ("other.html#here", None),
        ("https://example.org/a", None),
        ("other.html#gone", "leads to an anchor that does not exist"),
        ("missing.svg", "leads to a file that does not exist"),
        ("https://nowhere", "is not a well-formed address"),
    ],
)
def test_broken_links_are_found(link: str, problem: str | None, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(f'<a href="{link}">link</a>')
    (tmp_path / "other.html").write_text('<p id="here">text</p>')
    assert check(tmp_path) == ([f"page.html: {link} {problem}"] if problem else [])
