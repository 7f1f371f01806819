"""Throughput and memory of `posformer batch`.

    python benchmarks/batch.py --data crohme.zip --split 2014 --count 300
    python benchmarks/batch.py --data crohme.zip --split 2014 --count 300 --ray
    python benchmarks/batch.py --listed 10000 1000000

The first two run the same job with one worker and with two, in turns. CPU time is that of all
processes of a job and is affected least by other programs; with Ray, it is that of the workers as
the rows state it (wall time, one image after the other). The third one lists paths that do not
exist: no time is spent on recognition, and all else is done as for images.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import cv2

from posformer.data import open_images


def write_images(data: Path, split: str, count: int, folder: Path) -> None:
    """Write images of a dataset, black on white."""
    images = open_images(data, split)
    for number in range(min(count, len(images))):
        cv2.imwrite(str(folder / f"{number:06d}.png"), 255 - images.image(number))


def run(source: Path, output: Path, *options: str) -> tuple[float, float, int, str]:
    """Run a job; return its wall time, CPU time, kilobytes of its largest process and summary."""
    command = [sys.executable, "-m", "posformer.cli", "batch", str(source), "-o", str(output)]
    started = perf_counter()
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    text = process.stdout.read()
    _, _, used = os.wait4(process.pid, 0)
    return perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss, text.strip()


def milliseconds(output: Path) -> float:
    """Return the mean time per image that the rows state."""
    rows = [json.loads(line) for part in output.glob("part-*") for line in part.open()]
    return sum(row["milliseconds"] or 0 for row in rows) / len(rows)


def measure_throughput(source: Path, scratch: Path, repeats: int, ray: bool) -> None:
    """Print a row per number of workers and repeat."""
    print("| engine | workers | images per second | ms per image in a worker | CPU ms per image |")
    print("| --- | ---: | ---: | ---: | ---: |")
    count = len(list(source.iterdir()))
    for repeat in range(repeats):
        for workers in (1, 2):
            output = scratch / f"out-{repeat}-{workers}"
            options = ["--workers", str(workers)]
            if ray:
                number = str(workers)
                options = ["--engine", "ray", "--min-workers", number, "--max-workers", number]
            _, busy, _, summary = run(source, output, "--part-size", "25", *options)
            rate = re.search(r"([\d.]+) images per second", summary)
            cpu = "" if ray else f"{1000 * busy / count:.0f}"
            name = "ray" if ray else "local"
            spent = f"{milliseconds(output):.0f}"
            print(f"| {name} | {workers} | {rate and rate[1]} | {spent} | {cpu} |", flush=True)


def measure_memory(counts: list[int], scratch: Path) -> None:
    """Print a row per number of inputs."""
    print("| inputs | largest process, MB | rows per second | part files |")
    print("| ---: | ---: | ---: | ---: |")
    for count in counts:
        listed, output = scratch / f"{count}.txt", scratch / f"out-{count}"
        with listed.open("w") as file:
            file.writelines(f"/nowhere/{number:09d}.png\n" for number in range(count))
        seconds, _, kilobytes, _ = run(listed, output)
        parts = len(list(output.glob("part-*")))
        print(f"| {count} | {kilobytes / 1024:.0f} | {count / seconds:.0f} | {parts} |", flush=True)


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--split", default="2014")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--listed", type=int, nargs="+")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        if chosen.listed:
            measure_memory(chosen.listed, scratch)
            return
        source = scratch / "images"
        source.mkdir()
        write_images(chosen.data, chosen.split, chosen.count, source)
        measure_throughput(source, scratch, chosen.repeats, chosen.ray)


if __name__ == "__main__":
    main()
