r"""Score a model on everything that it should read, with 95 % intervals: Markdown and JSON.

    python scripts/scores.py                                  # the bundled model
    python scripts/scores.py --model MODEL --processes 2      # another one
    python scripts/scores.py --model MODEL --limit 20         # a quick look
    python scripts/scores.py --parts photos print             # some parts

The data is in one folder (`--data`): crohme.zip, crohme_inkml.zip, photos, print.zip
(scripts/make_print_validation.py) and expressmatch_dev.zip; parts without data are skipped.
Synthetic sets are made there where they are missing. Predictions are stored in a folder that is
named after the weights, a file for each part, so that an interrupted run continues with the first
part that is not finished. Tables are written after each part.
"""

import argparse
import hashlib
import json
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import posformer
from posformer.atomic import atomic_write
from posformer.errors import PosformerError
from posformer.evaluation import Prediction, read_predictions, write_predictions
from posformer.evaluation.conventions import comparable
from posformer.evaluation.kind_scores import ALL_KINDS, score
from posformer.evaluation.metrics import Scores, wilson_interval
from posformer.evaluation.predict import open_set, predict
from posformer.evaluation.score_table import PAPER_RESULTS, format_markdown
from posformer.evaluation.significance import Interval, bootstrap_group_mean, bootstrap_groups
from posformer.models.model_folder import LANGUAGE, VOCABULARY, WEIGHTS, open_folder
from posformer.runtime import Thresholds, load_runtime
from posformer.runtime.language_prior import LanguageWeight
from posformer.search import DecodingOptions
from posformer.synthesis.synthesizer import open_synthesizer, write_set

PAPER, DEFAULT = "paper", "default"
SEARCHES = {
    PAPER: DecodingOptions(beam=10, scales=1, adaptive=False, language_weight=0.0),
    DEFAULT: DecodingOptions(),
}
BUNDLED = Path(posformer.__file__).parent / "weights" / "default"
INK = "crohme_inkml.zip"
LINES = {"environments": "cases,aligned,pmatrix", "max_tokens": 14, "max_symbols": 12}

# One text of ExpressMatch has `tan^-1`, which LaTeX sets as tan⁻ 1; writers wrote tan⁻¹.
MISSPELLED = r"t a n ^ { - } 1"
CORRECTED = r"\tan ^ { - 1 }"


@dataclass(frozen=True)
class Part:
    """A dataset and how it is searched."""

    name: str
    title: str
    data: str  # file in the folder of data
    split: str
    search: str = DEFAULT
    leave_out: str | None = None
    before: float | None = None  # ExpRate of the model that was trained on CROHME alone
    made: tuple[tuple[str, Any], ...] = ()  # options of `posformer synthesize`, if synthetic
    vocabulary: str | None = None  # of synthetic expressions
    count: int = 0  # of synthetic expressions
    lenient: bool = False  # what looks the same is equal: `comparable`
    by_text: bool = False  # intervals by resampling texts, which begin the names


def crohme(year: str, paper: float, default: float) -> Iterator[Part]:
    """Yield a split of CROHME with both searches."""
    ink = year == "2013"
    data, leave_out = (INK, "train") if ink else ("crohme.zip", None)
    note = "new expressions, validation" if ink else "test"
    for search, before in ((DEFAULT, default), (PAPER, paper)):
        name = f"crohme-{year}-{search}"
        title = f"CROHME {year} ({note})"
        yield Part(name, title, data, year, search, leave_out, before)


def synthetic(name: str, title: str, split: str, count: int, **options: Any) -> Part:
    """Return a part that is synthesized from the ink of CROHME 2013, whose writers are unseen."""
    vocabulary = options.pop("vocabulary", None)
    return Part(
        name, title, f"{name}.zip", split, made=tuple(options.items()), vocabulary=vocabulary,
        count=count, lenient="lines" in options,
    )  # fmt: skip


PARTS = (
    Part("photos", "photographs (validation)", "photos", "dev"),
    Part("print", "print (validation)", "print.zip", "print", before=9.3),
    Part("expressmatch", "ExpressMatch (validation, ink)", "expressmatch_dev.zip", "dev",
         lenient=True, by_text=True),
    synthetic("lines-13", "2–3 lines, 13 symbols, unseen writers", "heldout", 250, seed=2026,
              lines="2-3", vocabulary="configs/multiline.txt", **LINES),
    synthetic("lines-all", "2–4 lines, all symbols of 2013, unseen writers", "heldout", 250,
              seed=17, lines="2-4", **LINES | {"environments": "cases,aligned,pmatrix,bmatrix"}),
    synthetic("levels", "nested levels 1–4, unseen writers", "levels", 600, seed=4, levels="1-4",
              max_tokens=40),
    *[part for parts in zip(crohme("2013", 53.9, 56.4), crohme("2014", 59.4, 61.9),
                            crohme("2016", 61.0, 63.4), strict=True) for part in parts],
)  # fmt: skip

PHOTOS_BEFORE = {"photo-paper": 16.0, "scan": 69.0, "photo-print": 9.0, "screen-print": 9.0}


def main() -> None:
    """Run the parts that are missing and write the tables."""
    options = _arguments()
    model = options.model or BUNDLED
    digest = digest_of(model)
    folder = options.output / (digest if options.limit is None else f"{digest}-{options.limit}")
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [part for part in PARTS if options.parts is None or part.name in options.parts]
    waiting = []
    for part in chosen:
        if part.made and (options.data / INK).exists():
            make_set(part, options.data)
        if not (options.data / part.data).exists():
            print(f"{part.name}: skipped, {options.data / part.data} is missing", file=sys.stderr)
        elif not (folder / f"{part.name}.jsonl").exists():
            waiting.append(part)
    write_tables(folder, PARTS, model)
    run = partial(run_part, model=options.model, data=options.data, folder=folder,
                  limit=options.limit, threads=options.threads)  # fmt: skip
    for name in each_done(run, waiting, options.processes):
        print(f"{name}: done", file=sys.stderr, flush=True)
        write_tables(folder, PARTS, model)
    print((folder / "scores.md").read_text())
    print(f"{folder}/scores.md, scores.json", file=sys.stderr)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, help="Model folder or checkpoint.")
    parser.add_argument("--data", type=Path, default=Path("data"), help="Folder of the data.")
    parser.add_argument("--output", type=Path, default=Path("runs/scores"), help="Folder.")
    parser.add_argument("--parts", nargs="+", choices=[part.name for part in PARTS])
    parser.add_argument("--limit", type=int, help="Maximum number of images of each part.")
    parser.add_argument("--processes", type=int, default=1, choices=(1, 2))
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of each process.")
    return parser.parse_args()


def digest_of(model: Path) -> str:
    """Return a short name for a model; calibration and model card do not change what it reads."""
    digest = hashlib.sha256()
    if model.is_dir():
        folder = open_folder(model)
        margin = Thresholds.from_info(folder.info).margin
        weight = LanguageWeight.from_info(folder.info).weight
        settings = [folder.config.to_dict(), margin, weight]
        digest.update(json.dumps(settings, sort_keys=True).encode())
    names = [VOCABULARY, WEIGHTS, LANGUAGE]
    files = [model / name for name in names if (model / name).is_file()] or [model]
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def make_set(part: Part, data: Path) -> None:
    """Synthesize the set of a part if it is missing."""
    if (data / part.data).exists():
        return
    options = dict(part.made)
    seed = options.pop("seed")
    synthesizer = open_synthesizer(data / INK, "2013", part.vocabulary, **options)
    for _ in write_set(data / part.data, synthesizer, part.count, seed, part.split):
        pass


def each_done(run: Any, parts: Sequence[Part], processes: int) -> Iterator[str]:
    """Run the parts, and yield the name of each when it is finished."""
    if processes == 1:
        yield from map(run, parts)
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for future in as_completed([pool.submit(run, part) for part in parts]):
            yield future.result()


def run_part(
    part: Part, model: Path | None, data: Path, folder: Path, limit: int | None, threads: int
) -> str:
    """Store the predictions of a part, unless another run just did; return its name."""
    if (folder / f"{part.name}.jsonl").exists():
        return part.name
    runtime = load_runtime(model, threads=threads)
    how = runtime.config.image.preprocessing
    examples = open_set(data / part.data, part.split, part.leave_out, limit, how)
    found = list(predict(runtime, examples, SEARCHES[part.search]))
    if part.lenient:
        found = [one_spelling(one) for one in found]
    write_predictions(folder / f"{part.name}.jsonl", found)
    return part.name


def one_spelling(prediction: Prediction) -> Prediction:
    """Return a prediction in the spelling that its label is compared in."""
    truth = " ".join(prediction.truth).replace(MISSPELLED, CORRECTED).split()
    return replace(
        prediction,
        truth=comparable(truth),
        prediction=comparable(prediction.prediction),
        source=prediction.name.partition("_")[0],
    )


@dataclass(frozen=True)
class Line:
    """A line of a table."""

    label: str
    search: str
    count: int
    exprate: float
    interval: Interval
    le1: float | None = None
    le2: float | None = None
    le3: float | None = None
    cer: float | None = None
    before: float | None = None


def main_lines(parts: Sequence[Part], found: dict[str, list[Prediction]]) -> Iterator[Line]:
    """Yield a line for each finished part."""
    for part in parts:
        if part.name not in found:
            continue
        predictions = found[part.name]
        scores = score(predictions)
        interval = scores.exprate_interval
        if part.by_text:
            correct = [one.is_correct for one in predictions]
            interval = bootstrap_groups(correct, [one.source for one in predictions])
        yield Line(part.title, part.search, scores.count, scores.exprate, interval, scores.le1,
                   scores.le2, scores.le3, scores.cer, part.before)  # fmt: skip


def kind_table(predictions: Sequence[Prediction]) -> list[dict[str, Any]]:
    """Return the scores of photographs by kind with intervals, per image and per source."""
    rows = []
    for kind in score(predictions).by_kind:
        members = [one for one in predictions if kind.kind in (ALL_KINDS, one.kind)]
        correct = [one.is_correct for one in members]
        sources = [one.source for one in members]
        rows.append(
            kind.to_json()
            | {
                "interval": wilson_interval(sum(correct), len(correct)),
                "interval_by_source": bootstrap_groups(correct, sources),
                "source_interval": bootstrap_group_mean(correct, sources),
                "before": PHOTOS_BEFORE.get(kind.kind),
            }
        )
    return rows


def level_table(predictions: Sequence[Prediction]) -> list[dict[str, Any]]:
    """Return ExpRate by the nested level of the ground truth with intervals."""
    rows = []
    for level in score(predictions).by_level:
        correct = round(level.count * level.exprate / 100)
        rows.append(
            {
                "level": level.first,
                "count": level.count,
                "exprate": level.exprate,
                "interval": wilson_interval(correct, level.count),
            }
        )
    return rows


def text_table(predictions: Sequence[Prediction]) -> list[dict[str, Any]]:
    """Return ExpRate by text."""
    texts = sorted({one.source for one in predictions}, key=lambda name: (len(name), name))
    rows = []
    for text in texts:
        scores = score([replace(one, kind="") for one in predictions if one.source == text])
        truth = next(one.truth for one in predictions if one.source == text)
        rows.append({"text": text, "truth": " ".join(truth), **_rates(scores)})
    return rows


def _rates(scores: Scores) -> dict[str, float]:
    return {"count": scores.count, "exprate": scores.exprate, "le3": scores.le3, "cer": scores.cer}


def write_tables(folder: Path, parts: Sequence[Part], model: Path) -> None:
    """Write scores.md and scores.json for the parts that are finished."""
    files = {part.name: folder / f"{part.name}.jsonl" for part in parts}
    found = {name: read_predictions(file) for name, file in files.items() if file.exists()}
    lines = list(main_lines(parts, found))
    levels = {
        part.title + _search(part.search): level_table(found[part.name])
        for part in parts
        if part.name in found and part.name.startswith(("crohme", "levels"))
    }
    kinds = {name: kind_table(found[name]) for name in ("photos", "print") if name in found}
    texts = text_table(found["expressmatch"]) if "expressmatch" in found else []
    content = {
        "model": digest_of(model), "scores": [asdict(line) for line in lines],
        "by_level": levels, "by_kind": kinds, "by_text": texts,
    }  # fmt: skip
    atomic_write(folder / "scores.json", json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    blocks = [_markdown_lines(lines), *(_markdown_levels(levels)), _markdown_kinds(kinds)]
    blocks += [_markdown_texts(texts)] if texts else []
    atomic_write(folder / "scores.md", "\n\n".join(block for block in blocks if block) + "\n")


def _search(search: str) -> str:
    return ", beam 10" if search == PAPER else ", default"


def _markdown_lines(lines: Sequence[Line]) -> str:
    header = ("dataset", "search", "count", "ExpRate (95 %)", "before", "≤1", "≤2", "≤3", "CER")
    rows = [
        (line.label, _search(line.search)[2:], str(line.count),
         _spread(line.exprate, line.interval), _number(line.before), _number(line.le1),
         _number(line.le2), _number(line.le3), _number(line.cer, 3))
        for line in lines
    ]  # fmt: skip
    shown = {line.label.split()[1] for line in lines if line.label.startswith("CROHME")}
    for result in PAPER_RESULTS:
        if result.split in shown:
            label = f"CROHME {result.split}: {result.model} in the paper"
            label += "" if result.scale_augmentation else " (no scale augmentation)"
            rates = (result.le1, result.le2, result.le3)
            rows.append((label, "beam 10", "", f"{result.exprate:.2f}", "",
                         *map(_number, rates), ""))  # fmt: skip
    return format_markdown(header, rows)


def _markdown_levels(levels: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    numbers = sorted({row["level"] for rows in levels.values() for row in rows})
    if not numbers:
        return
    table = []
    for title, rows in levels.items():
        cells = {
            row["level"]: f"{_spread(row['exprate'], row['interval'])}, {row['count']}"
            for row in rows
        }
        table.append((title, *(cells.get(number, "") for number in numbers)))
    header = ("ExpRate by nested level (95 %), count", *map(str, numbers))
    yield format_markdown(header, table)


def _markdown_kinds(kinds: dict[str, list[dict[str, Any]]]) -> str:
    header = ("kind", "count", "sources", "ExpRate (95 %)", "… sources resampled", "before",
              "case ignored", "mean of sources (95 %)", "case ignored")  # fmt: skip
    rows = []
    for name, members in kinds.items():
        for row in members:
            low, high = row["interval_by_source"]
            label = f"all of {name}" if row["kind"] == ALL_KINDS else row["kind"]
            rows.append((label, str(row["count"]), str(row["sources"]),
                         _spread(row["exprate"], row["interval"]), f"{low:.1f}–{high:.1f}",
                         _number(row["before"], 1), _number(row["exprate_no_case"], 1),
                         _spread(row["source_exprate"], row["source_interval"]),
                         _number(row["source_exprate_no_case"], 1)))  # fmt: skip
    return format_markdown(header, rows) if rows else ""


def _markdown_texts(texts: Sequence[dict[str, Any]]) -> str:
    header = ("text of ExpressMatch", "writers", "ExpRate", "≤3", "CER")
    rows = [
        (f"`{row['truth'].replace('|', chr(92) + '|')}`", str(row["count"]),
         _number(row["exprate"], 1), _number(row["le3"], 1), _number(row["cer"], 3))
        for row in texts
    ]  # fmt: skip
    return format_markdown(header, rows)


def _spread(value: float, interval: Interval) -> str:
    low, high = interval
    return f"{value:.1f} ({low:.1f}–{high:.1f})"


def _number(value: float | None, digits: int = 1) -> str:
    return "" if value is None or np.isnan(value) else f"{value:.{digits}f}"


if __name__ == "__main__":
    try:
        main()
    except PosformerError as error:
        sys.exit(f"scores: {error}")
