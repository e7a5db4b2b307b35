"""The command line. Heavy imports wait until a command needs them, so that help is instant."""

from hpn.cli import model_commands  # noqa: F401, I001  (help has them so)
from hpn.cli import run_commands, reproduce_command, theory_commands, import_command, info_commands  # noqa: F401
from hpn.cli.app import main

__all__ = ["main"]
