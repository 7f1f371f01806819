"""Train and evaluate the candidates of a comparison; a restart resumes where it stopped."""

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
from posformer.comparison.candidates import Candidate
from posformer.data import list_splits
from posformer.errors import ConfigError, DataError, PosformerError
from posformer.evaluation.metrics import edit_distances
from posformer.evaluation.predict import EvaluationSet, open_set, predict
from posformer.evaluation.predictions import read_predictions, write_predictions
from posformer.models.checkpoint import read_checkpoint
from posformer.runtime.pytorch_runtime import PyTorchRuntime
from posformer.search import DecodingOptions
from posformer.training.callbacks import say
from posformer.training.run_checkpoints import LAST, has_checkpoint
from posformer.training.trainer import train


@dataclass(frozen=True)
class Benchmark:
    """The data and search of the evaluation, the same for all candidates."""

    data: str  # image or ink dataset
    split: str
    leave_out: str | None = None  # expressions that occur in this split are excluded
    limit: int | None = None  # maximum number of expressions
    beam: int = 10  # as in the paper
    greedy: bool = False

    @classmethod
    def of_first(cls, candidates: Sequence[Candidate], **options: Any) -> "Benchmark":
        """Return the validation set of the first config.

        Raises:
            ConfigError: If no config has a dataset.
        """
        for config in (one.config for one in candidates if one.config is not None):
            data = config.data
            if data.images is not None and data.validation in list_splits(data.images):
                return cls(data.images, data.validation, **options)
            if data.ink is not None:
                return cls(data.ink, data.validation, data.train, **options)
        raise ConfigError("no config has a dataset to evaluate on; set --data")


@dataclass(frozen=True)
class Result:
    """Evaluation of one trained model."""

    name: str
    seed: int
    distances: np.ndarray  # int64 (expressions,), edit distances
    parameters: int  # used in recognition
    speed: float  # images per second of CPU time
    minutes: float | None  # CPU time of the training; None if unknown


def run_all(
    candidates: Sequence[Candidate],
    benchmark: Benchmark,
    output: Path,
    *,
    seeds: int = 1,
    threads: int = 1,
    allow_code: bool = False,
) -> Iterator[Result | PosformerError]:
    """Train and evaluate all candidates, and yield the results one by one.

    All candidates are run with one seed before the next seed starts, so that first results come
    early. Finished work is not repeated.

    Args:
        candidates: The candidates.
        benchmark: The benchmark.
        output: Folder of the runs and predictions.
        seeds: Number of training runs of each config.
        threads: CPU threads of the evaluation.
        allow_code: Import the Python module that a model names; configs may always name one.

    Yields:
        A result, or the error of a candidate that failed.

    Raises:
        ConfigError: If an existing run has other settings; nothing is trained then.
    """
    trials = [
        (one, seed) for seed in range(seeds) for one in candidates if seed == 0 or one.model is None
    ]
    examples = open_set(benchmark.data, benchmark.split, benchmark.leave_out, benchmark.limit)
    for one, seed in trials:
        _check_settings(one, seed, output)
    for one, seed in trials:
        try:
            model = one.model or _train(one, seed, output, allow_code)
            file = output / benchmark.split / f"{one.name}-{seed}.jsonl"
            trained = one.config.model.name if one.config and not one.model else False
            allowed = allow_code or trained
            fields = _evaluate(model, benchmark, examples, file, threads, allowed)
            yield Result(one.name, seed, **fields)
        except PosformerError as error:
            yield ConfigError(f"{one.name}, seed {seed}: {error}")


def _run_folder(one: Candidate, seed: int, output: Path) -> Path:
    return output / "runs" / one.name / f"seed-{seed}"


def _known(file: Path) -> dict[str, Any]:
    """Return the content of a JSON file; empty if it is missing or incomplete."""
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _check_settings(one: Candidate, seed: int, output: Path) -> None:
    if one.model is not None:
        return
    folder = _run_folder(one, seed, output)
    started, wanted = _known(folder / "run.json").get("settings"), _plain(one.settings(seed))
    if started is None or started == wanted:
        return
    other = [key for key in wanted["config"] if started["config"].get(key) != wanted["config"][key]]
    what = ", ".join(other) or "encoder"
    raise ConfigError(f"{folder}: started with other settings ({what}); choose another --output")


def _plain(values: Any) -> Any:
    return json.loads(json.dumps(values))


def _train(one: Candidate, seed: int, output: Path, allow_code: bool) -> Path:
    """Start, resume or skip a training run, and return its last checkpoint."""
    assert one.config is not None
    folder = _run_folder(one, seed, output)
    last, about = folder / LAST, {"settings": one.settings(seed), "finished": True}
    if not _known(folder / "run.json").get("finished"):
        atomic_write(folder / "run.json", json.dumps({**about, "finished": False}, indent=2))
        config = replace(one.config, seed=one.config.seed + seed)
        with contextlib.redirect_stdout(sys.stderr):  # stdout is for the table
            say(f"{one.name}, seed {seed}: in {folder}")
            train(config, folder, resume=has_checkpoint(folder), allow_code=allow_code)
        atomic_write(folder / "run.json", json.dumps(about, indent=2))
    return last


def _evaluate(
    model: Path,
    benchmark: Benchmark,
    examples: EvaluationSet,
    file: Path,
    threads: int,
    allow_code: bool | str,
) -> dict[str, Any]:
    """Write the predictions of a model, unless they exist; return the fields of its result."""
    about = file.with_suffix(".json")
    state = (model / "config.json" if model.is_dir() else model).stat().st_mtime_ns
    wanted = _plain({**asdict(benchmark), "model": str(model), "modified": state})
    known = _known(about)
    if known.get("measured") != wanted:
        runtime = PyTorchRuntime.load(model, threads, allow_code)
        options = DecodingOptions(
            beam=benchmark.beam, greedy=benchmark.greedy, scales=1, adaptive=False
        )
        start = time.process_time()
        write_predictions(file, predict(runtime, examples, options))
        spent = time.process_time() - start
        seconds = None if model.is_dir() else read_checkpoint(model)["posformer"].get("spent")
        known = {
            "measured": wanted,
            "parameters": sum(weight.numel() for weight in runtime.model.parameters()),
            "speed": len(examples) / spent,
            "minutes": None if seconds is None else seconds / 60,
        }
        atomic_write(about, json.dumps(known, indent=2))
    predictions = read_predictions(file)
    if [one.name for one in predictions] != examples.names:
        raise DataError(f"{file}: not the expressions of {benchmark.data}")
    distances = edit_distances(examples.captions, [one.prediction for one in predictions])
    return {"distances": distances, **{key: known[key] for key in known if key != "measured"}}
