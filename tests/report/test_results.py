import json

import pytest

from hpn.errors import DataError
from hpn.report import load_result
from hpn.report.results import (
    accuracy_curve,
    class_names,
    first_views,
    group_results,
    label_results,
    mean_matrix,
    prototype_growth,
    retaining_curve,
)

GROWN = {"parameters": 10.0, "stored": 20.0, "prototypes": {"atomic": 3.5}, "most_prototypes": {"atomic": 4}}
VIEW = {"after": 0, "points": [[0.5, -1.0], [2, 3]], "classes": [0, 1], "silhouette": 0.3, "neighbors": 80.0}


def test_load_takes_a_folder_or_its_file(make_run):
    folder = make_run()
    assert load_result(folder) == load_result(folder / "result.json")
    assert load_result(folder)["dataset"] == "cora"


def test_load_fills_absent_optional_fields(make_run):
    folder = make_run()
    file = folder / "result.json"
    result = json.loads(file.read_text())
    for name in ("balanced", "class_names", "command", "prototypes", "bounds", "versions", "out"):
        del result[name]
    file.write_text(json.dumps(result))
    loaded = load_result(folder)
    assert loaded["balanced"] is loaded["class_names"] is loaded["command"] is None
    assert loaded["out"] == str(folder)


def _error_of(path) -> str:
    with pytest.raises(DataError) as caught:
        load_result(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path.name) in message
    assert ": " in message, "it must say what to do"
    return message


def test_missing_path_is_one_line(tmp_path):
    assert "does not exist" in _error_of(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["", "result.json"])
def test_unfinished_run_is_one_line(tmp_path, name):
    folder = tmp_path / "unfinished"
    folder.mkdir()
    with pytest.raises(DataError, match=r"^\S*unfinished has no result.json, .*start its command"):
        load_result(folder / name)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not a JSON result"),
        (b'{"schema": 1,\n\n "data', "line 3"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"[1, 2]", "expected an object, got list"),
        (b"[" * 200_000, "not a JSON result"),
        (b"{}", "has schema None, expected 1"),
        (b'{"schema": 2}', "has schema 2, expected 1"),
        (b'{"schema": 1}', "dataset must be a text"),
    ],
)
def test_unreadable_file_is_one_line(tmp_path, content, says):
    file = tmp_path / "result.json"
    file.write_bytes(content)
    assert says in _error_of(file)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dataset", None),
        ("method", 3),
        ("backbone", ["gcn"]),
        ("tasks", []),
        ("tasks", [[0, 1], [], [4]]),
        ("tasks", [[0, 1], [{"a": 1}], [4]]),
        ("seeds", []),
        ("matrices", None),
        ("matrices", [[[90.0], [80.0, 90.0], [70.0, 80.0, 90.0]]]),
        ("matrices", [[[90.0], [80.0, 90.0]]] * 2),
        ("matrices", [[[90.0], [80.0, 90.0], [70.0, 80.0]]] * 2),
        ("matrices", [[[90.0], [80.0, None], [70.0, 80.0, 90.0]]] * 2),
        ("matrices", [[[90.0], [80.0, float("nan")], [70.0, 80.0, 90.0]]] * 2),
        ("am", None),
        ("am", {"mean": "80", "std": 0.0, "values": [80.0]}),
        ("fm", {"mean": 1.0}),
        ("ars", 3),
        ("parameters", "many"),
        ("peak_rss_mb", True),
        ("seconds", [1, 2]),
        ("seconds", {"fit": "long"}),
        ("prototypes", {"atomic\n": []}),
        ("class_names", ["Theory"]),
        ("balanced", {"am": 3}),
        ("params", [1]),
        ("stored", "many"),
        ("parameter_bound", [1]),
        ("growth", {}),
        ("growth", [GROWN] * 2),
        ("growth", [GROWN, None, GROWN]),
        ("growth", [GROWN, GROWN, {**GROWN, "stored": "9"}]),
        ("growth", [GROWN, GROWN, {**GROWN, "prototypes": [1, 2]}]),
        ("growth", [GROWN, GROWN, {**GROWN, "most_prototypes": {"atomic": "1"}}]),
    ],
)
def test_damaged_field_is_named_in_one_line(make_run, field, value):
    folder = make_run(**{field: value})
    with pytest.raises(DataError) as caught:
        load_result(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert "is damaged" in message
    assert ("matrices" if field == "seeds" else field) in message


def test_growth_of_any_size_is_taken(make_run):
    growth = [GROWN, {**GROWN, "stored": 10**400}, {"parameters": None, "stored": float("inf")}]
    folder = make_run(growth=growth, parameter_bound=10**50, stored=3)
    loaded = load_result(folder)
    assert loaded["parameter_bound"] == 10**50
    assert prototype_growth(loaded) == {"atomic": [3.5, 3.5, None]}
    assert prototype_growth(load_result(make_run("old"))) == {}


def _write_views(folder, content) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "views.json").write_text(text, encoding="utf-8")


def test_views_are_those_of_the_run_folder(make_run):
    folder = make_run()
    assert load_result(folder)["views"] is None
    later = {**VIEW, "after": 2}
    _write_views(folder, {"seeds": [0, 1], "views": [[later, VIEW], [VIEW]]})
    assert first_views(load_result(folder)) == [VIEW, later]
    elsewhere = folder / "copy.json"
    elsewhere.write_text((folder / "result.json").read_text())
    assert load_result(elsewhere)["views"] is None, "it is not known whose they are"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "not a JSON result"),
        ("[]", "expected an object"),
        ({}, "a list of views for each seed"),
        ({"seeds": [0], "views": []}, "a list of views for each seed"),
        ({"seeds": [0], "views": [VIEW]}, "a list of views for each seed"),
        ({"seeds": 0, "views": [[VIEW]]}, "seeds must be"),
        ({"seeds": [0], "views": [["x"]]}, "after must be a task from 0 to 2"),
        ({"seeds": [0], "views": [[{**VIEW, "after": 3}]]}, "after must be a task from 0 to 2, got 3"),
        ({"seeds": [0], "views": [[{**VIEW, "points": None}]]}, "points must be pairs"),
        ({"seeds": [0], "views": [[{**VIEW, "points": [[1, 2]]}]]}, "points must be pairs"),
        ({"seeds": [0], "views": [[{**VIEW, "points": [[1, 2], [1, "x"]]}]]}, "points must be pairs"),
        (
            {"seeds": [0], "views": [[{**VIEW, "points": [[1, 2], [1, float("nan")]]}]]},
            "points must be pairs",
        ),
        ({"seeds": [0], "views": [[{**VIEW, "classes": [0, "1"]}]]}, "points must be pairs"),
        ({"seeds": [0], "views": [[{**VIEW, "silhouette": "high"}]]}, "silhouette and neighbors"),
    ],
)
def test_damaged_views_are_named_in_one_line(make_run, content, says):
    folder = make_run()
    _write_views(folder, content)
    with pytest.raises(DataError, match=r"views\.json") as caught:
        load_result(folder)
    assert "\n" not in str(caught.value)
    assert says in str(caught.value)


def test_views_that_cannot_be_read_are_named(make_run):
    folder = make_run()
    (folder / "views.json").mkdir()
    with pytest.raises(DataError, match=r"views.json cannot be read"):
        load_result(folder)


def test_curves_average_over_seeds(make_result):
    matrices = [[[80.0], [60.0, 90.0]], [[60.0], [60.0, 70.0]]]
    result = make_result(num_tasks=2, matrices=matrices)
    am = accuracy_curve(result)
    assert [value["mean"] for value in am] == [70.0, 70.0]
    assert am[0]["std"] == pytest.approx(200**0.5)
    first, second = retaining_curve(result)
    assert first is None
    assert second["values"] == [75.0, 100.0]
    assert mean_matrix(result)[1][1]["mean"] == 80.0


def test_a_result_without_ars_has_no_retaining_curve(make_result):
    assert retaining_curve(make_result(ars=None)) == [None] * 3


def test_only_comparable_results_share_a_group(make_result):
    base = make_result()
    others = [make_result(**{field: "other"}) for field in ("dataset", "scenario", "evaluate", "edges")]
    others.append(make_result(tasks=[[0, 1], [2, 3], [5, 4]]))
    same = make_result(method="ewc", seeds=[7, 8], parameters=None)
    groups = group_results([base, *others, same])
    assert [len(group) for group in groups] == [2, 1, 1, 1, 1, 1]
    assert groups[0] == [base, same]


def test_labels_are_distinct(make_result):
    results = [make_result(out=out) for out in ("a/x", "b/y", "c/y", None)]
    results.append(make_result(backbone=None))
    labels = label_results(results)
    assert len(set(labels)) == len(labels)
    assert labels[0] == "finetune · gcn (x)"
    assert labels[-1] == "finetune"


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


def test_many_differing_settings_leave_the_folder(make_result):
    one = make_result(out="runs/a", params={"a": 1, "b": 1, "c": 1, "d": 1})
    two = make_result(out="runs/b", params={"a": 2, "b": 2, "c": 2, "d": 2})
    assert label_results([one, two]) == ["finetune · gcn (a)", "finetune · gcn (b)"]


def test_equal_settings_are_told_apart_by_folder_too(make_result):
    results = [make_result(out=out, params={"lr": lr}) for out, lr in (("a", 1), ("b", 2), ("c", 2.0))]
    assert label_results(results) == [
        "finetune · gcn (lr 1)",
        "finetune · gcn (lr 2, b)",
        "finetune · gcn (lr 2, c)",
    ]


def test_class_without_name_is_numbered(make_result):
    assert class_names(make_result(class_names=None), 1) == ["class 2", "class 3"]
