from __future__ import annotations

import re

import pytest

from hpn.metrics import summarize
from hpn.reproduction import summary
from hpn.reproduction.experiments import EXPERIMENTS
from hpn.reproduction.page_findings import RULE
from hpn.reproduction.results import Content
from hpn.reproduction.verdicts import NUM_DEVIATIONS, count_verdicts, is_hpn, judge_all


def parse(pages):
    return {name: Content.model_validate(content) for name, content in pages.items()}


def render_summary(pages, abouts):
    return summary.render_summary(parse(pages), abouts)


@pytest.fixture
def pages(make_content, make_section):
    def make(name):
        datasets = [dataset for dataset in EXPERIMENTS[name].datasets if dataset != "ogbn-products"]
        return make_content(name, *(make_section(name, d, is_paper=d != "digits") for d in datasets))

    return {name: make(name) for name in EXPERIMENTS}


def test_it_is_whole(pages, abouts, tables_of):
    page = render_summary(pages, abouts)
    assert render_summary(pages, abouts) == page
    assert (page.name, page.figures) == ("README", {})
    assert page.markdown.endswith("\n")
    assert not page.markdown.endswith("\n\n")
    assert not re.search(r"[ \t]$|\n\n\n", page.markdown, re.MULTILINE)
    tables_of(page.markdown)
    assert "```\nhpn reproduce all --seeds 2\n```" in page.markdown
    assert set(re.findall(r"\]\(([^)]+)\)", page.markdown)) == {f"{name}.md" for name in EXPERIMENTS}


def test_the_rule_is_told_once_and_is_the_rule(pages, abouts):
    assert NUM_DEVIATIONS == 2
    assert "at most two standard deviations" in RULE
    assert render_summary(pages, abouts).markdown.count("two standard deviations") == 1


def test_experiments(pages, abouts, tables_of):
    table = tables_of(render_summary(pages, abouts).markdown)[0]
    assert table[0] == ["experiment", "in the paper", "run on", "within", "better", "worse"]
    assert len(table) == 1 + len(EXPERIMENTS)
    assert table[1][0].startswith("[comparison](comparison.md): ")
    assert table[1][2] == "cora, citeseer, actor, digits, ogbn-arxiv"
    rows = {re.match(r"\[(.+?)\]", row[0])[1]: row for row in table[1:]}
    assert rows["dynamics"][3:] == ["–"] * 3
    judged = judge_all(parse(pages))["comparison"]
    assert rows["comparison"][3:] == [str(num) for num in count_verdicts(judged).values()]


def test_counts(pages, abouts, tables_of):
    table = tables_of(render_summary(pages, abouts).markdown)[1]
    counts = {row[0]: [int(cell) for cell in row[1:]] for row in table[1:]}
    for num, *parts in counts.values():
        assert num == sum(parts) > 0
    judged = [one for found in judge_all(parse(pages)).values() for one in found]
    assert counts["all"][0] == len(judged)
    assert counts["HPN, preset `paper`"][0] == len([one for one in judged if is_hpn(one, "paper")])
    shares = [counts[name][0] for name in counts if name != "all"]
    assert sum(shares) == counts["all"][0]


def test_every_number_of_hpn_that_is_not_within(pages, abouts, tables_of):
    _, _, _, ours, others = tables_of(render_summary(pages, abouts).markdown)
    judged = [one for found in judge_all(parse(pages)).values() for one in found]
    assert len(ours) - 1 == len([one for one in judged if is_hpn(one) and one.verdict != "within"])
    assert len(others) - 1 == len([one for one in judged if not is_hpn(one) and one.verdict == "worse"])
    assert {row[7] for row in others[1:]} == {"worse"}
    row = next(row for row in ours if row[1:4] == ["actor", "hpn (best)", "AM"])
    assert row[4:8] == [row[4], "56.8 ± 1.4", row[6], "better"]
    assert float(row[6].replace("−", "-")) == pytest.approx(float(row[4].split()[0]) - 56.8, abs=0.11)


def test_reasons_are_told_once(pages, abouts, tables_of):
    page = render_summary(pages, abouts)
    reasons = re.findall(r"^(\d+)\. (.+)$", page.markdown, re.MULTILINE)
    assert [int(number) for number, _ in reasons] == list(range(1, len(reasons) + 1))
    assert len({text for _, text in reasons}) == len(reasons) > 0
    _, _, _, ours, others = tables_of(page.markdown)
    used = {number for row in [*ours, *others] for number in re.findall(r"\((\d+)\)", row[8])}
    assert used == {number for number, _ in reasons}
    assert any(row[8] == "not known" for row in ours)


def test_claims(pages, abouts, tables_of):
    markdown = render_summary(pages, abouts).markdown
    table = tables_of(markdown)[2]
    assert table[0] == ["claim", "verdict", "holds on", "does not hold on"]
    assert {row[1] for row in table[1:]} <= {
        *("*holds*", "*does not hold*", "*holds on some data sets*", "*not tested here*"),
    }
    levels = next(row for row in table if row[0].startswith("AM rises when node-level"))
    assert "cora" in levels[2]
    assert "best" not in "".join(levels), "other presets do not decide"
    details = markdown.partition("### The numbers")[2].partition("\n## ")[0]
    assert "**Higher levels help** ([ablation-levels](ablation-levels.md)): " in details
    assert "- cora: *holds*. AM: A " in details
    assert "(best): " not in details


def test_what_we_make_of_a_claim_that_does_not_hold(pages, abouts):
    for section in pages["ablation-levels"]["sections"]:
        for case in section["cases"]:
            case["am"] = summarize([90.0] * len(section["seeds"]))
    details = render_summary(pages, abouts).markdown.partition("### The numbers")[2]
    assert "*does not hold*. Atomic prototypes alone do as well here." in details


def test_what_is_not_here(pages, abouts):
    part = render_summary(pages, abouts).markdown.partition("## What is not here")[2]
    assert re.findall(r"^- (.+)$", part, re.MULTILINE) == [
        "comparison: ogbn-products",
        "dynamics: ogbn-products",
        "memory: ogbn-products",
    ]


def test_nothing_was_run(abouts, tables_of):
    page = render_summary({}, abouts)
    tables = tables_of(page.markdown)
    assert {row[2] for row in tables[0][1:]} == {"not run"}
    assert {row[1] for row in tables[2][1:]} == {"*not tested here*"}
    assert page.markdown.count("\nNone.\n") == 2
    assert "](comparison.md)" not in page.markdown
    assert "hpn reproduce all\n" in page.markdown


def test_failed_cases_and_hostile_names(make_content, make_section, fail, abouts, hostile, tables_of):
    section, failed = make_section("comparison", hostile, is_paper=False), make_section("comparison", "cora")
    for number in range(len(failed["cases"])):
        fail(failed, number)
    page = render_summary({"comparison": make_content("comparison", section, failed)}, abouts)
    tables_of(page.markdown)
    assert not re.search(r"(?<!\\)<(?!br>)", page.markdown)


def test_other_seeds_than_the_first(make_content, abouts):
    content = make_content("dynamics", num_seeds=2)
    content["sections"][0]["seeds"] = [3, 7]
    assert "hpn reproduce all --seed 3 --seed 7\n" in render_summary({"dynamics": content}, abouts).markdown
