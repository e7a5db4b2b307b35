from __future__ import annotations

import re

import pytest

from hpn.experiment.published import published_cell
from hpn.metrics import Summary, summarize
from hpn.report.format import plain_markdown
from hpn.reproduction import pages
from hpn.reproduction.content import Content
from hpn.reproduction.figures import PageFigure

HOSTILE = "a|b `c` <b>&_d_</b>\n[x](y)\\"
JUDGED = ["the paper", "Δ", "verdict"]


def read_tables(markdown: str) -> list[list[list[str]]]:
    """The tables of a page: rows of cells, the line of rules left out."""
    tables: list[list[list[str]]] = []
    previous = ""
    for line in markdown.split("\n"):
        if line.startswith("|"):
            if not previous.startswith("|"):
                tables.append([])
            tables[-1].append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        previous = line
    for table in tables:
        rule = table.pop(1)
        assert all(re.fullmatch(r"-{2,}:?|-+", cell) for cell in rule), rule
        assert {len(row) for row in [*table, rule]} == {len(table[0])}, table
    return tables


@pytest.fixture
def render():
    """Render a page, or the summary of several, and check what every page must be."""

    def make(content):
        if "experiment" in content:
            page = pages.render_page(Content.model_validate(content))
        else:
            page = pages.render_summary({n: Content.model_validate(one) for n, one in content.items()})
        text = page.markdown
        assert re.search(r"[^\n]\n\Z", text)
        assert not re.search(r"[ \t]$|\n\n\n|\b(None(?!\.\n)|nan|True|False)\b", text, re.MULTILINE)
        assert text.count("<details>") == text.count("</details>")
        outside = re.sub(r"^(`{3,})\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
        for line in outside.split("\n"):
            assert len(line) <= 120 or line.startswith(("|", "![", "#", "<")), "prose wraps"
        shown = re.findall(r"^!\[(.{20,})\]\(([^)\s]+\.svg)\)$", text, re.MULTILINE)
        assert sorted(file for _, file in shown) == sorted(page.figures)
        assert text.count("![") == len(shown)
        assert all(file.startswith(f"{page.name}-") for file in page.figures)
        return page, read_tables(text), outside

    return make


@pytest.mark.parametrize(
    "options", [{"num_seeds": 1}, {"num_tasks": 1, "is_paper": False}, {"dataset": "ogbn-products", "num_tasks": 23}]
)
def test_one_seed_one_task_and_long_streams(experiment, options, make_content, render):
    page, _, _ = render(make_content(experiment, **options))
    assert ("seeds 0.\n" in page.markdown) == ("num_seeds" in options)


@pytest.mark.parametrize("failed", [slice(1), slice(None)])
def test_failed_cases(experiment, failed, make_content, fail, render):
    content = make_content(experiment)
    cases = content["sections"][0]["cases"]
    for number in range(len(cases))[failed]:
        fail(content["sections"][0], number)
    page, _, _ = render(content)
    assert page.markdown.count(r"failed: out of \| memory \<b\>") >= len(cases[failed])


def test_what_is_missing(experiment, make_content, render):
    content = make_content(experiment)
    for case in content["sections"][0]["cases"]:
        case.update(dict.fromkeys(("growth", "bounds", "parameter_bound", "stored", "views", "separation")))
    render(content)
    del content["sections"][0]["cases"][1:]
    render(content)
    content["sections"][0]["cases"].clear()
    assert "\nNothing was run.\n" in render(content)[0].markdown
    content["sections"].clear()
    assert "Nothing was run here." in " ".join(render(content)[0].markdown.split())


def test_hostile_names(experiment, make_content, make_section, render):
    sections = [make_section(experiment, HOSTILE + end, is_paper=False) for end in ("", "!", "\udcff")]
    for section in sections:
        section |= {"classes": dict.fromkeys(section["classes"], HOSTILE), "versions": {HOSTILE: HOSTILE}}
        section["command"] = f"hpn reproduce '```\n{HOSTILE}'"
        for case in section["cases"]:
            case["command"] = f"hpn run '{HOSTILE}\n```'"
    contents = make_content(experiment, *sections)
    for page, _, outside in (render(contents), render({experiment: contents})):
        page.markdown.encode()
        assert not re.search(r"(?<!\\)<(?!/?(details|summary)>)", outside), "markup of a name"
        assert all("<b>" not in found for found in re.findall(r"<summary>(.*)</summary>", outside))
        text = re.sub(r"^<summary>.*</summary>$", "", outside, flags=re.MULTILINE)
        assert "](y)" not in text.replace(r"\](y)", ""), "a link of a name"


def test_figures_never_share_a_name():
    files = {}
    for stem in ("a b", "a-b", "A|b", "../a b", "漢字"):
        pages.add_figure(files, "x", PageFigure(stem, stem, "", ""))
    assert [*files] == ["x-a-b.svg", "x-a-b-2.svg", "x-a-b-3.svg", "x-a-b-4.svg", "x-graph.svg"]


def test_comparison(make_content, fail, render):
    content = make_content("comparison")
    first, paper = content["sections"][0]["cases"][0], published_cell("cora", "finetune", "gcn")
    first["am"] = Summary(paper.am.mean + 2 * paper.am.std, 0.5, [0.0, 1.0])
    first["fm"] = Summary(paper.fm.mean - 2.1 * paper.fm.std, 0.5, [0.0, 1.0])
    fail(content["sections"][0], 3)
    _, (table,), _ = render(content)
    assert table[1][:9] == [
        *("finetune · gcn", "67.3 ± 0.5", "63.5 ± 1.9", "+3.8", "within 2 sd"),
        *("−43.1 ± 0.5", "−42.3 ± 0.4", "−0.8", "worse"),
    ]
    assert table[4][1:9] == [*(r"failed: out of \| memory \<b\>", "63.1 ± 1.2", "–", "–", "–", "−42.7 ± 1.6", "–", "–")]


def test_ablation(make_content, fail, render):
    content = make_content("ablation-levels")
    cases = content["sections"][0]["cases"]
    for case, values in zip(cases, ([90.0, 80.0], [91.0, 83.0], [92.0, 83.0]), strict=True):
        case["am"] = summarize(values)
    _, (am, _, steps), _ = render(content)
    assert am[:2] == [["AM", "ours", *JUDGED], ["A", "85.0 ± 7.1", "89.2 ± 1.3", "−4.2", "worse"]]
    assert [row[0] for row in steps[1:]] == ["A → AN", "AN → ANC", "A → ANC"]
    assert [row[1] for row in steps[1:]] == ["+2.0 ± 1.0", "+0.5 ± 0.5", "+2.5 ± 0.5"], "paired by seed"
    assert [row[3] for row in steps[1:]] == ["+2.5", "+2.0", "+4.5"], "the paper's own means"
    fail(content["sections"][0], 1)
    _, (am, _, steps), _ = render(content)
    assert am[2][2:] == ["91.7 ± 1.1", "–", "–"]
    assert [row[1] == "–" for row in steps[1:]] == [True, True, False]


def test_seeds_and_rows_that_were_run_again(make_content, make_section, render):
    sections = [make_section("dynamics", name) for name in ("cora", "citeseer")]
    sections.append(make_section("dynamics", "digits", num_seeds=3))
    assert "later runs" not in render(make_content("dynamics", *sections))[0].markdown
    for section, version in zip(sections[:2], ("0.2.0", HOSTILE), strict=True):
        again = {"command": f"{section['command']} --only best", "versions": {"hpn": version}}
        section["cases"][3]["again"] = again
    part = render(make_content("dynamics", *sections))[0].markdown.partition("## Run it again")[2]
    assert part.count("--datasets cora --seeds 2\n") == part.count("cora --seeds 2 --only best\n") == 1
    assert "- cora, citeseer: seeds 0, 1; python 3.11.7, hpn 0.1.0.\n" in part
    assert "- digits: seeds 0, 1, 2; python" in part
    assert "- hpn (best) on cora: hpn 0.2.0.\n" in part
    assert f"- hpn (best) on citeseer: hpn {plain_markdown(HOSTILE)}.\n" in part


def test_summary_of_nothing_and_of_other_seeds(make_content, render):
    page, tables, _ = render({})
    assert {row[2] for row in tables[0][1:]} == {"not run"}
    assert {row[1] for row in tables[2][1:]} == {"*not tested here*"}
    assert page.markdown.count("\nThere are none.\n") == 2
    assert "hpn reproduce all\n" in page.markdown
    content = make_content("dynamics")
    content["sections"][0]["seeds"] = [3, 7]
    assert "hpn reproduce all --seed 3 --seed 7\n" in render({"dynamics": content})[0].markdown
