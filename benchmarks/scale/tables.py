"""The tables of the page, in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.scale.asked import Results, gigabytes
from benchmarks.scale.plan import (
    ASKED_NODES,
    AUTHORS_BATCH,
    AUTHORS_CELLS,
    AUTHORS_FIRST,
    AUTHORS_LAST,
    AUTHORS_RATE,
    DATASETS,
    LARGE,
)
from benchmarks.scale.plots import rounded
from hpn.report.format import count, decimal, quantity, spread

Entry = Mapping[str, Any]
Row = tuple[str, str, str, str, str, str]
Rows = Iterator[Row]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: int = 0) -> str:
    """A Markdown table, of which the last ``numbers`` columns are set to the right."""
    rules = ["---"] * (len(heads) - numbers) + ["--:"] * numbers
    lines = [heads, *rows]
    body = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([body[0], "|" + "|".join(rules) + "|", *body[1:]]) + "\n"


def seconds_words(seconds: float) -> str:
    """Seconds, or milliseconds where that is too little to be seen.

    Example:
        >>> seconds_words(2.345), seconds_words(0.000862)
        ('2.35', '0.86 ms')
    """
    return quantity(seconds) if seconds >= 0.05 else f"{quantity(1000 * seconds)} ms"


def data_table(results: Results) -> str:
    """Sizes of the data sets."""
    keys = ("nodes", "edges", "features", "classes")
    stores = {name: results[f"store/{name}"] for name in DATASETS if f"store/{name}" in results}
    rows = [(name, *(count(told[key]) for key in keys)) for name, told in stores.items()]
    return table(("data set", *keys), rows, numbers=4) if rows else ""


def speed_table(results: Results) -> str:
    """Every operation on every data set."""
    rows = [row for dataset in DATASETS for row in _dataset_rows(dataset, results)]
    heads = ("data set", "what", "nodes", "seconds", "a second", "of the gather", "times GCN", "peak memory")
    return table(heads, rows, numbers=6) if rows else ""


def authors_table(results: Results) -> str:
    """Speed on arxiv-like beside that of the authors' code."""
    rows: list[tuple[str, ...]] = [
        (
            f"the authors’ code, batch {AUTHORS_BATCH}, measured elsewhere",
            count(AUTHORS_FIRST),
            "1",
            count(AUTHORS_FIRST),
            count(AUTHORS_LAST),
            decimal(AUTHORS_LAST / AUTHORS_FIRST, 2),
            "–",
        )
    ]
    for name, changes in AUTHORS_CELLS.items():
        words = f"ours, batch {changes.get('batch_size', LARGE['batch_size']):,}"
        words += f", learning rate {AUTHORS_RATE}" if "lr_refine" in changes else ""
        speed, accuracy = results.get(f"tasks/{name}"), results.get(f"accuracy/{name}")
        numbers = [""] * 5
        if speed:
            rate, first, last = (speed[key] for key in ("nodes_per_second", "first", "last"))
            numbers = [_rate(rate), quantity(rate / AUTHORS_FIRST), _rate(first), _rate(last)]
            numbers.append(decimal(last / first, 2))
        if speed or accuracy:
            rows.append((words, *numbers, spread(accuracy["am"]) if accuracy else "–"))
    heads = ("arxiv-like", "nodes a second", "times", "first tasks", "last tasks", "last / first", "AM, %")
    return table(heads, rows, numbers=6)


def _dataset_rows(dataset: str, results: Results) -> list[tuple[str, ...]]:
    found = {name.removesuffix(f"/{dataset}"): entry for name, entry in results.items()}
    gcn = found.get("gcn-batches") or found.get("gcn-whole")
    rows: list[tuple[str, ...]] = []
    for cell, tell in _TELLERS.items():
        if cell in found:
            rows += [(dataset, *row, gigabytes(found[cell]["peak_mb"])) for row in tell(found[cell], gcn)]
    return rows


def _import_rows(entry: Entry, _: Entry | None) -> Rows:
    words, size = f"import from {entry['source']}", f"{count(entry['edges'])} edges"
    yield words, size, seconds_words(entry["seconds"]), _rate(entry["edges_per_second"]), "", ""


def _sample_rows(entry: Entry, _: Entry | None) -> Rows:
    yield _row("sample a neighbour each", entry["nodes"], entry["seconds"])


def _fit_rows(entry: Entry, gcn: Entry | None, where: str = "") -> Rows:
    nodes, seconds = entry["nodes"], entry["seconds"]
    yield _row(f"gather alone{where}", nodes, nodes / entry["gather_per_second"], share="100 %")
    yield _row(f"gather by x[rows]{where}", nodes, nodes / entry["indexing_per_second"])
    share = f"{quantity(100 * entry['ratio'])} %"
    yield _row(f"HPN, prototype phase{where}", nodes, seconds, share=share, gcn=None if where else gcn)
    yield _row(f"HPN, whole fit{where}", entry["whole_nodes"], entry["whole_seconds"])


def _answer_rows(entry: Entry, who: str) -> Rows:
    yield _row(f"{who}, answers for test nodes", entry["nodes"], entry["seconds"])
    yield _row(f"{who}, answers for a million nodes", ASKED_NODES, entry["million_seconds"])


def _run_rows(entry: Entry, _: Entry | None) -> Rows:
    parts = f"fit {quantity(entry['fit_seconds'])}, predict {quantity(entry['predict_seconds'])}"
    words = f"`hpn run`, {entry['tasks']} tasks: {parts}"
    yield words, "", seconds_words(entry["seconds"]), "", "", ""


def _row(what: str, nodes: float, seconds: float, share: str = "", gcn: Entry | None = None) -> Row:
    times = "" if gcn is None else quantity(nodes / seconds / gcn["nodes_per_second"])
    return what, count(nodes), seconds_words(seconds), _rate(nodes / seconds), share, times


def _gcn_row(words: str, entry: Entry, gcn: Entry | None) -> Row:
    return _row(f"GCN, fine-tuning, {words}", entry["nodes"], entry["seconds"], gcn=gcn)


def _rate(value: float) -> str:
    return count(rounded(value))


_TELLERS: dict[str, Callable[[Entry, Entry | None], Rows]] = {
    "import": _import_rows,
    "sample": _sample_rows,
    "fit": _fit_rows,
    "fit-1-thread": lambda entry, gcn: _fit_rows(entry, gcn, ", 1 thread"),
    "gcn-batches": lambda entry, gcn: iter([_gcn_row("batches", entry, gcn)]),
    "gcn-whole": lambda entry, gcn: iter([_gcn_row("whole graph", entry, gcn)]),
    "predict": lambda entry, _: _answer_rows(entry, "HPN"),
    "gcn-predict": lambda entry, _: _answer_rows(entry, "GCN"),
    "run": _run_rows,
}
