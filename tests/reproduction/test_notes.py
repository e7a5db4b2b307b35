from __future__ import annotations

import re

import pytest

from hpn.datasets import CATALOG
from hpn.errors import ConfigError
from hpn.experiment.compare.cells import ORDER
from hpn.metrics import summarize
from hpn.reproduction import notes
from hpn.reproduction.claims import CLAIMS
from hpn.reproduction.notes import Note, find_notes, packaged_notes, read_notes
from hpn.reproduction.verdicts import Judged


def judged(verdict="better", *, experiment="comparison", dataset="cora", metric="am", **case):
    label = case or {"method": "ewc", "backbone": "gcn", "preset": None}
    return Judged(experiment, dataset, label, metric, summarize([90.0]), 63.1, 1.2, 26.9, verdict)


def test_packaged_notes_name_what_exists():
    for note in packaged_notes():
        assert set(note.dataset or []) <= set(CATALOG)
        methods = note.case.get("method", [])
        assert set([methods] if isinstance(methods, str) else methods) <= set(ORDER)
        assert note.case.get("preset") in {None, "paper", "best"}
        assert set(note.case) <= {"method", "backbone", "preset", "levels", "losses"}


def test_packaged_notes_hold_no_numbers():
    for note in packaged_notes():
        assert not re.search(r"\d", note.text), note.text
        assert note.text.endswith(".")


def test_reasons_apply_to_what_they_name():
    everything = Note(experiment="comparison", text="a")
    assert everything.applies(judged())
    assert not everything.applies(judged(experiment="accuracy-matrices"))
    assert Note(experiment=["dynamics", "comparison"], text="a").applies(judged())
    for field, right, wrong in (
        ("dataset", "cora", "actor"),
        ("dataset", ["actor", "cora"], ["actor"]),
        ("metric", "am", "fm"),
        ("verdict", "better", "worse"),
        ("case", {"method": "ewc"}, {"method": "mas"}),
        (
            "case",
            {"method": ["mas", "ewc"], "backbone": "gcn"},
            {"method": ["mas", "ewc"], "backbone": "gat"},
        ),
        ("case", {"preset": None}, {"levels": "A"}),
    ):
        assert Note.model_validate({"experiment": "comparison", "text": "a", field: right}).applies(judged())
        assert not Note.model_validate({"experiment": "comparison", "text": "a", field: wrong}).applies(
            judged()
        )


def test_what_is_within_needs_no_reason():
    assert find_notes(judged("within"), [Note(experiment="comparison", text="a")]) == []


def test_all_reasons_are_found_in_order():
    notes = [Note(experiment="comparison", text=text) for text in ("b", "a")]
    assert find_notes(judged(), notes) == ["b", "a"]


def test_known_reasons():
    assert any("tuned" in text for text in find_notes(judged()))
    assert find_notes(judged("worse")) == []
    best = {"method": "hpn", "backbone": None, "preset": "best"}
    assert any("certified" in text for text in find_notes(judged("worse", metric="fm", **best)))
    assert any("larger class" in text for text in find_notes(judged(dataset="actor", **best)))
    assert any("least squares" in text for text in find_notes(judged(**best)))
    levels = judged(experiment="ablation-levels", preset="paper", levels="A")
    assert any("straight-through" in text for text in find_notes(levels))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("- {experiment: comparision, text: a}", "did you mean 'comparison'"),
        ("- {experiment: comparison, text: '  '}", "entry 1: text: .*expected a reason"),
        ("- {experiment: comparison, text: a | b}", "cannot hold |"),
        ("- {experiment: comparison}", "entry 1: text: Field required"),
        (
            "- {experiment: comparison, text: a}\n- {experiment: comparison, text: a, seed: 1}",
            "entry 2: seed",
        ),
        ("- {experiment: comparison, text: a, verdict: within}", "entry 1: verdict"),
        ("experiment: comparison", "must be a list"),
        ("- {", "not YAML"),
    ],
)
def test_faults_are_named(text, fault, tmp_path):
    path = tmp_path / "notes.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=fault):
        read_notes(path)


def test_text_is_put_on_one_line(tmp_path):
    path = tmp_path / "notes.yaml"
    path.write_text("- experiment: comparison\n  text: |\n    a\n    b\n", encoding="utf-8")
    assert read_notes(path)[0].text == "a b"


def test_remarks_are_of_claims_that_there_are() -> None:
    assert {*notes._remarks()} <= {claim.name for claim in CLAIMS}
    for claim, remark in notes._remarks().items():
        assert remark.endswith(".")
        assert notes.find_remark(claim, "holds") is None
        assert notes.find_remark(claim, "not tested here") is None
        assert (
            notes.find_remark(claim, "does not hold") == notes.find_remark(claim, "holds on some") == remark
        )
    assert notes.find_remark("no such claim", "does not hold") is None
