import json

import pytest

from hpn.errors import DataError
from hpn.experiment.run.result import View
from hpn.report import Run
from hpn.report.results import find_results, group_runs, label_results, load_run, step_text, variant_names

GROWN = {"parameters": 10.0, "stored": 20.0, "prototypes": {"atomic": 3.5}, "most_prototypes": {"atomic": 4}}
VIEW = {"after": 0, "points": [[0.5, -1.0], [2, 3]], "classes": [0, 1], "silhouette": 0.3, "neighbors": 80.0}


def test_load_takes_a_folder_or_its_file(make_run):
    folder = make_run()
    assert load_run(folder) == load_run(folder / "result.json")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"schema": 1,\n\n "data', "not a JSON result .*line 3"),
        (b"\xff\xfe\x00", "not a JSON result"),
        (b"[1, 2]", "expected an object, got list"),
        (b"[" * 200_000, "not a JSON result"),
        (b'{"schema": 2}', "has schema 2, expected 1"),
        (b'{"schema": 1}', "am is missing"),
    ],
)
def test_an_unreadable_file_is_named_in_one_line(tmp_path, content, says):
    (tmp_path / "result.json").write_bytes(content)
    with pytest.raises(DataError, match=rf"^\S+result\.json [^\n]*{says}[^\n]*$"):
        load_run(tmp_path / "result.json")


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("dataset", None, "dataset"),
        ("steps", [], "steps"),
        ("matrices", [[[90.0], [80.0, 90.0]]] * 2, "matrices, one per seed, of 3 rows"),
        ("matrices", [[[90.0], [80.0, None], [70.0, 80.0, 90.0]]] * 2, "matrices"),
        ("matrices", [[[90.0], [80.0, float("nan")], [70.0, 80.0, 90.0]]] * 2, "matrices"),
        ("am", {"mean": "high", "std": 0.0, "values": [80.0]}, "am"),
        ("growth", [GROWN] * 2, "growth must have one entry per step, 3"),
        ("growth", [GROWN, GROWN, {**GROWN, "most_prototypes": {"atomic": "one"}}], "growth.2.most_prototypes"),
    ],
)
def test_damaged_field_is_named_in_one_line(make_run, field, value, says):
    with pytest.raises(DataError, match=rf"is damaged \([^\n]*{says}[^\n]*$"):
        load_run(make_run(**{field: value}))


def _write_views(folder, content) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "views.json").write_text(text, encoding="utf-8")


def test_views_are_those_of_the_run_folder(make_run):
    folder = make_run()
    assert load_run(folder).views is None
    later = {**VIEW, "after": 2}
    _write_views(folder, {"seeds": [0, 1], "views": [[later, VIEW], [VIEW]]})
    assert load_run(folder).first_views == [View(**VIEW), View(**later)]
    elsewhere = folder / "copy.json"
    elsewhere.write_text((folder / "result.json").read_text())
    assert load_run(elsewhere).views is None, "it is not known whose they are"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "not a JSON result"),
        ({"seeds": [0], "views": []}, "one list per seed"),
        ({"seeds": [0], "views": [VIEW]}, "views.0: input should be a valid list"),
        ({"seeds": [0], "views": [[{**VIEW, "after": 3}]]}, "after must be a step from 0 to 2, got 3"),
        ({"seeds": [0], "views": [[{**VIEW, "points": [[1, 2]]}]]}, "1 points but 2 classes"),
        ({"seeds": [0], "views": [[{**VIEW, "points": [[1, 2], [1, "x"]]}]]}, "points.1.1: "),
    ],
)
def test_damaged_views_are_named_in_one_line(make_run, content, says):
    folder = make_run()
    _write_views(folder, content)
    with pytest.raises(DataError, match=r"views\.json") as caught:
        load_run(folder)
    assert "\n" not in str(caught.value)
    assert says in str(caught.value)


def test_only_comparable_results_share_a_group(make_result):
    base = make_result()
    others = [make_result(**{name: "other"}) for name in ("dataset", "scenario", "evaluate", "edges", "stream")]
    others.append(make_result(steps=[{"name": str(task), "classes": task} for task in ([0, 1], [2, 3], [5, 4])]))
    same = make_result(method="ewc", seeds=[7, 8], parameters=None)
    groups = group_runs(map(Run, [base, *others, same]))
    assert [len(group.runs) for group in groups] == [2, 1, 1, 1, 1, 1, 1]
    assert groups[0].runs == [Run(base), Run(same)]
    assert all(group.domain == ["finetune · gcn", "ewc · gcn"] for group in groups)


def test_few_differing_settings_name_a_result(make_result):
    params = {"lr": 0.1, "epochs": 200, "levels": "ANC", "dim": 16}
    changes = [{}, {"lr": 0.05}, {"levels": "A"}]
    results = [make_result(out=f"runs/{i}", params={**params, **c}) for i, c in enumerate(changes)]
    assert label_results(results) == [
        "finetune · gcn (lr 0.1, levels ANC)",
        "finetune · gcn (lr 0.05, levels ANC)",
        "finetune · gcn (lr 0.1, levels A)",
    ]
    other = make_result(method="ewc", params={"memory_strength": 5})
    assert label_results([*results, other])[:3] == label_results(results), "another method changes nothing"


def test_settings_of_any_kind_name_a_result_unless_too_many_differ():
    def names(*settings):
        return variant_names(settings)

    assert names({"a": 1, "b": True}, {"a": 1.0, "b": 1}) == ["b True", "b 1"], "a flag is no number"
    assert names({"a": 1}, {}) == ["a 1", "a –"]
    assert names({"a": [1, 2], "b": {"x": 1}}, {"a": [1, 3], "b": {"x": 1}}) == ["a [1, 2]", "a [1, 3]"]
    assert names(*(dict.fromkeys("abcd", value) for value in (1, 2))) == ["", ""]


def test_equal_settings_are_told_apart_by_folder_too(make_result):
    results = [make_result(out=out, params={"lr": lr}) for out, lr in (("a", 1), ("b", 2), ("c", 2.0))]
    assert label_results(results) == ["finetune · gcn (lr 1)", "finetune · gcn (lr 2, b)", "finetune · gcn (lr 2, c)"]


def test_a_step_is_described_by_its_classes_and_by_its_name_where_it_is_no_task(make_result, make_time_result):
    assert step_text(make_result(), 0) == "Theory, Rule learning"
    assert step_text(make_result(class_names={}), 1) == "class 2, class 3"
    assert step_text(make_time_result(), 2) == "time 2007: Theory, Rule learning, class 2"


def test_folders_of_comparisons_and_tuning_give_their_runs(make_run, tmp_path, make_comparison):
    runs = [make_run("runs/a"), make_run("runs/b", method="ewc")]
    folder = tmp_path / "runs" / "compare-cora"
    folder.mkdir()
    # The folder was moved since: the paths in the table lead nowhere, but its neighbours are there.
    places = ["elsewhere/a", "elsewhere/b", "failed", "elsewhere/gone", "elsewhere/a"]
    comparison = make_comparison({number: {"run": place} for number, place in enumerate(places)})
    (folder / "comparison.json").write_text(json.dumps(comparison.to_json()))
    tuned = make_run("runs/tune", trials=[])
    final = make_run("runs/tune/final-1", method="twp")
    lines: list[str] = []
    for given in (folder, folder / "comparison.json"):
        found = find_results([*runs, given, tuned], lines.append)
        assert list(found.runs) == [run.resolve() / "result.json" for run in (*runs, final)]
        (read,) = found.comparisons.values()
        assert read.to_json() == comparison.to_json()
    assert lines == [f"elsewhere/gone of {folder} is missing; only its row is shown"] * 2


def test_what_has_no_result_is_skipped_with_a_line(make_run, tmp_path):
    for name in ("unfinished", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "unfinished" / "config.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("")
    lines: list[str] = []
    found = find_results(
        [tmp_path / "unfinished", make_run(), tmp_path / "other", tmp_path / "notes.txt"], lines.append
    )
    assert len(found.runs) == 1
    assert lines == [
        f"{tmp_path}/unfinished has not finished (result.json is missing); run its command again; skipped",
        f"{tmp_path}/other is not a run, comparison or tuning folder; skipped",
        f"{tmp_path}/notes.txt is not a result; skipped",
    ]
