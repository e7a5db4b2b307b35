from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpn.errors import ConfigError
from hpn.experiment import recipes
from hpn.experiment.compare.cells import choose_cells
from hpn.experiment.published import Spread, published_cell
from hpn.experiment.recipes import (
    Chosen,
    Ours,
    Published,
    Recipe,
    find_recipe,
    packaged_recipes,
    read_recipe,
    write_recipe,
)
from hpn.experiment.run.config import resolve_config
from hpn.experiment.run.runner import run
from hpn.learners import LEARNERS
from hpn.params import resolve_params

SMALL = {"data.num_nodes": 120, "data.num_links": 400, "data.num_classes": 4}


def small_recipe(**changes: Any) -> Recipe:
    cell = {"dataset": "synthetic", "method": "finetune", "backbone": "gcn", "scenario": "task"}
    return Recipe(**{**cell, "settings": {"lr": 0.03, "epochs": 3}, **changes})


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packaged recipes with one file, of one recipe."""
    folder = tmp_path / "packaged"
    monkeypatch.setattr(recipes, "FOLDER", folder)
    write_recipe(folder / "synthetic.yaml", small_recipe())
    return folder


def append_recipe(file: Path, recipe: Recipe) -> None:
    """Put the file that ``hpn tune`` writes at the end of another one."""
    one = file.with_name("one.yaml.part")
    write_recipe(one, recipe)
    file.write_text(f"{file.read_text()}---\n{one.read_text()}")


def resolve(**choices: Any) -> Any:
    settings = {**SMALL, **choices.pop("settings", {})}
    return resolve_config("synthetic", **{"method": "finetune", "settings": settings, **choices})[0]


def chosen_params(**choices: Any) -> tuple[float, int]:
    params = resolve(**choices).params
    return params["lr"], params["epochs"]


def test_a_recipe_is_read_as_it_was_written(tmp_path: Path) -> None:
    recipe = small_recipe(
        settings={"lr": 1e-05, "epochs": 20},
        chosen=Chosen(
            tuned_for="remembering",
            validation_am=Spread(80.0, 1.5),
            default_am=Spread(70.0, 1.0),
            noise=1.25,
            trials=6,
            seeds=[0, 1],
            space={"lr": {"low": 1e-5, "high": 0.1, "scale": "log"}, "epochs": [20, 50]},
            protocol={"edges": "within", "tasks": [[0, 1], [2, 3]]},
            command="hpn tune synthetic",
        ),
        published=Published(source="a paper", am=Spread(70.0, 1.0), fm=None),
        ours=Ours(seeds=[0, 1], am=Spread(71.0, 2.0), fm=Spread(-3.0, 0.5), command="hpn run synthetic"),
    )
    write_recipe(tmp_path / "a" / "b.yaml", recipe)
    assert read_recipe(tmp_path / "a" / "b.yaml") == recipe
    content = yaml.safe_load((tmp_path / "a" / "b.yaml").read_text())
    assert list(content) == [*("dataset", "method", "backbone", "scenario", "settings", "chosen", "published", "ours")]
    assert content["published"] == {"source": "a paper", "am": {"mean": 70.0, "std": 1.0}, "fm": None}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "is not YAML"),
        ("- 1", "is not a recipe: expected dataset"),
        ("method: finetune", "dataset: field required"),
        ("{dataset: x, method: finetun, scenario: task, settings: {}}", "did you mean 'finetune'"),
        ("{dataset: x, method: ncm, scenario: both, settings: {}}", "scenario: input should be 'task'"),
        ("{dataset: x, method: ncm, scenario: task, settings: {}, our: 1}", "no 'our'; did you mean 'ours'"),
        ("{dataset: x, method: ncm, scenario: task, settings: {max_hop: 1}}", "did you mean 'max_hops'"),
        ("{dataset: x, method: ncm, scenario: task, settings: {seed: 1}}", "ncm has no 'seed'"),
    ],
)
def test_a_bad_file_is_named_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        read_recipe(file)
    assert str(error.value).startswith(f"recipe {file}")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_packaged_recipes_are_found_by_cell_and_scenario(packaged: Path) -> None:
    in_class = small_recipe(scenario="class", settings={"lr": 0.5})
    append_recipe(packaged / "synthetic.yaml", small_recipe(backbone="gat"))
    append_recipe(packaged / "synthetic.yaml", in_class)
    names = ["synthetic/finetune-gcn", "synthetic/finetune-gat", "synthetic/finetune-gcn-class"]
    assert [recipe.name for recipe in packaged_recipes()] == names
    assert [read_recipe(name).name for name in names] == names
    assert find_recipe("synthetic", "finetune", "gcn", "task") == small_recipe()
    assert find_recipe("synthetic", "finetune", "gcn", "class") == in_class
    for other in (("synthetic", "finetune", "gin"), ("digits", "finetune", "gcn"), ("../synthetic", "finetune", "gcn")):
        assert find_recipe(*other, "task") is None
    with pytest.raises(ConfigError, match=r"synthetic\.yaml holds 3 recipes; give a file with one"):
        read_recipe(packaged / "synthetic.yaml")
    with pytest.raises(ConfigError, match=r"cannot read recipe .*none\.yaml: No such file"):
        read_recipe(packaged / "none.yaml")


def test_settings_come_before_the_recipe_and_the_recipe_before_defaults(packaged: Path) -> None:
    defaults = chosen_params(recipe=None)
    assert chosen_params() == (0.03, 3) != defaults
    assert chosen_params(backbone="gcn") == (0.03, 3)
    assert chosen_params(settings={"lr": 0.5}) == (0.5, 3)
    assert chosen_params(settings={"lr": defaults[0]}) == (defaults[0], 3)
    assert chosen_params(scenario="class") == defaults
    assert chosen_params(settings={"backbone": "gat"}) == defaults


@pytest.mark.usefixtures("packaged")
def test_the_source_of_settings_does_not_make_another_run(tmp_path: Path) -> None:
    recipe, given = resolve(), resolve(settings={"lr": 0.03, "epochs": 3}, recipe=None)
    assert recipe == given
    assert recipe.short_hash() == given.short_hash()
    assert recipe.to_json() == given.to_json()
    assert (recipe.recipe, given.recipe) == ("synthetic/finetune-gcn", None)
    result = run("synthetic", method="finetune", settings=SMALL, out=tmp_path / "run")
    assert (result["recipe"], result["params"]["epochs"]) == ("synthetic/finetune-gcn", 3)


@pytest.mark.usefixtures("packaged")
def test_the_command_repeats_the_run_exactly() -> None:
    given = {"epochs": 3, **SMALL}
    for choices, settings, is_used in (
        ({}, SMALL, True),
        ({"recipe": None, "settings": {"epochs": 3}}, given, False),
        ({"backbone": "gin", "settings": {"epochs": 3}}, given, True),
    ):
        words = shlex.split(resolve(**choices).command([0]))
        assert {word for word in words if "=" in word} == {f"{key}={value}" for key, value in settings.items()}
        assert ("--no-recipe" in words) != is_used


def test_a_file_of_ones_own(packaged: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    write_recipe(file, small_recipe(dataset="cora", settings={"lr": 0.2}))
    config = resolve(recipe=file)
    assert (config.params["lr"], config.recipe) == (0.2, str(file))
    assert config.params["epochs"] == resolve(recipe=None).params["epochs"], "recipes do not mix"
    for choices, message in (
        ({"method": "joint"}, "is for method finetune, but this run has joint"),
        ({"backbone": "gat"}, "is for backbone gcn, but this run has gat"),
        ({"scenario": "class"}, "is for scenario task, but this run has class"),
    ):
        with pytest.raises(ConfigError, match=message):
            resolve(recipe=file, **choices)


def test_the_recipe_of_a_preset_is_used_where_the_preset_is_chosen(packaged: Path) -> None:
    settings = {"preset": "paper", "dim": 3, "epochs": 2, "warmup_epochs": 1}
    append_recipe(packaged / "synthetic.yaml", small_recipe(method="hpn", backbone=None, settings=settings))
    default, paper = partial(resolve, method="hpn"), {"preset": "paper"}
    assert (default().params["preset"], default().recipe) == ("best", None)
    chosen, named = default(settings=paper), default(recipe="synthetic/hpn-paper")
    assert chosen == named
    assert chosen.recipe == named.recipe == "synthetic/hpn-paper"
    assert {name: chosen.params[name] for name in settings} == settings
    assert default(settings={**paper, "dim": 5}).params["dim"] == 5
    assert default(settings=paper, recipe=None).params["dim"] == 16
    assert "--set preset=paper" in chosen.command([0])
    assert "--set dim" not in chosen.command([0]), "the packaged recipe has it"


def test_the_recipes_in_the_package_can_be_used() -> None:
    found = list(packaged_recipes())
    assert len({recipe.name for recipe in found}) == len(found) == 112
    for recipe in found:
        assert find_recipe(recipe.dataset, recipe.method, recipe.variant, recipe.scenario) == recipe
        assert read_recipe(recipe.name) == recipe
        params = resolve_params(LEARNERS[recipe.method], recipe.settings, owner=recipe.name)
        LEARNERS[recipe.method](**params).effective_params()  # refuses what does not apply
        cell = published_cell(recipe.dataset, recipe.method, recipe.backbone) if recipe.scenario == "task" else None
        assert (recipe.published and (recipe.published.am, recipe.published.fm)) == (cell and (cell.am, cell.fm))
        if recipe.method != "hpn":
            assert recipe.chosen is not None
            assert recipe.ours is not None
            space = LEARNERS[recipe.method].search_space
            assert recipe.chosen.space == {name: choice.describe() for name, choice in space.items()}
            assert set(recipe.settings) == set(space), "what is searched now"
            assert recipe.ours.seeds == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dataset", ["digits", "cora", "citeseer", "actor"])
def test_every_method_and_backbone_but_hpn_comes_with_a_recipe(dataset: str) -> None:
    assert find_recipe(dataset, "hpn", None, "task") is None, "hpn is run with its defaults everywhere"
    for method, backbone in (cell for cell in choose_cells() if cell.method != "hpn"):
        assert find_recipe(dataset, method, backbone, "task") is not None, (method, backbone)


@pytest.mark.parametrize(("dataset", "dim"), [("ogbn-arxiv", 4), ("ogbn-products", 2)])
def test_large_graphs_come_with_the_papers_settings(dataset: str, dim: int) -> None:
    for name in (dataset, dataset.removeprefix("ogbn-") + "-like"):
        assert find_recipe(name, "hpn", "best", "task") is None
        params = LEARNERS["hpn"](**read_recipe(f"{name}/hpn-paper").settings).effective_params()
        assert [params[key] for key in ("drawn", "epochs", "warmup_epochs", "dim")] == ["1", 10, 0, dim]
