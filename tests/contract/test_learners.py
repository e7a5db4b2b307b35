"""Every learner of the package keeps the contract. A new one is covered as soon as it is registered."""

from __future__ import annotations

from typing import Any
from unittest import SkipTest

import pytest

from hpn.learners import LEARNERS
from hpn.params import declared_params
from hpn.testing import Check
from hpn.testing.learners import LearnerCase, tensors_are_made_on_its_device
from hpn.testing.suite import find_checks

NETWORKS = [name for name in LEARNERS if "backbone" in declared_params(LEARNERS[name])]
QUICK: dict[str, dict[str, Any]] = {
    "ewc": {"num_samples": 5},
    "mas": {"num_samples": 5},
    "ridge": {"width": 200},
    "probe": {"max_hops": 1},
}
"""Settings that make a learner quick enough for tests; the defaults elsewhere."""
ACCURATE: dict[str, dict[str, Any]] = {name: {"epochs": 15, "lr": 0.02} for name in NETWORKS}
ACCURATE["probe"] = {"max_hops": 3}
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "hpn": {
        "best": {"width": 200},
        "paper": {"preset": "paper", "epochs": 12, "warmup_epochs": 8, "late_epoch": 10},
        "means": {"preset": "paper", "slots": "means", "epochs": 24, "warmup_epochs": 5, "retention": "certified"},
        "pairs": {"preset": "paper", "num_selected": 2, "epochs": 24, "warmup_epochs": 12, "late_epoch": 20},
    },
    **{name: {kind: {"backbone": kind, "epochs": 4} for kind in ("gcn", "gat", "gin")} for name in NETWORKS},
}
"""What is checked of a learner that is several in one."""
BATCHES = {"epochs": 1, "batch_size": 40, "num_neighbors": 2, "backbone": "gat"}
ON_DEVICES: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"{name}-batches": (name, BATCHES) for name in NETWORKS},
    "hpn-similarity": (
        "hpn",
        {"preset": "paper", "selection": "similarity", "drawn": "1", "dim": 4, "epochs": 2, "warmup_epochs": 0},
    ),
    "finetune-gin-batches": ("finetune", {"epochs": 2, "backbone": "gin", "batch_size": 40}),
    "twp-sparse": ("twp", {"epochs": 2, "sparsity": 1e-4}),
    "gem-small": ("gem", {"epochs": 2, "memory_size": 20}),
    "ergnn-influence": ("ergnn", {"epochs": 2, "selection": "influence", "buffer_size": 4}),
    "ergnn-embeddings": ("ergnn", {"epochs": 2, "space": "embeddings"}),
    "ergnn-coverage": ("ergnn", {"epochs": 2, "selection": "coverage"}),
}
"""What else is checked about devices."""


def contract() -> list[Any]:
    params = []
    for name in LEARNERS:
        for variant, choice in VARIANTS.get(name, {"plain": {}}).items():
            case = LearnerCase(LEARNERS[name], {**QUICK.get(name, {}), **choice}, ACCURATE.get(name))
            # `make test` checks every method with one backbone, and one method with every backbone; CI checks all.
            is_slow = variant == "pairs" or (variant in {"gat", "gin"} and name != "finetune")
            marks = [pytest.mark.slow] if is_slow else []
            checks = find_checks("hpn.testing.learners", case)
            params += [pytest.param(check, id=f"{name}-{variant}-{check}", marks=marks) for check in checks]
    return params


@pytest.mark.parametrize("check", contract())
def test_contract(check: Check) -> None:
    case: LearnerCase = check.subject
    if check.name == "mini_batches_are_learned_and_resumed" and case.params.get("backbone") != "gcn":
        pytest.skip("networks have mini-batches, and one backbone is enough")
    try:
        check()
    except SkipTest as skip:
        pytest.fail(f"every learner of the package is checked, but {skip}")


@pytest.mark.parametrize(("name", "params"), ON_DEVICES.values(), ids=ON_DEVICES)
def test_devices(name: str, params: dict[str, Any]) -> None:
    tensors_are_made_on_its_device(LearnerCase(LEARNERS[name], params))
