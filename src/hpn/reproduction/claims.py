"""What the paper claims in words, with a criterion for each, tested on the results of the experiments.

The preset ``paper`` of HPN is what a claim is about; what holds for other presets is told as well and does
not enter the verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from hpn.report.format import decimal
from hpn.reproduction import claim_rivals as rivals
from hpn.reproduction import claim_sweeps as sweeps
from hpn.reproduction import claim_tests as parts
from hpn.reproduction.claim_numbers import Finding
from hpn.reproduction.experiments import LARGE_GRAPH
from hpn.reproduction.results import Content, Section

__all__ = ["CLAIMS", "Claim", "ClaimResult", "ClaimVerdict", "Finding", "weigh_claims"]

ClaimVerdict = Literal["holds", "does not hold", "holds on some", "not tested here"]

PRESET = "paper"


@dataclass(frozen=True)
class Claim:
    """Something the paper says of its results.

    Args:
        name: A short name.
        statement: What the paper says, in our words.
        where: Table, figure or section of the paper.
        experiment: The experiment whose results it is tested on.
        criterion: When we say that it holds on a data set.
        test: What the results on a data set say; ``None`` if they lack the numbers.
        by_preset: Whether it is tested for one preset of HPN at a time.
    """

    name: str
    statement: str
    where: str
    experiment: str
    criterion: str
    test: Callable[[Section], Finding | None]
    by_preset: bool = True


@dataclass(frozen=True)
class ClaimResult:
    """A claim with what was found on each data set."""

    claim: Claim
    findings: tuple[Finding, ...]
    verdict: ClaimVerdict


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "HPN beats every baseline",
        "HPNs outperform all baselines, on every backbone.",
        "table “Performance comparisons between HPNs and baselines on 5 different datasets”",
        "comparison",
        "The mean AM of HPN (preset paper) is above that of each of the seven baselines on each of the three "
        "backbones.",
        rivals.beats_rivals,
    ),
    Claim(
        "Joint training is comparable on small data",
        "On small data sets joint training, which sees all tasks at once, is comparable to HPNs.",
        "table “Performance comparisons between HPNs and baselines on 5 different datasets”",
        "comparison",
        f"On a graph of fewer than {LARGE_GRAPH:,} nodes the mean AM of HPN (preset paper) is at most "
        f"{rivals.COMPARABLE:g} points below that of the best joint training, or above it.",
        rivals.matches_joint,
    ),
    Claim(
        "Higher levels help",
        "AM rises when node-level and then class-level prototypes are added to the atomic ones.",
        "tables “Ablation study on prototypes of different levels of prototypes over Cora” and “… OGB-Arxiv”",
        "ablation-levels",
        "With the preset paper both mean differences of AM, AN − A and ANC − AN, are above 0, and ANC − A "
        "exceeds twice its standard error over pairs of runs with the same seed.",
        parts.levels_help,
    ),
    Claim(
        "Each loss helps",
        "AM rises when the diversity or the distance loss is added, and most with both.",
        "tables “Ablation study on different loss terms over Cora” and “… OGB-Arxiv”",
        "ablation-losses",
        "With the preset paper all four mean differences of AM, of adding L_div or L_dis without and with "
        "the other, are above 0, and all losses − L_cls exceeds twice its standard error over pairs of runs "
        "with the same seed.",
        parts.losses_help,
    ),
    Claim(
        "HPN retains where TWP forgets",
        "The ARS of HPNs stays flat as tasks come in, while that of GAT with TWP falls.",
        "figures “dynamics of ARS for continual learning tasks on OGB-Arxiv” and “… OGB-Products”",
        "dynamics",
        f"In a stream of at least {parts.LONG_STREAM} tasks, from the second task to the last, the mean ARS "
        f"of HPN (preset paper) falls by at most {parts.FLAT:g} point, that of TWP on GAT falls, and the "
        "change of HPN exceeds that of TWP by more than twice the standard error over pairs of runs with the "
        "same seed.",
        parts.retains_where_twp_forgets,
    ),
    Claim(
        "GAT forgets faster than GAT with TWP",
        "GAT alone forgets quickly, and TWP alleviates that significantly.",
        "figures “dynamics of ARS for continual learning tasks on OGB-Arxiv” and “… OGB-Products”",
        "dynamics",
        f"After the last of at least {parts.LONG_STREAM} tasks the ARS of TWP on GAT exceeds that of GAT "
        "alone by more than twice the standard error over pairs of runs with the same seed.",
        parts.twp_retains_more,
        by_preset=False,
    ),
    Claim(
        "The number of extractors governs AM",
        "AM is mostly determined by the number of extractors, less by the dimension of prototypes.",
        "figure “AM and FM of HPNs with different number of AFEs and prototype dimensions on OGB-Arxiv”",
        "sensitivity-extractors",
        "With the preset paper the means for each number of extractors account for a larger share of the "
        "variance of mean AM over the grid than those for each dimension, and AM with the most extractors, "
        "averaged over dimensions, is above that with the fewest.",
        sweeps.extractors_govern,
    ),
    Claim(
        "Fewer prototypes with a higher threshold",
        "The number of prototypes falls as the threshold t_A rises.",
        "figures “impact of t_A on the number of prototypes” over Cora and Citeseer",
        "sensitivity-threshold",
        "With the preset paper Spearman’s rank correlation of t_A and the mean number of atomic prototypes "
        f"is at most {decimal(sweeps.FALLING)}.",
        sweeps.prototypes_fall,
    ),
    Claim(
        "Stable over the threshold",
        "AM is generally stable as the threshold t_A varies.",
        "figures “AM and FM change when t_A varies” on Cora and Citeseer",
        "sensitivity-threshold",
        "With the preset paper the highest and lowest mean AM over t_A are at most "
        f"{sweeps.MOST_RANGE:g} points apart.",
        sweeps.threshold_matters_little,
    ),
    Claim(
        "Best with a threshold between 0.2 and 0.3",
        "Performance is slightly better when the threshold t_A is between 0.2 and 0.3.",
        "figures “AM and FM change when t_A varies” on Cora and Citeseer",
        "sensitivity-threshold",
        "With the preset paper the highest mean AM of all thresholds is reached at one from 0.2 to 0.3.",
        sweeps.threshold_is_best_between,
    ),
    Claim(
        "Robust to the weights of the losses",
        "Performance is robust when the weights α and β of the losses vary from 0.0001 to 1000.",
        "figure “fixing α = 1.0 and tuning β, fixing β = 1.0 and tuning α” on Cora and Citeseer",
        "sensitivity-losses",
        "With the preset paper the highest and lowest mean AM over α, and over β, are at most "
        f"{sweeps.MOST_RANGE:g} points apart.",
        sweeps.weights_matter_little,
    ),
    Claim(
        "Memory stays under its bound",
        "The number of prototypes has an upper bound, whatever the tasks, and stays under it.",
        "Theorem “Upper bounds on numbers of prototypes” and figure “dynamics of memory consumption of HPNs”",
        "memory",
        "For every preset of HPN and after every task, the largest number of prototypes of any seed is at "
        "most its bound at each level, and the mean number of parameters at most theirs. The preset best has "
        "no bound on parameters: its extractors grow with the classes.",
        rivals.memory_is_bounded,
        by_preset=False,
    ),
    Claim(
        "HPN keeps less than most baselines",
        "HPNs need few parameters: most baselines need more.",
        "table “Final parameter amount for models trained on OGB-Products”",
        "memory",
        "HPN (preset paper) keeps fewer numbers between tasks than more than half of the baselines, each on "
        "three backbones; importances, old copies and stored data count, as they do in the paper’s table.",
        rivals.keeps_less,
    ),
    Claim(
        "Representations stay separated",
        "Representations of test nodes of different classes are well separated after each task.",
        "figures “Visualization of hierarchical prototype representations” on Cora and Citeseer",
        "visualization",
        f"With the preset paper, after the last task, at least {parts.MOST_NEIGHBORS:g} % of the test nodes "
        "have nearest others mostly of their class, and the silhouette of the classes is above 0.",
        parts.stays_separated,
    ),
)


def weigh_claims(pages: Mapping[str, Content]) -> list[ClaimResult]:
    """Test every claim on all data sets that there are results for.

    Args:
        pages: The results of each experiment by its name; not all need be there.

    Example:
        >>> {result.verdict for result in weigh_claims({})}
        {'not tested here'}
    """
    return [
        _test(claim, pages[claim.experiment].sections if claim.experiment in pages else [])
        for claim in CLAIMS
    ]


def _test(claim: Claim, sections: list[Section]) -> ClaimResult:
    findings = tuple(finding for section in sections for finding in _findings(claim, section))
    verdicts = {finding.verdict for finding in findings if finding.counts} - {"not tested here"}
    if len(verdicts) > 1:
        return ClaimResult(claim, findings, "holds on some")
    return ClaimResult(claim, findings, verdicts.pop() if verdicts else "not tested here")


def _findings(claim: Claim, section: Section) -> Iterator[Finding]:
    finding = claim.test(_with_preset(section, PRESET) if claim.by_preset else section)
    if finding is not None:
        yield finding
    for preset in _other_presets(section) if claim.by_preset else []:
        finding = claim.test(_with_preset(section, preset))
        if finding is not None:
            yield replace(finding, dataset=f"{finding.dataset} ({preset})", counts=False)


def _with_preset(section: Section, preset: str) -> Section:
    """The section without the cases of other presets; methods that have none stay."""
    cases = [case for case in section.cases if case.preset in {preset, None}]
    return section.model_copy(update={"cases": cases})


def _other_presets(section: Section) -> list[str]:
    presets = dict.fromkeys(case.preset for case in section.cases)
    return [preset for preset in presets if preset is not None and preset != PRESET]
