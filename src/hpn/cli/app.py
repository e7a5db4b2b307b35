"""The command line as a whole: its name, its version, and how it ends."""

from __future__ import annotations

import logging
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpn import __version__
from hpn.errors import HPNError, disk_full

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


app = typer.Typer(name="hpn", no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print versions and stop.")] = False) -> None:
    """Continual learning on graphs that keep growing."""
    if version:
        typer.echo("\n".join(_describe_versions()))
        raise typer.Exit


def _describe_versions() -> Iterator[str]:
    """Versions of hpn, Python, PyTorch and PyTorch Geometric, none of which is imported for it."""
    from importlib.metadata import version

    commit = _find_commit(Path(__file__).parents[3])
    yield f"hpn {__version__}" + (f" (commit {commit})" if commit else "")
    yield f"Python {platform.python_version()}"
    yield from (f"{name} {version(name)}" for name in ("torch", "torch_geometric"))


def _find_commit(checkout: Path) -> str | None:
    """The commit of a git checkout, marked if files have changed since; ``None`` elsewhere."""
    if not (checkout / ".git").exists():
        return None
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603
    except (OSError, subprocess.SubprocessError):  # git is missing, or does not trust the folder
        return None
    return done.stdout.strip()


def main() -> None:
    """Run the command line: exit code 0 done, 2 a wrong argument or bad data, 1 anything else."""
    logging.captureWarnings(True)
    _on_signal(_interrupt)
    command = typer.main.get_command(app)
    _show_flags_without_types(command, typer.Context(command, **command.context_settings))
    try:
        code = command(standalone_mode=False)
    except HPNError as error:
        code = fail(str(error), 1 if disk_full(error.__cause__) else 2)
    except typer.TyperException as error:
        formatted = error.format_message() if hasattr(error, "format_message") else str(error)
        if message := str(formatted).rstrip("."):
            code = fail(f"{message}; see hpn --help", getattr(error, "exit_code", 2))
        else:  # without a command, Typer has printed the help already
            typer.echo()
            code = 0
    except Interrupted:
        code = fail("interrupted; the same command resumes from the last checkpoint", 1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:  # a full disk, or a folder that was removed
        todo = "free some space" if disk_full(error) else "fix that"
        advice = "" if "the same command" in str(error) else f"; {todo}, and run the same command again"
        code = fail(f"{error}{advice}", 1)
    _on_signal(signal.SIG_DFL)
    sys.exit(code if isinstance(code, int) else 0)


class Interrupted(BaseException):
    """Ctrl-C or SIGTERM. A KeyboardInterrupt would be turned into exit code 130 on its way up."""


def fail(message: str, code: int) -> int:
    """Print why the command fails, on one line, and return the exit code."""
    _on_signal(signal.SIG_IGN)  # a second Ctrl-C does not cut off the message
    # Names in a message may come from a file: no line breaks, no terminal control sequences.
    line = "".join(sign if sign.isprintable() else "?" for sign in " ".join(message.split()))
    sys.stderr.write(f"hpn: {line}\n")
    return code


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise Interrupted


def _on_signal(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, handler)


def _show_flags_without_types(command: Any, context: typer.Context) -> None:
    """Keep Typer from showing ``bool`` beside flags, which take no value; ``--help`` is one of them."""
    for param in command.get_params(context):
        if getattr(param, "is_flag", False):
            param.metavar = ""
    for part in getattr(command, "commands", {}).values():
        _show_flags_without_types(part, typer.Context(part, parent=context))
