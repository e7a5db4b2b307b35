import json

import pytest

from hpn.errors import DataError
from hpn.report import load_result
from hpn.report.results import (
    accuracy_curve,
    class_names,
    group_results,
    label_results,
    mean_matrix,
    retaining_curve,
)


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


def test_class_without_name_is_numbered(make_result):
    assert class_names(make_result(class_names=None), 1) == ["class 2", "class 3"]
