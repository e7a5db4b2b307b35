"""The command line as a whole: its name, its version, and how it ends."""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from hpn import __version__
from hpn.errors import HPNError, disk_full

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from typer._click import Context, Parameter  # typer.Context is narrower than what the base class takes


class Command(typer.core.TyperCommand):
    """A command whose flags are shown without the type of a value, which they do not take."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        """Arguments and options, ``--help`` among them."""
        return _without_types(super().get_params(ctx))


class Group(typer.core.TyperGroup):
    """Commands under one word, which alone prints their help if it does nothing else."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        """Options of the word itself, ``--help`` among them."""
        return _without_types(super().get_params(ctx))

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Take nothing for ``--help``."""
        return super().parse_args(ctx, args or ["--help"] * self.no_args_is_help)


class CommandLine(typer.Typer):
    """A :class:`typer.Typer` of the classes above."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=Group, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        """See :meth:`typer.Typer.command`."""
        return super().command(name, **{"cls": Command, **options})


def _without_types(params: list[Parameter]) -> list[Parameter]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


app = CommandLine(
    name="hpn",
    help="Continual learning on graphs that keep growing.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Continual learning on graphs that keep growing."""
    if version:
        typer.echo(f"hpn {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line: exit code 0 done, 2 a wrong argument or bad data, 1 anything else."""
    logging.captureWarnings(True)
    _on_signal(_interrupt)
    try:
        code = app(standalone_mode=False)
    except HPNError as error:
        code = _end(str(error), 1 if disk_full(error.__cause__) else 2)
    except typer.TyperException as error:
        code = _end(f"{_message(error)}; see hpn --help", getattr(error, "exit_code", 2))
    except Interrupted:
        code = _end("interrupted; the same command resumes from the last checkpoint", 1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:  # the disk is full, a folder went away
        todo = "free some space" if disk_full(error) else "fix that"
        code = _end(f"{error}; {todo}, and run the same command again", 1)
    _on_signal(signal.SIG_DFL)
    sys.exit(code if isinstance(code, int) else 0)


class Interrupted(BaseException):
    """Ctrl-C or SIGTERM. A KeyboardInterrupt would be turned into exit code 130 on its way up."""


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise Interrupted


def _on_signal(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, handler)


def _end(message: str, code: int) -> int:
    """Report why this ends; a second Ctrl-C does not cut the message short."""
    _on_signal(signal.SIG_IGN)
    return fail(message, code)


def fail(message: str, code: int) -> int:
    """Say on one line what is wrong; gives the exit code back."""
    # Names in a message may come from a file: no line breaks, no terminal control sequences.
    line = "".join(sign if sign.isprintable() else "?" for sign in " ".join(message.split()))
    sys.stderr.write(f"hpn: {line}\n")
    return code


def _message(error: Exception) -> str:
    formatted = error.format_message() if hasattr(error, "format_message") else str(error)
    return str(formatted).rstrip(".")
