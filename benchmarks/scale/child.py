"""One cell: call its function and print what it gives as one JSON object.

``peak_mb`` is the largest memory of this process, or of the commands it started if a cell measures those.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
from pathlib import Path

from benchmarks.scale.plan import Setup, Skipped


def peak_mb(who: int = resource.RUSAGE_SELF) -> float:
    """Largest resident memory so far, in MB of 10^6 bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(who).ru_maxrss * unit / 1e6


def main() -> None:
    task = json.loads(sys.argv[1])
    setup = Setup(Path(task["work"]), threads=task["threads"], quick=task["quick"])
    module, name = task["call"].split(":")
    measure = getattr(importlib.import_module(f"benchmarks.scale.{module}"), name)
    try:
        values = measure(setup, **task["options"])
        values.setdefault("peak_mb", peak_mb())
    except Skipped as reason:
        values = {"skipped": str(reason)}
    print(json.dumps(values))


if __name__ == "__main__":
    main()
