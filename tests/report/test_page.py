import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hpn.errors import DataError, HPNError
from hpn.experiment.run.result import Views
from hpn.metrics import summarize
from hpn.report import Run, write_report


def test_one_file_with_a_row_charts_and_a_section_for_each_run(parse_page, make_run, tmp_path):
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
    assert page.tags["figure"] == 2 * 4 + 3, "four charts per group and a matrix per run"
    ids = {value for _, name, value in page.attributes if name == "id"}
    links = {value for tag, name, value in page.attributes if (tag, name) == ("a", "href")}
    assert links == {"#run-1", "#run-2", "#run-3"}
    assert {link[1:] for link in links} <= ids
    text = "".join(page.text)
    for said in ("81.0 ± 1.4", "−10.5 ± 0.0", "92,231", "15.2", "623", "Theory, Rule learning"):
        assert said in text
    assert "AM 81.0 ± 1.4 % · FM −10.5 ± 0.0 points · ARS" in " ".join(text.split())
    assert "hpn run cora --method finetune --seeds 2" in text
    assert "a test node comes alone" in text


def test_data_cannot_add_elements_or_attributes(parse_page, make_result, hostile, render):
    def page(name):
        counts = {name: 3, f"{name}b": 2}
        step = {"parameters": 1, "stored": 2, "prototypes": counts, "most_prototypes": None}
        view = {"after": 0, "points": [[1, 2], [3, 4]], "classes": [0, 1], "silhouette": 0.1, "neighbors": 5}
        views = Views.model_validate({"seeds": [0], "views": [[view]]})
        names = dict.fromkeys(
            ("dataset", "method", "backbone", "scenario", "evaluate", "edges", "command", "out"), name
        )
        sizes = {"growth": [step] * 3, "prototypes": counts, "bounds": {name: 9, f"{name}b": 10**30}}
        words = {"class_names": {str(i): name for i in range(6)}, "versions": {name: name}}
        runs = [make_result(**names, **sizes, **words, params={name: number}) for number in (1, 2, 3)]
        return parse_page(render([Run(run, views) for run in runs]))

    bad, plain = page(hostile), page("x")
    assert bad.tags == plain.tags
    for found, expected in ((bad, plain), (plain, bad)):
        assert {one[:2] for one in found.attributes} == {one[:2] for one in expected.attributes}
    assert "img" not in bad.tags
    if hostile.isprintable():
        assert hostile in bad.text


def test_the_file_is_self_contained(parse_page, make_run, tmp_path):
    text = write_report([make_run()], tmp_path / "report.html").read_text(encoding="utf-8")
    page = parse_page(text)
    assert not {"link", "img", "iframe", "object", "base"} & set(page.tags)
    loads = [(name, value) for _, name, value in page.attributes if name in ("src", "href")]
    assert all(name == "href" and value.startswith("#") for name, value in loads)
    policy = next(v for tag, name, v in page.attributes if name == "content" and "default" in v)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert len(text) < 2_000_000


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


def test_no_runs_and_a_folder_as_file_are_refused(make_run, tmp_path):
    with pytest.raises(DataError, match="name at least one folder of a finished run"):
        write_report([], tmp_path / "report.html")
    with pytest.raises(HPNError, match="out is a folder"):
        write_report([make_run()], tmp_path)


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


def test_absent_values_are_dashes(make_result, render):
    absent = dict.fromkeys(("fm", "ars", "parameters", "seconds", "peak_rss_mb", "balanced", "command"))
    row = re.search(r'<th scope="row".*?</tr>', render([make_result(**absent, versions={})]), re.DOTALL).group()
    assert row.count(">–<") == 5, "parameters, prototypes, two times, memory; metrics without values go"


def test_sizes_stand_next_to_their_bounds(parse_page, make_result, render):
    bounds = {"atomic": 4096, "node": 10**15, "class": None}
    sizes = {"prototypes": {"atomic": 12, "node": 6, "class": 4}, "bounds": bounds, "parameter_bound": 10**17}
    text = "".join(parse_page(render([make_result(**sizes)])).text)
    for said in ("atomic 12 / 4,096", "node 6 / 1.0 × 10¹⁵", "class 4 / no useful bound", "92,231≤ 1.0 × 10¹⁷"):
        assert said in text


def test_the_highest_mean_of_a_group_is_bold(make_result, render):
    low = make_result(am={"mean": 70.0, "std": 1.0, "values": [69.0, 71.0]})
    page = render([low, make_result(method="ewc")])
    assert '<td class="num best" data-value="81.0">81.0 ± 1.4</td>' in page
    assert '<td class="num" data-value="70.0">70.0 ± 1.0</td>' in page
    assert "num best" not in render([low])
    far, near = (make_result(method=name, intransigence=summarize([score])) for name, score in (("a", 2), ("b", 1)))
    assert '<td class="num best" data-value="1.0">+1.0</td>' in render([far, near]), "less of it is better"


def test_tasks_show_what_was_learned_and_what_is_left(parse_page, make_result, render):
    matrices = [[[80.0], [60.0, 90.0]]]
    page = parse_page(render([make_result(2, seeds=[3], matrices=matrices, balanced=None)]))
    text = " ".join("|".join(page.text).split("|"))
    assert re.search(r"1\s+Theory, Rule learning\s+80.0\s+60.0\s+−20.0", text)
    assert re.search(r"2\s+class 2, class 3\s+90.0\s+90.0\s+0.0", text)


def test_a_single_class_is_not_measured(parse_page, make_result, render):
    none = dict.fromkeys(("am", "fm", "ars", "aaa", "bwt", "balanced_am"))
    trivial = make_result(1, **none, chance=[[[100.0]]] * 2, matrices=[[[100.0]]] * 2)
    text = "".join(parse_page(render([trivial])).text)
    assert "Accuracy is not measured: there is a single class to choose from" in text
    assert "AM" not in text.split("Summary")[1].split("cora")[0], "there is no column of it"


def test_one_colour_per_run_across_the_groups_of_a_page(make_result, render):
    page = render([make_result(), make_result(method="ewc"), make_result(method="ewc", dataset="dblp")])
    styles = re.findall(r'data-run="(.*?)"><svg class="swatch (s\d)"', page)
    assert styles == [("finetune · gcn", "s0"), ("ewc · gcn", "s1"), ("ewc · gcn", "s1")]


def test_charts_name_their_runs_in_the_key_and_no_colours(make_result, render, parse_page):
    page = parse_page(render([make_result(), make_result(method="ewc")]))
    specs = [json.loads(text) for text in page.text if text.startswith('{"$schema"')]
    assert len(specs) == page.tags["figure"]
    assert all("#" not in json.dumps(spec) for spec in specs)
    assert not [s for s in specs if re.search(r'"field": "run", "legend": \{', json.dumps(s))]


def test_the_bundle_is_what_the_library_makes():
    vl_convert = pytest.importorskip("vl_convert")
    from importlib.resources import files

    bundle = (files("hpn.report") / "templates" / "vega.js").read_text(encoding="utf-8")
    assert bundle == vl_convert.javascript_bundle(), "see CONTRIBUTING for how it is made"


def test_a_stream_by_time_has_steps_with_names(parse_page, make_time_result, render):
    text = "".join(parse_page(render([make_time_result()])).text)
    for said in ("time 2004: Theory, Rule learning", "AM after each step", "FWT"):
        assert said in text


@pytest.mark.parametrize(
    ("mode", "says"), [("oracle", "is given"), ("global", "comes alone"), ("grouped", "arrive together"), ("x", "")]
)
def test_the_evaluation_of_a_group_is_explained(make_result, render, mode, says):
    note = re.search(r'</ul>\s*<p class="note">(.*?)</p>', render([make_result(evaluate=mode, edges="y")]), re.DOTALL)
    assert says in note[1] if says else note[1] == ""


def test_the_title_names_few_data_sets_and_counts_many(make_result, render):
    results = [make_result(dataset=name) for name in ("a", "b", "a", "c", "d")]
    assert "<h1>Continual learning on a, b and c</h1>" in render(results[:4])
    page = render(results)
    assert "<h1>Continual learning on 4 data sets</h1>" in page
    assert "5 runs: accuracy, retention and cost. They have 4 settings" in page


def test_only_what_is_shown_is_explained(make_result, render):
    def terms(*runs):
        return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", render(runs).partition("How to read this")[2]))

    known = terms(make_result(intransigence=summarize([1.0])))
    assert known["AM"] == "Average accuracy after the last task (in percent). Higher is better."
    assert known["intransigence"].endswith("(in points). Lower is better.")
    grown = make_result(growth=[{"parameters": 1, "stored": 2}] * 3, bounds={"atomic": 3})
    assert {*terms(Run(grown, Views(seeds=[0], views=[[]])))} - {*known} == {"Stored", "Bound", "t-SNE"}
