"""From experiments to pages, on small graphs and with short runs; what the pages say is tested elsewhere."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hpn
from hpn.errors import ConfigError, DataError, RunFolderError
from hpn.experiment.run.folder import open_run_folder
from hpn.experiment.run.runner import Job, run
from hpn.experiment.watch import JobsProgress, Watcher
from hpn.reproduction.engine import make_plan
from hpn.reproduction.experiments import EXPERIMENTS, Case, Experiment

LEVELS, LOSSES, VIEWS = "ablation-levels", "ablation-losses", "visualization"
SHORT = {"epochs": 1, "warmup_epochs": 0, "late_epoch": 1, "num_extractors": 2}


@pytest.fixture(autouse=True)
def _short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every experiment without the preset ``best``, cut to one epoch, and no baseline with a network."""
    whole = Experiment.cases

    def short(experiment: Experiment, graph: hpn.Graph) -> list[Case]:
        return [
            replace(case, settings={**case.settings, **SHORT}) if case.cell.method == "hpn" else case
            for case in whole(experiment, graph)
            if case.cell.method in {"hpn", "ncm"} and case.label.get("preset") != "best"
        ]

    monkeypatch.setattr(Experiment, "cases", short)


@pytest.fixture
def graph_file(tmp_path: Path, write_graph: Any) -> Path:
    return write_graph(tmp_path / "elsewhere" / "my graph.npz")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the jobs that ran."""
    names: list[str] = []
    work = Job.run

    def counting(job: Job, *args: Any) -> Any:
        names.append(str(job))
        return work(job, *args)

    monkeypatch.setattr(Job, "run", counting)
    return names


def quick(tmp_path: Path, names: str | list[str], *datasets: Path | str, **changes: Any) -> dict[str, Any]:
    choices = {"seeds": 1, "runs": tmp_path / "runs", "out": tmp_path / "out", **changes}
    return hpn.reproduce(names, datasets=[str(name) for name in datasets] or None, **choices)


def read_sections(tmp_path: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((tmp_path / "out" / f"{name}.json").read_text())["sections"]
    return found


def test_pages_numbers_and_figures(tmp_path: Path, graph_file: Path) -> None:
    done = quick(tmp_path, [VIEWS, "memory"], graph_file, seeds=2)
    out = tmp_path / "out"
    assert done["pages"] == [str(out / f"{name}.md") for name in ("README", "memory", VIEWS)]
    assert done["failed"] == []
    assert done["absent"] == {}
    assert done["cells"]["all cells"] == {"within": 0, "better": 0, "worse": 0}, "no data set of the paper"
    assert "not tested here" in {claim["verdict"] for claim in done["claims"]}
    (section,) = read_sections(tmp_path, VIEWS)
    assert (section["dataset"], section["nodes"], section["seeds"]) == ("my graph", 80, [0, 1])
    for case in section["cases"]:
        assert len(case["matrices"]) == 2
        (am, _) = case["am"]["values"]
        assert am == round(am, 4)
        assert [step["after"] for step in case["separation"]] == [0, 1]
        assert len(case["separation"][0]["neighbors_within"]["values"]) == 2
        assert len(case["views"][1]["points"]) == len(case["views"][1]["classes"]) == 16
    for page in done["pages"]:
        text = Path(page).read_text()
        for figure in [word.split(")")[0] for word in text.split("](") if ".svg)" in word]:
            assert (out / figure).read_text().startswith("<!-- Vega-Lite ")
    everything = "".join(path.read_text() for path in out.iterdir())
    assert str(tmp_path) not in everything, "paths of this machine say nothing to readers"


def test_a_case_is_what_its_command_gives(tmp_path: Path, graph_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(tmp_path, LEVELS, graph_file)
    case = read_sections(tmp_path, LEVELS)[0]["cases"][1]
    words = shlex.split(case["command"])
    settings = dict(word.split("=", 1) for word in words if "=" in word)
    assert words[:3] == ["hpn", "run", graph_file.name]
    monkeypatch.chdir(graph_file.parent)
    result = run(graph_file.name, settings=settings, out=tmp_path / "again")
    assert result["matrices"] == [[pytest.approx(row, abs=1e-4) for row in matrix] for matrix in case["matrices"]]
    assert settings["levels"] == "AN"


def test_nothing_runs_twice(tmp_path: Path, graph_file: Path, ran: list[str]) -> None:
    quick(tmp_path, [LEVELS, LOSSES], graph_file)
    assert len(ran) == 3 + 4 - 1, "the whole one is in both experiments"
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    ran.clear()
    quick(tmp_path, [LEVELS, LOSSES], graph_file)
    assert ran == []
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    quick(tmp_path, [LEVELS, "dynamics"], graph_file, seeds=2)
    assert len(ran) == 3, "the second seed of each"


def test_views_that_an_earlier_call_did_not_draw(tmp_path: Path, graph_file: Path, ran: list[str]) -> None:
    quick(tmp_path, LEVELS, graph_file)
    ran.clear()
    quick(tmp_path, VIEWS, graph_file)
    assert len(ran) == 1
    assert not quick(tmp_path, VIEWS, graph_file)["failed"]
    assert len(ran) == 1


class Stop(Watcher):
    def jobs_moved(self, progress: JobsProgress) -> None:
        if progress.done == 2:
            raise KeyboardInterrupt


def test_interrupted_it_resumes_and_ends_with_the_same_pages(
    tmp_path: Path, graph_file: Path, ran: list[str], results_of: Any
) -> None:
    quick(tmp_path / "once", LEVELS, graph_file)
    ran.clear()
    with pytest.raises(KeyboardInterrupt):
        quick(tmp_path / "twice", LEVELS, graph_file, watcher=Stop())
    assert not (tmp_path / "twice" / "out" / "README.md").exists()
    quick(tmp_path / "twice", LEVELS, graph_file)
    assert len(ran) == len(set(ran)) == 3, "no job twice"
    assert results_of(tmp_path / "once" / "out") == results_of(tmp_path / "twice" / "out")


def test_data_sets_are_added_one_by_one(tmp_path: Path, graph_file: Path, write_graph: Any) -> None:
    other = write_graph(tmp_path / "other.npz", num_nodes=60)
    quick(tmp_path, LEVELS, graph_file)
    done = quick(tmp_path, LEVELS, other)
    sections = read_sections(tmp_path, LEVELS)
    assert [section["dataset"] for section in sections] == ["my graph", "other"]
    quick(tmp_path, LEVELS, graph_file, seeds=[1])
    sections = read_sections(tmp_path, LEVELS)
    assert [(section["dataset"], section["seeds"]) for section in sections] == [("my graph", [1]), ("other", [0])]
    assert "other" in Path(done["pages"][1]).read_text()


def test_only_some_rows_are_run_and_replaced(
    tmp_path: Path, graph_file: Path, write_graph: Any, ran: list[str]
) -> None:
    other = write_graph(tmp_path / "other.npz", num_nodes=60)
    quick(tmp_path, ["comparison", VIEWS], graph_file, other, seeds=2)
    before = read_sections(tmp_path, "comparison")
    path = tmp_path / "out" / "comparison.json"
    content = json.loads(path.read_text())
    content["sections"][0]["versions"] = {"hpn": "0.0.1"}
    for section in content["sections"]:
        for case in section["cases"]:
            case["parameters"] = 77
    path.write_text(json.dumps(content))
    views = (tmp_path / "out" / f"{VIEWS}.json").read_bytes()
    ran.clear()
    done = quick(tmp_path, ["comparison", VIEWS], graph_file, seeds=2, only="ncm", fresh=True)
    assert ran == ["my graph ncm seed 0", "my graph ncm seed 1"]
    assert (done["runs"], done["failed"]) == (1, [])
    after, elsewhere = read_sections(tmp_path, "comparison")
    command, versions = before[0]["command"], before[0]["versions"]
    for old, new in zip(before[0]["cases"], after["cases"], strict=True):
        assert new["case"] == old["case"]
        is_new = new["method"] == "ncm"
        assert new["parameters"] == (old["parameters"] if is_new else 77)
        assert new.get("again") == ({"command": f"{command} --only ncm", "versions": versions} if is_new else None)
    assert (after["command"], after["versions"]) == (command, {"hpn": "0.0.1"})
    assert {case["parameters"] for case in elsewhere["cases"]} == {77}
    assert (tmp_path / "out" / f"{VIEWS}.json").read_bytes() == views, "no row of ncm there"
    page = (tmp_path / "out" / "comparison.md").read_text()
    assert "'my graph.npz' --seeds 2 --only ncm\n" in page
    assert "- ncm on my graph: python " in page
    quick(tmp_path, VIEWS, graph_file, seeds=2, only="paper")
    (view,) = read_sections(tmp_path, VIEWS)[0]["cases"]
    assert view["again"]["command"].endswith("--only paper")
    assert view["views"]
    quick(tmp_path, "comparison", graph_file, seeds=2)
    assert "--only" not in (tmp_path / "out" / "comparison.md").read_text(), "all of it is new"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"only": "papre"}, "has the method or preset 'papre'; did you mean 'paper'\\? known: hpn, paper, ncm$"),
        ({"only": ""}, "has the method or preset ''; known: hpn, paper, ncm$"),
        ({"seeds": [0, 2]}, "comparison on my graph has seeds 0, 1 on its page, not 0, 2; --only needs the same"),
        ({"names": ["comparison", "memory"]}, "memory on my graph is not on a page yet; run it without --only first"),
        ({"datasets": ["digits"]}, "comparison on digits is not on a page yet; run it without --only first"),
        ({"datasets": ["smaller/my graph.npz"]}, "has other nodes or tasks on its page; run it without --only"),
    ],
)
def test_rows_that_do_not_fit_the_page_are_not_run(
    tmp_path: Path,
    graph_file: Path,
    ran: list[str],
    write_graph: Any,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_graph(tmp_path / "smaller" / graph_file.name, num_nodes=60)
    quick(tmp_path, "comparison", graph_file, seeds=2)
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    ran.clear()
    choices = {"names": "comparison", "datasets": [str(graph_file)], "seeds": 2, "only": "ncm", **changes}
    with pytest.raises(ConfigError, match=said) as caught:
        hpn.reproduce(**choices, runs=tmp_path / "runs", out=tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert ran == []
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_figures_that_a_page_no_longer_has_go(tmp_path: Path, graph_file: Path) -> None:
    out = tmp_path / "out"
    quick(tmp_path, VIEWS, graph_file)
    stale, other = out / f"{VIEWS}-gone-paper.svg", out / "notes.svg"
    stale.write_text("<svg/>")
    other.write_text("<svg/>")
    quick(tmp_path, VIEWS, graph_file)
    assert not stale.exists()
    assert other.exists()


def test_a_run_that_fails_is_named_and_the_others_are_there(tmp_path: Path, graph_file: Path) -> None:
    made = quick(tmp_path, LEVELS, graph_file)
    (planned,) = make_plan([EXPERIMENTS[LOSSES]], [str(graph_file)], [0], tmp_path / "runs")
    _, busy = planned.cases[0]
    with open_run_folder(busy.folder, busy.config.to_json()):
        done = quick(tmp_path, LOSSES, graph_file)
    assert made["failed"] == []
    ((name, folder, error),) = [tuple(failed.values()) for failed in done["failed"]]
    assert name == "my graph hpn preset=paper losses=cls"
    assert folder == str(busy.folder)
    assert "is in use by another run" in error
    cases = read_sections(tmp_path, LOSSES)[0]["cases"]
    assert [case["error"] is None for case in cases] == [False, True, True, True]
    assert quick(tmp_path, LOSSES, graph_file)["failed"] == [], "the same call tries again"


def test_data_sets_that_are_not_on_disk_are_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = EXPERIMENTS["dynamics"].model_copy(update={"datasets": ("synthetic", "ogbn-arxiv")})
    monkeypatch.setitem(EXPERIMENTS, "dynamics", experiment)
    done = quick(tmp_path, "dynamics", data_root=tmp_path / "nothing", seeds=1)
    assert done["absent"] == {"dynamics": ["ogbn-arxiv"]}
    done = quick(tmp_path, ["accuracy-matrices"], data_root=tmp_path / "nothing")
    assert done["absent"] == {"accuracy-matrices": ["cora"]}
    assert done["runs"] == 0
    assert done["pages"] == [str(tmp_path / "out" / f"{name}.md") for name in ("README", "dynamics")]


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"names": "no-such"}, ConfigError, "unknown experiment"),
        ({"datasets": ["no-such"]}, DataError, "no data set or file 'no-such'"),
        ({"seeds": []}, ConfigError, "seeds must be one or more"),
        ({"workers": 0}, ConfigError, "workers must be at least 1"),
    ],
)
def test_a_wrong_argument_stops_it_before_anything_is_written(
    tmp_path: Path, graph_file: Path, changes: dict[str, Any], error: type[Exception], said: str
) -> None:
    choices = {"names": LEVELS, "datasets": [str(graph_file)], "seeds": 1, **changes}
    with pytest.raises(error, match=said):
        hpn.reproduce(**choices, runs=tmp_path / "runs", out=tmp_path / "out")
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "out").exists()


def test_a_folder_for_the_pages_that_cannot_be_used(tmp_path: Path, graph_file: Path, ran: list[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="choose another --out"):
        quick(tmp_path, LEVELS, graph_file, out=tmp_path / "file" / "out")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / f"{LEVELS}.json").write_text('{"schema": 99}')
    with pytest.raises(DataError, match="was not written by this version of hpn"):
        quick(tmp_path, LEVELS, graph_file)
    assert ran == []
