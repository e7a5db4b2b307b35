from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from hpn.metrics import accuracy_mean, average_retaining, forgetting_mean, summarize

Result = dict[str, Any]
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a & b",
    "</title></style></svg><svg onload=alert(1)>",
    "'onmouseover='alert(1)",
    "\x00\x1b\ud800 end",
)


def build_result(num_tasks: int = 3, num_seeds: int = 2, **fields: Any) -> Result:
    """Result whose accuracies differ from cell to cell and from seed to seed."""
    matrices = [
        [[90.0 - 7 * (i - j) - j - 2 * seed for j in range(i + 1)] for i in range(num_tasks)]
        for seed in range(num_seeds)
    ]
    retained = [average_retaining(matrix) for matrix in matrices]
    scores = {
        "am": summarize([accuracy_mean(matrix) for matrix in matrices]),
        "fm": summarize([forgetting_mean(matrix) for matrix in matrices]),
        "ars": summarize([None if ars is None else 100 * ars for ars in retained]),
        "matrices": matrices,
    }
    return {
        "schema": 1,
        "dataset": "cora",
        "method": "finetune",
        "backbone": "gcn",
        "scenario": "class",
        "evaluate": "global",
        "edges": "within",
        "tasks": [[2 * i, 2 * i + 1] for i in range(num_tasks)],
        "seeds": list(range(num_seeds)),
        **scores,
        "parameters": 92231,
        "prototypes": None,
        "bounds": None,
        "seconds": {"fit": 30.5, "predict": 0.75, "total": 33.0},
        "peak_rss_mb": 623.4,
        "versions": {"hpn": "0.1.0", "torch": "2.5.1"},
        "out": "runs/finetune",
        "balanced": dict(scores),
        "class_names": {"0": "Theory", "1": "Rule learning"},
        "params": {"lr": 0.01, "epochs": 200},
        "command": "hpn run cora --method finetune --seeds 2",
        **fields,
    }


VOID = {"meta", "br", "link", "img", "hr", "input"}


class Page(HTMLParser):
    """Elements, text and attributes of a page; fails where tags do not close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture
def make_result() -> Callable[..., Result]:
    return build_result


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    def make(name: str = "run", **fields: Any) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "result.json").write_text(json.dumps(build_result(**fields)), encoding="utf-8")
        return folder

    return make


@pytest.fixture(params=HOSTILE)
def hostile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def parse_page() -> type[Page]:
    return Page
