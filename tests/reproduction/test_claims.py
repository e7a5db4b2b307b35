from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpn.metrics import summarize
from hpn.reproduction import claims
from hpn.reproduction.claims import CLAIMS, ClaimResult
from hpn.reproduction.experiments import EXPERIMENTS
from hpn.reproduction.results import Content

Case = dict[str, Any]
Section = dict[str, Any]

SEEDS = (-0.1, 0.0, 0.1)
LEVELS = {"A": 89.0, "AN": 91.0, "ANC": 93.0}
LOSSES = {"cls": 92.0, "cls+div": 92.5, "cls+dis": 92.6, "cls+div+dis": 93.5}
RIVALS = ("finetune", "ewc", "lwf", "gem", "mas", "ergnn", "twp")
BACKBONES = ("gcn", "gat", "gin")
THRESHOLDS = (0.01, 0.1, 0.2, 0.25, 0.3, 0.4)
WEIGHTS = (1e-4, 1e-2, 1.0, 1e2, 1e3)
BOUNDS = {"atomic": 300, "node": 10, "class": 10**30}


def summary(mean: float, shifts: Sequence[float] = SEEDS) -> Any:
    return summarize([mean + shift for shift in shifts])


def case(label: dict[str, Any], am: float = 90.0, shifts: Sequence[float] = SEEDS, **fields: Any) -> Case:
    return {
        "case": label,
        "method": label.get("method", "hpn"),
        "backbone": label.get("backbone"),
        "am": summary(am, shifts),
        "fm": summary(-1.0, shifts),
        "matrices": None,
        "parameters": 1000.0,
        "stored": 1000.0,
        "prototypes": None,
        "bounds": None,
        "parameter_bound": None,
        "growth": None,
        "separation": None,
        "command": "hpn run",
        "error": None,
        **fields,
    }


def learner(method: str, backbone: str | None = None, preset: str | None = None) -> dict[str, Any]:
    return {"method": method, "backbone": backbone, "preset": preset}


def section(*cases: Case, dataset: str = "cora", num_tasks: int = 3, nodes: int = 2708) -> Section:
    return {
        "dataset": dataset,
        "nodes": nodes,
        "tasks": [[2 * i, 2 * i + 1] for i in range(num_tasks)],
        "cases": list(cases),
    }


def weigh(pages: dict[str, list[Section]]) -> list[ClaimResult]:
    rest = {"classes": {}, "is_paper_protocol": True, "command": "hpn reproduce", "versions": {}}

    def seeds(section: Section) -> list[int]:
        return list(range(max((len(case["matrices"] or ()) for case in section["cases"]), default=0)))

    contents = {
        name: {"experiment": name, "sections": [{**one, **rest, "seeds": seeds(one)} for one in sections]}
        for name, sections in pages.items()
    }
    return claims.weigh_claims({name: Content.model_validate(found) for name, found in contents.items()})


def result(name: str, *sections: Section) -> ClaimResult:
    (claim,) = (claim for claim in CLAIMS if claim.name == name)
    return next(found for found in weigh({claim.experiment: [*sections]}) if found.claim is claim)


def failed(found: Case) -> Case:
    """The error alone tells, whatever else is there."""
    return {**found, "error": "out of memory"}


def emptied(found: Case) -> Case:
    kept = {key: found[key] for key in ("case", "method", "backbone", "command")}
    return {**dict.fromkeys(found), **kept, "error": "out of memory"}


def ablation(part: str, scores: dict[str, float], preset: str = "paper", **more: Any) -> list[Case]:
    return [case({"preset": preset, part: conf}, am, **more) for conf, am in scores.items()]


# Ablations: the names of the claims, what is varied, and scores that agree with the paper.
ABLATIONS = [("Higher levels help", "levels", LEVELS), ("Each loss helps", "losses", LOSSES)]


@pytest.mark.parametrize(("name", "part", "scores"), ABLATIONS)
def test_parts_help(name: str, part: str, scores: dict[str, float]) -> None:
    found = result(name, section(*ablation(part, scores)))
    assert found.verdict == "holds"
    (finding,) = found.findings
    assert finding.dataset == "cora"
    first = next(iter(scores))
    assert f"{first} {scores[first]:.1f} ± 0.1" in finding.numbers


@pytest.mark.parametrize(
    ("name", "part", "scores"),
    [
        ("Higher levels help", "levels", {**LEVELS, "AN": 88.9}),
        ("Higher levels help", "levels", {**LEVELS, "AN": 93.0}),
        ("Each loss helps", "losses", {**LOSSES, "cls+div": 91.9}),
        ("Each loss helps", "losses", {**LOSSES, "cls+dis": 91.9}),
        ("Each loss helps", "losses", {**LOSSES, "cls+div": 93.6}),
        ("Each loss helps", "losses", {**LOSSES, "cls+dis": 93.6}),
    ],
)
def test_a_part_that_does_not_help(name: str, part: str, scores: dict[str, float]) -> None:
    assert result(name, section(*ablation(part, scores))).verdict == "does not hold"


@pytest.mark.parametrize(("name", "part", "scores"), ABLATIONS)
def test_gains_are_paired_by_seed(name: str, part: str, scores: dict[str, float]) -> None:
    # Seeds far apart, alike in every case: the pairs agree.
    together = ablation(part, scores, shifts=(-9.0, 0.0, 9.0))
    assert result(name, section(*together)).verdict == "holds"
    # The same spread, the other way round in the last case: the mean gain is the same, and not clear.
    *others, last = copy.deepcopy(together)
    last["am"].values.reverse()
    assert result(name, section(*others, last)).verdict == "does not hold"


@pytest.mark.parametrize(("name", "part", "scores"), ABLATIONS)
def test_ablations_that_cannot_be_tested(name: str, part: str, scores: dict[str, float]) -> None:
    cases = ablation(part, scores)
    assert result(name, section(*cases[1:])) == result(name)
    assert result(name, section(failed(cases[0]), *cases[1:])).findings == ()
    assert result(name, section({**cases[0], "am": None}, *cases[1:])).findings == ()
    unpaired = [*ablation(part, scores, shifts=(0.0, 0.1))[:1], *cases[1:]]
    assert result(name, section(*unpaired)).findings == ()
    single = result(name, section(*ablation(part, scores, shifts=(0.0,))))
    assert single.verdict == "not tested here"
    assert [(finding.verdict, "One seed" in finding.numbers) for finding in single.findings] == [
        ("not tested here", True)
    ]


def test_presets_data_sets_and_verdict() -> None:
    name, falling = "Higher levels help", {**LEVELS, "ANC": 80.0}
    cora = section(*ablation("levels", LEVELS), *ablation("levels", falling, "best"))
    arxiv = section(*ablation("levels", falling), dataset="ogbn-arxiv")
    single = section(*ablation("levels", falling, shifts=(0.0,)), dataset="digits")

    found = result(name, cora)
    assert found.verdict == "holds"
    assert [(finding.dataset, finding.verdict, finding.counts) for finding in found.findings] == [
        ("cora", "holds", True),
        ("cora (best)", "does not hold", False),
    ]
    assert result(name, cora, arxiv).verdict == "holds on some"
    assert result(name, arxiv).verdict == "does not hold"
    assert result(name, cora, single).verdict == "holds"
    only_best = result(name, section(*ablation("levels", LEVELS, "best")))
    assert (only_best.verdict, len(only_best.findings)) == ("not tested here", 1)


def stream(ars: Sequence[float], shifts: Sequence[float] = SEEDS) -> list[list[list[float]]]:
    """Matrices with the given ARS (per cent) after each task from the second on."""
    return [
        [[(ars[i - 1] + shift) / 2] * i + [50.0] for i in range(len(ars) + 1)] for shift in shifts
    ]  # fmt: skip


def dynamics(hpn: Sequence[float], twp: Sequence[float], gat: Sequence[float], **more: Any) -> Section:
    return section(
        case(learner("finetune", "gat"), matrices=stream(gat, **more)),
        case(learner("twp", "gat"), matrices=stream(twp, **more)),
        case(learner("hpn", preset="paper"), matrices=stream(hpn, **more)),
        num_tasks=len(hpn) + 1,
    )


FLAT, FALLING, STEEP = (100.0, 99.9, 99.7, 99.5), (98.0, 95.0, 93.0, 90.0), (90.0, 80.0, 70.0, 60.0)
RETAINS, TWP_HELPS = "HPN retains where TWP forgets", "GAT forgets faster than GAT with TWP"


def test_hpn_retains_where_twp_forgets() -> None:
    found = result(RETAINS, dynamics(FLAT, FALLING, STEEP))
    assert found.verdict == "holds"
    assert "hpn 100.0 ± 0.1 and 99.5 ± 0.1, a change of −0.5 ± 0.0" in found.findings[0].numbers


@pytest.mark.parametrize(
    ("hpn", "twp"),
    [
        ((100.0, 99.0, 99.0, 98.9), FALLING),  # falls by more than a point
        (FLAT, FLAT),  # TWP falls as little
        ((100.0, 99.0, 99.0, 105.0), (98.0, 98.0, 98.0, 99.0)),  # TWP rises
    ],
)
def test_hpn_does_not_retain_where_twp_forgets(hpn: Sequence[float], twp: Sequence[float]) -> None:
    assert result(RETAINS, dynamics(hpn, twp, STEEP)).verdict == "does not hold"


def test_a_difference_in_retaining_must_be_clear() -> None:
    noisy = dynamics(FLAT, FALLING, STEEP)
    noisy["cases"][1]["matrices"] = [
        stream(end, (0.0,))[0] for end in (FALLING, FALLING, (80.0, *[99.0] * 3))
    ]
    assert result(RETAINS, noisy).verdict == "does not hold"


def test_twp_retains_more_than_gat_alone() -> None:
    found = result(TWP_HELPS, dynamics(FLAT, FALLING, STEEP))
    assert found.verdict == "holds"
    assert "finetune · gat 60.0 ± 0.1, twp · gat 90.0 ± 0.1" in found.findings[0].numbers
    assert result(TWP_HELPS, dynamics(FLAT, STEEP, FALLING)).verdict == "does not hold"
    assert result(TWP_HELPS, dynamics(FLAT, STEEP, STEEP)).verdict == "does not hold"


@pytest.mark.parametrize("name", [RETAINS, TWP_HELPS])
def test_dynamics_that_cannot_be_tested(name: str) -> None:
    full = dynamics(FLAT, FALLING, STEEP)
    assert result(name, dynamics(FLAT[:3], FALLING[:3], STEEP[:3])).findings == ()
    for kept in ([0], [1], [2]):
        assert result(name, {**full, "cases": [full["cases"][i] for i in kept]}).findings == ()
    assert result(name, {**full, "cases": [failed(found) for found in full["cases"]]}).findings == ()
    single = result(name, dynamics(FLAT, FALLING, STEEP, shifts=(0.0,)))
    assert (single.verdict, len(single.findings)) == ("not tested here", 1)


def comparison(hpn: float = 93.0, rival: float = 80.0, joint: float = 94.0, **more: Any) -> Section:
    methods = {**dict.fromkeys(RIVALS, rival), "joint": joint}
    cases = [case(learner(name, backbone), am) for name, am in methods.items() for backbone in BACKBONES]
    return section(*cases, case(learner("probe"), 99.0), case(learner("hpn", preset="paper"), hpn), **more)


BEATS, JOINT = "HPN beats every baseline", "Joint training is comparable on small data"


def test_hpn_beats_rivals_joint_training_and_probe_aside() -> None:
    found = result(BEATS, comparison())
    assert found.verdict == "holds"
    assert found.findings[0].numbers.endswith("at or above hpn: none.")


@pytest.mark.parametrize("am", [93.0, 95.0])
def test_rivals_at_or_above_hpn_are_named(am: float) -> None:
    cases = comparison()["cases"]
    cases[7] = case(learner("lwf", "gat"), am)
    (finding,) = result(BEATS, section(*cases)).findings
    assert finding.verdict == "does not hold"
    assert f"at or above hpn: lwf · gat {am} ± 0.1." in finding.numbers
    # Whatever the others that failed might have reached.
    (finding,) = result(BEATS, section(failed(cases[0]), *cases[1:])).findings
    assert finding.verdict == "does not hold"


def test_a_rival_without_result_leaves_it_open() -> None:
    first, *cases = comparison()["cases"]
    for cell in (section(*cases), section(failed(first), *cases)):
        found = result(BEATS, cell)
        assert found.verdict == "not tested here"
        assert "No result of finetune · gcn." in found.findings[0].numbers
    assert result(BEATS, section(cases[-1])).findings == ()
    assert result(BEATS, section(first, *cases[:-1], failed(cases[-1]))).findings == ()


@pytest.mark.parametrize(
    ("hpn", "verdict"), [(95.0, "holds"), (92.0, "holds"), (91.9, "does not hold"), (80.0, "does not hold")]
)
def test_joint_training_is_comparable(hpn: float, verdict: str) -> None:
    assert result(JOINT, comparison(hpn)).verdict == verdict


def test_joint_training_that_cannot_be_tested() -> None:
    assert result(JOINT, comparison(nodes=169_343)).findings == ()
    cases = comparison()["cases"]
    assert result(JOINT, section(*[one for one in cases if one["backbone"] != "gat"])).findings == ()


def grid(am: Callable[[int, int], float], **more: Any) -> list[Case]:
    return [case({"num_extractors": n, "dim": d}, am(n, d), **more) for n in (2, 8, 22) for d in (2, 4, 16)]


GOVERNS = "The number of extractors governs AM"


@pytest.mark.parametrize(
    ("am", "verdict"),
    [
        (lambda n, d: 70 + n + 0.1 * d, "holds"),
        (lambda n, d: 70 + 0.1 * n + d, "does not hold"),
        (lambda n, d: 90 - n, "does not hold"),
        (lambda n, d: 70.0, "does not hold"),
    ],
)
def test_extractors_govern(am: Callable[[int, int], float], verdict: str) -> None:
    assert result(GOVERNS, section(*grid(am))).verdict == verdict


def test_shares_of_variance() -> None:
    # Means 0 and 4 along extractors, 0 and 2 along dimensions: sums of squares 16 and 4.
    cases = [case({"num_extractors": n, "dim": d}, 70 + 4 * n + 2 * d) for n in (0, 1) for d in (0, 1)]
    (finding,) = result(GOVERNS, section(*cases)).findings
    assert "AM: 80 % of its variance" in finding.numbers
    assert "20 % with the dimension; 71.0 ± 0.1 with 0 extractors, 75.0 ± 0.1 with 1" in finding.numbers
    assert "FM: 0 % of its variance" in finding.numbers


def test_grids_that_cannot_be_tested() -> None:
    cases = grid(lambda n, d: 70.0 + n)
    assert result(GOVERNS, section(*cases[1:])).findings == ()
    assert result(GOVERNS, section(failed(cases[0]), *cases[1:])).findings == ()
    assert result(GOVERNS, section({**cases[0], "am": None}, *cases[1:])).findings == ()
    assert result(GOVERNS, section(*cases[:3])).findings == ()
    (finding,) = result(GOVERNS, section({**cases[0], "fm": None}, *cases[1:])).findings
    assert "FM" not in finding.numbers


def weights(am: Callable[[float, float], float]) -> list[Case]:
    pairs = [(1.0, beta) for beta in WEIGHTS] + [(alpha, 1.0) for alpha in WEIGHTS if alpha != 1]
    return [case({"alpha": alpha, "beta": beta}, am(alpha, beta)) for alpha, beta in pairs]


ROBUST = "Robust to the weights of the losses"


@pytest.mark.parametrize(
    ("am", "verdict"),
    [
        (lambda alpha, beta: 92.0 if alpha == 1000 or beta == 0.01 else 90.0, "holds"),
        (lambda alpha, beta: 92.1 if alpha == 1000 else 90.0, "does not hold"),
        (lambda alpha, beta: 87.9 if beta == 0.0001 else 90.0, "does not hold"),
    ],
)
def test_robust_to_weights(am: Callable[[float, float], float], verdict: str) -> None:
    assert result(ROBUST, section(*weights(am))).verdict == verdict


def test_ranges_of_both_weights_are_told() -> None:
    (finding,) = result(ROBUST, section(*weights(lambda a, b: {1e-4: 90.0, 1e3: 91.0}.get(a, 90.5)))).findings
    assert (
        "AM over α ranges over 1.00 points, from 90.0 ± 0.1 at α = 0.0001 to 91.0 ± 0.1 at 1000"
        in finding.numbers
    )
    assert "AM over β ranges over 0.00 points" in finding.numbers
    assert finding.numbers.count("FM ranges over 0.00 points") == 2
    assert finding.numbers.count("within the limit of 2") == 2
    cases = weights(lambda alpha, beta: 90.0)
    cases[0]["fm"] = summary(-30.0)  # β = 0.0001
    (finding,) = result(ROBUST, section(*cases)).findings
    assert finding.verdict == "holds"
    assert "beyond the limit of 2" in finding.numbers


def test_weights_that_cannot_be_tested() -> None:
    cases = weights(lambda alpha, beta: 90.0)
    for number in (0, 4, 5, 8):  # the ends of both sweeps
        assert result(ROBUST, section(*cases[:number], *cases[number + 1 :])).findings == ()
    assert result(ROBUST, section(*cases[:1], failed(cases[1]), *cases[2:])).findings == ()
    assert result(ROBUST, section(*cases[:5])).findings == ()


def thresholds(am: Sequence[float], atomic: Sequence[float | None] = (90, 80, 70, 60, 50, 40)) -> list[Case]:
    return [
        case(
            {"threshold_atomic": t},
            score,
            prototypes={"node": 5} if number is None else {"atomic": number, "node": 5},
        )
        for t, score, number in zip(THRESHOLDS, am, atomic, strict=True)
    ]


FALL, STABLE = "Fewer prototypes with a higher threshold", "Stable over the threshold"
BETWEEN = "Best with a threshold between 0.2 and 0.3"
PEAK = (90.0, 90.5, 91.0, 92.0, 91.0, 90.5)


@pytest.mark.parametrize(
    ("atomic", "verdict"),
    [
        ((90, 80, 70, 60, 50, 40), "holds"),
        ((90, 80, 70, 60, 40, 50), "holds"),
        ((90, 70, 80, 60, 40, 50), "does not hold"),
        ((40, 50, 60, 70, 80, 90), "does not hold"),
        ((50, 50, 50, 50, 50, 50), "does not hold"),
    ],
)
def test_prototypes_fall(atomic: Sequence[float], verdict: str) -> None:
    cases = thresholds(PEAK, atomic)
    assert result(FALL, section(*cases)).verdict == verdict
    assert result(FALL, section(*reversed(cases))).verdict == verdict


def test_ends_of_the_thresholds_are_told() -> None:
    (finding,) = result(FALL, section(*reversed(thresholds(PEAK)))).findings
    assert finding.numbers == ("Rank correlation −1.00: 90 atomic prototypes at t_A = 0.01, 40 at 0.4.")


@pytest.mark.parametrize(("top", "verdict"), [(92.0, "holds"), (92.1, "does not hold")])
def test_stable_over_the_threshold(top: float, verdict: str) -> None:
    found = result(STABLE, section(*thresholds((90.0, top, 91.0, 91.0, 91.0, 91.0))))
    assert found.verdict == verdict
    assert f"to {top} ± 0.1 at 0.1, and FM ranges over" in found.findings[0].numbers


@pytest.mark.parametrize(
    ("am", "verdict"),
    [
        (PEAK, "holds"),
        ((90.0, 90.0, 90.1, 90.0, 90.0, 90.0), "holds"),
        ((90.0, 90.0, 90.0, 90.0, 90.1, 90.0), "holds"),
        ((90.0, 90.0, 90.0, 90.0, 90.0, 90.0), "holds"),
        ((90.0, 92.1, 91.0, 92.0, 91.0, 90.5), "does not hold"),
        ((90.0, 90.0, 91.0, 92.0, 91.0, 92.1), "does not hold"),
    ],
)
def test_best_between(am: Sequence[float], verdict: str) -> None:
    assert result(BETWEEN, section(*thresholds(am))).verdict == verdict


@pytest.mark.parametrize("name", [FALL, STABLE, BETWEEN])
def test_thresholds_that_cannot_be_tested(name: str) -> None:
    cases = thresholds(PEAK)
    assert result(name, section(failed(cases[0]), *cases[1:])).findings == ()
    assert result(name, section(*cases[2:4])).findings == ()
    if name == FALL:
        assert result(name, section({**cases[0], "prototypes": None}, *cases[1:])).findings == ()
        assert result(name, section(*thresholds(PEAK, (90, 80, None, 60, 50, 40)))).findings == ()
    else:
        assert result(name, section({**cases[0], "am": None}, *cases[1:])).findings == ()


def grown(preset: str, *, parameters: float = 2000, **most: int) -> Case:
    first, last = ({"atomic": 100, "node": 4, "class": 4}, {"atomic": 300, "node": 9, "class": 8, **most})
    return case(
        learner("hpn", preset=preset),
        growth=[
            {"parameters": 1000, "stored": 1, "most_prototypes": first},
            {"parameters": parameters, "stored": 1, "most_prototypes": last},
            {"parameters": 1500, "stored": 1, "most_prototypes": first},
        ],
        bounds=BOUNDS,
        parameter_bound=2000,
    )


BOUNDED = "Memory stays under its bound"


def test_memory_is_bounded() -> None:
    found = result(BOUNDED, section(grown("paper"), grown("small"), case(learner("ewc", "gcn"))))
    assert found.verdict == "holds"
    (finding,) = found.findings
    assert "paper 2,000 of 2,000 parameters, 300 of 300 atomic prototypes" in finding.numbers
    assert "small 2,000 of 2,000" in finding.numbers
    assert "8 of 1.0 × 10³⁰ class prototypes" in finding.numbers


@pytest.mark.parametrize("excess", [{"atomic": 301}, {"node": 11}, {"parameters": 2001}])
def test_memory_over_its_bound(excess: dict[str, int]) -> None:
    assert result(BOUNDED, section(grown("paper"), grown("best", **excess))).verdict == "does not hold"


def test_prototypes_are_bounded_where_parameters_are_not() -> None:
    unbounded = {**grown("best"), "parameter_bound": None}
    (finding,) = result(BOUNDED, section(grown("paper"), unbounded)).findings
    assert finding.verdict == "holds"
    assert "; best 300 of 300 atomic prototypes" in finding.numbers
    over = {**grown("best", atomic=301), "parameter_bound": None}
    assert result(BOUNDED, section(grown("paper"), over)).verdict == "does not hold"


@pytest.mark.parametrize("lost", [{"growth": None}, {"bounds": None}])
def test_memory_that_cannot_be_tested(lost: dict[str, Any]) -> None:
    assert result(BOUNDED, section({**grown("paper"), **lost})).findings == ()
    assert result(BOUNDED, section(failed(grown("paper")))).findings == ()
    (finding,) = result(BOUNDED, section({**grown("paper"), **lost}, grown("best"))).findings
    assert "best" in finding.numbers
    assert "paper" not in finding.numbers


def keepers(hpn: float, num_heavier: int) -> list[Case]:
    names = [(method, backbone) for method in RIVALS for backbone in BACKBONES]
    rivals = [
        case(learner(*name), stored=5000 if number < num_heavier else 2000, parameters=700 + number)
        for number, name in enumerate(names)
    ]
    return [*rivals, case(learner("hpn", preset="paper"), stored=hpn, parameters=hpn)]


KEEPS = "HPN keeps less than most baselines"


@pytest.mark.parametrize(("num_heavier", "verdict"), [(21, "holds"), (11, "holds"), (10, "does not hold")])
def test_keeps_less(num_heavier: int, verdict: str) -> None:
    found = result(KEEPS, section(*keepers(4908, num_heavier)))
    assert found.verdict == verdict
    assert f"hpn 4,908, more in {num_heavier} of 21 rivals" in found.findings[0].numbers
    assert "parameters alone: hpn 4,908, the least 700 in finetune · gcn" in found.findings[0].numbers


def test_rivals_without_result_may_leave_open_who_keeps_less() -> None:
    cases = keepers(4908, 11)
    assert result(KEEPS, section(*cases[:-2], failed(cases[-2]), cases[-1])).verdict == "holds"
    assert result(KEEPS, section(failed(cases[0]), *cases[1:])).verdict == "not tested here"
    assert result(KEEPS, section(*keepers(4908, 9)[1:])).verdict == "does not hold"
    assert result(KEEPS, section(*cases[:-1])).findings == ()
    assert result(KEEPS, section(cases[-1])).findings == ()
    small = {**cases[-1], "case": learner("hpn", preset="small"), "stored": 1000}
    findings = result(KEEPS, section(*keepers(9999, 11), small)).findings
    assert [(finding.dataset, finding.verdict) for finding in findings] == [
        ("cora", "does not hold"),
        ("cora (small)", "holds"),
    ]


def separated(neighbors: float, silhouette: float, after: Sequence[int] = (0, 1, 2)) -> Case:
    separation = [{"after": i, "neighbors": summary(95.0), "silhouette": summary(0.5)} for i in after]
    separation[-1] |= {"neighbors": summary(neighbors), "silhouette": summary(silhouette)}
    return case({"preset": "paper"}, separation=separation)


SEPARATED = "Representations stay separated"


@pytest.mark.parametrize(
    ("neighbors", "silhouette", "verdict"),
    [(80.0, 0.01, "holds"), (79.9, 0.5, "does not hold"), (95.0, 0.0, "does not hold")],
)
def test_stays_separated(neighbors: float, silhouette: float, verdict: str) -> None:
    found = result(SEPARATED, section(separated(neighbors, silhouette)))
    assert found.verdict == verdict
    assert "95.0 ± 0.1 % and 0.50 ± 0.10 after task 1" in found.findings[0].numbers
    assert f"{neighbors:.1f} ± 0.1 % and {silhouette:.2f} ± 0.10 after task 3" in found.findings[0].numbers


def test_separation_that_cannot_be_tested() -> None:
    good = separated(90.0, 0.5)
    assert result(SEPARATED, section(separated(90.0, 0.5, after=(0, 1)))).findings == ()
    assert result(SEPARATED, section({**good, "separation": None})).findings == ()
    assert result(SEPARATED, section(failed(good))).findings == ()
    good["separation"][1]["silhouette"] = None
    assert result(SEPARATED, section(good)).findings == ()


FULL: dict[str, list[Case]] = {
    "ablation-levels": ablation("levels", LEVELS) + ablation("levels", LEVELS, "best"),
    "ablation-losses": ablation("losses", LOSSES),
    "dynamics": dynamics(FLAT, FALLING, STEEP)["cases"],
    "comparison": comparison()["cases"],
    "sensitivity-extractors": grid(lambda n, d: 70.0 + n),
    "sensitivity-losses": weights(lambda alpha, beta: 90.0),
    "sensitivity-threshold": thresholds(PEAK),
    "memory": [*keepers(4908, 20)[:-1], grown("paper"), grown("small")],
    "visualization": [separated(90.0, 0.5, after=range(5))],
}
FIELDS = ("am", "fm", "matrices", "parameters", "stored", "prototypes", "bounds", "growth", "separation")


def test_every_claim_can_be_tested_and_belongs_to_an_experiment() -> None:
    pages = {name: [section(*cases, num_tasks=5)] for name, cases in FULL.items()}
    assert {found.claim.name: found.verdict for found in weigh(pages)} == {
        claim.name: "holds" for claim in CLAIMS
    }
    assert {claim.experiment for claim in CLAIMS} == set(FULL) <= set(EXPERIMENTS)
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)
    assert all(text.endswith(".") for claim in CLAIMS for text in (claim.statement, claim.criterion))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_claims_never_raise_whatever_is_missing(data: st.DataObject) -> None:
    pages = {}
    for name, cases in FULL.items():
        kept = []
        for found in cases:
            fate = data.draw(st.sampled_from(["kept"] * 6 + ["removed", "failed", *FIELDS]))
            if fate != "removed":
                kept.append(
                    emptied(found) if fate == "failed" else {**found, fate: None} if fate in FIELDS else found
                )
        pages[name] = [section(*kept, num_tasks=5)]
    for found in weigh(pages):
        assert found.verdict in {"holds", "does not hold", "not tested here"}
        assert all(finding.numbers for finding in found.findings)
