from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import hpn
from hpn.errors import ConfigError, RunFolderError
from hpn.experiment.compare import cells as comparison_cells
from hpn.experiment.compare import table as comparison_module
from hpn.experiment.compare.cells import Cell, choose_cells, resolve_cells
from hpn.experiment.compare.table import compare
from hpn.experiment.execute import graphs as graphs_module
from hpn.experiment.execute import jobs as jobs_module
from hpn.experiment.execute.graphs import graphs
from hpn.experiment.execute.jobs import Batch, Job, JobEnd, run_job
from hpn.experiment.execute.local import WorkerError
from hpn.experiment.published import Spread, published_cell
from hpn.experiment.run.config import resolve_config
from hpn.experiment.run.folder import open_run_folder
from hpn.experiment.run.runner import run
from hpn.experiment.watch import BatchProgress, BatchWatcher
from hpn.learners import LEARNERS, Learner
from hpn.params import declared_params

DATA = {"data.num_nodes": 120, "data.num_links": 400, "data.num_classes": 4}
SETTINGS = {**DATA, "finetune.epochs": 3}
METHODS = "finetune:gcn,ncm"


def quick(runs: Path, **changes: Any) -> dict[str, Any]:
    return compare("synthetic", **{"methods": METHODS, "settings": SETTINGS, "runs": runs, **changes})


def scores(comparison: dict[str, Any]) -> list[Any]:
    kept = ("name", "am", "fm", "ars", "parameters", "stored", "error")
    return [[row[key] for key in kept] for row in comparison["rows"]]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the jobs that ran, in this process."""
    names: list[str] = []

    def count(job: Job) -> JobEnd:
        names.append(str(job))
        return run_job(job)

    monkeypatch.setattr(jobs_module, "run_job", count)
    return names


def test_the_table(tmp_path: Path) -> None:
    comparison = quick(tmp_path, seeds=2)
    assert json.loads((Path(comparison["out"]) / "comparison.json").read_text()) == comparison
    assert Path(comparison["out"]).parent == tmp_path
    assert comparison["seeds"] == [0, 1]
    assert [row["name"] for row in comparison["rows"]] == ["finetune-gcn", "ncm"]
    for row in comparison["rows"]:
        result = json.loads((Path(row["run"]) / "result.json").read_text())
        for key in ("am", "fm", "ars", "parameters", "stored", "prototypes", "recipe"):
            assert row[key] == result.get(key)
        assert row["seconds"]["fit"] == pytest.approx(result["seconds"]["fit"] / 2)
        assert (row["error"], row["published"], row["difference"]) == (None, None, None)
    assert comparison["published_parameters"]["values"] == {"finetune-gcn": 2336}


def test_a_finished_seed_is_not_run_again(tmp_path: Path, ran: list[str]) -> None:
    first = quick(tmp_path, seeds=2)
    assert sorted(ran) == ["finetune gcn seed 0", "finetune gcn seed 1", "ncm seed 0", "ncm seed 1"]
    ran.clear()
    assert quick(tmp_path, seeds=2) == first
    assert ran == []
    assert scores(quick(tmp_path, seeds=2, methods=f"{METHODS},probe"))[:1] == scores(first)[:1]
    assert ran == ["probe seed 0", "probe seed 1"]
    ran.clear()
    quick(tmp_path, seeds=3)
    assert sorted(ran) == ["finetune gcn seed 2", "ncm seed 2"]
    ran.clear()
    quick(tmp_path, methods="ncm", settings=DATA, fresh=True)
    assert ran == ["ncm seed 0"]


def test_runs_and_comparisons_share_their_folders(
    tmp_path: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    alone = run("synthetic", method="finetune", backbone="gcn", settings={**DATA, "epochs": 3}, seeds=2)
    before = (Path(alone["out"]) / "result.json").read_bytes()
    row = quick(Path("runs"), seeds=2)["rows"][0]
    assert ran == ["ncm seed 0", "ncm seed 1"]
    assert (row["run"], row["am"]) == (alone["out"], alone["am"])
    assert (Path(alone["out"]) / "result.json").read_bytes() == before, "nothing new, nothing written"
    again = run("synthetic", method="ncm", settings=DATA, seeds=2)
    assert again["am"]["values"] == quick(Path("runs"), seeds=2)["rows"][1]["am"]["values"]
    assert len(ran) == 2


@pytest.mark.parametrize("use_recipes", [True, False])
def test_every_cell_is_the_run_that_resolve_config_gives(
    use_recipes: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "digits.yaml").write_text(
        "dataset: digits\nmethod: finetune\nbackbone: gin\nscenario: task\nsettings: {lr: 0.5}\n"
    )
    monkeypatch.setattr("hpn.experiment.recipes.FOLDER", tmp_path)
    cells = choose_cells("all", "gin")
    settings = {"data.neighbors": 5, "joint.epochs": "7", "finetune.epochs": 2}
    configs, graph = resolve_cells("digits", cells, settings=settings, use_recipes=use_recipes, edges="seen")
    changed = {"joint": {"epochs": 7}, "finetune": {"epochs": 2}}
    for cell, config in zip(cells, configs, strict=True):
        expected, same = resolve_config(
            "digits",
            method=cell.method,
            backbone=cell.backbone,
            settings={"data.neighbors": 5, **changed.get(cell.method, {})},
            edges="seen",
            recipe="auto" if use_recipes else None,
        )
        assert (config, config.recipe) == (expected, expected.recipe)
        assert config.default_folder() == expected.default_folder()
        assert graph.fingerprint() == same.fingerprint()
    tuned = {str(cell): config.recipe for cell, config in zip(cells, configs, strict=True) if config.recipe}
    assert tuned == ({"finetune:gin": "digits/finetune-gin"} if use_recipes else {})


def test_rows_come_in_the_papers_order(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, type[Learner]] = {"zeta": LEARNERS["ncm"], **LEARNERS, "alpha": LEARNERS["finetune"]}
    monkeypatch.setattr(comparison_cells, "LEARNERS", known)
    names = [str(cell) for cell in choose_cells("all")]
    assert names[:3] == ["finetune:gcn", "finetune:gat", "finetune:gin"]
    assert names[-4:] == ["alpha:gcn", "alpha:gat", "alpha:gin", "zeta"]
    order = list(dict.fromkeys(name.partition(":")[0] for name in names[:-4]))
    assert order == [name for name in comparison_cells.ORDER if name in LEARNERS]
    backbones = sum("backbone" in declared_params(learner) for learner in known.values())
    assert len(names) == len(known) + 2 * backbones
    assert choose_cells(["ncm,joint:gat", "joint"], "gin") == [
        Cell("joint", "gat"),
        Cell("joint", "gin"),
        Cell("ncm", None),
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": "ncm,nmc"}, "unknown method 'nmc'; did you mean 'ncm'"),
        ({"methods": "ncm:gcn"}, "ncm has no backbone"),
        ({"methods": "finetune:gct"}, "unknown backbone 'gct'"),
        ({"methods": "finetune:"}, "unknown backbone ''"),
        ({"methods": "finetune", "backbones": ""}, "finetune needs a backbone"),
        ({"backbones": "gcn,sage"}, "unknown backbone 'sage'"),
        ({"methods": " , "}, "no method given"),
        ({"settings": {"epochs": 3}}, "write METHOD.epochs"),
        ({"settings": {"joint.epochs": 3}}, "not compared; compared: finetune, ncm"),
        ({"settings": {"finetune.epoch": 3}}, "did you mean 'epochs'"),
        ({"settings": {"finetune.epochs": 0}}, "greater than or equal to 1"),
        ({"settings": {"finetune.backbone": "gat"}}, "write finetune:gat among the methods"),
        ({"settings": {"data.nodes": 3}}, "data set synthetic has no 'nodes'"),
        ({"seeds": 0}, "seeds must be"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"tasks": "0,0"}, "lists class 0 twice"),
        ({"edges": "all"}, "unknown edges"),
    ],
)
def test_a_wrong_argument_stops_it_before_anything_runs(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        quick(tmp_path / "runs", **changes)
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path, ran: list[str]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="choose another --out"):
        quick(tmp_path / "runs", out=tmp_path / "file" / "out")
    assert ran == []


def test_a_cell_that_fails_does_not_take_the_others_with_it(tmp_path: Path, ran: list[str]) -> None:
    first = quick(tmp_path, methods="finetune,ncm", backbones="gcn,gin")
    gcn, gin, ncm = (Path(row["run"]) for row in first["rows"])
    for folder in (gcn, gin):
        (folder / "seed-0" / "result.json").unlink()
    (gcn / "seed-0" / "checkpoint.json").write_text("{")
    for file in (gin / "seed-0").iterdir():
        file.unlink()
    (gin / "seed-0" / "log.jsonl").mkdir()
    (ncm / "seed-0" / "result.json").write_text("{}")
    again = quick(tmp_path, methods="finetune,ncm,probe", backbones="gcn,gin")
    errors = {row["name"]: row["error"] for row in again["rows"]}
    assert "is damaged (it is not JSON)" in errors["finetune-gcn"]
    assert errors["finetune-gin"].startswith("IsADirectoryError: ")
    assert errors["ncm"] == "KeyError: 'matrix'"
    assert errors["probe"] is None
    assert [row["am"] is None for row in again["rows"]] == [True, True, False, True]
    (gin / "seed-0" / "log.jsonl").rmdir()
    mended = quick(tmp_path, methods="finetune:gin")
    assert scores(mended) == scores(first)[1:2]


def test_a_folder_in_use_fails_alone_and_folders_are_given_back(tmp_path: Path) -> None:
    first = quick(tmp_path)
    config = resolve_config("synthetic", method="ncm", settings=DATA)[0]
    with open_run_folder(Path(first["rows"][1]["run"]), config):
        errors = [row["error"] for row in quick(tmp_path)["rows"]]
    assert errors[0] is None
    assert "in use by another run" in errors[1]
    assert quick(tmp_path) == first


def test_interrupted_it_goes_on(tmp_path: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = quick(tmp_path / "whole", seeds=2)
    ran.clear()

    class Stop(BatchWatcher):
        def moved(self, progress: BatchProgress) -> None:
            if progress.done == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quick(tmp_path / "broken", seeds=2, watcher=Stop())
    assert len(ran) == 3
    assert not list((tmp_path / "broken").glob("*/comparison.json"))
    assert scores(quick(tmp_path / "broken", seeds=2)) == scores(whole)
    assert len(ran) == 4
    assert not graphs, "the graph is not kept"


@pytest.mark.slow
def test_killed_with_two_workers_it_goes_on_and_gives_what_one_worker_gives(tmp_path: Path) -> None:
    settings = {**DATA, "hpn.preset": "paper", "hpn.epochs": 40}
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    words = [sys.executable, "-m", "hpn", "compare", "synthetic", "--methods", "hpn,ncm", "--seeds", "2"]
    words += ["--workers", "2", "--runs", str(tmp_path / "two"), *options]
    killed = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list((tmp_path / "two").glob("*/seed-*/checkpoint.json")):
        assert killed.poll() is None
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    choices = {"methods": "hpn,ncm", "settings": settings, "seeds": 2}
    resumed = quick(tmp_path / "two", workers=2, **choices)
    assert scores(resumed) == scores(quick(tmp_path / "one", **choices))


def test_a_killed_worker_costs_what_was_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    configs, _ = resolve_cells("synthetic", [Cell("ncm", None)], settings=DATA)
    jobs = [Job(configs[0], seed, Path(f"seed-{seed}"), None) for seed in range(6)]
    rounds: list[list[int]] = []

    def fake(function: Any, given: list[Job], *, workers: int, on_done: Any) -> None:
        rounds.append([job.seed for job in given])
        on_done(1, JobEnd(None, 1.0))
        if len(rounds) == 1:
            raise WorkerError("a worker process ended")
        for index in {*range(len(given))} - {1}:
            on_done(index, JobEnd(None, 1.0))

    monkeypatch.setattr(jobs_module, "run_parallel", fake)
    seen: list[BatchProgress] = []
    watcher = BatchWatcher()
    monkeypatch.setattr(watcher, "moved", seen.append)
    ended: dict[int, str | None] = {}
    batch = Batch(jobs, workers=2, total=8, watcher=watcher)
    batch.run(lambda job, error: ended.update({job.seed: error}))
    assert rounds == [[0, 1, 2, 3, 4, 5], [3, 4, 5]]
    assert {seed for seed, error in ended.items() if error} == {0, 2}
    assert [progress.done for progress in seen] == [2, 3, 4, 5, 6, 7, 8]
    assert seen[0].running == ("ncm seed 0", "ncm seed 1")
    assert seen[1].running == ("ncm seed 0", "ncm seed 2")
    assert seen[-1].remaining == 0
    assert seen[2].error == "a worker process ended"


def test_long_jobs_come_first(tmp_path: Path, ran: list[str]) -> None:
    settings = {**DATA, "finetune.epochs": 2, "joint.epochs": 2}
    settings |= {"hpn.preset": "paper", "hpn.epochs": 1, "hpn.batch_size": 4000}
    quick(tmp_path, methods="finetune:gcn,finetune:gat,joint:gat,hpn", settings=settings)
    assert ran == ["joint gat seed 0", "finetune gat seed 0", "finetune gcn seed 0", "hpn seed 0"]


def test_remarks_of_learners_do_not_run_through_the_progress(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"preset": "paper", "num_extractors": 1, "epochs": 1}
    quick(
        tmp_path, methods="hpn", settings={**DATA, **{f"hpn.{key}": value for key, value in settings.items()}}
    )
    assert not caplog.records
    run("synthetic", settings={**DATA, **settings}, out=tmp_path / "alone")
    assert "shares the extractors of earlier tasks" in caplog.text, "a run by itself says it"


def test_a_process_loads_the_graph_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []

    def counting(dataset: str, data_root: Path | None) -> Any:
        loads.append(dataset)
        return find(dataset, data_root)

    find = graphs_module.find_loader
    monkeypatch.setattr(graphs_module, "find_loader", counting)
    quick(tmp_path, seeds=2)
    assert loads == [], "this process has it"
    configs, _ = resolve_cells("synthetic", choose_cells(METHODS), settings=SETTINGS)
    for config in configs:
        folder = tmp_path / config.method
        folder.mkdir()
        assert run_job(Job(config, 0, folder, None)).error is None
    graphs.clear()
    assert loads == ["synthetic"]


def test_the_papers_numbers_stand_beside_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = published_cell("cora", "finetune", "gcn")
    assert cell is not None
    monkeypatch.setattr(
        comparison_module, "published_cell", lambda _, method, __: cell if method == "finetune" else None
    )
    order = (3, 2, 1, 0)
    plan = comparison_module.plan_tasks

    def own_order(graph: hpn.Graph, tasks: str) -> Any:
        assert tasks == "paper"
        return plan(graph, (order[:2], order[2:]))

    monkeypatch.setattr(comparison_module, "plan_tasks", own_order)
    beside = quick(tmp_path, tasks="3,2;1,0")
    assert beside["note"] is None
    ours, other = beside["rows"]
    assert ours["published"] == {"am": {"mean": 63.5, "std": 1.9}, "fm": {"mean": -42.3, "std": 0.4}}
    assert ours["difference"] == ours["am"]["mean"] - 63.5
    assert (other["published"], other["difference"]) == (None, None)
    for protocol, why in (
        ({"tasks": "0,1;2,3"}, "own tasks in its own order"),
        ({"tasks": "3,2;1,0", "edges": "seen"}, "edges within a task"),
        ({"tasks": "3,2;1,0", "scenario": "class"}, "task-incremental"),
        (
            {"tasks": "3,2;1,0", "methods": "ncm", "settings": DATA},
            "the paper has none for these methods on synthetic",
        ),
    ):
        without = quick(tmp_path, **protocol)
        assert why in without["note"]
        assert all(row["published"] is None for row in without["rows"])
    assert isinstance(cell.am, Spread)


def test_the_command_repeats_it_and_its_folder_depends_on_the_protocol(tmp_path: Path) -> None:
    first = quick(tmp_path, seeds=[3], use_recipes=False)
    assert first["command"] == (
        "hpn compare synthetic --methods finetune:gcn,ncm --scenario task --edges within --evaluate oracle "
        "--tasks '{}' --seed 3 --set data.num_nodes=120 --set data.num_links=400 --set data.num_classes=4 "
        "--set finetune.epochs=3 --no-recipe".format(";".join(",".join(map(str, t)) for t in first["tasks"]))
    )
    ncm = {"methods": "ncm", "settings": DATA}
    assert quick(tmp_path, **ncm)["out"] == first["out"]
    assert quick(tmp_path, **ncm, edges="seen")["out"] != first["out"]
    assert quick(tmp_path, **ncm, out=tmp_path / "here")["out"] == str(tmp_path / "here")


def test_a_cluster_gives_the_table_of_this_machine(tmp_path: Path, fake: Any) -> None:
    here, there = quick(tmp_path / "here"), quick(tmp_path / "there", ray="local")
    assert scores(there) == scores(here)
    assert len(fake.begun) == 2
    assert there["command"] == here["command"], "where it ran is no part of what was run"


@pytest.mark.slow
def test_a_real_cluster_gives_the_table_of_this_machine(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    assert scores(quick(tmp_path / "there", ray="local")) == scores(quick(tmp_path / "here"))
