"""What every page has around its content: policy, style and script, all in the one file."""

from __future__ import annotations

from hpn.report.format import esc
from hpn.report.style import SCRIPT, content_policy, page_css


def frame_page(title: str, body: str, *, more_css: str = "", more_script: str = "") -> str:
    """A whole HTML document around ``body``, which is markup."""
    css, script = page_css() + more_css, SCRIPT + more_script
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{esc(content_policy(css, script))}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{esc(title)}</title>\n<style>{css}</style>\n</head>\n"
        f'<body>\n<div class="page">{body}</div>\n<script>{script}</script>\n</body>\n</html>\n'
    )
