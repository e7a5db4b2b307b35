"""The command line. Heavy imports wait until a command needs them, so that help is instant."""

# In the order in which help lists the commands.
from hpn.cli import model, run, reproduce, theory, info  # noqa: F401, I001
from hpn.cli.app import main

__all__ = ["main"]
