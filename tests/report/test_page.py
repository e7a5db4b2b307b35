from __future__ import annotations

from hpn.report.page import frame_page


def test_a_page_needs_nothing_else_and_titles_are_escaped() -> None:
    page = frame_page("a < b", "<p>text</p>")
    assert page.startswith("<!doctype html>")
    assert "<title>a &lt; b</title>" in page
    assert '<div class="page"><p>text</p></div>' in page
    assert "Content-Security-Policy" in page
    assert "http://" not in page
    assert "https://" not in page
