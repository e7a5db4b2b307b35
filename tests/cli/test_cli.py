"""The command line as a user meets it: exit codes, one line on standard error, one JSON object."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpn.learners import LEARNERS

Cli = Callable[..., tuple[int, str, str]]

SMALL = (
    "synthetic", "--set", "data.num_nodes=120", "--set", "data.num_links=400", "--set", "data.num_classes=4"
)  # fmt: skip


def write_npz(path: Path, **changes: Any) -> Path:
    rng = np.random.default_rng(0)
    n = 30
    arrays = {
        "adj_indptr": np.arange(n + 1),
        "adj_indices": (np.arange(n) + 1) % n,
        "adj_shape": np.array([n, n]),
        "attr_matrix": rng.normal(size=(n, 4)),
        "labels": np.arange(n) % 3,
    }
    arrays = {key: value for key, value in {**arrays, **changes}.items() if value is not None}
    np.savez(path, **arrays)
    return path


def write_tables(folder: Path, nodes: str, edges: str) -> str:
    folder.mkdir()
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)
    return str(folder)


NODES = "id,label,f,g\n" + "".join(f"n{i},{'ab'[i % 2]},{i}.5,{i % 3}\n" for i in range(12))
EDGES = "source,target\n" + "".join(f"n{i},n{(i + 1) % 12}\n" for i in range(12))


def test_one_json_object_on_standard_output(cli: Cli) -> None:
    code, out, err = cli("run", *SMALL, "--method", "ncm", "--seeds", "2", "--json")
    assert code == 0
    result = json.loads(out)
    assert out.count("\n") == 1
    expected = {"schema": 1, "dataset": "synthetic", "method": "ncm", "seeds": [0, 1]}
    assert {key: result[key] for key in expected} == expected
    assert len(result["matrices"]) == 2
    assert "seed 1: task 2/2 learned" in err
    assert Path(result["out"]).is_dir()


def test_quiet_is_quiet_and_the_table_is_printed(cli: Cli) -> None:
    code, out, err = cli("run", *SMALL, "--method", "finetune", "--backbone", "gin", "--set", "epochs=3", "--quiet")
    assert (code, err) == (0, "")
    for word in ("finetune gin on synthetic", "AM", "FM", "ARS", "after task", "run folder: runs/"):
        assert word in out


def test_every_option_is_taken(cli: Cli) -> None:
    code, out, err = cli(
        "run", *SMALL, "--method", "finetune", "--backbone", "gat", "--scenario", "class", "--edges", "seen",
        "--evaluate", "grouped", "--tasks", "3,1;0,2", "--seed", "7", "--set", "epochs=2", "--out", "here",
        "--json", "--quiet",
    )  # fmt: skip
    assert (code, err) == (0, "")
    result = json.loads(out)
    expected = {"backbone": "gat", "scenario": "class", "edges": "seen", "evaluate": "grouped", "seeds": [7]}
    assert {key: result[key] for key in expected} == expected
    assert result["tasks"] == [[3, 1], [0, 2]]
    assert result["out"] == "here"


def test_the_commands_own_words_repeat_it(cli: Cli) -> None:
    import shlex

    _, first, _ = cli("run", *SMALL, "--method", "finetune", "--set", "epochs=3", "--seed", "2", "--json", "--quiet")
    result = json.loads(first)
    words = shlex.split(result["command"])[1:]
    _, second, _ = cli(*words, "--json", "--quiet", "--out", "again")
    assert json.loads(second)["matrices"] == result["matrices"]


def test_evaluation_ahead_a_reference_and_streams(cli: Cli, tmp_path: Path) -> None:
    joint = ("run", *SMALL, "--method", "joint", "--set", "epochs=3", "--out", "joint", "--quiet")
    assert cli(*joint)[0] == 0
    run = ("run", *SMALL, *FINETUNE, "--json", "--quiet", "--evaluate-ahead", "--reference", "joint")
    result = json.loads(cli(*run)[1])
    assert [len(row) for row in result["matrices"][0]] == [2, 2]
    assert (result["stream"], result["reference"]) == ("tasks", "joint")
    assert None not in (result["fwt"], result["intransigence"])
    assert json.loads(cli(*run)[1]) == result, "found without running"
    times = str(write_npz(tmp_path / "times.npz", node_time=np.repeat(np.arange(3), 10)))
    for words in ("run TIMES --method ncm", "compare TIMES --methods ncm", "tune TIMES --method ncm --trials 1"):
        code, out, err = cli(*words.replace("TIMES", times).split(), "--stream", "time", "--json", "--quiet")
        assert (code, err) == (0, "")
        found = json.loads(out)
        assert (found["stream"], found["scenario"], found["evaluate"]) == ("time", "class", "global")


BAD = {
    "run TABLES": "line 14, column 'target': 'nobody'",
    "run NPZ": "feature 0 of node 0 is nan",
    "run coar": "did you mean 'cora'",
    "run cora --data-root none": "cannot download (no network); put ind.cora.",
    "run SMALL --method prob": "did you mean 'probe'",
    "run SMALL --set learning_rate=1": "hpn has no 'learning_rate'",
    "run SMALL --set epochs": "expected KEY=VALUE",
    "run SMALL --set balance=2": "less than or equal to 1",
    "run SMALL --set data.homophily=2": "homophily",
    "run SMALL --tasks 0,0": "lists class 0 twice",
    "run SMALL --edges all": "known: within, seen",
    "run SMALL --stream tme": "unknown stream 'tme'; did you mean 'time'",
    "run SMALL --scenario task --evaluate global": "--scenario class",
    "run SMALL --method ncm --out NPZ/run": "choose another --out",
    "run SMALL --seeds 2 --seed 1": "not both",
    "run SMALL --seeds 0": "at least 1",
    "run SMALL --seed -1": "from 0 up",
    "run SMALL --seeds two": "valid integer",
    "run SMALL --sede 1": "--sede",
    "run SMALL --classes-per-task 0": "at least 1",
    "run SMALL --method ncm --views": "ncm has no representations to view; use hpn",
    "run SMALL --recipe mine.yaml --no-recipe": "give --recipe FILE or --no-recipe, not both",
    "run SMALL --device gpu": "unknown device 'gpu'; known: cpu, cuda, cuda:N, mps, auto",
    "compare SMALL --device cuda": "device 'cuda' is not available; available: cpu (or use auto)",
    "tune SMALL --device gpu": "unknown device 'gpu'",
    "reproduce memory --datasets digits --device gpu": "unknown device 'gpu'",
    "compare SMALL --methods nmc": "did you mean 'ncm'",
    "compare SMALL --backbones gct": "unknown backbone",
    "compare SMALL --set epochs=1": "METHOD.epochs",
    "compare SMALL --workers 0": "at least 1",
    "compare SMALL --workers 2 --ray auto": "give --workers N or --ray ADDRESS, not both: a cluster uses the cores",
    "tune SMALL --method finetune --trials 0": "trials must be at least 1, got 0",
    "leaks digits --method nmc": "unknown method 'nmc'; did you mean 'ncm'?",
    "reproduce nonsense": "unknown experiment 'nonsense'",
    "reproduce list all": "list cannot be combined",
    "reproduce all --datasets nowhere.npz": "nowhere.npz",
    "reproduce all --seeds 0": "--seeds must be at least 1",
    "reproduce": "Missing argument 'NAME'",
    "report nothing": "hpn: nothing",
    "import synthetic TABLES": "exists",
    "import synthetic s --features int8": "float32 or float16",
    "import synthetic s --missing mean": "data set synthetic has no 'missing'",
    "import nothing s": "no data set or file",
    "datasets info digitz": "did you mean 'digits'",
    "theory bound --dim 0 --threshold 0.3": "dim must be at least 1",
    "theory bound --dim 2 --threshold 0": "above 0 and at most 2",
    "theory bound --dim 2 --threshold 0.3 --extractors 0": "1 extractor",
    "theory choose --budget much": "1MB",
    "theory choose --budget 0": "1MB",
    "theory check nowhere": "not a run folder",
    "theory retention nothing": "nothing",
    "theory plot --dim 2 --out no/such/folder.svg": "--out",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input_is_one_line_code_2_and_nothing_written(
    cli: Cli, tmp_path: Path, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(*_: object, **__: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    write_npz(tmp_path / "NPZ.npz", attr_matrix=np.full((30, 4), np.nan))
    write_tables(tmp_path / "TABLES", NODES, EDGES + "n1,nobody\n")
    before = sorted(tmp_path.rglob("*"))
    code, out, err = cli(*words.replace("SMALL", " ".join(SMALL)).replace("NPZ", "NPZ.npz").split())
    *progress, line = err.splitlines()
    assert (code, out) == (2, "")
    assert line.startswith("hpn: ")
    assert BAD[words] in line
    assert not any(line.startswith(("hpn:", "Traceback")) for line in progress)
    assert sorted(tmp_path.rglob("*")) == before


def test_another_configuration_and_a_newer_version(cli: Cli, tmp_path: Path) -> None:
    assert cli("run", *SMALL, "--method", "ncm", "--out", "run")[0] == 0
    code, _, err = cli("run", *SMALL, "--method", "probe", "--out", "run", "--quiet")
    assert code == 2
    assert "another configuration" in err
    assert "method: ncm there, probe now" in err
    (tmp_path / "run" / "seed-0" / "result.json").unlink()
    checkpoint = tmp_path / "run" / "seed-0" / "checkpoint.json"
    checkpoint.write_text(json.dumps({**json.loads(checkpoint.read_text()), "format": 9}))
    code, _, err = cli("run", *SMALL, "--method", "ncm", "--out", "run", "--quiet")
    assert (code, err.count("\n")) == (2, 1)
    assert "format 9" in err
    assert cli("run", *SMALL, "--method", "ncm", "--out", "run", "--fresh")[0] == 0


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device"), "no space left to write"),
        (OSError(5, "Input/output error"), "error; fix that, and run the same command again"),
        (OSError("the disk is gone; mount it and run the same command again"), "is gone; mount it and run the"),
    ],
)
def test_a_disk_that_fails_is_one_line_with_one_advice_and_code_1(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: OSError, message: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("hpn.experiment.run.seed.save_checkpoint", fail)
    code, _, err = cli("run", *SMALL, "--method", "ncm", "--quiet")
    assert (code, err.count("\n"), err.count("run the same command again")) == (1, 1, 1)
    assert message in err


def test_what_is_not_an_error(cli: Cli, tmp_path: Path) -> None:
    """Isolated nodes, self-loops, duplicate and directed edges, one-class tasks, unlabelled nodes."""
    lonely = "lonely,a,1,1\nunknown,,2,2\n"
    odd = EDGES + "n1,n1\nn1,n2\nn2,n1\nunknown,n1\n"
    folder = write_tables(tmp_path / "d", NODES + lonely, odd)
    code, out, err = cli("run", folder, "--method", "ncm", "--tasks", "a;b", "--json", "--quiet")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert (result["am"], result["matrices"]) == (None, [[[100.0], [100.0, 100.0]]]), "one class at a time"


def test_datasets(cli: Cli) -> None:
    code, out, _ = cli("datasets")
    assert code == 0
    assert "ogbn-products  2,449,029  61,859,140" in out
    rows = {row["name"]: row for row in json.loads(cli("datasets", "--json")[1])}
    assert rows["digits"]["on_disk"] == "built in"
    assert rows["cora"]["edges"] == 5429


def test_dataset_info(cli: Cli) -> None:
    code, out, _ = cli("datasets", "info", "digits", "--classes-per-task", "3")
    assert code == 0
    assert "1,797 nodes" in out
    assert "in no task: 9 9 (180)" in out
    info = json.loads(cli("datasets", "info", "digits", "--json")[1])
    assert [len(task["classes"]) for task in info["tasks"]] == [2] * 5
    assert sum(task["train"] + task["val"] + task["test"] for task in info["tasks"]) == 1797


def test_methods_lists_every_hyper_parameter(cli: Cli) -> None:
    code, out, _ = cli("methods")
    assert code == 0
    assert "--set weight_decay=0.0005" in out
    assert "Strength of the L2 penalty on all weights" in out
    described = json.loads(cli("methods", "--json")[1])
    assert set(described) == {*LEARNERS, "hpn preset=paper"}
    assert described["hpn preset=paper"]["params"]["dim"] == 16
    assert all(list(entry["meanings"]) == list(entry["params"]) for entry in described.values())


@pytest.mark.parametrize("command", ["run", "fit", "reproduce", "datasets", "theory bound"])
def test_flags_are_shown_as_flags(cli: Cli, command: str) -> None:
    _, out, _ = cli(*command.split(), "--help")
    assert "--json" in out
    assert "bool" not in out.lower()
    assert not re.search(r"--no-(?!recipe)", out)


def test_report_takes_runs_and_comparisons_and_skips_what_has_no_result(cli: Cli, tmp_path: Path) -> None:
    methods = ("--methods", "ncm,probe", "--workers", "1", "--quiet")
    assert cli("compare", *SMALL, *methods, "--out", "runs/table")[0] == 0
    (tmp_path / "runs" / "empty").mkdir()
    code, out, err = cli("report", *(str(path) for path in sorted((tmp_path / "runs").iterdir())), "--out", "all.html")
    assert (code, out) == (0, "all.html\n")
    assert err == f"hpn: {tmp_path}/runs/empty is not a run, comparison or tuning folder; skipped\n"
    page = (tmp_path / "all.html").read_text()
    assert "Methods compared on synthetic" in page
    assert "<svg" in page
    assert page.count("<article") == 2, "its runs, once each"
    assert cli("report", "runs/empty")[0] == 2


FINETUNE = ("--method", "finetune", "--backbone", "gcn", "--set", "epochs=3")
COMPARE = ("compare", *SMALL, "--methods", "finetune:gcn", "--set", "finetune.epochs=2", "--workers", "1")


def test_compare(cli: Cli, tmp_path: Path) -> None:
    code, out, err = cli(*COMPARE, "--methods", "ncm,probe", "--seeds", "2")
    assert code == 0
    assert err.splitlines()[0] == "0/6: nothing finished before"
    assert "seed 1 done" in err
    for word in ("synthetic · task-incremental", "finetune · gcn", "AM", "stored", "probe", "left out"):
        assert word in out
    (folder,) = tmp_path.glob("runs/compare-*")
    names = {path.name for path in folder.iterdir()}
    assert names == {"comparison.json", "comparison.csv", "comparison.md", "comparison.html"}
    code, out, err = cli(*COMPARE, "--methods", "ncm", "--seed", "1", "--json", "--quiet", "--out", "here")
    assert (code, err, out.count("\n")) == (0, "", 1)
    comparison = json.loads(out)
    assert [row["method"] for row in comparison["rows"]] == ["finetune", "ncm"]
    assert comparison["schema"] == 1
    assert (comparison["seeds"], comparison["out"]) == ([1], "here")
    code, _, err = cli(*COMPARE, "--methods", "ncm", "--seeds", "2")
    assert (code, err) == (0, "4/4: 4 finished before\n")


def test_compare_says_what_failed_and_ends_with_code_1(cli: Cli, tmp_path: Path) -> None:
    assert cli(*COMPARE, "--methods", "ncm", "--quiet")[0] == 0
    (run,) = tmp_path.glob("runs/*-ncm-*")
    (run / "seed-0" / "result.json").write_text("{")
    code, out, err = cli(*COMPARE, "--methods", "ncm", "--quiet")
    assert (code, err) == (1, "hpn: 1 of 2 cells failed; the same command tries them again\n")
    assert "ncm failed: " in out
    code, out, _ = cli(*COMPARE, "--methods", "ncm", "--quiet", "--json")
    assert code == 1
    assert [row["error"] is None for row in json.loads(out)["rows"]] == [True, False]


def test_version_help_and_no_command(cli: Cli) -> None:
    import hpn

    lines = cli("--version")[1].splitlines()
    assert re.fullmatch(rf"hpn {re.escape(hpn.__version__)}( \(commit [0-9a-f]+(-dirty)?\))?", lines[0])
    assert [line.split()[0] for line in lines[1:]] == ["Python", "torch", "torch_geometric"]
    assert "Usage" in cli("--help")[1]
    assert cli("theory") == cli("theory", "--help")
    assert "Usage" in cli("run", "-h")[1]
    assert "Usage" in "".join(cli()[1:])


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_is_clean_and_the_second_run_is_refused(cli: Cli, tmp_path: Path) -> None:
    words = ["run", *SMALL, "--set", "preset=paper", "--set", "epochs=100000", "--out", str(tmp_path / "run")]
    first = subprocess.Popen(
        [sys.executable, "-m", "hpn", *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    while not (tmp_path / "run" / "seed-0" / "checkpoint.json").exists():
        assert first.poll() is None, first.communicate()
        time.sleep(0.05)
    code, _, err = cli(*words)
    assert (code, err.count("\n")) == (2, 1)
    assert "in use by another run" in err
    first.send_signal(signal.SIGTERM)
    _, err = first.communicate(timeout=60)
    assert first.returncode == 1
    assert err.splitlines()[-1] == "hpn: interrupted; the same command resumes from the last checkpoint"
    assert "Traceback" not in err


def test_tune_prints_one_json_object_and_its_recipe_can_be_run(cli: Cli, tmp_path: Path) -> None:
    words = ("tune", *SMALL, "--method", "finetune", "--trials", "2", "--seeds", "1", "--final-seeds", "1")
    words += ("--workers", "1", "--set", "epochs=3", "--out", "tune", "--recipe-out", "mine.yaml")
    code, out, err = cli(*words, "--json")
    assert (code, out.count("\n")) == (0, 1)
    tuned = json.loads(out)
    assert (len(tuned["trials"]), tuned["settings"]["epochs"], tuned["out"]) == (2, 3, "tune")
    assert err.splitlines()[0] == "0/2 trials"
    assert "2/2 trials, best validation AM" in err.splitlines()[-1]
    code, out, err = cli(*words, "--quiet")
    assert (code, err) == (0, "")
    for word in ("finetune gcn on synthetic", "epochs=3", "best of 2 trials", "test AM", "recipe: tune/"):
        assert word in out
    code, out, _ = cli("run", *SMALL, "--method", "finetune", "--recipe", "mine.yaml", "--quiet")
    assert code == 0
    assert "recipe mine.yaml" in " ".join(out.split())
    assert (tmp_path / "mine.yaml").read_text() == (tmp_path / "tune" / "recipe.yaml").read_text()
    code, out, err = cli("run", *SMALL, "--method", "ncm", "--recipe", "mine.yaml", "--out", "no")
    assert (code, out) == (2, "")
    assert err == "hpn: recipe mine.yaml is for method finetune, but this run has ncm\n"


def test_a_packaged_recipe_is_used_listed_and_can_be_left_out(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpn.experiment.recipes.FOLDER", tmp_path / "recipes")
    assert "no packaged recipes" in cli("recipes")[1]
    (tmp_path / "recipes").mkdir()
    file = tmp_path / "recipes" / "synthetic.yaml"
    file.write_text("{dataset: synthetic, method: ncm, scenario: task, settings: {max_hops: 1}}")
    assert "max_hops=1" in cli("recipes")[1]
    assert [recipe["settings"] for recipe in json.loads(cli("recipes", "--json")[1])] == [{"max_hops": 1}]
    for words, expected in (((), (1, "synthetic/ncm")), (("--no-recipe",), (3, None))):
        result = json.loads(cli("run", *SMALL, "--method", "ncm", "--json", "--quiet", *words)[1])
        assert (result["params"]["max_hops"], result["recipe"]) == expected
    file.write_text("settings: [1")
    code, out, err = cli("run", *SMALL, "--method", "ncm")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "synthetic.yaml is not YAML" in err


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupted_search_leaves_one_line_and_no_workers(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "hpn", "tune", *SMALL, "--method", "finetune", "--set", "epochs=1000000"]
    process = subprocess.Popen(
        [*words, "--workers", "2", "--out", str(tmp_path / "tune")],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "0/30 trials\n"
    time.sleep(1)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)  # until the workers are gone too
    assert (process.returncode, out) == (1, "")
    assert err == "hpn: interrupted; the same command resumes from the last checkpoint\n"


@pytest.fixture
def reproduced(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The requests of ``hpn reproduce``; nothing is run."""
    calls: list[dict[str, Any]] = []

    def fake(names: list[str], **choices: Any) -> dict[str, Any]:
        calls.append({"names": names, **choices})
        failed = [{"run": "cora hpn", "folder": "runs/x", "error": "out of memory"}] if "memory" in names else []
        counts = {"within": 3, "better": 2, "worse": 1}
        claims = [{"name": "levels", "statement": "Higher levels help.", "verdict": "does not hold"}]
        return {
            "schema": 1, "experiments": names, "runs": 9, "failed": failed, "absent": {"comparison": ["ogbn-arxiv"]},
            "cells": {"all cells": counts}, "claims": claims, "pages": ["x.md"], "out": "docs/reproduction",
        }  # fmt: skip

    monkeypatch.setattr("hpn.reproduction.reproduce", fake)
    return calls


def test_reproduce_takes_many_data_sets(cli: Cli, reproduced: list[dict[str, Any]]) -> None:
    code, out, err = cli("reproduce", "all", "--datasets", "cora", "my graph.npz", "--seeds", "2", "--workers", "3")
    assert (code, err) == (0, "")
    request = reproduced[0]
    assert (request["names"], request["datasets"]) == (["all"], ["cora", "my graph.npz"])
    assert (request["seeds"], request["workers"], request["ray"]) == (2, 3, None)
    assert "all cells" in out
    assert "does not hold" in out
    assert "left out, not on disk: ogbn-arxiv" in out
    assert str(Path("docs/reproduction/README.md")) in out
    cli(
        "reproduce", "dynamics", "memory", "--datasets=cora", "digits", "--seed", "7", "--ray", "local", "--only", "ncm"
    )
    assert reproduced[1]["names"] == ["dynamics", "memory"]
    assert reproduced[1]["datasets"] == ["cora", "digits"]
    assert (reproduced[1]["seeds"], reproduced[1]["ray"], reproduced[1]["only"]) == ([7], "local", "ncm")
    cli("reproduce", "comparison")
    assert (reproduced[2]["datasets"], reproduced[2]["seeds"]) == (None, 5)


def test_reproduce_json_and_failures(cli: Cli, reproduced: list[dict[str, Any]]) -> None:
    code, out, _ = cli("reproduce", "comparison", "--json")
    assert code == 0
    assert json.loads(out)["cells"] == {"all cells": {"within": 3, "better": 2, "worse": 1}}
    code, out, err = cli("reproduce", "memory", "--quiet")
    assert code == 1
    assert "cora hpn failed: out of memory" in out
    assert err == "hpn: 1 of 9 runs failed; the same command tries them again\n"


def test_reproduce_lists_the_experiments(cli: Cli) -> None:
    code, out, _ = cli("reproduce", "list")
    assert code == 0
    assert {"comparison", "accuracy-matrices", "ablation-levels", "visualization"} <= {*out.split()}
    code, out, _ = cli("reproduce", "list", "--json")
    assert {row["name"] for row in json.loads(out)} >= {"dynamics", "memory"}


def test_views_on_the_command_line(cli: Cli, tmp_path: Path) -> None:
    code, _, err = cli("run", *SMALL, "--set", "width=100", "--views", "--out", "out", "--quiet")
    assert (code, err) == (0, "")
    assert len(json.loads((tmp_path / "out" / "views.json").read_text())["views"][0]) == 2
    code, _, _ = cli("report", "out", "--out", "report.html")
    assert code == 0
    assert "t-SNE" in (tmp_path / "report.html").read_text()


def test_auto_is_the_cpu_bit_for_bit_where_there_is_nothing_else(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    found = []
    for words in ((), ("--device", "auto"), ("--device", "cpu")):
        out = f"out-{len(found)}"
        code, text, err = cli("run", *SMALL, *FINETUNE, *words, "--out", out, "--json", "--quiet")
        assert (code, err) == (0, "")
        (tensors,) = (tmp_path / out).rglob("*.safetensors")
        found.append(([json.loads(text)[key] for key in ("am", "fm", "parameters")], tensors.read_bytes()))
    assert found[0] == found[1] == found[2]


def test_a_cluster_that_does_not_answer_is_one_line_and_code_2(cli: Cli) -> None:
    code, out, err = cli("compare", *SMALL, "--methods", "ncm", "--ray", "127.0.0.1:1", "--quiet")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "cannot reach the Ray cluster 127.0.0.1:1 (" in err


def test_leaks_as_a_table_and_as_json(cli: Cli) -> None:
    words = ("leaks", "digits", "--method", "ncm", "--quiet", "--workers", "1")
    code, out, _ = cli(*words)
    assert code == 0
    assert out.splitlines()[0] == "ncm on digits · no task is given · 1 seed"
    rows = [line.split()[:2] for line in out.splitlines() if line.startswith(("grouped", "global"))]
    assert rows == [["grouped", "within"], ["global", "within"], ["global", "seen"]]
    code, out, _ = cli(*words, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["rows"][0]["am"]["mean"] > found["rows"][2]["am"]["mean"]
    assert found["rows"][0]["task_found"]["mean"] == 100.0
