"""`posformer recognize`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from posformer.cli import shared_options as shared
from posformer.latex.output_formats import FORMATS

if TYPE_CHECKING:
    ResultFormat = str
else:
    ResultFormat = Literal[("text", "json", "csv", *FORMATS)]


def recognize(
    paths: Annotated[
        list[str], Argument(metavar="PATH...", help="Images, files of ink, folders; - for stdin.")
    ],
    beam: shared.BeamOption = shared.DEFAULT_BEAM,
    scales: shared.ScalesOption = shared.DEFAULT_SCALES,
    top_k: Annotated[int, Option(min=1, max=100, help="Results per image.")] = 1,
    format: Annotated[
        ResultFormat, Option(help="LaTeX as text, JSON lines, CSV, or another format.")
    ] = "text",
    output: Annotated[
        Path | None, Option("--output", "-o", help="File to write (default: stdout).")
    ] = None,
    resume: Annotated[
        bool, Option("--resume", help="Continue the --output of an interrupted run.")
    ] = False,
    model: shared.ModelOption = None,
    engine: shared.EngineOption = "auto",
    threads: shared.ThreadsOption = None,
    greedy: shared.GreedyOption = False,
    constrained: shared.ConstrainedOption = True,
    adaptive: shared.AdaptiveOption = True,
    language_weight: shared.LanguageWeightOption = None,
    allow_code: shared.AllowCodeOption = False,
    timeout: Annotated[
        float, Option(min=0.1, help="Time limit for a file of unusual format or size, seconds.")
    ] = 30.0,
    memory: Annotated[
        int, Option(min=64, help="Memory limit for a file of unusual format or size, megabytes.")
    ] = 2048,
) -> None:
    """Recognize mathematics in images or ink, and print LaTeX."""
    from posformer.batch.files import recognize_files
    from posformer.recognizer import Recognizer
    from posformer.search import DecodingOptions

    if resume and (output is None or (output.exists() and not output.is_file())):
        raise typer.BadParameter("needs --output with a file", param_hint="--resume")
    options = DecodingOptions(
        beam=beam,
        scales=scales,
        adaptive=adaptive,
        greedy=greedy,
        top_k=top_k,
        constrained=constrained,
        language_weight=language_weight,
    )
    recognizer = Recognizer.load(model, engine, threads, allow_code)
    failed = recognize_files(recognizer, paths, output, format, options, resume, timeout, memory)
    raise typer.Exit(1 if failed else 0)
