"""The command line as a whole: its name, its version, and how it ends."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpn import __version__
from hpn.errors import HPNError, ProcessesError, SaidElsewhereError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

PATIENCE = 20.0  # seconds in which another process of a job is sure to have said why it ends

app = typer.Typer(
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
    """Run the command line: exit code 0 done, 2 a wrong argument or bad data, 1 anything else.

    Of several processes that ``torchrun`` started, the first speaks for all.
    """
    logging.captureWarnings(True)
    if is_assistant():
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  (for as long as this runs)
    _on_signal(_interrupt)
    try:
        code = app(standalone_mode=False)
    except SaidElsewhereError:
        _is_ended_by_others()  # an end before theirs would have torchrun interrupt what they say
        code = 2
    except ProcessesError as error:
        code = _end(str(error), 1)
    except HPNError as error:
        code = _end_together(str(error), 2)
    except typer.TyperException as error:
        code = _end_together(f"{_message(error)}; see hpn --help", getattr(error, "exit_code", 2))
    except Interrupted:
        code = (
            1 if is_assistant() else _end("interrupted; the same command goes on from the last checkpoint", 1)
        )
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:  # the disk is full, a folder went away
        code = _end(f"{error}; fix that, and run the same command again", 1)
    _on_signal(signal.SIG_DFL)
    code = code if isinstance(code, int) else 0
    if "TORCHELASTIC_RUN_ID" in os.environ:
        _leave_at_once(code)
    sys.exit(code)


def _leave_at_once(code: int) -> None:
    """End a process that ``torchrun`` started without finalising the interpreter.

    Threads of torch.distributed may still be running then, which aborts the process now and then, and
    ``torchrun`` takes that for a failure.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def is_assistant() -> bool:
    """Whether another process of the same job speaks for this one."""
    return int(os.environ.get("RANK", "0")) > 0 and "WORLD_SIZE" in os.environ


def is_repeating() -> bool:
    """Whether another process on this machine finds the same fault with the same command."""
    return is_assistant() and int(os.environ.get("LOCAL_RANK", "0")) > 0


class Interrupted(BaseException):
    """Ctrl-C or SIGTERM. A KeyboardInterrupt would be turned into exit code 130 on its way up."""


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise Interrupted


def _on_signal(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, handler)


def _end_together(message: str, code: int) -> int:
    """Say why this ends, unless the first process of this machine finds and says the same."""
    return code if is_repeating() and _is_ended_by_others() else _end(message, code)


def _is_ended_by_others() -> bool:
    """Wait for ``torchrun`` to end this process, as it does when another one has ended; not for ever."""
    try:
        time.sleep(PATIENCE)
    except Interrupted:
        return True
    return False


def _end(message: str, code: int) -> int:
    """Say why this ends, even if ``torchrun`` interrupts it because another process ended."""
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
