"""Runs the program on mutated inputs, each with a limit of time and memory.

    python tests/fuzz/run_fuzz.py --cases 10000 --seed 0

Every case is a function of its target, the seed and its number: `--case image:17` repeats one.
Inputs that the program does not handle are written to the output folder, together with
`summary.json`, which records the seed. The exit code is 1 if there are any.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "tests"), str(ROOT / "tests" / "serve")]

from fuzz_corpus import Corpus, make_corpus  # noqa: E402
from fuzz_targets import Case, make_input, start  # noqa: E402

from posformer.batch.budgeted import is_usual  # noqa: E402
from posformer.errors import BudgetError  # noqa: E402
from posformer.worker_pool import Budget, WorkerPool  # noqa: E402

SHARES = {"image": 30, "ink": 20, "json": 10, "checkpoint": 10, "model": 10, "http": 20}
SECONDS = 30.0  # per case; the budget of `posformer recognize`
MEGABYTES = 1024
OVER_BUDGET = "over budget"
AHEAD = 16  # queued cases


@dataclass
class Summary:
    """What came of the cases."""

    seed: int
    outcomes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    defects: dict[str, str] = field(default_factory=dict)  # message by case

    def to_markdown(self) -> str:
        """Return a table with a row per target."""
        names = sorted({name for counter in self.outcomes.values() for name in counter})
        lines = [f"| target | cases | {' | '.join(names)} |"]
        lines.append("| --- |" + " ---: |" * (len(names) + 1))
        for target, counter in self.outcomes.items():
            cells = " | ".join(str(counter[name]) for name in names)
            lines.append(f"| {target} | {counter.total()} | {cells} |")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        outcomes = {target: dict(counter) for target, counter in self.outcomes.items()}
        return {"seed": self.seed, "outcomes": outcomes, "defects": self.defects}


def all_cases(seed: int, count: int, targets: Sequence[str]) -> list[Case]:
    """Return cases of all targets, evenly mixed, so that any part of them has some of each."""
    total = sum(SHARES[target] for target in targets)
    placed = [
        ((number + 0.5) / size, (target, seed, number))
        for target in targets
        for size in [round(count * SHARES[target] / total)]
        for number in range(size)
    ]
    return [case for _, case in sorted(placed)]


def run(
    cases: Sequence[Case], corpus: Corpus, scratch: Path, output: Path, minutes: float, workers: int
) -> Summary:
    """Run cases until the time is over."""
    summary, end = Summary(cases[0][1]), monotonic() + 60 * minutes
    budget = Budget(SECONDS, MEGABYTES)
    with WorkerPool(partial(start, corpus, scratch), workers, budget=budget) as pool:
        coming = iter(cases)
        queue = [(case, pool.submit(case)) for case in islice(coming, AHEAD)]
        while queue:
            case, future = queue.pop(0)
            outcome, problem = "defect", ""
            try:
                outcome = future.result()
            except BudgetError as error:
                problem = str(error)
                if case[0] in ("image", "ink") and not is_usual(make_input(case, corpus)[1]):
                    outcome = OVER_BUDGET  # such files are read in a process with limits
            except Exception as error:
                problem = str(error)
            summary.outcomes[case[0]][outcome] += 1
            if outcome == "defect":
                _record(case, problem, corpus, summary, output)
            if monotonic() < end:
                queue += [(one, pool.submit(one)) for one in islice(coming, 1)]
    return summary


def _record(case: Case, problem: str, corpus: Corpus, summary: Summary, output: Path) -> None:
    name, content = make_input(case, corpus)
    key = f"{case[0]}:{case[2]}"
    summary.defects[key] = f"{name}: {problem}"
    print(f"{key}: {name}: {problem}", file=sys.stderr, flush=True)
    (output / f"{case[0]}-{case[2]}").write_bytes(content)


def main() -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=24 * 60.0, help="end after this time")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--targets", nargs="+", choices=SHARES, default=list(SHARES))
    parser.add_argument("--case", help="run only this one, such as image:17")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "fuzz")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    cases = all_cases(options.seed, options.cases, options.targets)
    if options.case:
        target, _, number = options.case.partition(":")
        cases = [(target, options.seed, int(number))]
    with tempfile.TemporaryDirectory() as scratch:
        corpus = make_corpus(Path(scratch))
        summary = run(
            cases, corpus, Path(scratch), options.output, options.minutes, options.workers
        )
    (options.output / "summary.json").write_text(json.dumps(summary.to_json(), indent=2) + "\n")
    print(f"seed {summary.seed}\n\n{summary.to_markdown()}")
    return 1 if summary.defects else 0


if __name__ == "__main__":
    sys.exit(main())
