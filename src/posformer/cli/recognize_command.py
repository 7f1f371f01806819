"""`posformer recognize`."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from posformer.cli import shared_options as shared


class ResultFormat(str, Enum):
    """Output formats of `posformer recognize`."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"


def recognize(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Images, InkML files, folders; - for stdin."),
    ],
    beam: shared.BeamOption = shared.DEFAULT_BEAM,
    scales: shared.ScalesOption = shared.DEFAULT_SCALES,
    top_k: Annotated[int, typer.Option(min=1, max=100, help="Results per image.")] = 1,
    format: Annotated[
        ResultFormat, typer.Option("--format", help="LaTeX, JSON lines, or CSV.")
    ] = ResultFormat.TEXT,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write (default: stdout).")
    ] = None,
    model: shared.ModelOption = None,
    engine: shared.EngineOption = shared.EngineChoice.AUTO,
    threads: shared.ThreadsOption = None,
    greedy: shared.GreedyOption = False,
) -> None:
    """Recognize mathematics in images or ink, and print LaTeX."""
    from posformer.batch.files import recognize_files
    from posformer.recognizer import Recognizer
    from posformer.search import DecodingOptions

    options = DecodingOptions(beam=beam, scales=scales, greedy=greedy, top_k=top_k)
    recognizer = Recognizer.load(model, engine.value, threads)
    failed = recognize_files(recognizer, paths, output, format.value, options)
    raise typer.Exit(1 if failed else 0)
