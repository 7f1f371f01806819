"""Trains and measures what is compared; started again it goes on where it stopped."""

import contextlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from posformer.atomic import atomic_write
from posformer.comparison.candidates import Contender
from posformer.data import list_splits
from posformer.errors import ConfigError, DataError, PosformerError
from posformer.evaluation import edit_distances, read_predictions, write_predictions
from posformer.evaluation.predict import EvaluationSet, open_set, predict_watched
from posformer.models.checkpoint import read_checkpoint
from posformer.runtime.decoding import search_options
from posformer.runtime.pytorch_runtime import PyTorchRuntime
from posformer.training.callbacks import say
from posformer.training.trainer import train

__all__ = ["Benchmark", "Result", "run_all"]


@dataclass(frozen=True)
class Benchmark:
    """What all are measured on, and how they read it."""

    data: str  # a set of images or ink
    split: str
    leave_out: str | None = None  # split whose texts are left out
    limit: int | None = None  # only so many expressions
    beam: int = 10  # as the paper
    greedy: bool = False

    @classmethod
    def of_first(cls, contenders: Sequence[Contender], **options: Any) -> "Benchmark":
        """The validation set of the first config among the contenders."""
        for config in (one.config for one in contenders if one.config is not None):
            data = config.data
            if data.images is not None and data.validation in list_splits(data.images):
                return cls(data.images, data.validation, **options)
            if data.ink is not None:
                return cls(data.ink, data.validation, data.train, **options)
        raise ConfigError("no config names data to measure on; name some with --data")

    def open(self) -> EvaluationSet:
        """The expressions."""
        return open_set(self.data, self.split, self.leave_out, self.limit)


@dataclass(frozen=True)
class Result:
    """What one trained model reads."""

    name: str
    seed: int
    distances: np.ndarray  # int64 (expressions), tokens that are wrong
    parameters: int  # of what recognition needs
    speed: float  # images in a second of CPU time
    minutes: float | None  # of CPU time that its training took, where that is known


def run_all(
    contenders: Sequence[Contender],
    benchmark: Benchmark,
    output: Path,
    *,
    seeds: int = 1,
    threads: int = 1,
) -> Iterator[Result | PosformerError]:
    """Trains, where that is to be done, and measures; one result after the other.

    All contenders have their turn with one seed before the next seed's begin, so that there is
    something to compare early. Nothing that was finished is done again.

    Args:
        contenders: what to compare.
        benchmark: what to measure on.
        output: folder of the runs and of what was measured.
        seeds: how many times each config is trained.
        threads: of the CPU, for reading.

    Yields:
        What was measured; or, for a contender that fails, why. The others have their turn still.

    Raises:
        ConfigError: Before anything is trained, if a run that is there has other settings.
    """
    trials = [
        (one, seed) for seed in range(seeds) for one in contenders if seed == 0 or one.model is None
    ]
    examples = benchmark.open()
    for one, seed in trials:
        _check_settings(one, seed, output)
    for one, seed in trials:
        try:
            model = one.model or _trained(one, seed, output)
            yield _measured(one, seed, model, benchmark, examples, output, threads)
        except PosformerError as error:
            yield ConfigError(f"{one.name}, seed {seed}: {error}")


def _run_folder(one: Contender, seed: int, output: Path) -> Path:
    return output / "runs" / one.name / f"seed-{seed}"


def _known(file: Path) -> dict[str, Any]:
    """What was written about a run or a measurement; nothing if that was never finished."""
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _check_settings(one: Contender, seed: int, output: Path) -> None:
    if one.model is not None:
        return
    folder = _run_folder(one, seed, output)
    began, wanted = _known(folder / "run.json").get("settings"), _plain(one.settings(seed))
    if began is None or began == wanted:
        return
    other = [key for key in wanted["config"] if began["config"].get(key) != wanted["config"][key]]
    what = ", ".join(other) or "encoder"
    raise ConfigError(f"{folder}: began with other settings ({what}); name another --output")


def _plain(values: Any) -> Any:
    return json.loads(json.dumps(values))


def _trained(one: Contender, seed: int, output: Path) -> Path:
    """The last checkpoint of a run, which is begun, taken up again, or finished already."""
    assert one.config is not None
    folder = _run_folder(one, seed, output)
    last, about = folder / "last.ckpt", {"settings": one.settings(seed), "finished": True}
    if not _known(folder / "run.json").get("finished"):
        atomic_write(folder / "run.json", json.dumps({**about, "finished": False}, indent=2))
        config = replace(one.config, seed=one.config.seed + seed)
        with contextlib.redirect_stdout(sys.stderr):  # stdout is for the table
            say(f"{one.name}, seed {seed}: in {folder}")
            train(config, folder, resume=last.exists())
        atomic_write(folder / "run.json", json.dumps(about, indent=2))
    return last


def _measured(
    one: Contender,
    seed: int,
    model: Path,
    benchmark: Benchmark,
    examples: EvaluationSet,
    output: Path,
    threads: int,
) -> Result:
    about = output / benchmark.split / f"{one.name}-{seed}.json"
    file = about.with_suffix(".jsonl")
    state = (model / "config.json" if model.is_dir() else model).stat().st_mtime_ns
    wanted = _plain({**asdict(benchmark), "model": str(model), "modified": state})
    known = _known(about)
    if known.get("measured") != wanted:
        known = {"measured": wanted, **_read(model, benchmark, examples, file, threads)}
        atomic_write(about, json.dumps(known, indent=2))
    predictions = read_predictions(file)
    if [one.name for one in predictions] != examples.names:
        raise DataError(f"{file}: does not hold the expressions of {benchmark.data}")
    distances = edit_distances(examples.captions, [one.prediction for one in predictions])
    return Result(one.name, seed, distances, known["parameters"], known["speed"], known["minutes"])


def _read(
    model: Path, benchmark: Benchmark, examples: EvaluationSet, file: Path, threads: int
) -> dict[str, Any]:
    """Reads all images; gives what a table tells of a model beside its errors."""
    runtime = PyTorchRuntime.load(model, threads)
    options = search_options(runtime.config, benchmark.beam, greedy=benchmark.greedy)
    began = time.process_time()
    write_predictions(file, predict_watched(runtime, examples, options))
    spent = time.process_time() - began
    seconds = None if model.is_dir() else read_checkpoint(model)["posformer"].get("spent")
    return {
        "parameters": sum(weight.numel() for weight in runtime.model.parameters()),
        "speed": len(examples) / spent,
        "minutes": None if seconds is None else seconds / 60,
    }
