"""Time of a whole `posformer recognize` with one small image, for one or several versions.

    python benchmarks/cold_start.py
    python benchmarks/cold_start.py src OTHER/src

Each argument is the `src` folder of a checkout. The versions run in turns; the table has medians
of wall time and of CPU time over all threads.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run(source: Path) -> tuple[float, float]:
    """Return the wall time and the CPU time of one call, in seconds."""
    environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as users run it
    image = str(ROOT / "examples" / "euler.png")
    command = [sys.executable, "-m", "posformer.cli", "recognize", image]
    began, before = time.perf_counter(), os.times()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    cpu = after.children_user - before.children_user
    return time.perf_counter() - began, cpu + after.children_system - before.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="*", type=Path, default=[ROOT / "src"])
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    found: dict[Path, list[tuple[float, float]]] = {source: [] for source in options.sources}
    for number in range(options.rounds + 1):
        for source, times in found.items():
            one = run(source)
            if number:  # the first call writes bytecode
                times.append(one)
    print("| version | wall s | CPU s |\n| --- | ---: | ---: |")
    for source, times in found.items():
        wall, cpu = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"| {source} | {wall:.2f} | {cpu:.2f} |")


if __name__ == "__main__":
    main()
