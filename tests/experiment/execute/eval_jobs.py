"""Jobs that evaluate any expression; in a module of its own, which worker processes can import."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hpn.datasets import Graph
from hpn.experiment.run.config import resolve_config
from hpn.experiment.run.runner import Job

NAMES = {"os": os, "Path": Path, "time": time, "torch": torch}


@dataclass(eq=False)
class EvalJob(Job):
    code: str = "0"

    def validate(self, graph: Graph) -> Any:
        return eval(self.code, {**NAMES, "graph": graph, "job": self})


def make_jobs(*codes: str, **changes: Any) -> list[EvalJob]:
    settings = {"data.num_nodes": 120, "data.num_links": 400, "data.num_classes": 4}
    config, graph = resolve_config("synthetic", method="ncm", settings=settings)
    changes = {"is_trial": "folder" not in changes, **changes}
    return [EvalJob(config, seed, code=code, graph=graph, **changes) for seed, code in enumerate(codes)]
