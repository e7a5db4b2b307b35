from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpn.display.progress import LiveProgress
from hpn.display.runs import print_tuned
from hpn.errors import ConfigError, RunFolderError
from hpn.evaluation import evaluate
from hpn.experiment.execute.jobs import JobEnd, WorkerError
from hpn.experiment.published import Spread
from hpn.experiment.recipes import read_recipe
from hpn.experiment.run.runner import Job, run
from hpn.experiment.tune.trials import TrialLog, make_plan
from hpn.experiment.tune.tuning import TuneResult, tune
from hpn.experiment.watch import JobsProgress, Watcher
from hpn.learners import NCM
from hpn.params import LogRange, OneOf
from hpn.streams import TaskStream

SPACE = {"max_hops": OneOf(0, 1, 2, 3), "temperature": LogRange(0.01, 1.0)}
DATA = {"data.num_nodes": 150, "data.num_links": 500, "data.num_classes": 6, "data.num_features": 8}
TIMES = {"seconds", "peak_rss_mb", "out", "recipe", "command"}


@pytest.fixture(autouse=True)
def _space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NCM, "search_space", SPACE)


def quick(out: Path, **changes: Any) -> TuneResult:
    settings = {**DATA, **changes.pop("settings", {})}
    plain = {"method": "ncm", "trials": 8, "seeds": 2, "final_seeds": 2, "out": out, "settings": settings}
    return tune("synthetic", **{**plain, **changes})


def numbers(value: Any) -> Any:
    """A result without times and paths."""
    if isinstance(value, TuneResult):
        value = value.to_json()
    if isinstance(value, dict):
        return {key: numbers(entry) for key, entry in value.items() if key not in TIMES}
    return [numbers(entry) for entry in value] if isinstance(value, list) else value


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]


def test_the_best_by_validation_is_tested_and_written_down(tmp_path: Path) -> None:
    tuned = quick(tmp_path / "tune", recipe_out=tmp_path / "copy" / "ncm.yaml")
    means = [trial.am.mean for trial in tuned.trials if trial.am]
    assert len(means) == 8
    assert tuned.best == (means.index(max(means)) if max(means) - means[0] > tuned.noise else 0)
    assert tuned.validation_am == tuned.trials[tuned.best].am
    assert tuned.trials[0].settings == {"max_hops": 3, "temperature": 0.1}, "the defaults"
    recipe = read_recipe(tmp_path / "tune" / "recipe.yaml")
    assert recipe == read_recipe(tmp_path / "copy" / "ncm.yaml")
    assert (recipe.name, recipe.backbone, recipe.scenario) == ("synthetic/ncm", None, "task")
    assert recipe.settings == tuned.settings == tuned.trials[tuned.best].settings
    assert (recipe.published, recipe.chosen is None, recipe.ours is None) == (None, False, False)
    assert (recipe.chosen.trials, recipe.chosen.seeds) == (8, [0, 1])
    assert recipe.chosen.protocol["tasks"] == "0,1;2,3;4,5"
    assert recipe.ours.am.mean == pytest.approx(tuned.result.metrics["am"].mean, abs=1e-4)
    assert recipe.ours.command == tuned.result.command
    assert json.loads((tmp_path / "tune" / "result.json").read_text()) == tuned.to_json()
    choices = {"method": "ncm", "settings": DATA, "seeds": 2, "recipe": tmp_path / "tune" / "recipe.yaml"}
    again = run("synthetic", out=tmp_path / "run", **choices)
    assert again.matrices == tuned.result.matrices


class Break(Watcher):
    """Stops the search at a chosen moment, as a crash would."""

    def __init__(self, at: int) -> None:
        self.left = at

    def jobs_moved(self, progress: JobsProgress) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_interrupted_anywhere_it_ends_as_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = quick(tmp_path / "whole")
    broken = tmp_path / "broken"
    breaks = 0
    for at in (1, 2, 4, 9, 3, 5, 2, 3):
        try:
            quick(broken, watcher=Break(at))
        except KeyboardInterrupt:
            breaks += 1
        with (broken / "trials.jsonl").open("ab") as file:
            file.write(b'{"trial": 99, "se')  # a power cut in the middle of a line
    assert breaks >= 6
    assert numbers(quick(broken)) == numbers(whole)
    assert [(e["trial"], e["seed"], e["am"]) for e in lines(broken)] == [
        (e["trial"], e["seed"], e["am"]) for e in lines(tmp_path / "whole")
    ], "nothing was evaluated twice"


def test_test_nodes_are_not_evaluated_before_the_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[str] = []
    query = TaskStream.query

    def spy(stream: TaskStream, *, part: Any = "test", **rest: Any) -> Any:
        if part == "test" and "test" not in parts:
            assert len(lines(tmp_path)) == 8 * 2, "the trials are over"
        parts.append(part)
        return query(stream, part=part, **rest)

    monkeypatch.setattr(TaskStream, "query", spy)
    quick(tmp_path)
    assert parts == ["val"] * (8 * 2 * 3) + ["test"] * (2 * (1 + 2 + 3))


def test_a_finished_search_gives_its_result_again_and_may_get_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = quick(tmp_path)
    more = quick(tmp_path, trials=13, final_seeds=3)
    assert [trial.settings for trial in more.trials[:8]] == [trial.settings for trial in first.trials]
    assert len(lines(tmp_path)) == 13 * 2

    def never(*_: Any) -> Any:
        pytest.fail("nothing is left to do")

    monkeypatch.setattr("hpn.experiment.execute.local.run_job", never)
    assert quick(tmp_path) == first


def test_a_folder_is_bound_to_its_search(tmp_path: Path) -> None:
    quick(tmp_path, trials=1)
    for change, message in (
        ({"seeds": 3}, r"seeds: \[0, 1\] there, \[0, 1, 2\] now"),
        ({"scenario": "class"}, "scenario: task there, class now"),
        ({"settings": {"max_hops": 1}}, "max_hops"),
    ):
        with pytest.raises(RunFolderError, match=message):
            quick(tmp_path, **change)
    with pytest.raises(RunFolderError, match="kind: tune there"):
        run("synthetic", method="ncm", settings=DATA, out=tmp_path)
    tuned = quick(tmp_path, trials=1, seeds=1, fresh=True)
    assert (tuned.seeds, len(lines(tmp_path))) == ([0], 1)


def test_what_is_set_is_not_searched_but_in_the_recipe(tmp_path: Path) -> None:
    tuned = quick(tmp_path / "some", settings={"temperature": "0.5", "normalization": "row"}, trials=20)
    assert [trial.settings for trial in tuned.trials] == [{"max_hops": hops} for hops in (3, 0, 1, 2)]
    assert tuned.settings.keys() == {"max_hops", "temperature", "normalization"}
    assert tuned.result.params["temperature"] == 0.5
    assert "--set temperature=0.5" in tuned.command
    assert "--set data.num_nodes=150" in tuned.command
    tuned = quick(tmp_path / "none", settings={"temperature": 0.5, "max_hops": 1})
    assert (len(tuned.trials), tuned.trials[0].settings) == (1, {}), "nothing is left to search"


def test_hpn_is_searched_with_the_preset_that_has_what_is_searched(tmp_path: Path) -> None:
    choices = {"method": "hpn", "scenario": "class", "seeds": 1, "final_seeds": 1}
    tuned = quick(tmp_path / "best", **choices, trials=4, settings={"width": 50})
    assert [trial.error for trial in tuned.trials] == [None] * 4
    assert {name for trial in tuned.trials for name in trial.settings} == {"strength", "balance"}
    assert all(0.01 <= trial.settings["strength"] <= 1 for trial in tuned.trials[1:])
    recipe = read_recipe(tmp_path / "best" / "recipe.yaml")
    assert recipe.settings.keys() == {"width", "strength", "balance"}
    paper = {"preset": "paper", "epochs": 1, "warmup_epochs": 1}
    tuned = quick(tmp_path / "paper", **choices, trials=2, settings=paper)
    thresholds = {"threshold_atomic", "threshold_node", "threshold_class"}
    assert [set(trial.settings) for trial in tuned.trials] == [thresholds] * 2
    assert read_recipe(tmp_path / "paper" / "recipe.yaml").settings.keys() == {*paper, *thresholds}


def fail_at_two_hops(learner: NCM, *_: Any) -> None:
    if learner.max_hops == 2:
        raise FloatingPointError("overflow in\nsome step")
    learn(learner, *_)


learn = NCM._learn


def test_a_trial_that_fails_numerically_does_not_end_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NCM, "search_space", {"max_hops": OneOf(2, 3)})
    monkeypatch.setattr(NCM, "_learn", fail_at_two_hops)
    tuned = quick(tmp_path / "some")
    first, second = (trial.error for trial in tuned.trials)
    assert first is None
    assert str(second).startswith("FloatingPointError: overflow in some step (test_tuning.py:")
    assert (tuned.trials[1].am, tuned.best) == (None, 0)
    assert numbers(quick(tmp_path / "some")) == numbers(tuned)
    with pytest.raises(ConfigError, match="every trial failed, the first with FloatingPointError"):
        quick(tmp_path / "all", settings={"max_hops": 2})


@pytest.mark.parametrize(
    ("where", "what", "missing"),
    [
        ((NCM, "_learn"), "trial 0, seed 0", "trials.jsonl"),
        ((Job, "run"), "the run with the chosen settings", "recipe.yaml"),
    ],
)
def test_another_failure_ends_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: tuple[type, str], what: str, missing: str
) -> None:
    def wrong(*_: Any) -> None:
        raise ValueError("a shape is wrong")

    monkeypatch.setattr(*where, wrong)
    with pytest.raises(WorkerError, match=rf"^{what} failed: ValueError: a shape is wrong \(test_tuning.py"):
        quick(tmp_path)
    assert not (tmp_path / missing).exists()


@pytest.mark.parametrize(("gain", "is_chosen"), [(0.0, False), (0.5, False), (40.0, True)])
def test_defaults_stay_unless_beaten_by_more_than_the_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gain: float, is_chosen: bool
) -> None:
    monkeypatch.setattr(NCM, "search_space", {"max_hops": OneOf(1, 2, 3)})
    monkeypatch.setattr(Job, "validate", lambda job, _: 50 + gain * (job.config.params["max_hops"] == 2))
    tuned = quick(tmp_path)
    assert tuned.settings == {"max_hops": 2 if is_chosen else 3}
    assert 0.5 < tuned.noise < 40
    recipe = read_recipe(tmp_path / "recipe.yaml")
    assert recipe.chosen is not None
    assert recipe.chosen.default_am == Spread(50.0, 0.0)


def test_the_lower_bound_is_tuned_for_learning_and_not_for_remembering(tmp_path: Path) -> None:
    choices = {"method": "finetune", "settings": {**DATA, "epochs": 30}}
    plan, graph = make_plan("synthetic", seeds=1, choices=choices, data_root=None)
    stream, learner = plan.config.make_stream(graph, 0), plan.config.make_learner(0)
    learned = []
    for task in range(len(stream)):
        learner.fit_task(stream.step(task))
        learned.append(evaluate(learner, stream, after=task, mode="oracle", part="val").accuracy[-1])
    found = Job(plan.config, 0).validate(graph)
    assert found == pytest.approx(sum(learned) / len(learned))


def test_the_progress_of_a_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[JobsProgress] = []
    with LiveProgress() as live:
        show = live.jobs_moved
        live.jobs_moved = lambda progress: (seen.append(progress), show(progress))  # type: ignore[assignment]
        tuned = quick(tmp_path, watcher=live)
    print_tuned(tuned)
    assert "best of 8 trials" in capsys.readouterr().out
    assert (seen[0].done, seen[0].total, seen[0].trials.best) == (0, 8 * 2 + 2, None)
    assert [progress.done for progress in seen] == sorted(progress.done for progress in seen)
    assert (seen[-1].done, seen[-1].trials.tried, seen[-1].trials.is_chosen) == (18, 8, True)
    assert (seen[-1].remaining, seen[1].trials.is_chosen) == (0, False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *(({name: 0}, f"{name} must be at least 1, got 0") for name in ("trials", "seeds", "final_seeds", "workers")),
        ({"recipe_out": Path()}, "is a folder"),
        ({"tasks": "0;1"}, "a single class to choose from"),
        ({"dataset": "unvalidated.npz", "settings": {}}, "step 0 of unvalidated.npz has no validation nodes"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    train = np.arange(12) < 6
    np.savez(
        "unvalidated.npz",
        **{"adj_indptr": np.arange(13), "adj_indices": (np.arange(12) + 1) % 12, "adj_shape": [12, 12]},
        **{"attr_matrix": np.eye(12)[:, :4], "labels": np.arange(12) % 2},
        **{"train_mask": train, "val_mask": np.zeros(12, bool), "test_mask": ~train},
    )
    with pytest.raises(ConfigError, match=message):
        tune(**{"dataset": "synthetic", "method": "ncm", "out": "x", "settings": DATA, **change})
    assert not Path("x").exists()


@pytest.mark.parametrize(
    "where",
    [
        {"ray": "fake"},
        pytest.param({"workers": 2}, marks=pytest.mark.slow),
        pytest.param({"ray": "local"}, marks=pytest.mark.slow),
    ],
)
def test_where_jobs_run_makes_no_difference(
    tmp_path: Path, request: pytest.FixtureRequest, where: dict[str, Any]
) -> None:
    if where == {"ray": "fake"}:
        fake, where = request.getfixturevalue("fake"), {"ray": "local"}
        there = quick(tmp_path / "there", trials=3, **where)
        assert len(fake.begun) == 3 * 2 + 2, "every trial and every final seed"
    else:
        pytest.importorskip("ray", reason="Ray is not installed")
        there = quick(tmp_path / "there", trials=3, **where)
    here = quick(tmp_path / "here", trials=3)
    assert numbers(there) == numbers(here)
    assert there.command.replace(str(tmp_path), "") == here.command.replace(str(tmp_path), "")


def test_a_damaged_log_is_named(tmp_path: Path) -> None:
    log = TrialLog(tmp_path / "trials.jsonl")
    log.add({"lr": 0.1}, 0, JobEnd(None, 1.0, 50.0), trial=0)
    assert TrialLog(tmp_path / "trials.jsonl").get({"lr": 0.1}, 0) == JobEnd(None, 1.0, 50.0)
    assert TrialLog(tmp_path / "trials.jsonl").get({"lr": 0.1}, 1) is None
    (tmp_path / "trials.jsonl").write_text("[]\n{}\n")
    with pytest.raises(RunFolderError, match=r"trials\.jsonl, line 1 cannot be read; use --fresh"):
        TrialLog(tmp_path / "trials.jsonl")
