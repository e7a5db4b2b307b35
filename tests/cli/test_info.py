"""``hpn import`` as a user meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

Cli = Callable[..., tuple[int, str, str]]
SMALL = ("--set", "data.num_nodes=120", "--set", "data.num_links=400", "--set", "data.num_classes=4")


def test_a_store_goes_where_a_data_set_goes(cli: Cli) -> None:
    code, out, _ = cli("import", "synthetic", "s", *SMALL)
    assert code == 0
    assert "120 nodes" in out
    assert "store: s" in out
    code, out, _ = cli("run", "s", "--method", "ncm", "--json", "--quiet")
    assert code == 0
    stored = json.loads(out)
    code, out, _ = cli("run", "synthetic", *SMALL, "--method", "ncm", "--json", "--quiet")
    assert stored["matrices"] == json.loads(out)["matrices"]
    code, out, _ = cli("datasets", "info", "s", "--json")
    assert (code, json.loads(out)["nodes"]) == (0, 120)


def test_json_tells_what_was_imported(cli: Cli) -> None:
    code, out, _ = cli("import", "synthetic", "s", *SMALL, "--features", "float16", "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["schema"], found["store"], found["nodes"]) == (1, "s", 120)
    assert (Path("s") / "x.bin").stat().st_size == 120 * 32 * 2


def test_options_of_tables(cli: Cli) -> None:
    Path("t").mkdir()
    Path("t/nodes.csv").write_text("id,label,f,note\na,x,1,red\nb,y,,blue\nc,x,3,red\n")
    Path("t/edges.csv").write_text("source,target\na,b\nb,z\n")
    assert "nodes.csv, line 3, column 'f': the value is missing" in cli("import", "t", "s")[2]
    assert "edges.csv, line 3, column 'target': 'z'" in cli("import", "t", "s", "--missing", "mean")[2]
    words = ("--missing", "mean", "--unknown-edges", "drop", "--text", "note")
    code, out, _ = cli("import", "t", "s", *words)
    assert code == 0
    assert "- column 'note' is read as text" in out
    assert "- 1 missing value filled with the mean of their column" in out
    assert "- 1 edge with an unknown end dropped" in out
    code, out, _ = cli("import", "t", "again", *words, "--json")
    assert (code, len(json.loads(out)["notes"])) == (0, 4)


def test_a_damaged_store_is_named(cli: Cli) -> None:
    cli("import", "synthetic", "s", *SMALL)
    (Path("s") / "y.bin").write_bytes(b"")
    code, _, err = cli("run", "s", "--method", "ncm")
    assert code == 2
    assert "the store is damaged or cut short (y.bin has 0 bytes" in err
