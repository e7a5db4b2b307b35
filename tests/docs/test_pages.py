"""Every block of code in the README and the documentation runs as written.

A block below a comment ``<!-- not run: reason -->`` is not run; its commands are still read by the real command line.
A Python block that starts with ``# NAME.py`` is also written to that file. A ``text`` block is what the block above it
prints, numbers aside.
"""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from hpn.cli import main
from hpn.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^( *)(`{3,})([^\n`]*)\n(.*?)^\1\2$", re.DOTALL | re.MULTILINE)
NOT_RUN = re.compile(r"<!-- not? run: .+? -->\s*$|<!-- no-run: .+? -->\s*$", re.DOTALL)
INLINE = re.compile(r"(?<!`)`(hpn [^`]+)`(?!`)")


@cache
def command_line() -> Any:
    """The root of all commands."""
    return typer.main.get_command(app)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and whether a comment above it says that it is not run."""

    kind: str
    text: str
    line: int
    is_run: bool

    def commands(self) -> list[str]:
        """Its lines as a shell reads them: continued lines joined, comments and prompts left out."""
        lines = re.sub(r"\\\n\s*", " ", self.text).splitlines()
        plain = [re.sub(r"(^|\s)#.*$", "", line).strip().removeprefix("$ ") for line in lines]
        return [line for line in plain if line]


def read_blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        before = text[: found.start()]
        yield Block(found[3].strip(), found[4], before.count("\n") + 1, not NOT_RUN.search(before))


def inline_commands(page: Path) -> list[str]:
    """Commands within the prose of a page."""
    return INLINE.findall(FENCE.sub("", page.read_text(encoding="utf-8")))


def parse(command: str) -> None:
    """Let the real command line read a command, without running it."""
    words, at = shlex.split(command)[1:], command_line()
    context = typer.Context(at, info_name="hpn")
    while hasattr(at, "commands") and words and words[0] in at.commands:
        name = words.pop(0)
        at = at.commands[name]
        context = typer.Context(at, info_name=name, parent=context)
    assert not words or words[0].startswith("-") or not hasattr(at, "commands"), f"no such command: {command}"
    if not hasattr(at, "commands"):
        at.make_context(context.info_name, words, parent=context.parent)


def unknown_options(command: str) -> list[str]:
    """Options of a command in prose, which may leave words out, that the command does not have."""
    at: Any = command_line()
    for word in command.split()[1:]:
        if word in getattr(at, "commands", {}):
            at = at.commands[word]
    known = {"--help", *(option for param in at.params for option in param.opts)}
    return [word for word in re.findall(r"(?<!\S)--[\w-]+", command) if word not in known]


def run_command(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a line of a shell block: ``hpn`` and ``python`` in this process."""
    name, *words = shlex.split(command)
    if name == "hpn":
        monkeypatch.setattr(sys, "argv", [name, *words])
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code, command
    elif name == "python" and words[0].endswith(".py"):
        script = Path(words[0]) if Path(words[0]).exists() else ROOT / words[0]
        monkeypatch.setattr(sys, "argv", words)
        runpy.run_path(str(script), run_name="__main__")
    else:
        subprocess.run(command, shell=True, check=True)


def mask(text: str) -> list[str]:
    """Lines without their numbers, up to an ellipsis, which machines need not agree on."""
    return [re.sub(r"[-+]?\d[\d.,]*", "#", line.partition(", …")[0]) for line in text.splitlines()]


PAGES = sorted(
    page
    for page in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "docs" / "index.md",
        *(ROOT / "docs").glob("[!_]*/**/*.md"),
    ]
)
RUN = [page for page in PAGES if page.parent.name != "reproduction" and any(read_blocks(page))]
SLOW = {"classifier", "compare-methods", "compare", "given-task", "new-class", "report", "theory", "tune"}
INSTALLS = ("pip ", "make ", "git ", "ray ", "tensorboard ", "mlflow ", "export ")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.filterwarnings("ignore:A worker stopped")  # joblib replaces it; a busy machine suffices
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] * (page.stem in SLOW), id=name_of(page)) for page in RUN]
)
def test_blocks_run(
    page: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    names: dict[str, object] = {"__name__": "__page__"}
    printed: list[str] = []
    for block in read_blocks(page):
        where = f"{name_of(page)}:{block.line}"
        if block.kind == "python":
            if named := re.match(r"# (\w+\.py)\n", block.text):
                (tmp_path / named[1]).write_text(block.text)
            code = compile("\n" * block.line + block.text, name_of(page), "exec")
            if block.is_run:
                exec(code, names)
                printed = mask(capfd.readouterr().out)
        elif block.kind in {"sh", "bash"}:
            for command in block.commands():
                if command.startswith("hpn "):
                    parse(command)
                if block.is_run and not command.startswith(INSTALLS):
                    run_command(command, monkeypatch)
            printed = mask(capfd.readouterr().out)
        elif block.kind == "text" and block.is_run and printed:
            for line in mask(block.text):
                assert any(found.startswith(line) for found in printed), f"{where}: {line}"
        elif block.kind == "yaml":
            yaml.safe_load(block.text)
        else:
            assert block.kind in {"", "text", "toml", "console"} or block.kind.startswith("{"), f"{where}: {block.kind}"
    if page.name == "files-to-predictions.md":
        predictions = (tmp_path / "predictions.csv").read_text().splitlines()
        assert predictions[0] == "id,class,probability,second_class,second_probability"
        assert len(predictions) == 1 + 480
    for module in set(sys.modules) - before:
        if getattr(sys.modules[module], "__file__", None) and str(tmp_path) in str(sys.modules[module].__file__):
            del sys.modules[module]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_exist(page: Path) -> None:
    for block in read_blocks(page):
        for command in block.commands() if block.kind in {"", "sh", "bash"} else ():
            if command.startswith("hpn "):
                parse(command)
    for command in inline_commands(page):
        assert not unknown_options(command), command


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_and_pictures_exist(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_lines_wrap(page: Path) -> None:
    for line in re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL).splitlines():
        assert len(line) <= 120 or line.startswith(("|", "![", "<")), line
