"""Several processes of one run: they start alike, fail alike, and end when the first does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from hpn.datasets import Graph
from hpn.errors import ConfigError, DataError, ProcessesError, SaidElsewhereError
from hpn.experiment.config import RunConfig, resolve_config
from hpn.experiment.together import Crew, Place, agree, assist, check_shared, leading
from hpn.learners import Learner
from hpn.learners.base import State
from hpn.learners.ncm import NCM
from hpn.nn.processes import ALONE, Processes

Value = TypeVar("Value")


class Companions:
    """What threads that play processes have in common."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size, timeout=20)
        self.told: list[Any] = [None] * size


class Companion(Processes):
    """One of several processes, played by a thread."""

    def __init__(self, rank: int, size: int, common: Companions) -> None:
        self.rank, self.size, self.common = rank, size, common

    def _tell(self, what: Any) -> list[Any]:
        self.common.told[self.rank] = what
        self.common.barrier.wait()
        told = list(self.common.told)
        self.common.barrier.wait()
        return told

    def lowest(self, is_so: bool) -> int | None:
        told = self._tell(is_so)
        return told.index(True) if True in told else None

    def lead(self, make: Callable[[], Value]) -> Value:
        made: list[Any] = [None, None]
        if self.rank == 0:
            try:
                made[0] = make()
            except Exception as error:
                made[1] = error
        value, failure = self._tell(made)[0]
        if failure is not None:
            raise failure
        return value  # type: ignore[no-any-return]


def together(size: int, act: Callable[[Processes], Any]) -> list[Any]:
    """What an act gives in each of some processes; an error counts as what it gives."""
    common = Companions(size)

    def play(rank: int) -> Any:
        try:
            return act(Companion(rank, size, common))
        except Exception as error:
            return error

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(play, range(size)))


class Recorder(Processes):
    """Process 0 of two; keeps what it sends, and may find that the other is gone."""

    size = 2

    def __init__(self, *, is_left: bool = False) -> None:
        self.sent: list[Any] = []
        self.is_left = is_left

    def lead(self, make: Callable[[], Value]) -> Value:
        if self.is_left:
            raise ProcessesError("another process of this job ended")
        try:
            self.sent.append(make())
        except Exception as error:
            self.sent.append(error)
            raise
        return self.sent[-1]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def resolved() -> tuple[RunConfig, Graph]:
    sizes = {"data.num_nodes": 200, "data.num_links": 800, "data.num_classes": 4}
    return resolve_config("synthetic", method="hpn", settings={**sizes, "preset": "paper"})


@pytest.fixture
def config(resolved: tuple[RunConfig, Graph]) -> RunConfig:
    return resolved[0]


def fail_in(*failing: int) -> Callable[[Processes], Any]:
    def act(processes: Processes) -> Any:
        def make() -> int:
            if processes.rank in failing:
                raise DataError(f"no data for {processes.rank}")
            return processes.rank

        return agree(processes, make)

    return act


def test_processes_that_succeed_each_have_their_own() -> None:
    assert together(3, fail_in()) == [0, 1, 2]
    assert agree(ALONE, lambda: "mine") == "mine"


@pytest.mark.parametrize(("failing", "speaks"), [((1,), 1), ((1, 2), 1), ((0, 1, 2), 0), ((2,), 2)])
def test_if_one_fails_all_do_and_the_first_to_fail_says_why(failing: tuple[int, ...], speaks: int) -> None:
    errors = together(3, fail_in(*failing))
    for rank, error in enumerate(errors):
        kind, text = (
            (DataError, f"no data for {speaks}")
            if rank == speaks
            else (SaidElsewhereError, f"process {speaks} of this job failed")
        )
        assert (type(error), str(error)) == (kind, text)


def test_alone_an_error_is_as_it_is() -> None:
    with pytest.raises(DataError, match="no data for 0"):
        fail_in(0)(ALONE)


def test_what_is_no_fault_of_the_user_is_not_agreed_on() -> None:
    with pytest.raises(ZeroDivisionError):
        agree(ALONE, lambda: 1 // 0)


def test_processes_that_run_the_same_may_share_it(config: RunConfig) -> None:
    assert together(3, lambda each: check_shared(config, each, views=False)) == [None] * 3


def test_one_process_may_run_anything(config: RunConfig) -> None:
    check_shared(replace(config, method="ewc"), ALONE, views=True)


def test_a_method_that_cannot_share_is_refused_in_one_line(config: RunConfig) -> None:
    for error in together(2, lambda each: check_shared(replace(config, method="ewc"), each, views=False)):
        assert isinstance(error, ConfigError)
        assert str(error).startswith("ewc runs in one process; with torchrun, --method must be one of: hpn")
        assert "\n" not in str(error)


def test_a_preset_that_cannot_share_is_refused_in_one_line(config: RunConfig) -> None:
    solved = replace(config, params={**config.params, "preset": "best"})
    for error in together(2, lambda each: check_shared(solved, each, views=False)):
        assert isinstance(error, ConfigError)
        assert str(error) == (
            "hpn with the preset best learns in one process; "
            "with torchrun, choose --set preset=paper or --set preset=large"
        )
    check_shared(solved, ALONE, views=True)


def test_views_are_refused(config: RunConfig) -> None:
    for error in together(2, lambda each: check_shared(config, each, views=True)):
        assert isinstance(error, ConfigError)
        assert "without torchrun" in str(error)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"data_sha256": "other"}, "data_sha256"),
        ({"versions": {"torch": "0.1"}}, "versions"),
        ({"params": {"preset": "paper", "epochs": 1}}, "params"),
    ],
)
def test_a_process_that_has_something_else_is_named(
    config: RunConfig, change: dict[str, Any], named: str
) -> None:
    def check(processes: Processes) -> None:
        own = replace(config, **change) if processes.rank == 2 else config
        agree(processes, lambda: check_shared(own, processes, views=False))

    *others, error = together(3, check)
    assert isinstance(error, ConfigError)
    assert str(error) == (
        f"process 2 has other {named} than process 0; all machines need the same data, command and versions"
    )
    assert all(isinstance(other, SaidElsewhereError) for other in others)


def test_a_refusal_in_one_process_only_leaves_no_other_waiting(config: RunConfig) -> None:
    def check(processes: Processes) -> None:
        own = replace(config, method="ewc") if processes.rank == 0 else config
        agree(processes, lambda: check_shared(own, processes, views=False))

    first, second = together(2, check)
    assert (type(first), type(second)) == (ConfigError, SaidElsewhereError)


def test_the_crew_goes_home_when_all_is_done() -> None:
    processes = Recorder()
    with leading(processes) as crew:
        crew.call({"seed": 0})
        assert crew.is_busy
        crew.rest()
    assert processes.sent == [{"seed": 0}, None]


@pytest.mark.parametrize("has_worked", [False, True])
def test_a_crew_that_waits_is_told_of_a_failure(has_worked: bool) -> None:
    processes = Recorder()

    def fail(crew: Crew) -> None:
        if has_worked:
            crew.call({"seed": 0})
            crew.rest()
        raise DataError("the folder is in use")

    with pytest.raises(DataError, match="the folder"), leading(processes) as crew:
        fail(crew)
    assert isinstance(processes.sent[-1], SaidElsewhereError)
    assert len(processes.sent) == 1 + has_worked


def test_a_crew_at_work_notices_by_itself() -> None:
    processes = Recorder()

    def fail(crew: Crew) -> None:
        crew.call({"seed": 0})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), leading(processes) as crew:
        fail(crew)
    assert processes.sent == [{"seed": 0}]


def test_a_crew_that_is_gone_does_not_hide_why_the_first_failed() -> None:
    with pytest.raises(KeyboardInterrupt), leading(Recorder(is_left=True)):
        raise KeyboardInterrupt


def test_a_crew_of_nobody_is_no_trouble() -> None:
    with leading(ALONE) as crew:
        crew.call({"seed": 0})
    with pytest.raises(DataError), leading(ALONE):
        raise DataError("the folder is in use")
    Crew().dismiss()


def test_a_failure_of_the_first_ends_the_others_without_a_word(resolved: tuple[RunConfig, Graph]) -> None:
    def act(processes: Processes) -> None:
        if processes.rank > 0:
            assist(*resolved, Place(processes=processes))
            return
        with leading(processes):
            raise DataError("the folder is in use")

    first, *others = together(3, act)
    assert str(first) == "the folder is in use"
    assert [type(other) for other in others] == [SaidElsewhereError] * 2


def test_the_others_learn_what_they_are_told(
    resolved: tuple[RunConfig, Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, graph = replace(resolved[0], method="ncm", params={}), resolved[1]
    started = config.make_learner(3)
    started.fit_task(config.make_stream(graph, 3).task(0))
    orders: list[State] = [
        {"seed": 3, "task": 1, "threads": 1, "state": started.state_dict()},
        {"seed": 4, "task": 0, "threads": 1, "state": {}},
    ]
    learned: list[tuple[int, int]] = []
    fit = NCM.fit_task

    def fit_task(self: Any, task: Any, observer: Any = None) -> Learner:
        learned.append((self.seed, task.index))
        assert isinstance(self.processes, Companion)
        return fit(self, task, observer)

    monkeypatch.setattr(NCM, "fit_task", fit_task)

    def act(processes: Processes) -> None:
        if processes.rank > 0:
            assist(config, graph, Place(processes=processes))
            return
        with leading(processes) as crew:
            for order in orders:
                crew.call(order)
                crew.rest()

    assert together(2, act) == [None, None]
    assert learned == [(3, 1), (4, 0), (4, 1)]
