"""CPU time of the bounds on spherical codes, next to importing PyTorch; the figure asked for is 2 s each.

python benchmarks/theory.py
"""

from __future__ import annotations

import subprocess
import sys
import time

DIMS = (3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 28, 32)
DISTANCES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)


def cpu_seconds_of_torch() -> float:
    """Least time of importing PyTorch in a process of its own."""
    code = "import time; import torch; print(time.process_time())"
    runs = [subprocess.run([sys.executable, "-c", code], check=True, capture_output=True) for _ in range(3)]
    return min(float(run.stdout) for run in runs)


def main() -> None:
    from hpn.theory.spherical_codes import upper_bounds

    upper_bounds(3, 0.5)  # loads the solver
    reference = cpu_seconds_of_torch()
    heads = ("slowest distance", "CPU seconds", "of importing torch", f"all {len(DISTANCES)} distances")
    print("dimension", *heads, sep="  ")
    for dim in DIMS:
        times = {}
        for distance in DISTANCES:
            start = time.process_time()
            upper_bounds(dim, distance)
            times[distance] = time.process_time() - start
        slowest = max(times, key=lambda distance: times[distance])
        share = times[slowest] / reference
        print(f"{dim:9}  {slowest:16}  {times[slowest]:11.2f}  {share:18.2f}  {sum(times.values()):16.1f}")


if __name__ == "__main__":
    main()
