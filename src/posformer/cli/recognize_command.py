"""`posformer recognize`."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from posformer.cli import shared_options as shared


def recognize(
    paths: Annotated[
        list[str], Argument(metavar="PATH...", help="Images, InkML files, folders; - for stdin.")
    ],
    beam: shared.BeamOption = shared.DEFAULT_BEAM,
    scales: shared.ScalesOption = shared.DEFAULT_SCALES,
    top_k: Annotated[int, Option(min=1, max=100, help="Results per image.")] = 1,
    format: Annotated[
        Literal["text", "json", "csv"], Option(help="LaTeX, JSON lines, or CSV.")
    ] = "text",
    output: Annotated[
        Path | None, Option("--output", "-o", help="File to write (default: stdout).")
    ] = None,
    model: shared.ModelOption = None,
    engine: shared.EngineOption = "auto",
    threads: shared.ThreadsOption = None,
    greedy: shared.GreedyOption = False,
) -> None:
    """Recognize mathematics in images or ink, and print LaTeX."""
    from posformer.batch.files import recognize_files
    from posformer.recognizer import Recognizer
    from posformer.search import DecodingOptions

    options = DecodingOptions(beam=beam, scales=scales, greedy=greedy, top_k=top_k)
    recognizer = Recognizer.load(model, engine, threads)
    failed = recognize_files(recognizer, paths, output, format, options)
    raise typer.Exit(1 if failed else 0)
