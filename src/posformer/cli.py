"""The command line: one thin function a command.

Heavy modules are imported inside the commands, so that `posformer --help` and recognition start
at once.
"""

import json
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posformer.errors import LatexError, PosformerError

if TYPE_CHECKING:
    from posformer.evaluation import Prediction
    from posformer.evaluation.predict import EvaluationSet

app = typer.Typer(
    name="posformer",
    help="Reads handwritten mathematics and writes LaTeX.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


# Those of `posformer.runtime.decoding`, which is not imported for the sake of numbers.
_BEAM = 3
_VIEWS = 2
_MOST_VIEWS = 3
_PAPER_BEAM = 10  # what the tables of the field are measured with


@app.callback()
def _root() -> None:
    """Reads handwritten mathematics and writes LaTeX."""


class ResultFormat(str, Enum):
    """How `posformer recognize` prints."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"


class EngineChoice(str, Enum):
    """What runs a model."""

    AUTO = "auto"
    ONNX = "onnx"
    PYTORCH = "pytorch"


@app.command()
def recognize(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Images, InkML, folders; - is stdin.")
    ],
    beam: Annotated[int, typer.Option(min=1, max=200, help="Hypotheses followed.")] = _BEAM,
    views: Annotated[
        int, typer.Option(min=1, max=_MOST_VIEWS, help="Sizes each image is read at.")
    ] = _VIEWS,
    top_k: Annotated[int, typer.Option(min=1, max=100, help="Readings of each image.")] = 1,
    format: Annotated[
        ResultFormat, typer.Option("--format", help="LaTeX alone, one object a line, or a table.")
    ] = ResultFormat.TEXT,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file to write instead of stdout.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="A model folder; by default the one that comes along.")
    ] = None,
    engine: Annotated[EngineChoice, typer.Option(help="What runs it.")] = EngineChoice.AUTO,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of the CPU; by default one for each core.")
    ] = None,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="The best token at every step: fastest.")
    ] = False,
) -> None:
    """Read handwritten mathematics in images or ink, and print LaTeX."""
    from posformer.batch.files import recognize_files
    from posformer.recognizer import Recognizer

    if greedy and top_k > 1:
        raise typer.BadParameter("--greedy gives one reading only", param_hint="--top-k")
    recognizer = Recognizer.load(model, engine.value, threads)
    failed = recognize_files(
        recognizer, paths, output, format.value, top_k=top_k, beam=beam, greedy=greedy, views=views
    )
    raise typer.Exit(1 if failed else 0)


class DirectionChoice(str, Enum):
    """In which a model writes."""

    FORWARD = "forward"
    BACKWARD = "backward"


@app.command()
def explain(
    image: Annotated[Path, typer.Argument(help="An image of a formula, or InkML.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write.")],
    model: Annotated[
        Path | None, typer.Option(help="A model folder or checkpoint; by default the shipped one.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="Another model, to show side by side.")
    ] = None,
    latex: Annotated[
        str | None, typer.Option(help="What to write, instead of what the model reads.")
    ] = None,
    direction: Annotated[
        DirectionChoice, typer.Option(help="Write from left to right, or the other way.")
    ] = DirectionChoice.FORWARD,
    beam: Annotated[int, typer.Option(min=1, max=200, help="Hypotheses followed.")] = _BEAM,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of the CPU; by default one for each core.")
    ] = None,
) -> None:
    """Show where a model looked for each symbol, before and after correction."""
    from posformer.explain import explain as show

    shown = show(
        image,
        output,
        model=model,
        against=against,
        latex=latex,
        direction=direction.value,
        beam=beam,
        threads=threads,
    )
    for note in shown.notes:
        typer.echo(f"posformer: {note}", err=True)
    for written in shown.latex:
        typer.echo(written)
    typer.echo(f"{shown.page}: written", err=True)


@app.command()
def export(
    source: Annotated[
        Path,
        typer.Argument(metavar="CHECKPOINT", help="A checkpoint of a run, or a model folder."),
    ],
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="The model folder to write.")],
    half: Annotated[
        bool, typer.Option("--half", help="Store weights in half precision: half the size.")
    ] = False,
    card: Annotated[
        Path | None, typer.Option(help="The model's card (Markdown), to go along as README.md.")
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            max=4,
            help="Size in which the model is to be given its images, against CROHME's; by "
            "default as in training. Slower and often better when larger: try it on validation.",
        ),
    ] = None,
) -> None:
    """Make a complete model folder, and check what it computes against PyTorch."""
    from posformer.models.checkpoint import load_model
    from posformer.runtime.model_export import at_scale, export_model, known_of

    model = at_scale(load_model(source), scale)
    folder, difference = export_model(model, output, known_of(source), half=half, card=card)
    if difference is None:
        typer.echo(f"{folder.path}: written; this model brings no ONNX graphs, PyTorch runs it")
        return
    typer.echo(f"{folder.path}: written; ONNX and PyTorch agree within {difference:.1g}")
    if "calibration" not in folder.info:
        typer.echo("its confidence is not calibrated; `posformer calibrate` does that")


@app.command("import-checkpoint")
def import_checkpoint(
    checkpoint: Annotated[Path, typer.Argument(help="Of the authors' PosFormer or CoMER.")],
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="The model folder to write.")],
    vocabulary: Annotated[
        Path | None,
        typer.Option(help="Words it was trained with, one a line; by default our model's."),
    ] = None,
    half: Annotated[
        bool, typer.Option("--half", help="Store weights in half precision: half the size.")
    ] = False,
) -> None:
    """Bring in a checkpoint that the authors of PosFormer or CoMER published."""
    from posformer.models.public_checkpoint import load_public_checkpoint
    from posformer.runtime.model_export import export_model, words_of

    model = load_public_checkpoint(checkpoint, words_of(vocabulary))
    known = {"source": checkpoint.name, "origin": "imported checkpoint"}
    folder, difference = export_model(model, output, known, half=half)
    typer.echo(f"{folder.path}: written; ONNX and PyTorch agree within {difference:.1g}")


@app.command()
def info(
    model: Annotated[
        Path | None, typer.Option(help="A model folder; by default the one that comes along.")
    ] = None,
) -> None:
    """Show versions, and what is known of the model."""
    from posformer.info import describe_model, describe_program

    typer.echo(describe_program())
    typer.echo(describe_model(model))


class ForestFormat(str, Enum):
    """How `posformer forest` prints."""

    TREE = "tree"
    TABLE = "table"
    JSON = "json"


# An expression may begin with a minus sign, which is no option.
@app.command(context_settings={"ignore_unknown_options": True})
def forest(
    latex: Annotated[str, typer.Argument(metavar="LATEX", help="An expression; - reads stdin.")],
    format: Annotated[
        ForestFormat, typer.Option("--format", help="Trees to look at, or data.")
    ] = ForestFormat.TREE,
) -> None:
    """Show the position forest of an expression: identifiers, levels, relative positions."""
    from posformer.latex import encode_forest, normalize
    from posformer.latex.forest_drawing import draw_forest, forest_records, forest_table

    tokens = normalize(sys.stdin.read() if latex == "-" else latex, reorder_scripts=False)
    if not tokens:
        raise LatexError("there is no expression to encode")
    encoded = encode_forest(tokens)
    if format is ForestFormat.TREE:
        typer.echo(draw_forest(encoded))
    elif format is ForestFormat.TABLE:
        typer.echo(forest_table(encoded))
    else:
        typer.echo(json.dumps(forest_records(encoded), ensure_ascii=False, indent=2))


@app.command()
def evaluate(
    data: Annotated[
        Path | None, typer.Option("--data", help="A set of images or ink: zip or folder.")
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", help="Which part of it, such as 2014.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="A model folder or checkpoint; by default the shipped one.")
    ] = None,
    earlier: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Predictions made earlier; no model is run."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the measures there as JSON.")
    ] = None,
    predictions: Annotated[
        Path | None, typer.Option(help="Write every prediction there, one JSON object a line.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a report there: index.html.")
    ] = None,
    errors: Annotated[int, typer.Option(min=0, help="Most errors that the report shows.")] = 200,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Another model's predictions to compare.")
    ] = None,
    label_graphs: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write symLG files there, for LgEval.")
    ] = None,
    leave_out: Annotated[
        str | None, typer.Option(metavar="SPLIT", help="Leave out texts that occur in this split.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many examples.")] = None,
    beam: Annotated[int, typer.Option(min=1, max=200, help="Hypotheses followed.")] = _PAPER_BEAM,
    views: Annotated[
        int, typer.Option(min=1, max=_MOST_VIEWS, help="Sizes each image is read at.")
    ] = 1,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="The best token at every step: fastest.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    engine: Annotated[EngineChoice, typer.Option(help="What runs it.")] = EngineChoice.AUTO,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of the CPU; by default one for each core.")
    ] = None,
) -> None:
    """Measure a model on a data set: ExpRate, errors of at most 1, 2 and 3 tokens, CER."""
    from rich.console import Console

    from posformer import evaluation
    from posformer.evaluation.predict import open_set

    if (split if data else earlier) is None:
        raise typer.BadParameter("give --data with --split, or --from", param_hint="--data")
    if earlier is not None and model is not None:
        raise typer.BadParameter("--from runs no model", param_hint="--model")
    if report is not None:
        import posformer.evaluation.report  # noqa: F401  # fails early without matplotlib
    others = None if against is None else evaluation.read_predictions(against)
    examples = open_set(data, split, leave_out, limit) if data and split else None
    if examples is None or earlier is not None:
        found, used_ink = evaluation.read_predictions(str(earlier)), False
    else:
        found, used_ink = _read_set(examples, model, engine, threads, beam, greedy, views)
    truths, readings = [one.truth for one in found], [one.prediction for one in found]
    scores = evaluation.evaluate_pairs(truths, readings)
    comparison = None if others is None else evaluation.compare(found, others)
    if predictions is not None:
        evaluation.write_predictions(predictions, found)
    if output is not None:
        evaluation.write_scores(output, scores)
    if label_graphs is not None:
        evaluation.write_label_graphs(label_graphs, found)
    if report is not None:
        options = evaluation.ReportOptions(
            title=f"{data.name} {split}" if data else str(earlier),
            split=split,
            model=str(model or earlier or "the shipped model"),
            other=str(against),
            used_ink=used_ink,
            most_errors=errors,
        )
        find = examples.find_image if examples else None
        evaluation.write_report(report, found, find, comparison, options)
    if markdown:
        typer.echo(evaluation.markdown_table(scores, split=split, used_ink=used_ink))
    else:
        Console().print(evaluation.rich_tables(scores, split=split, used_ink=used_ink))
    if comparison is not None:
        typer.echo(f"against {against}: {comparison.summary()}")


def _read_set(
    examples: "EvaluationSet",
    model: Path | None,
    engine: EngineChoice,
    threads: int | None,
    beam: int,
    greedy: bool,
    views: int,
) -> tuple[list["Prediction"], bool]:
    """What a model reads in a data set, and whether it was trained with ink."""
    from posformer.evaluation.predict import predict
    from posformer.runtime import load_runtime
    from posformer.runtime.decoding import search_options

    runtime = load_runtime(model, engine.value, threads)
    options = search_options(runtime.config, beam, greedy=greedy, views=views)
    found = predict(runtime, examples, options)
    return list(found), bool(runtime.info.get("used_ink"))


@app.command()
def calibrate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model folder.")],
    data: Annotated[Path, typer.Option("--data", help="A set of images or ink: zip or folder.")],
    split: Annotated[str, typer.Option("--split", help="Which part: validation, never a test.")],
    leave_out: Annotated[
        str | None, typer.Option(metavar="SPLIT", help="Leave out texts that occur in this split.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many examples.")] = None,
    beam: Annotated[
        int, typer.Option(min=1, max=200, help="Hypotheses followed, as it will be used.")
    ] = _BEAM,
    views: Annotated[
        int, typer.Option(min=1, max=_MOST_VIEWS, help="Sizes each image is read at, likewise.")
    ] = _VIEWS,
    curve: Annotated[
        Path | None, typer.Option(help="Draw the reliability curve there: .svg, .png.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of the CPU; by default one for each core.")
    ] = None,
) -> None:
    """Fit how sure a model is to how often it is right, and store that in its folder."""
    from posformer.evaluation.predict import open_set
    from posformer.evaluation.reliability import (
        draw_reliability,
        markdown_reliability,
        read_best,
        try_calibration,
    )
    from posformer.runtime import load_runtime, search_options
    from posformer.runtime.calibration import save_calibration

    examples = open_set(data, split, leave_out, limit)
    runtime = load_runtime(model, threads=threads)
    readings = read_best(runtime, examples, search_options(runtime.config, beam, views=views))
    without = f" without texts of {leave_out}" if leave_out else ""
    trial = try_calibration(
        list(readings), f"{data.name} {split}{without}, beam {beam}, views {views}"
    )
    typer.echo(markdown_reliability(trial))
    if curve is not None:
        draw_reliability(trial, curve)
    folder = save_calibration(model, trial.calibration)
    typer.echo(f"\n{folder.path}: calibrated")


@app.command()
def train(
    config: Annotated[Path, typer.Option("--config", "-c", help="A config (YAML).")],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Settings to change, such as epochs=10."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of the run; by default runs/NAME.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint.")
    ] = False,
    init: Annotated[
        Path | None,
        typer.Option("--init", metavar="MODEL", help="Start from the weights of another model."),
    ] = None,
) -> None:
    """Train a model by a config."""
    from posformer.training.trainer import train as run
    from posformer.training.training_config import load_config

    settings = load_config(config, changes)
    run(settings, output or Path("runs") / settings.name, resume=resume, init=init)


@app.command()
def compare(
    candidates: Annotated[
        list[str],
        typer.Argument(
            metavar="CONFIG... [KEY=VALUE]...",
            help="Configs, finished runs, model folders; settings to change in all configs.",
        ),
    ],
    data: Annotated[
        Path | None, typer.Option(help="Images or ink to measure on; by default validation.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Which part of it, such as 2014.")] = None,
    leave_out: Annotated[
        str | None, typer.Option(metavar="SPLIT", help="Leave out texts that occur in this split.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How often each config is trained.")] = 1,
    minutes: Annotated[
        float | None, typer.Option(help="CPU minutes to train each; by default as configs say.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="The same in epochs.")] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Whom gains are over; by default the one without PF."),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the runs and of the table.")
    ] = Path("runs/compare"),
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many expressions.")] = None,
    beam: Annotated[int, typer.Option(min=1, max=200, help="Hypotheses followed.")] = _PAPER_BEAM,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="The best token at every step: fastest.")
    ] = False,
    threads: Annotated[int, typer.Option(min=1, help="Of the CPU, to train and to read.")] = 1,
) -> None:
    """Train several configs at one budget, and print the paper's table; go on where it stopped."""
    from posformer.comparison import (
        Benchmark,
        Result,
        gather,
        run_all,
        split_arguments,
        write_report,
    )

    if (data is None) != (split is None):
        raise typer.BadParameter("a data set has splits: name both", param_hint="--data, --split")
    paths, overrides = split_arguments(candidates)
    found = gather(
        paths,
        overrides,
        minutes=minutes,
        epochs=epochs,
        threads=threads,
        baseline=baseline,
    )
    if data is not None and split is not None:
        benchmark = Benchmark(str(data), split, leave_out, limit, beam, greedy)
    else:
        benchmark = Benchmark.of_first(found, limit=limit, beam=beam, greedy=greedy)
    results: list[Result] = []
    failed = False
    for result in run_all(found, benchmark, output, seeds=seeds, threads=threads):
        if isinstance(result, Result):
            results.append(result)
            table = write_report(found, results, benchmark, output)
        else:
            failed = True
            typer.echo(f"posformer: {result}", err=True)
    if results:
        typer.echo(table)
    raise typer.Exit(1 if failed else 0)


@app.command()
def synthesize(
    count: Annotated[int, typer.Option(min=1, help="How many expressions.")],
    output: Annotated[Path, typer.Option(dir_okay=False, help="The zip archive to write.")],
    ink: Annotated[
        Path | None, typer.Option(help="InkML to take symbols and texts from; else our own.")
    ] = None,
    ink_split: Annotated[str, typer.Option(help="Which part of the ink.")] = "train",
    levels: Annotated[str, typer.Option(help="Nested levels, such as 1-4; any if empty.")] = "",
    lines: Annotated[str, typer.Option(help="Numbers of lines, such as 2-4.")] = "1",
    environments: Annotated[
        str, typer.Option(help="What lines are set in, such as cases,aligned,pmatrix.")
    ] = "",
    max_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of a line.")] = 60,
    max_symbols: Annotated[
        int | None, typer.Option(min=1, help="Most symbols of an expression.")
    ] = None,
    leave_out: Annotated[
        Path | None, typer.Option(metavar="SET", help="A set whose texts are not made.")
    ] = None,
    vocabulary: Annotated[
        Path | None, typer.Option(help="A file of the words that may be used, one a line.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Other seeds give other sets.")] = 0,
    split: Annotated[str, typer.Option(help="Name of the set in the archive.")] = "synthetic",
) -> None:
    """Make up handwritten expressions: images, captions, InkML and boxes in CROHME's layout."""
    from rich.console import Console
    from rich.progress import track

    from posformer.synthesis.synthesizer import open_synthesizer, write_set

    synthesizer = open_synthesizer(
        ink,
        ink_split,
        vocabulary,
        levels=levels,
        lines=lines,
        environments=environments,
        max_tokens=max_tokens,
        max_symbols=max_symbols,
        leave_out=leave_out,
    )
    console = Console(stderr=True)
    expressions = write_set(output, synthesizer, count, seed, split)
    for _ in track(expressions, "writing", count, console=console, disable=not console.is_terminal):
        pass


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    model: Annotated[
        Path | None, typer.Option(help="A model folder; by default the one that comes along.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of the CPU; by default one for each core.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Batches read at once.")] = 1,
    batch: Annotated[int, typer.Option(min=1, max=64, help="Requests read together.")] = 8,
    requests: Annotated[
        int, typer.Option(min=1, help="Taken in at once; more are told to come again.")
    ] = 64,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds a request may take.")] = 30.0,
    beam: Annotated[int, typer.Option(min=1, max=200, help="Hypotheses followed.")] = _BEAM,
    views: Annotated[
        int, typer.Option(min=1, max=_MOST_VIEWS, help="Sizes each image is read at.")
    ] = _VIEWS,
    cors: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Another site whose pages may ask; may be repeated."),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="A name it goes by beside its own; may be repeated."),
    ] = None,
) -> None:
    """Serve the web page to write on, and the HTTP interface."""
    from posformer.recognizer import Recognizer
    from posformer.serve import Settings, create_app, names_of
    from posformer.serve import serve as listen

    names = names_of(host, name or ())
    settings = Settings(
        workers,
        batch,
        requests,
        timeout,
        beam=beam,
        views=views,
        origins=tuple(cors or ()),
        hosts=names,
    )
    site = create_app(Recognizer.load(model, threads=threads), settings)
    listen(site, host, port, lambda address: typer.echo(f"{address} (Ctrl-C stops)"))


@app.command()
def render(
    ink: Annotated[Path, typer.Argument(metavar="INK", help="An InkML file.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The image to write: .png, .bmp.")],
    scale: Annotated[float, typer.Option(help="Size against CROHME's images.")] = 1.0,
    margin: Annotated[int | None, typer.Option(help="Pixels of paper around the ink.")] = None,
    pen_width: Annotated[int, typer.Option(help="Pixels the pen is wide.")] = 3,
    black_on_white: Annotated[
        bool, typer.Option("--black-on-white", help="Black ink; CROHME's is white on black.")
    ] = False,
) -> None:
    """Draw an InkML file as an image, the way CROHME's images were drawn."""
    from posformer.ink import RenderStyle, read_inkml, save_image, strokes_in_pixels
    from posformer.ink import render as draw

    around = RenderStyle().margin if margin is None else (margin, margin)
    style = RenderStyle(scale=scale, margin=around, pen_width=pen_width)
    image = draw(strokes_in_pixels(read_inkml(ink).strokes), style)
    save_image(255 - image if black_on_white else image, out)


def main() -> None:
    """Run the command line; a user's mistake ends in one line on stderr and exit code 2."""
    try:
        app()
    except PosformerError as error:
        print(f"posformer: {error}", file=sys.stderr)
        sys.exit(2)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        install = f"pip install 'posformer[{extra}]'"
        print(f"posformer: this needs {error.name}, which comes with {install}", file=sys.stderr)
        sys.exit(2)


# Which extra brings what a plain installation does without.
_EXTRAS = {
    "matplotlib": "report",
    **dict.fromkeys(("lightning", "onnx", "safetensors", "torch", "yaml"), "train"),
    **dict.fromkeys(("fastapi", "python_multipart", "uvicorn"), "serve"),
}


if __name__ == "__main__":
    main()
