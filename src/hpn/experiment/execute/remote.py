"""A job on a machine that shares no file system with this one: the folder of its seed travels as bytes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from hpn.datasets import Graph
from hpn.errors import ConfigError, HPNError
from hpn.experiment.execute.graphs import graphs, keep_graph
from hpn.experiment.execute.jobs import Job, JobEnd, run_job
from hpn.experiment.run.checkpoint import NAME as CHECKPOINT
from hpn.experiment.run.config import RunConfig
from hpn.experiment.run.environment import installed_versions
from hpn.experiment.run.folder import RESULT, write_atomic
from hpn.nn.device import one_thread

Result = TypeVar("Result")


def run_there(
    job: Job, files: Mapping[str, bytes], load: Callable[[], Graph]
) -> tuple[JobEnd, dict[str, bytes]]:
    """What a worker does with a job: it runs it in a folder of its own.

    Args:
        job: The job; its folder and data are on another machine.
        files: What its folder holds.
        load: Gets the graph; called if this process does not have it.

    Returns:
        How it ended and, if it went well, what its folder is to hold.
    """
    try:
        _prepare(job.config, load)
    except ConfigError as error:
        return JobEnd(str(error), 0.0), {}
    with TemporaryDirectory(prefix="hpn-") as place, one_thread():
        folder = Path(place) / job.folder.name
        write_files(folder, files)
        end = run_job(replace(job, folder=folder))
        if end.error is not None:
            return replace(end, error=end.error.replace(str(folder), str(job.folder))), {}
        return end, read_files(folder)


def answer_there(
    function: Callable[[Any], Result], job: Any, files: Mapping[str, bytes], load: Callable[[], Graph]
) -> tuple[Result, dict[str, bytes]]:
    """``function(job)`` on another machine, and what the folder of the job is to hold, if it has one.

    Args:
        function: What to do with the job.
        job: The job; its folder, if any, and its data are on another machine.
        files: What its folder holds.
        load: Gets the graph; called if this process does not have it.

    Raises:
        ConfigError: If this machine has other versions.
    """
    _prepare(job.config, load)
    with TemporaryDirectory(prefix="hpn-") as place, one_thread():
        if job.folder is None:
            return function(job), {}
        folder = Path(place) / job.folder.name
        write_files(folder, files)
        try:
            result = function(replace(job, folder=folder))
        except HPNError as error:
            raise type(error)(str(error).replace(str(folder), str(job.folder))) from error
        return result, read_files(folder)


def _prepare(config: RunConfig, load: Callable[[], Graph]) -> None:
    different = differences(there=installed_versions(), here=config.versions)
    if different:
        raise ConfigError(f"{socket.gethostname()} has other versions: {different}")
    if config.data_sha256 not in graphs:
        keep_graph(config.data_sha256, load())


def differences(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """What differs between the versions of two machines."""
    return "; ".join(
        f"{name} {there.get(name)} there, {here.get(name)} here"
        for name in sorted({*there, *here})
        if there.get(name) != here.get(name)
    )


def read_files(folder: Path) -> dict[str, bytes]:
    """The files of a seed's folder by name, half-written ones aside; none if there is no folder."""
    if not folder.is_dir():
        return {}
    found = (path for path in sorted(folder.iterdir()) if path.is_file() and path.suffix != ".part")
    return {path.name: path.read_bytes() for path in found}


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make a seed's folder hold these files, the result last: whenever it stops, the seed can go on."""
    folder.mkdir(exist_ok=True)
    for name in sorted(files, key=lambda name: (name == RESULT, name == CHECKPOINT)):
        if name == RESULT:
            for path in (*folder.glob("state-*.safetensors"), *folder.glob(".*.part")):
                if path.name not in files:
                    path.unlink()
        write_atomic(folder / name, files[name])
