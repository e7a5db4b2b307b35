"""``hpn check``: whether a learner follows the contract."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from hpn.cli.app import app
from hpn.cli.options import OutputOptions, Settings, read_settings, with_options


@app.command()
@with_options
def check(
    method: Annotated[str, typer.Argument(metavar="METHOD", help="MODULE:CLASS, or a name of `hpn methods`.")],
    *,
    set_: Settings = None,
    output: OutputOptions,
) -> None:
    """Check that a learner follows the contract, with one verdict per check.

    The current folder is searched for MODULE as well. Few epochs make it quick: --set epochs=4. The exit code
    is 1 if a check fails.
    """
    from hpn.learners.finding import find_learner
    from hpn.testing import learner_checks

    name, _ = find_learner(method)
    settings = read_settings(set_)
    verdicts = []
    for one in learner_checks(method, **settings):
        verdicts.append(one.run())
        if not output.as_json:
            typer.echo(str(verdicts[-1]))
    counts = {word: sum(one.outcome == word for one in verdicts) for word in ("passed", "failed", "skipped")}
    found = {"schema": 1, "method": name, "settings": settings, **counts, "checks": list(map(asdict, verdicts))}
    output.report(found, [f"{name}: " + ", ".join(f"{count} {word}" for word, count in counts.items())])
    if counts["failed"]:
        raise typer.Exit(1)
