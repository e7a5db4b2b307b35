from __future__ import annotations

import json
import shlex
from types import SimpleNamespace
from typing import Any

import pytest

from hpn.errors import ConfigError, DataError
from hpn.experiment.compare.cells import MethodCell, with_cell
from hpn.experiment.run.config import resolve_config


def resolve(**choices: Any) -> Any:
    return resolve_config("digits", **choices)[0]


def test_defaults_are_written_out() -> None:
    config = resolve(method="finetune", recipe=None)
    network = {"backbone": "gcn", "epochs": 100, "optimizer": "adam", "lr": 0.01, "weight_decay": 5e-4}
    assert config.params == {**network, "dropout": 0.5, "batch_size": None, "num_neighbors": None}
    assert config.data_options == {"neighbors": 6}
    assert (config.scenario, config.edges, config.evaluate) == ("task", "within", "oracle")
    assert config.tasks == ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9))
    assert json.loads(json.dumps(config.to_json())) == config.to_json()


@pytest.mark.parametrize(
    ("scenario", "evaluate", "resolved"),
    [
        (None, None, ("task", "oracle")),
        ("class", None, ("class", "global")),
        (None, "global", ("class", "global")),
        (None, "grouped", ("class", "grouped")),
        ("class", "oracle", ("class", "oracle")),
        ("task", "oracle", ("task", "oracle")),
    ],
)
def test_scenario_and_evaluation(scenario: Any, evaluate: Any, resolved: tuple[str, str]) -> None:
    config = resolve(method="ncm", scenario=scenario, evaluate=evaluate)
    assert (config.scenario, config.evaluate) == resolved


BAD = {
    "method": ({"method": "ncn"}, "unknown method 'ncn'; did you mean 'ncm'"),
    "edges": ({"edges": "all"}, "unknown edges 'all'; known: within, seen"),
    "scenario": ({"scenario": "domain"}, "unknown scenario 'domain'"),
    "evaluate": ({"evaluate": "oracel"}, "did you mean 'oracle'"),
    "task and global": ({"scenario": "task", "evaluate": "global"}, "use --scenario class"),
    "unknown key": ({"method": "finetune", "settings": {"epoch": 1}}, "finetune has no 'epoch'; did you mean 'epochs'"),
    "out of range": ({"settings": {"balance": "1.5"}}, "balance = '1.5': input should be less than or equal to 1"),
    "infinite": ({"settings": {"strength": "inf"}}, "strength = 'inf': input should be finite"),
    "not of the preset": ({"settings": {"epochs": 3}}, "hpn has no 'epochs'"),
    "of another preset": ({"settings": {"preset": "paper", "width": 10}}, "hpn has no 'width'"),
    "backbone": ({"method": "joint", "backbone": "gnn"}, "backbone = 'gnn': input should be 'gcn', 'gat' or 'gin'"),
    "two backbones": ({"method": "joint", "backbone": "gat", "settings": {"backbone": "gin"}}, "disagree"),
    "no backbone": ({"method": "ncm", "backbone": "gcn"}, "ncm has no backbone"),
    "seed": ({"settings": {"seed": 1}}, "use --seed or --seeds"),
    "data key": ({"settings": {"data.neighbour": 1}}, "data set digits has no 'neighbour'"),
    "data value": ({"settings": {"data.neighbors": 0}}, "neighbors = 0"),
    "tasks": ({"tasks": "0,1;1,2"}, "also in task 0"),
    "classes per task": ({"classes_per_task": 0}, "at least 1"),
}


@pytest.mark.parametrize(("choices", "message"), BAD.values(), ids=BAD)
def test_an_argument_that_cannot_be_used_is_named(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        resolve(**choices)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    with pytest.raises(DataError, match="did you mean 'digits'"):
        resolve_config("digts")


def test_the_hash_differs_for_other_configurations_and_data() -> None:
    base = resolve(method="ncm")
    assert base.short_hash() == resolve(method="ncm").short_hash()
    changes = ({"settings": {"max_hops": 1}}, {"edges": "seen"}, {"tasks": "0,1"}, {"settings": {"data.neighbors": 3}})
    others = {resolve(method="ncm", **change).short_hash() for change in changes}
    assert len({base.short_hash(), *others}) == 5
    assert base.default_folder().name == f"digits-ncm-{base.short_hash()}"


def test_the_command_repeats_the_configuration() -> None:
    protocol = {"scenario": "class", "evaluate": "grouped", "edges": "seen", "tasks": "3,1;2,0,4"}
    config = resolve(method="finetune", backbone="gat", **protocol, settings={"epochs": 7, "data.neighbors": 3})
    words = shlex.split(config.command([2, 5]))
    assert words[:3] == ["hpn", "run", "digits"]
    options = list(zip(words[3::2], words[4::2], strict=True))
    assert {("--seed", "2"), ("--seed", "5")} < set(options)
    again = resolve(
        **{name.removeprefix("--"): value for name, value in options if name not in {"--seed", "--set"}},
        settings=dict(value.split("=") for name, value in options if name == "--set"),
    )
    assert again == config
    assert config.command([0, 1, 2]).endswith("--set data.neighbors=3")
    assert "--seeds 3" in config.command([0, 1, 2])


def test_packaged_recipes_are_for_streams_of_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = {"dataset": "synthetic", "method": "finetune", "backbone": "gcn", "scenario": "class"}
    found = SimpleNamespace(**recipe, settings={"epochs": 3}, name="synthetic/finetune-gcn")
    monkeypatch.setattr("hpn.experiment.run.config.find_recipe", lambda *_: found)
    settings = {"data.num_times": 2}
    choices: dict[str, Any] = {"method": "finetune", "scenario": "class", "settings": settings}
    on_tasks, by_time = (resolve_config("synthetic", stream=kind, **choices)[0] for kind in ("tasks", "time"))
    assert (on_tasks.params["epochs"], by_time.recipe) == (3, None)
    assert with_cell(by_time, MethodCell("finetune", "gcn"), {}) == by_time
