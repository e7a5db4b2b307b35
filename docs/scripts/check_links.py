"""Check the built site: every link inside it leads to a page, file and anchor that exist; others are well-formed.

python docs/scripts/check_links.py docs/_build/html
"""

from __future__ import annotations

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Links(HTMLParser):
    """Anchors and links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what a tag defines and what it refers to."""
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value or "")
            elif value and name in {"href", "src"}:
                self.links.append(value)


@cache
def read(page: Path) -> Links:
    return Links(page.read_text(encoding="utf-8"))


def problem(page: Path, link: str) -> str | None:
    """What is wrong with a link."""
    parts = urlsplit(link)
    if parts.scheme in {"http", "https"}:
        return None if "." in parts.netloc and " " not in link else "is not a well-formed address"
    if parts.scheme:
        return None if parts.scheme in {"data", "mailto"} else "has an unknown scheme"
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.is_file():
        return "leads to a file that does not exist"
    if parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in read(target).anchors:
        return "leads to an anchor that does not exist"
    return None


def check(folder: Path) -> list[str]:
    """One line per broken link of a built site."""
    found = []
    for page in sorted(folder.resolve().rglob("*.html")):
        for link in dict.fromkeys(read(page).links):
            if wrong := problem(page, link):
                found.append(f"{page.relative_to(folder.resolve())}: {link} {wrong}")
    return found


def main() -> None:
    folder = Path(sys.argv[1])
    broken = check(folder)
    print("\n".join(broken) or f"all links of {len(list(folder.rglob('*.html')))} pages lead somewhere")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
