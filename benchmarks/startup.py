"""Wall time of short commands next to that of importing PyTorch, side by side.

python benchmarks/startup.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from statistics import median

ROUNDS = 5
TORCH = "import torch"
COMMANDS = {
    TORCH: ["-c", "import torch"],
    "hpn --help": ["-m", "hpn", "--help"],
    "hpn run digits": ["-m", "hpn", "run", "digits", "--fresh"],
    "the same, finished": ["-m", "hpn", "run", "digits"],
}
ASKED = {"hpn run digits": 2.5, "the same, finished": 0.5}
"""The most that a command may take, in units of importing PyTorch."""


def wall_seconds(words: list[str], folder: str) -> float:
    """Seconds from the start of a command to its end, with modules compiled as an installation has them."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, capture_output=True, cwd=folder, env=environment)
    return time.perf_counter() - start


def main() -> None:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(ROUNDS + 1):  # in turn, since a machine may be slower a minute later
            for name, words in COMMANDS.items():
                seconds = wall_seconds(words, folder)
                times[name] += [seconds] if number else []  # the first round compiles modules
    print(f"{'command':18}  seconds  of importing torch  at most")
    for name, seconds in times.items():
        share = median(seconds) / median(times[TORCH])
        print(f"{name:18}  {median(seconds):7.2f}  {share:18.2f}  {ASKED.get(name, '')}")


if __name__ == "__main__":
    main()
