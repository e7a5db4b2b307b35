import csv
import json
import re
from collections import Counter

import pytest

from hpn.experiment.compare.result import Comparison
from hpn.metrics import METRICS, Summary, summarize
from hpn.report.comparison import PARAMETERS_REMARK, best_rows, comparison_csv, comparison_markdown, write_comparison
from hpn.report.page import comparison_page


@pytest.fixture
def without_paper(make_comparison):
    absent = {"published": None, "difference": None}
    return make_comparison(dict.fromkeys(range(5), absent), note="they are for edges within a task", edges="seen")


def test_csv_has_every_number_in_full(make_comparison):
    comparison = make_comparison({0: {"am": Summary(1 / 3, 0.1, [1 / 3])}})
    first, _, failed, joint, ours = csv.DictReader(comparison_csv(comparison).splitlines())
    assert float(first["am_mean"]) == 1 / 3
    assert (first["method"], first["backbone"], first["seeds"]) == ("ewc", "gcn", "0 1")
    assert (first["paper_am_mean"], first["paper_fm_std"]) == ("63.1", "1.0")
    assert float(first["difference_am"]) == pytest.approx(0.2)
    assert first["paper_parameters_ogbn_products"] == "46720"
    assert (failed["am_mean"], failed["stored"], failed["error"]) == ("", "", "out of | memory <b>")
    assert failed["paper_am_mean"] == "73.7"
    assert (joint["fm_mean"], joint["ars_std"]) == ("", "")
    assert ours["prototypes"] == "atomic=12 class=4.5"
    assert (ours["fit_seconds"], ours["predict_seconds"]) == ("12.5", "0.25")


def test_markdown(make_comparison):
    text = comparison_markdown(make_comparison())
    table = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    assert len({len(line) for line in table}) == 1
    assert table[0][:4] == ["method", "AM (%)", "paper (AM, %)", "Δ (AM)"]
    ewc = ["ewc · gcn", "63.3 ± 1.4", "63.1 ± 0.5", "+0.2", "−4.0 ± 1.4", "−7.0 ± 1.0", "95.0 ± 1.4"]
    assert table[2] == [*ewc, "1,234", "98,765", "46,720", "12.8"]
    assert table[4][:3] == ["twp · gin", "failed", "–"]
    assert [line[0] for line in table[2:]] == ["ewc · gcn", "ewc · gat", "twp · gin", "joint · gcn", "hpn"]
    assert table[-1][1] == "**94.0 ± 1.4**", "joint training sees the past"
    assert table[-2][1] == "95.0 ± 1.4"
    assert "AM (average accuracy after the last task); FM (" in text
    assert PARAMETERS_REMARK in text
    assert r"- twp · gin failed: out of \| memory \<b\>" in text
    assert "“paper”: the table" in text
    assert "```\nhpn compare cora --methods all\n```" in text


def test_another_protocol_has_no_column_of_the_papers_and_says_why(parse_page, without_paper):
    texts = [comparison_markdown(without_paper), "".join(parse_page(comparison_page(without_paper)).text)]
    for text in texts:
        assert "The paper’s AM and FM are left out: they are for edges within a task." in text
        assert "Δ" not in text
        assert "63.1" not in text
        assert PARAMETERS_REMARK in text
        assert "46,720" in text
    assert "hollow" not in texts[1]


def test_html(parse_page, make_comparison):
    source = comparison_page(make_comparison())
    page = parse_page(source)
    text = "".join(page.text)
    for said in ("5 cells of 4 methods, 2 seeds each", PARAMETERS_REMARK, "failed: out of | memory <b>", "hollow"):
        assert said in text
    assert page.tags["figure"] == 3, "one chart per metric"
    best = re.findall(r'<td class="num best"[^>]*>(.*?)</td>', source)
    assert best == ["94.0 ± 1.4"], "FM and ARS are the same everywhere"
    values = [float(value) for tag, name, value in page.attributes if (tag, name) == ("td", "data-value") and value]
    assert {63.3, 63.1, 46720.0, 12.75} <= set(values), "cells are sorted by their numbers"


def test_data_cannot_add_elements(parse_page, hostile, make_comparison):
    def page(word):
        changes = {0: {"method": word, "backbone": word}, 2: {"error": word}}
        comparison = make_comparison(changes, dataset=word, command=word, published_source=word)
        return parse_page(comparison_page(comparison))

    bad, plain = page(hostile), page("x")
    assert bad.tags == plain.tags
    names = Counter((tag, name) for tag, name, _ in bad.attributes)
    assert names == Counter((tag, name) for tag, name, _ in plain.attributes)


def test_the_best_needs_somebody_to_be_better_than(make_comparison):
    rows = make_comparison().rows
    assert best_rows(rows, METRICS["am"]) == {4}
    assert best_rows(rows[3:], METRICS["am"]) == set()


def test_the_direction_of_a_metric_decides_what_is_best(make_comparison):
    scores = {0: summarize([3.0]), 1: summarize([1.0]), 4: summarize([2.0])}
    comparison = make_comparison({number: {"intransigence": score} for number, score in scores.items()})
    assert best_rows(comparison.rows, METRICS["intransigence"]) == {1}
    assert "**+1.0**" in comparison_markdown(comparison)


def test_everything_failed(parse_page, make_comparison):
    failed = dict.fromkeys(("am", "fm", "ars", "parameters", "stored", "seconds", "difference", "published"))
    comparison = make_comparison({number: {**failed, "error": "no"} for number in range(5)})
    page = parse_page(comparison_page(comparison))
    assert "figure" not in page.tags
    assert comparison_markdown(comparison).count("| failed |") == 5


def test_files_are_written_whole_and_the_same_each_time(tmp_path, make_comparison):
    comparison = make_comparison(out=str(tmp_path / "out"))
    files = write_comparison(comparison)
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == sorted(file.name for file in files)
    assert [file.suffix for file in files] == [".csv", ".md", ".html"]
    contents = [file.read_bytes() for file in files]
    read_back = Comparison.model_validate(json.loads(json.dumps(comparison.to_json())))
    assert [file.read_bytes() for file in write_comparison(read_back, tmp_path / "other")] == contents
