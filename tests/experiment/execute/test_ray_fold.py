from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from hpn.datasets.store import open_store, write_store
from hpn.datasets.synthetic import load_synthetic
from hpn.errors import ConfigError
from hpn.experiment.execute.ray import RayExecutor
from hpn.experiment.execute.ray_fold import PackedView, RayParts
from hpn.experiment.run.runner import run
from hpn.learners import HPN
from hpn.nn.fold import using
from hpn.streams import TaskStream
from hpn.streams import cutting as stream_module
from hpn.streams.views import FeatureRows


@pytest.fixture
def store(tmp_path: Path) -> Path:
    graph = load_synthetic(num_nodes=6000, num_links=30_000, num_classes=4, num_features=40)
    write_store(graph, tmp_path / "store")
    return tmp_path / "store"


def make_stream(store: Path) -> TaskStream:
    """Whose views fetch features from a file that is mapped."""
    with mock.patch.object(stream_module, "COPIED", 0):
        stream = TaskStream(open_store(store))
        for index in range(len(stream)):
            stream.step(index)
        return stream


def flatten(state: Any) -> list[bytes]:
    if isinstance(state, dict):
        return [part for key in sorted(state) for part in (str(key).encode(), *flatten(state[key]))]
    if isinstance(state, list):
        return [part for entry in state for part in flatten(entry)]
    return [state.numpy().tobytes() if isinstance(state, torch.Tensor) else repr(state).encode()]


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_view_is_packed_by_its_file_or_with_its_features(store: Path, is_seen: bool) -> None:
    view = make_stream(store).step(0).graph
    parts = RayParts.__new__(RayParts)
    files = []

    def sees(file: str) -> bool:
        files.append(file)
        return is_seen

    with mock.patch.object(parts, "_is_seen", sees):
        packed = parts._pack(view)
    assert files == [str((store / "x.bin").resolve())]
    assert isinstance(packed.features, tuple) == is_seen
    again = packed.unpack()
    assert isinstance(again.features, FeatureRows) == is_seen
    for name in ("x", "indptr", "indices"):
        assert torch.equal(getattr(again, name), getattr(view, name))


def test_sparse_features_are_packed() -> None:
    view = TaskStream(load_synthetic(num_nodes=200, num_links=400, num_classes=2)).step(0).graph
    sparse = type(view).compressed(view.x.to_sparse_csr(), view.indptr, view.indices)
    packed: PackedView = RayParts.__new__(RayParts)._pack(sparse)
    np.testing.assert_array_equal(packed.unpack().x.to_dense().numpy(), view.x.numpy())


def test_only_sums_are_computed_on_a_cluster(tmp_path: Path) -> None:
    for choices in ({"method": "ncm"}, {"settings": {"preset": "paper"}}):
        with pytest.raises(ConfigError, match="hpn run --ray computes the sums"):
            run("digits", ray="local", out=tmp_path / "run", **choices)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_two_workers_one_of_which_is_killed_give_the_same_bits(store: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    psutil = pytest.importorskip("psutil")
    stream, here, there = make_stream(store), HPN(width=600), HPN(width=600)
    for index in range(len(stream)):
        here.fit_task(stream.step(index))
    killed: list[int] = []

    def kill_one() -> None:
        """Kill the first worker that computes."""
        until = time.monotonic() + 60
        while not killed and time.monotonic() < until:
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if " ".join(process.cmdline()).startswith("ray::_run"):
                        process.send_signal(signal.SIGKILL)
                        killed.append(process.pid)
                        return
            time.sleep(0.01)

    with RayExecutor("local", num_cpus=2) as cluster, using(RayParts(cluster)):
        killer = threading.Thread(target=kill_one)
        killer.start()
        for index in range(len(stream)):
            there.fit_task(stream.step(index))
        killer.join()
    assert killed
    assert flatten(there.state_dict()) == flatten(here.state_dict())
