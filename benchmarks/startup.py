"""CPU time until `hpn --help` is printed, and until a run can begin, next to what cannot be avoided.

python benchmarks/startup.py
"""

from __future__ import annotations

import resource
import subprocess
import sys

REPEATS = 7
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "hpn --help": ["-m", "hpn", "--help"],
    "import torch": ["-c", "import torch"],
    "hpn methods": ["-m", "hpn", "methods"],
}


def cpu_seconds(words: list[str]) -> float:
    """Least user and system time of several runs."""
    least = float("inf")
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        least = min(least, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return least


def main() -> None:
    times = {name: cpu_seconds(words) for name, words in COMMANDS.items()}
    print(f"{'command':16}  CPU seconds  of importing torch")
    for name, seconds in times.items():
        print(f"{name:16}  {seconds:11.2f}  {seconds / times['import torch']:18.2f}")


if __name__ == "__main__":
    main()
