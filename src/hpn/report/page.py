"""Pages: one self-contained HTML file each, written completely or not at all."""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
import logging
import re
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import altair as alt
import jinja2

from hpn.errors import DataError, HPNError
from hpn.experiment.compare.result import Comparison
from hpn.experiment.run.folder import write_atomic
from hpn.experiment.run.result import RunResult
from hpn.report.comparison import compared_metrics, row_label, table_columns, table_notes
from hpn.report.figures import FIGURES, WIDTH, chart_spec, comparison_charts
from hpn.report.format import bound_text, clean, count, decimal, listed, metric_text, pairs, plural, quantity, spread
from hpn.report.results import Run, RunGroup, best_value, find_results, group_runs, shown_metrics, step_noun, step_text
from hpn.report.theme import DARK, DASHES, LIGHT, MARKERS
from hpn.report.wording import NOT_MEASURED, WITHIN_GIVES_AWAY, gives_task_away, setting

if TYPE_CHECKING:
    from hpn.experiment.exploration import Exploration

log = logging.getLogger(__name__)


def write_report(
    runs: Sequence[Path | str], out: Path | str, *, on_skip: Callable[[str], object] = log.warning
) -> Path:
    """Write one self-contained HTML page about finished runs.

    Args:
        runs: Folders of runs, comparisons and tuning, or their JSON files; one named twice counts once.
        out: The file to write. An earlier report is replaced in one step and stays intact if writing fails.
        on_skip: Receives one line about each folder without a result; by default it is logged.

    Returns:
        ``out``.

    Raises:
        DataError: If no run has finished, a path does not exist or a file is damaged.
        HPNError: If ``out`` cannot be written.
    """
    skipped = list[str]()
    found = find_results(map(Path, runs), skipped.append)
    if not found.runs and not found.comparisons:
        first = f" ({skipped[0].removesuffix('; skipped')})" if skipped else ""
        raise DataError(f"there is nothing to report on; name at least one folder of a finished run{first}")
    for line in skipped:
        on_skip(line)
    return write_page(lambda: render_page(list(found.runs.values()), list(found.comparisons.values())), Path(out))


def write_page(render: Callable[[], str], out: Path) -> Path:
    """Write a page in place of what was there.

    Raises:
        HPNError: If it cannot be written.
    """
    if out.is_dir():
        raise HPNError(f"out is a folder, {out}: name a file, such as {out / 'report.html'}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(out, render().encode())
    except OSError as error:
        raise HPNError(f"{out} cannot be written ({error.strerror}): name another file") from error
    return out


def render_page(runs: Sequence[Run], comparisons: Sequence[Comparison] = ()) -> str:
    """Build the page of runs and comparisons."""
    ids = itertools.count(1)

    def draw(scope: str, group: RunGroup) -> list[dict[str, Any]]:
        figures = [figure for figure in FIGURES.values() if figure.scope == scope]
        return [_picture(chart, next(ids)) for figure in figures for chart in figure.draw(group)]

    return render_template(
        "report.html.j2",
        title=headline([*(run.result for run in runs), *comparisons]),
        runs=runs,
        groups=group_runs(runs),
        draw=draw,
        comparisons=comparisons,
        explorers=[run.exploration for run in runs if run.exploration],
    )


def headline(results: Sequence[RunResult | Comparison]) -> str:
    """Title of the page: few data sets are named, many are counted."""
    names = list(dict.fromkeys(result.dataset for result in results))
    return f"Continual learning on {listed(names) if len(names) <= 3 else f'{len(names)} data sets'}"


def comparison_page(comparison: Comparison) -> str:
    """Build the page of what :func:`hpn.compare` gives."""
    pictures = [_picture(chart, number) for number, chart in enumerate(comparison_charts(comparison), 1)]
    title = f"Methods compared on {comparison.dataset}"
    return render_template("comparison.html.j2", title=title, comparison=comparison, pictures=pictures)


def explorer_page(exploration: Exploration, title: str) -> str:
    """Build the page of a model and a graph: the node explorer alone."""
    return render_template("explorer.html.j2", title=title, explorers=[exploration])


def render_template(name: str, **content: Any) -> str:
    """Fill a template, and add what every page has: policy, style and scripts."""
    has_explorer = bool(content.get("explorers"))
    style = _asset("page.css") + (_asset("explorer.css") if has_explorer else "")
    scripts = ["" if name == "explorer.html.j2" else _asset("vega.js"), _asset("page.js")]
    scripts += [_asset("explorer.js")] if has_explorer else []
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    return (
        _environment()
        .get_template(name)
        .render(
            policy=f"default-src 'none'; style-src 'sha256-{_digest(style)}'; script-src {hashes}",
            style=style,
            scripts=scripts,
            themes={"light": LIGHT.config(), "dark": DARK.config()},
            markers=list(MARKERS.values()),
            dashes=[" ".join(map(str, dash)) for dash in DASHES],
            **content,
        )
    )


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hpn.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: clean(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: list[Callable[..., Any]] = [bound_text, count, decimal, metric_text, pairs, plural, quantity, spread]
    filters += [best_value, gives_task_away, setting, shown_metrics, step_noun, step_text]
    filters += [compared_metrics, row_label, table_columns, table_notes]
    environment.filters |= {function.__name__: function for function in filters}
    environment.globals |= {"NOT_MEASURED": NOT_MEASURED, "WITHIN_GIVES_AWAY": WITHIN_GIVES_AWAY}
    return environment


@functools.cache
def _asset(name: str) -> str:
    text = (files("hpn.report") / "templates" / name).read_text(encoding="utf-8")
    if name == "page.css":
        series = [
            "".join(f".s{i}{{color:{colour}}}" for i, colour in enumerate(theme.series)) for theme in (LIGHT, DARK)
        ]
        text = text.replace("@SERIES", f"{series[0]}\n@media screen and (prefers-color-scheme:dark){{{series[1]}}}")
    return text


@functools.cache
def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _picture(chart: alt.TopLevelMixin, number: int) -> dict[str, Any]:
    """A chart on a page: its caption, and its specification without title and legend, which the page shows."""
    spec = chart_spec(chart)
    title = spec.pop("title")
    is_wide = isinstance(spec.get("width"), (int, float)) and spec["width"] > WIDTH
    if spec.get("width") == WIDTH:
        spec |= {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
    _drop_run_legends(spec)
    name = re.sub(r"[^a-z0-9]+", "-", title["text"].lower()).strip("-")
    texts = {"title": title["text"], "about": title.get("subtitle", ""), "file_name": name}
    return {"id": f"chart-{number}", **texts, "spec": spec, "is_wide": is_wide}


def _drop_run_legends(spec: Any) -> None:
    """Remove the legends of runs, which the page shows once above all charts."""
    if isinstance(spec, dict) and spec.get("field") == "run" and "legend" in spec:
        spec["legend"] = None
    for part in spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else ():
        _drop_run_legends(part)
