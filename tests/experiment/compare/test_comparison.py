from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpn.errors import ConfigError, RunFolderError
from hpn.experiment.compare import table as comparison_module
from hpn.experiment.compare.cells import ORDER, MethodCell, choose_cells, resolve_cells
from hpn.experiment.compare.result import Comparison, load_comparison
from hpn.experiment.compare.table import compare
from hpn.experiment.published import published_cell
from hpn.experiment.run.config import resolve_config
from hpn.experiment.run.folder import open_run_folder
from hpn.experiment.run.result import load_result
from hpn.experiment.run.runner import Job, run
from hpn.experiment.watch import JobsProgress, Watcher
from hpn.learners import LEARNERS
from hpn.metrics import METRICS

DATA = {"data.num_nodes": 120, "data.num_links": 400, "data.num_classes": 4}
SETTINGS = {**DATA, "finetune.epochs": 3}
METHODS = "finetune:gcn,ncm"


def quick(runs: Path, **changes: Any) -> Comparison:
    return compare("synthetic", **{"methods": METHODS, "settings": SETTINGS, "runs": runs, **changes})


def scores(comparison: Comparison) -> list[Any]:
    return [[row.name, row.metrics, row.parameters, row.stored, row.error] for row in comparison.rows]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the jobs that ran, in this process."""
    names: list[str] = []
    work = Job.run

    def count(job: Job, *args: Any) -> Any:
        names.append(str(job))
        return work(job, *args)

    monkeypatch.setattr(Job, "run", count)
    return names


def test_the_table(tmp_path: Path) -> None:
    comparison = quick(tmp_path, seeds=2)
    assert load_comparison(Path(comparison.out)) == comparison
    assert Path(comparison.out).parent == tmp_path
    written = comparison.to_json()
    assert set(METRICS) < set(written["rows"][0])
    assert (comparison.seeds, comparison.stream, written["schema"]) == ([0, 1], "tasks", 1)
    assert [row.name for row in comparison.rows] == ["finetune-gcn", "ncm"]
    for row in comparison.rows:
        result = load_result(Path(row.run))
        assert row.metrics == result.metrics
        for key in ("parameters", "stored", "prototypes", "recipe"):
            assert getattr(row, key) == getattr(result, key)
        assert row.seconds is not None
        assert row.seconds.fit == pytest.approx(result.seconds.fit / 2)
        assert (row.error, row.published, row.difference) == (None, None, None)
    assert comparison.published_parameters.values == {"finetune-gcn": 2336}


def test_joint_training_is_the_reference_for_intransigence(tmp_path: Path) -> None:
    settings = {**SETTINGS, "joint.epochs": 3}
    table = quick(tmp_path, methods="finetune,joint:gat,joint:gcn,ncm", backbones="gcn,gin", settings=settings)
    rows = {row.name: row for row in table.rows}
    found = {name: row.metrics["intransigence"] for name, row in rows.items()}
    assert {name for name, value in found.items() if value} == {"finetune-gcn", "ncm"}, "none with gin"
    reference = load_result(Path(rows["joint-gcn"].run))
    for name, choices in (
        ("finetune-gcn", {"method": "finetune", "settings": {**DATA, "epochs": 3}}),
        ("ncm", {"method": "ncm", "settings": DATA}),
    ):
        alone = run("synthetic", **choices, reference=reference.out, out=tmp_path / f"alone-{name}")
        assert alone.metrics["intransigence"] == found[name]
    again = quick(tmp_path, methods="ncm", settings=DATA)
    assert again.rows[0].metrics["intransigence"] is None, "results of runs do not change"


def test_a_finished_seed_is_not_run_again(tmp_path: Path, ran: list[str]) -> None:
    ncm = {"methods": "ncm", "settings": DATA}
    for changes, new in (
        ({"seeds": 2}, ["finetune gcn seed 0", "finetune gcn seed 1", "ncm seed 0", "ncm seed 1"]),
        ({"seeds": 2}, []),
        ({"seeds": 2, "methods": f"{METHODS},probe"}, ["probe seed 0", "probe seed 1"]),
        ({"seeds": 3}, ["finetune gcn seed 2", "ncm seed 2"]),
        ({**ncm, "fresh": True}, ["ncm seed 0"]),
    ):
        quick(tmp_path, **changes)
        assert sorted(ran) == new
        ran.clear()


def test_runs_and_comparisons_share_their_folders(
    tmp_path: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    alone = run("synthetic", method="finetune", backbone="gcn", settings={**DATA, "epochs": 3}, seeds=2)
    before = (Path(alone.out) / "result.json").read_bytes()
    ran.clear()
    row = quick(Path("runs"), seeds=2).rows[0]
    assert ran == ["ncm seed 0", "ncm seed 1"]
    assert (row.run, row.metrics) == (alone.out, alone.metrics)
    assert (Path(alone.out) / "result.json").read_bytes() == before, "nothing new, nothing written"
    times = {path: path.stat().st_mtime_ns for path in Path("runs").glob("*-ncm-*/seed-*/log.jsonl")}
    run("synthetic", method="ncm", settings=DATA, seeds=2)
    assert {path: path.stat().st_mtime_ns for path in times} == times, "and nothing learned again"


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
    configs, _ = resolve_cells("digits", cells, settings=settings, use_recipes=use_recipes, edges="seen")
    changed = {"joint": {"epochs": 7}, "finetune": {"epochs": 2}}
    for cell, config in zip(cells, configs, strict=True):
        own = {"data.neighbors": 5, **changed.get(cell.method, {})}
        choices = {"edges": "seen", "settings": own, "recipe": "auto" if use_recipes else None}
        expected, _ = resolve_config("digits", method=cell.method, backbone=cell.backbone, **choices)
        assert (config, config.recipe) == (expected, expected.recipe)
        assert config.default_folder() == expected.default_folder()
    tuned = {str(cell): config.recipe for cell, config in zip(cells, configs, strict=True) if config.recipe}
    assert tuned == ({"finetune:gin": "digits/finetune-gin"} if use_recipes else {})


def test_rows_are_in_the_papers_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEARNERS, "zeta", LEARNERS["ncm"])
    monkeypatch.setitem(LEARNERS, "alpha", LEARNERS["finetune"])
    names = [str(cell) for cell in choose_cells("all")]
    assert names[:3] == ["finetune:gcn", "finetune:gat", "finetune:gin"]
    assert names[-4:] == ["alpha:gcn", "alpha:gat", "alpha:gin", "zeta"]
    assert list(dict.fromkeys(name.partition(":")[0] for name in names[:-4])) == list(ORDER)
    assert choose_cells(["ncm,joint:gat", "joint"], "gin") == [
        MethodCell("joint", "gat"),
        MethodCell("joint", "gin"),
        MethodCell("ncm", None),
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": "ncm,nmc"}, "unknown method 'nmc'; did you mean 'ncm'"),
        ({"methods": "ncm:gcn"}, "ncm has no backbone"),
        ({"methods": "finetune:gct"}, "unknown backbone 'gct'"),
        ({"methods": "finetune", "backbones": ""}, "finetune needs a backbone"),
        ({"backbones": "gcn,sage"}, "unknown backbone 'sage'"),
        ({"methods": "my_mean"}, "unknown method 'my_mean'"),
        ({"stream": "tme"}, "unknown stream 'tme'; did you mean 'time'"),
        ({"methods": " , "}, "no method given"),
        ({"settings": {"epochs": 3}}, "write METHOD.epochs"),
        ({"settings": {"joint.epochs": 3}}, "not compared; compared: finetune, ncm"),
        ({"settings": {"finetune.epoch": 3}}, "did you mean 'epochs'"),
        ({"settings": {"finetune.backbone": "gat"}}, "write finetune:gat among the methods"),
        ({"settings": {"data.nodes": 3}}, "data set synthetic has no 'nodes'"),
        ({"seeds": 0}, "seeds must be"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"tasks": "0,0"}, "lists class 0 twice"),
    ],
)
def test_a_wrong_argument_stops_it_before_anything_runs(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        quick(tmp_path / "runs", **changes)
    assert not (tmp_path / "runs").exists()


def test_a_cell_that_fails_does_not_stop_the_others(tmp_path: Path, ran: list[str]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="choose another --out"):
        quick(tmp_path, out=tmp_path / "file" / "out")
    assert ran == []
    first = quick(tmp_path, methods="finetune,ncm", backbones="gcn,gin")
    gcn, gin, ncm = (Path(row.run) for row in first.rows)
    for folder in (gcn, gin):
        (folder / "seed-0" / "result.json").unlink()
    (gcn / "seed-0" / "checkpoint.json").write_text("{")
    for file in (gin / "seed-0").iterdir():
        file.unlink()
    (gin / "seed-0" / "log.jsonl").mkdir()
    (ncm / "seed-0" / "result.json").write_text("{}")
    again = quick(tmp_path, methods="finetune,ncm,probe", backbones="gcn,gin")
    errors = {row.name: row.error for row in again.rows}
    assert "is damaged (it is not JSON)" in errors["finetune-gcn"]
    assert errors["finetune-gin"].startswith("IsADirectoryError: ")
    assert "result.json is damaged (parameters: field required)" in errors["ncm"]
    assert errors["probe"] is None
    assert [row.metrics["am"] is None for row in again.rows] == [True, True, False, True]
    (gin / "seed-0" / "log.jsonl").rmdir()
    fixed = quick(tmp_path, methods="finetune:gin")
    assert scores(fixed) == scores(first)[1:2]


def test_a_folder_in_use_fails_alone_and_folders_are_released(tmp_path: Path) -> None:
    first = quick(tmp_path)
    config = resolve_config("synthetic", method="ncm", settings=DATA)[0].to_json()
    with open_run_folder(Path(first.rows[1].run), config):
        errors = [row.error for row in quick(tmp_path).rows]
    assert errors[0] is None
    assert "in use by another run" in errors[1]
    assert quick(tmp_path) == first


def test_interrupted_it_resumes(tmp_path: Path, ran: list[str]) -> None:
    whole = quick(tmp_path / "whole", seeds=2)
    ran.clear()

    class Stop(Watcher):
        def jobs_moved(self, progress: JobsProgress) -> None:
            if progress.done == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quick(tmp_path / "broken", seeds=2, watcher=Stop())
    assert len(ran) == 3
    assert not list((tmp_path / "broken").glob("*/comparison.json"))
    assert scores(quick(tmp_path / "broken", seeds=2)) == scores(whole)
    assert len(ran) == 4


def test_the_papers_numbers_are_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell, plan = published_cell("cora", "finetune", "gcn"), comparison_module.plan_tasks
    monkeypatch.setattr(
        comparison_module, "published_cell", lambda _, method, __: cell if method == "finetune" else None
    )
    monkeypatch.setattr(comparison_module, "plan_tasks", lambda graph, _: plan(graph, ((3, 2), (1, 0))))
    beside = quick(tmp_path, tasks="3,2;1,0")
    assert beside.note is None
    ours, other = beside.rows
    assert ours.published == cell
    assert ours.difference == ours.metrics["am"].mean - 63.5
    assert (other.published, other.difference) == (None, None)
    for protocol, why in (
        ({"tasks": "0,1;2,3"}, "own tasks in its own order"),
        ({"tasks": "3,2;1,0", "edges": "seen"}, "edges within a task"),
        ({"tasks": "3,2;1,0", "scenario": "class"}, "task-incremental"),
        ({"tasks": "3,2;1,0", "methods": "ncm", "settings": DATA}, "the paper has none for these methods on synthetic"),
    ):
        without = quick(tmp_path, **protocol)
        assert why in (without.note or "")
        assert all(row.published is None for row in without.rows)


def test_the_command_repeats_it_and_its_folder_depends_on_the_protocol(tmp_path: Path) -> None:
    first = quick(tmp_path, seeds=[3], use_recipes=False)
    assert first.command == (
        "hpn compare synthetic --methods finetune:gcn,ncm --scenario task --edges within --evaluate oracle "
        "--tasks '{}' --seed 3 --set data.num_nodes=120 --set data.num_links=400 --set data.num_classes=4 "
        "--set finetune.epochs=3 --no-recipe".format(";".join(",".join(map(str, t)) for t in first.tasks))
    )
    ncm = {"methods": "ncm", "settings": DATA}
    assert quick(tmp_path, **ncm).out == first.out
    assert quick(tmp_path, **ncm, edges="seen").out != first.out
    assert quick(tmp_path, **ncm, out=tmp_path / "here").out == str(tmp_path / "here")


def test_a_cluster_gives_the_table_of_this_machine(tmp_path: Path, fake: Any) -> None:
    here, there = quick(tmp_path / "here"), quick(tmp_path / "there", ray="local")
    assert scores(there) == scores(here)
    assert len(fake.begun) == 2
    assert there.command == here.command


def test_a_stream_by_time_leaves_out_methods_that_need_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LEARNERS["ncm"], "needs_tasks", True)
    assert MethodCell("ncm", None) in choose_cells("all")
    assert MethodCell("ncm", None) not in choose_cells("all", stream="time")
    assert MethodCell("ridge", None) in choose_cells("all", stream="time")
    with pytest.raises(ConfigError, match="ncm needs tasks, which --stream time does not have"):
        quick(tmp_path / "runs", methods="ncm", settings=DATA, stream="time")
    assert not (tmp_path / "runs").exists()


def test_a_learner_of_ones_own_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_means.py").write_text("from hpn.learners import NCM\nclass Mine(NCM):\n    '''Mine.'''\n")
    table = quick(tmp_path / "runs", methods="my_means:Mine,ncm", settings=None)
    assert [row.method for row in table.rows] == ["ncm", "my_means:Mine"]
    assert table.rows[0].metrics == table.rows[1].metrics
    assert quick(tmp_path / "runs", methods="my_means:Mine", settings=None).out == table.out
