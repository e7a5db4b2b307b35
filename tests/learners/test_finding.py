"""A method of one's own, as a user brings it: a module in the folder, or an installed package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hpn
from hpn.cli import main
from hpn.experiment.run.config import resolve_config
from hpn.learners.finding import find_learner

ROOT = Path(__file__).resolve().parents[2]
SIZES = ["--set", "data.num_nodes=200", "--set", "data.num_classes=4"]
CODE = "from hpn.learners import NCM\n\nclass Mine(NCM):\n    '''Means of one's own.'''\n"


def command(folder: Path, *words: str, source: Path = ROOT / "src") -> subprocess.CompletedProcess[str]:
    """Run the installed command in a folder, which Python does not search by itself."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(folder / "site")])}
    start = "import sys; sys.path.remove(''); from hpn.cli import main; main()"
    arguments = [sys.executable, "-W", "ignore", "-c", start, *words]
    return subprocess.run(
        arguments, check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


def install(folder: Path, package: str, **offers: str) -> None:
    """Lay out an installed package that offers learners."""
    about = folder / "site" / f"{package}-2.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.0\n")
    lines = [f"{name} = {target}" for name, target in offers.items()]
    (about / "entry_points.txt").write_text("\n".join(["[hpn.learners]", *lines]))
    (folder / "site" / f"{package}.py").write_text(CODE)


@pytest.fixture
def method(tmp_path: Path) -> str:
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package" / "own_module.py").write_text(CODE)
    return "own_package.own_module:Mine"


@pytest.mark.slow
def test_a_module_in_the_folder_is_tuned_and_its_recipe_is_used(tmp_path: Path, method: str) -> None:
    words = ("synthetic", "--method", method, *SIZES, "--json", "--quiet")
    few = ("--trials", "2", "--final-seeds", "1", "--seeds", "2", "--workers", "2")
    done = command(tmp_path, "tune", *words, *few, "--out", "tuned")
    assert done.returncode == 0, done.stderr
    done = command(tmp_path, "run", *words, "--recipe", "tuned/recipe.yaml")
    assert done.returncode == 0, done.stderr


def test_a_module_in_the_folder_is_run_compared_and_loaded(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = command(tmp_path, "run", "synthetic", "--method", method, *SIZES, "--out", "run", "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["method"] == method
    assert f"--method {method}" in json.loads((tmp_path / "run" / "result.json").read_text())["command"]
    words = ("synthetic", *SIZES, "--json", "--quiet", "--workers", "1", "--seeds", "2")
    done = command(tmp_path, "compare", *words, "--methods", f"ncm,{method}")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["method"] for row in rows] == ["ncm", method]
    assert rows[0]["am"] == rows[1]["am"]
    with pytest.raises(
        hpn.errors.RunFolderError, match=r"there is no module 'own_package'.*give its class with learner="
    ):
        hpn.load_learner(tmp_path / "run")
    assert isinstance(hpn.load_learner(tmp_path / "run", learner=hpn.LEARNERS["ncm"]), hpn.LEARNERS["ncm"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert type(hpn.load_learner("run")).__name__ == "Mine"
    (tmp_path / "own_package" / "own_module.py").write_text("x = 1\n")
    monkeypatch.delitem(sys.modules, "own_package.own_module")
    with pytest.raises(hpn.errors.RunFolderError, match=r"has no 'Mine'; it has no learner; load it where"):
        hpn.load_learner("run")


def test_installed_packages_offer_methods_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hpn", *words])
        with pytest.raises(SystemExit) as stop:
            main()
        return int(stop.value.code or 0), *capsys.readouterr()

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "site")
    install(tmp_path, "acme_means", acme="acme_means:Mine", ncm="acme_means:Mine", twice="acme_means:Mine")
    install(tmp_path, "other_means", broken="other_means:Gone", twice="other_means:Mine")
    code, out, err = call("methods", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["acme"]["from"] == "acme_means 2.0 (acme_means:Mine)"
    assert found["acme"]["about"] == "Means of one's own."
    assert found["ncm"]["from"] == "hpn"
    assert "both acme_means 2.0 (acme_means:Mine) and hpn have" in found["acme_means:Mine"]["error"]
    assert "has no 'Gone'; did you mean 'Mine'? its learners are Mine" in found["broken"]["error"]
    assert "    from acme_means 2.0 (acme_means:Mine)\n" in call("methods")[1]
    code, out, err = call("run", "synthetic", "--method", "acme", *SIZES, "--json", "--quiet", "--out", "run")
    assert (code, err) == (0, "")
    assert json.loads(out)["method"] == "acme"
    assert type(hpn.load_learner("run")).__name__ == "Mine"
    assert "--method acme " in json.loads((tmp_path / "run" / "result.json").read_text())["command"]
    assert not (tmp_path / "run" / "request.json").exists(), "its code may change"
    for method, message in (
        ("twice", "use --method acme_means:Mine for that of acme_means 2.0"),
        ("broken", "method 'broken' of other_means 2.0: other_means"),
        ("acne", "unknown method 'acne'; did you mean 'acme'?"),
    ):
        code, _, err = call("run", "synthetic", "--method", method)
        assert (code, err.count("\n")) == (2, 1)
        assert message in err


def run_script(folder: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-W", "ignore", "script.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(words, check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


LEARNER = """import hpn
class Mine(hpn.Learner):
    def _learn(self, step, observer): ...
    def _scores(self, query): ...
"""


@pytest.mark.parametrize(
    ("method", "code", "message"),
    [
        ("own_m/m.py:Mine", "", r"'own_m/m.py' is not the name of a module; did you mean own_m.m:Mine\?"),
        ("own_stops:Mine", "raise SystemExit(3)", r"cannot be imported \(SystemExit: 3\)"),
        (
            "own_positional:Mine",
            LEARNER + "    def __init__(self, width=1, seed=0): ...",
            r"argument 'width' of its constructor must be keyword-only; write def __init__\(self, \*, width, …\)",
        ),
        (
            "own_unseeded:Mine",
            LEARNER + "    def __init__(self, *, width=1): ...",
            "has no argument 'seed'; add seed: int",
        ),
    ],
)
def test_what_cannot_be_used_is_one_line_that_names_the_way_out(
    method: str, code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    if code:
        (tmp_path / f"{method.partition(':')[0]}.py").write_text(code)
    with pytest.raises(hpn.errors.ConfigError, match=message):
        find_learner(method)


def test_a_change_of_a_base_class_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_child.py").write_text("from own_base import Mine\n\nclass Child(Mine):\n    pass\n")

    def folder_of(code: str) -> str:
        (tmp_path / "own_base.py").write_text(code)
        config, _ = resolve_config("synthetic", method="own_child:Child", settings={"data.num_nodes": 200})
        return config.default_folder().name

    assert folder_of(CODE) == folder_of(CODE) != folder_of(CODE + "# changed\n")


def test_a_script_names_its_learner_as_others_import_it(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        CODE + "import hpn\nif __name__ == '__main__':\n"
        "    print(hpn.run('synthetic', method=Mine, settings={'data.num_nodes': 200}, out='run').command)\n"
    )
    done = run_script(tmp_path)
    assert "--method script:Mine " in done.stdout, done.stderr


def test_a_script_without_a_guard_is_not_run_again_to_find_its_learner(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        CODE + "import hpn\nprint('begins')\n"
        "settings = {'data.num_nodes': 200}\n"
        "out = hpn.run('synthetic', method=Mine, settings=settings, out='run').out\n"
        "print(type(hpn.load_learner(out)) is Mine)\n"
        "table = hpn.compare('synthetic', methods=[Mine, 'ncm'], settings=settings, workers=1, seeds=1)\n"
        "print(*(row.method for row in table.rows))\n"
    )
    done = run_script(tmp_path)
    assert done.stdout.split() == ["begins", "True", "ncm", "script:Mine"], done.stderr
