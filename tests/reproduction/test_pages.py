from __future__ import annotations

import json
import re
from dataclasses import asdict, replace

import pytest

from hpn.experiment.published import published_cell, published_matrix
from hpn.metrics import Summary
from hpn.report.format import plain_markdown
from hpn.reproduction import pages
from hpn.reproduction.experiments import EXPERIMENTS
from hpn.reproduction.pages import _BODIES, _REMARKS
from hpn.reproduction.results import Content


def render_page(content, words):
    return pages.render_page(Content.model_validate(content), words)


def about(name):
    return EXPERIMENTS[name].words()


def check_text(page, tables_of, check_figures):
    """What every page must be, whatever it shows."""
    assert page.markdown.endswith("\n")
    assert not page.markdown.endswith("\n\n")
    assert not re.search(r"[ \t]$", page.markdown, re.MULTILINE)
    assert "\n\n\n" not in page.markdown
    assert not re.search(r"\b(None|nan|True|False)\b", page.markdown)
    assert page.markdown.count("<details>") == page.markdown.count("</details>")
    tables_of(page.markdown)
    check_figures(page)


def test_every_experiment_has_a_page():
    assert list(_BODIES) == list(EXPERIMENTS)
    assert list(_REMARKS) == list(EXPERIMENTS)


def test_pages_are_whole(experiment, make_content, make_section, tables_of, check_figures):
    content = make_content(
        experiment,
        make_section(experiment, "cora"),
        make_section(experiment, "digits", num_tasks=5, is_paper=False),
    )
    page = render_page(content, about(experiment))
    check_text(page, tables_of, check_figures)
    assert page.name == experiment
    heads = re.findall(r"^## (.+)$", page.markdown, re.MULTILINE)
    assert heads[:2] == ["cora", "digits"]
    assert heads[-3:] == ["What agrees, what does not and why", "What the paper says", "Run it again"] or (
        experiment == "accuracy-matrices"
        and heads[-2:] == ["What agrees, what does not and why", "Run it again"]
    )
    assert f"[{experiment}.json]({experiment}.json)" in page.markdown
    assert f"hpn reproduce {experiment} --datasets digits --seeds 2" in page.markdown
    assert "python 3.11.7" in page.markdown
    for words in about(experiment).values():
        assert plain_markdown(words) in page.markdown
    assert page.figures


def test_the_same_json_gives_the_same_page(experiment, make_content):
    content = make_content(experiment)
    first = render_page(content, about(experiment))
    again = render_page(json.loads(json.dumps(content, default=asdict)), about(experiment))
    assert again == first
    assert list(again.figures) == list(first.figures)


def test_every_case_has_its_command(experiment, make_content):
    content = make_content(experiment)
    for number, case in enumerate(content["sections"][0]["cases"]):
        case["command"] = f"hpn run cora --number {number}."
    page = render_page(content, about(experiment))
    folded = page.markdown.partition("<details>")[2]
    for number in range(len(content["sections"][0]["cases"])):
        assert f"hpn run cora --number {number}.\n" in folded


def test_one_seed(experiment, make_content, tables_of, check_figures):
    page = render_page(make_content(experiment, num_seeds=1), about(experiment))
    check_text(page, tables_of, check_figures)


def test_one_task(experiment, make_content, tables_of, check_figures):
    page = render_page(make_content(experiment, num_tasks=1, is_paper=False), about(experiment))
    check_text(page, tables_of, check_figures)


def test_a_long_stream(experiment, make_content, tables_of, check_figures):
    page = render_page(make_content(experiment, dataset="ogbn-products", num_tasks=23), about(experiment))
    check_text(page, tables_of, check_figures)


def test_some_cases_failed(experiment, make_content, fail, tables_of, check_figures):
    content = make_content(experiment)
    fail(content["sections"][0], 0)
    page = render_page(content, about(experiment))
    check_text(page, tables_of, check_figures)
    assert r"failed: out of \| memory \<b\>" in page.markdown


def test_all_cases_failed(experiment, make_content, fail, tables_of, check_figures):
    content = make_content(experiment)
    for number in range(len(content["sections"][0]["cases"])):
        fail(content["sections"][0], number)
    page = render_page(content, about(experiment))
    check_text(page, tables_of, check_figures)
    assert page.markdown.count("failed: ") >= len(content["sections"][0]["cases"])


def test_cases_are_missing(experiment, make_content, tables_of, check_figures):
    content = make_content(experiment)
    del content["sections"][0]["cases"][1:]
    check_text(render_page(content, about(experiment)), tables_of, check_figures)
    content["sections"][0]["cases"].clear()
    page = render_page(content, about(experiment))
    check_text(page, tables_of, check_figures)
    assert "Nothing was run." in page.markdown


def test_nothing_was_run(experiment, tables_of, check_figures):
    page = render_page({"schema": 1, "experiment": experiment, "sections": []}, about(experiment))
    check_text(page, tables_of, check_figures)
    assert "Nothing was run here." in page.markdown


def test_numbers_that_old_runs_lack(experiment, make_content, tables_of, check_figures):
    content = make_content(experiment)
    for case in content["sections"][0]["cases"]:
        case.update(dict.fromkeys(("growth", "bounds", "parameter_bound", "stored", "views", "separation")))
    check_text(render_page(content, about(experiment)), tables_of, check_figures)


def test_hostile_names(experiment, make_content, make_section, hostile, tables_of, check_figures):
    sections = [make_section(experiment, name, is_paper=False) for name in (hostile, hostile + "!")]
    for section in sections:
        section["classes"] = dict.fromkeys(section["classes"], hostile)
        section["versions"] = {hostile: hostile}
        section["command"] = f"hpn reproduce '```\n{hostile}'"
        for case in section["cases"]:
            case["command"] = f"hpn run '{hostile}\n```'"
    page = render_page(make_content(experiment, *sections), about(experiment))
    check_text(page, tables_of, check_figures)
    outside = re.sub(r"^(`{3,})\n.*?^\1$", "", page.markdown, flags=re.MULTILINE | re.DOTALL)
    assert not re.search(r"(?<!\\)<(?!/?(details|summary)>)", outside), "markup of a name"
    for found in re.findall(r"<summary>(.*)</summary>", outside):
        assert "<b>" not in found
    text = re.sub(r"^<summary>.*</summary>$", "", outside, flags=re.MULTILINE)  # markup, where ] is no link
    assert "](y)" not in text.replace(r"\](y)", ""), "a link of a name"


def test_a_lone_surrogate_can_be_written(make_content):
    content = make_content("dynamics", dataset="my\udcff graph", is_paper=False)
    content["sections"][0]["command"] = "hpn reproduce 'my\udcff graph'"
    page = render_page(content, about("dynamics"))
    page.markdown.encode()
    for svg in page.figures.values():
        svg.encode()


def test_the_paper_beside_ours(make_content, tables_of):
    content = make_content("comparison")
    first, *_, last = content["sections"][0]["cases"][0:1], content["sections"][0]["cases"][26]
    paper = published_cell("cora", "finetune", "gcn")
    first[0]["am"] = Summary(paper.am.mean + 2 * paper.am.std, 0.5, [0.0, 1.0])
    first[0]["fm"] = Summary(paper.fm.mean - 2.1 * paper.fm.std, 0.5, [0.0, 1.0])
    (table,) = tables_of(render_page(content, about("comparison")).markdown)
    judged = ["the paper", "Δ", "verdict"]
    costs = ["ARS (%)", "stored (numbers)", "seconds (a seed)"]
    assert table[0] == ["method", "AM (%)", *judged, "FM (points)", *judged, *costs]
    assert table[1][:9] == [
        *("finetune · gcn", "67.3 ± 0.5", "63.5 ± 1.9", "+3.8", "within 2 sd"),
        *("−43.1 ± 0.5", "−42.3 ± 0.4", "−0.8", "worse"),
    ]
    assert table[1][10:] == ["98,765", "12.8"]
    names = [row[0] for row in table]
    assert names.index("hpn (best)") == names.index("hpn (paper)") + 1
    joint = table[names.index("joint · gcn")]
    assert joint[5:10] == ["–"] * 5
    assert last["method"] == "probe"
    assert table[names.index("probe")][2:5] == ["–"] * 3


def test_the_best_that_does_not_see_the_past_is_bold(make_content, tables_of):
    content = make_content("comparison", is_paper=False)
    for case in content["sections"][0]["cases"]:
        case["am"] = replace(case["am"], mean={"joint": 99.0, "ridge": 98.0}.get(case["method"], 50.0))
    (table,) = tables_of(render_page(content, about("comparison")).markdown)
    assert [row[0] for row in table if "**" in row[1]] == ["ridge"]
    assert "the paper" not in table[0]


def test_a_failed_case_keeps_the_papers_number(make_content, fail, tables_of):
    content = make_content("comparison")
    fail(content["sections"][0], 3)
    page = render_page(content, about("comparison"))
    (table,) = tables_of(page.markdown)
    assert table[4][:5] == ["ewc · gcn", r"failed: out of \| memory \<b\>", "63.1 ± 1.2", "–", "–"]
    assert table[4][5:9] == ["–", "−42.7 ± 1.6", "–", "–"]


def test_matrices_are_in_our_orientation(make_content, tables_of):
    content = make_content("accuracy-matrices")
    case = content["sections"][0]["cases"][0]
    paper = published_matrix("cora", "finetune", "gat")
    case["matrices"] = [[[value + sign for value in row] for row in paper] for sign in (-1.0, 1.0)]
    case["matrices"][0][2][0] += 10
    case["matrices"][1][2][0] += 10
    tables = tables_of(render_page(content, about("accuracy-matrices")).markdown)
    assert tables[0][0] == ["method", "AM (%)", "FM (points)", "ARS (%)"]
    table = tables[1]
    assert table[0][:5] == ["after task", "task 1", "the paper", "Δ", "verdict"]
    assert table[1] == ["1", "94.1 ± 1.4", "94.12", "0.0", "within 2 sd", *[""] * 8]
    assert table[3][:5] == ["3", "81.5 ± 1.4", "71.49", "+10.0", "better"]
    assert table[3][9:] == ["94.4 ± 1.4", "94.44", "0.0", "within 2 sd"]


def test_matrices_of_one_seed_are_not_judged(make_content, tables_of):
    page = render_page(make_content("accuracy-matrices", num_seeds=1), about("accuracy-matrices"))
    table = tables_of(page.markdown)[1]
    assert table[1][2:5] == ["94.12", "–", "–"]
    assert "No number here can be judged" in page.markdown


def test_reasons_stand_beside_what_they_explain(make_content):
    content = make_content("comparison")
    for case in content["sections"][0]["cases"]:
        case["am"] = replace(case["am"], mean=99.5 if case["method"] == "ewc" else 10.0)
    page = render_page(content, about("comparison"))
    part = page.markdown.partition("## What agrees")[2].partition("\n## ")[0]
    better = next(line for line in part.split("\n") if line.startswith("- **better**") and "ewc" in line)
    assert "ewc · gcn (AM" in better
    assert "tuned here, on validation nodes" in better
    worse = next(line for line in part.split("\n") if line.startswith("- **worse**") and "mas" in line)
    assert worse.endswith("The reason is not known.")


def test_counts_of_a_page(make_content):
    page = render_page(make_content("ablation-levels"), about("ablation-levels"))
    found = re.search(
        r"Of 6 numbers .* (\d+) are within .* (\d+) are better and (\d+) worse\.", page.markdown
    )
    assert found
    assert sum(map(int, found.groups())) == 6


def test_claims_come_with_criterion_and_numbers(make_content):
    page = render_page(make_content("ablation-levels"), about("ablation-levels"))
    part = page.markdown.partition("## What the paper says")[2]
    assert re.search(r"^\*holds\*: AM rises when node-level", part, re.MULTILINE)
    assert re.search(r"^Criterion: ", part, re.MULTILINE)
    assert re.search(r"^- cora: \*holds\*\. AM: A ", part, re.MULTILINE)
    page = render_page(make_content("comparison"), about("comparison"))
    part = page.markdown.partition("## What the paper says")[2]
    assert re.search(r"^- cora \(best\): ", part, re.MULTILINE), "other presets are told as well"


def test_ablations_are_of_the_preset_paper(make_content):
    said = {
        "ablation-levels": "with `best` the levels cannot change the answer, by construction",
        "ablation-losses": "`best` is solved in closed form and has no losses to leave out",
    }
    for name, words in said.items():
        page = render_page(make_content(name), about(name))
        assert page.markdown.count("best") == page.markdown.count(words) == 1


@pytest.mark.parametrize(
    "name", ["dynamics", "sensitivity-extractors", "sensitivity-losses", "visualization"]
)
def test_pictures_of_the_paper_are_told_once(name, make_content, make_section):
    sections = [make_section(name, dataset) for dataset in ("cora", "citeseer")]
    page = render_page(make_content(name, *sections), about(name))
    assert page.markdown.count("The paper shows this as a picture") == 1


def test_seeds_and_versions_that_differ_are_told_apart(make_content, make_section):
    sections = [make_section("dynamics", "cora"), make_section("dynamics", "citeseer", num_seeds=3)]
    page = render_page(make_content("dynamics", *sections), about("dynamics"))
    assert "- cora: seeds 0, 1; python" in page.markdown
    assert "- citeseer: seeds 0, 1, 2; python" in page.markdown


def test_rows_that_were_run_again_are_told(make_content, make_section, hostile):
    sections = [make_section("dynamics", dataset) for dataset in ("cora", "citeseer", "digits")]
    assert "later runs" not in render_page(make_content("dynamics", *sections), about("dynamics")).markdown
    for section, version in zip(sections[:2], ("0.2.0", hostile), strict=True):
        section["cases"][3]["again"] = {
            "command": f"{section['command']} --only best",
            "versions": {"hpn": version},
        }
    text = render_page(make_content("dynamics", *sections), about("dynamics")).markdown
    part = text.partition("## Run it again")[2].partition("<details>")[0]
    assert part.count("hpn reproduce dynamics --datasets cora --seeds 2\n") == 1
    assert part.count("hpn reproduce dynamics --datasets cora --seeds 2 --only best\n") == 1
    assert "--datasets digits --seeds 2 --only" not in part
    assert "All with seeds 0, 1; python 3.11.7, hpn 0.1.0." in part
    assert "- hpn (best) on cora: hpn 0.2.0.\n" in part
    assert f"- hpn (best) on citeseer: hpn {plain_markdown(hostile)}.\n" in part
