"""Calling Ray so that nobody notices: no words, no lost signals, no waiting for minutes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from hpn.errors import ConfigError
from hpn.experiment.execute.jobs import reason

MAX_RETRIES = 2
"""How often a job begins again whose worker or machine died."""
RAY_SETTINGS = {
    "RAY_task_oom_retries": str(MAX_RETRIES),  # without end, if not set
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^",  # or the deaths of workers are told on standard output
}
"""What Ray reads from the environment when it is imported and when it connects."""
PROBE = """
import sys, ray
try:
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
except Exception as error:
    sys.exit(" ".join(f"{type(error).__name__}: {error}".split()))
"""


def check_address(address: str, wait: float) -> None:
    """See whether a cluster answers.

    Ray itself tries for minutes, and says so; so another process tries, for as long as it may.

    Raises:
        ConfigError: If none does.
    """
    host, _, port = address.rpartition("/")[2].rpartition(":")
    try:
        if host and port.isdecimal():  # most mistakes show at once
            socket.create_connection((host, int(port)), timeout=wait).close()
        words = [sys.executable, "-c", PROBE, address]
        probe = subprocess.run(words, capture_output=True, text=True, timeout=wait, check=False)  # noqa: S603
    except (OSError, OverflowError) as error:
        raise ConfigError(f"cannot reach the Ray cluster {address} ({error})") from error
    except subprocess.TimeoutExpired as error:
        raise ConfigError(
            f"cannot reach the Ray cluster {address} (no answer in {wait:.0f} seconds)"
        ) from error
    if probe.returncode:
        why = (probe.stderr.strip().splitlines() or [f"exit code {probe.returncode}"])[-1]
        if "AuthToken" in probe.stderr:
            why = "it asks for a token; set RAY_AUTH_MODE=token, as Ray's documentation has it"
        raise ConfigError(f"cannot reach the Ray cluster {address} ({reason(ConfigError(why))})")


def import_ray() -> Any:
    """The package, imported without a word.

    Raises:
        ConfigError: If it is not installed.
    """
    try:
        with environment(RAY_SETTINGS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray
    except ImportError as error:
        raise ConfigError("--ray needs Ray: pip install 'hpn[ray]'") from error
    return ray


@contextlib.contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables inside, all as before outside."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Around calls of Ray: no warnings, and Ctrl-C and the like wait until the end.

    Ray loses what a signal handler raises while it waits, and puts a handler of its own in place.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        came: list[int] = []
        before = {kind: signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)}
        try:
            for kind, handler in before.items():
                if handler not in (signal.SIG_IGN, None):
                    signal.signal(kind, lambda number, _: came.append(number))
            yield
        except SystemExit:
            came.append(signal.SIGTERM)  # Ray's own handler got it
            raise
        finally:
            for kind, handler in before.items():
                if handler is not None:
                    signal.signal(kind, handler)
            if came:
                signal.raise_signal(came[0])
