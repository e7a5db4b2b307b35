import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from hpn.errors import DataError, HPNError
from hpn.experiment.run.result import Views
from hpn.report import Run, write_report


def test_one_file_with_a_row_a_chart_set_and_a_section_for_each_run(parse_page, make_run, tmp_path):
    runs = [
        make_run("a"),
        make_run("b", method="ewc"),
        make_run("c", dataset="dblp", scenario="task", evaluate="oracle"),
    ]
    out = tmp_path / "new" / "report.html"
    assert write_report(runs, out) == out
    page = parse_page(out.read_text(encoding="utf-8"))
    assert page.tags["article"] == 3
    assert page.tags["h1"] == 1
    figures = [v for tag, name, v in page.attributes if tag == "figure" and name == "class"]
    assert len(figures) == 2 * 4, "four charts a group"
    ids = {value for _, name, value in page.attributes if name == "id"}
    links = {value for tag, name, value in page.attributes if (tag, name) == ("a", "href")}
    assert links == {"#run-1", "#run-2", "#run-3"}
    assert {link[1:] for link in links} <= ids
    text = "".join(page.text)
    for said in ("81.0 ± 1.4", "−10.5 ± 0.0", "92,231", "30.5", "623", "Theory, Rule learning"):
        assert said in text
    assert "hpn run cora --method finetune --seeds 2" in text
    assert "a test node comes alone" in text


@pytest.mark.parametrize("num_tasks", [1, 50])
@pytest.mark.parametrize("num_runs", [1, 20])
def test_sizes(parse_page, make_result, num_tasks, num_runs, render):
    results = [make_result(num_tasks, method=f"m{i}") for i in range(num_runs)]
    page = parse_page(render(results))
    assert page.tags["article"] == num_runs


def test_data_cannot_add_elements_or_attributes(parse_page, make_result, hostile, render):
    fields = ("dataset", "method", "backbone", "scenario", "evaluate", "edges", "out")
    levels = {"prototypes": {hostile: 1}, "bounds": {hostile: 2}}
    bad = make_result(
        **dict.fromkeys(fields, hostile),
        **levels,
        command=hostile.replace(" ", ""),
        class_names={str(i): hostile for i in range(6)},
        versions={hostile: hostile},
        params={hostile: hostile},
    )
    plain = make_result(
        **dict.fromkeys(fields, "x"),
        **{name: {"x": 1} for name in levels},
        command="x",
        versions={"x": "x"},
    )
    page, expected = parse_page(render([bad, bad])), parse_page(render([plain, plain]))
    # Labels of different lengths wrap differently; the elements that hold them do not.
    assert page.tags == expected.tags
    names = Counter((tag, name) for tag, name, _ in page.attributes)
    assert names == Counter((tag, name) for tag, name, _ in expected.attributes)
    assert page.tags["script"] == 1
    assert "img" not in page.tags
    if hostile.isprintable():
        assert hostile in page.text


def test_data_cannot_add_elements_to_the_new_charts(parse_page, make_result, hostile, render):
    def page(name):
        step = {"parameters": 1, "stored": 2, "prototypes": {name: 3, name + "b": 2}, "most_prototypes": None}
        view = {"after": 0, "points": [[1, 2], [3, 4]], "classes": [0, 1], "silhouette": 0.1, "neighbors": 5}
        runs = [
            make_result(
                method=name,
                params={name: number},
                growth=[step] * 3,
                bounds={name: 9, name + "b": 10**30},
                class_names={"0": name},
            )
            for number in (1, 2, 3)
        ]
        views = Views.model_validate({"seeds": [0], "views": [[view]]})
        return parse_page(render([Run(run, views) for run in runs]))

    bad, plain = page(hostile), page("x")
    assert set(bad.tags) == set(plain.tags)
    assert bad.tags["script"] == 1
    assert {(tag, name) for tag, name, _ in bad.attributes} == {
        (tag, name) for tag, name, _ in plain.attributes
    }


def test_the_file_is_self_contained(parse_page, make_run, tmp_path):
    text = write_report([make_run()], tmp_path / "report.html").read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\s\"'<)]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "url(" not in text
    assert "@import" not in text
    page = parse_page(text)
    assert not {"link", "img", "iframe", "object", "base"} & set(page.tags)
    loads = [(name, value) for _, name, value in page.attributes if name in ("src", "href")]
    assert all(name == "href" and value.startswith("#") for name, value in loads)
    policy = next(v for tag, name, v in page.attributes if name == "content" and "default" in v)
    assert policy.startswith("default-src 'none'")


def test_the_same_runs_give_the_same_bytes(make_run, tmp_path):
    run = make_run()
    one, two = (write_report([run], tmp_path / f"{i}.html").read_bytes() for i in (1, 2))
    assert one == two


def test_a_run_named_twice_counts_once(parse_page, make_run, tmp_path):
    run, other = make_run(), make_run("other", method="ewc")
    runs = [run, other, run / "result.json", run]
    page = parse_page(write_report(runs, tmp_path / "r.html").read_text(encoding="utf-8"))
    assert page.tags["article"] == 2


@pytest.mark.parametrize("broken", ["replace", "fsync"])
def test_a_failed_write_leaves_the_earlier_file(make_run, tmp_path, monkeypatch, broken):
    out = tmp_path / "out" / "report.html"
    out.parent.mkdir()
    out.write_text("earlier")

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(HPNError, match=r"report.html cannot be written \(No space left"):
        write_report([make_run()], out)
    assert out.read_text() == "earlier"
    assert list(out.parent.iterdir()) == [out]


def test_an_interrupt_leaves_the_earlier_file(make_run, tmp_path, monkeypatch):
    out = tmp_path / "out" / "report.html"
    out.parent.mkdir()
    out.write_text("earlier")

    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        write_report([make_run()], out)
    assert out.read_text() == "earlier"
    assert list(out.parent.iterdir()) == [out]


def test_a_bad_run_leaves_the_earlier_file(make_run, tmp_path):
    out = tmp_path / "report.html"
    out.write_text("earlier")
    with pytest.raises(DataError):
        write_report([make_run(), tmp_path / "nowhere"], out)
    assert out.read_text() == "earlier"


def test_one_finished_run_is_enough_and_the_others_are_named(make_run, tmp_path, parse_page):
    (tmp_path / "empty").mkdir()
    lines: list[str] = []
    out = write_report([tmp_path / "empty", make_run()], tmp_path / "r.html", on_skip=lines.append)
    assert parse_page(out.read_text(encoding="utf-8")).tags["article"] == 1
    assert lines == [f"{tmp_path}/empty is not a run, comparison or tuning folder; skipped"]
    with pytest.raises(DataError, match=r"nothing to report on.*empty is not a run"):
        write_report([tmp_path / "empty"], tmp_path / "r.html")


def test_a_comparison_is_shown_as_its_table_and_its_runs(make_run, make_comparison, tmp_path, parse_page):
    run, folder = make_run(), tmp_path / "compare"
    folder.mkdir()
    comparison = make_comparison({0: {"run": str(run)}}, dataset="<cora>")
    (folder / "comparison.json").write_text(json.dumps(comparison.to_json()))
    page = parse_page(write_report([folder], tmp_path / "r.html").read_text(encoding="utf-8"))
    text = "".join(page.text)
    assert page.tags["article"] == 1
    assert "Methods compared on <cora>" in text
    assert "failed: out of | memory <b>" in text
    assert ("h2", "id", "comparison-0") in page.attributes


def test_no_runs_and_a_folder_as_file_are_refused(make_run, tmp_path):
    with pytest.raises(DataError, match="name at least one folder of a finished run"):
        write_report([], tmp_path / "report.html")
    with pytest.raises(HPNError, match="out is a folder"):
        write_report([make_run()], tmp_path)


def test_a_folder_that_cannot_be_made_is_one_line(make_run, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HPNError, match="cannot be written") as caught:
        write_report([make_run()], tmp_path / "file" / "report.html")
    assert "\n" not in str(caught.value)


def test_importing_the_report_does_not_import_torch():
    code = "import sys, hpn.report; print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    source = Path(__file__).parents[2] / "src"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "[]"
