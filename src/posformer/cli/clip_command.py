"""`posformer clip`."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from posformer.cli import shared_options as shared
from posformer.latex.output_formats import FormatName

if TYPE_CHECKING:
    from posformer.recognizer import Recognizer, Source
    from posformer.search import DecodingOptions


def clip(
    path: Annotated[
        str | None,
        Argument(metavar="[PATH]", help="Image or file of ink (default: the clipboard's image)."),
    ] = None,
    watch: Annotated[
        bool, Option("--watch", help="Wait for images and recognize each; Ctrl-C ends.")
    ] = False,
    format: Annotated[FormatName, Option(help="Format of the result.")] = "latex",
    beam: shared.BeamOption = shared.DEFAULT_BEAM,
    scales: shared.ScalesOption = shared.DEFAULT_SCALES,
    model: shared.ModelOption = None,
    engine: shared.EngineOption = "auto",
    threads: shared.ThreadsOption = None,
    greedy: shared.GreedyOption = False,
) -> None:
    """Recognize the image on the clipboard, and put the LaTeX there instead."""
    from posformer.clipboard import next_images, read_image
    from posformer.errors import ClipboardError, ConfigError
    from posformer.recognizer import Recognizer
    from posformer.search import DecodingOptions

    if watch and path is not None:
        raise ConfigError("a path cannot be combined with --watch")
    options = DecodingOptions(beam=beam, scales=scales, greedy=greedy)
    copied = None if path else read_image()
    source: Source | None = path or copied
    if source is None and not watch:
        raise ClipboardError("there is no image on the clipboard")
    recognizer = Recognizer.load(model, engine, threads)
    if source is not None and not watch:
        raise typer.Exit(0 if _copy_result(recognizer, source, options, format) else 1)
    print("posformer: waiting for images; press Ctrl-C to stop", file=sys.stderr, flush=True)
    try:
        for image in next_images(after=copied):
            _copy_result(recognizer, image, options, format)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _copy_result(
    recognizer: "Recognizer", source: "Source", options: "DecodingOptions", format: str
) -> bool:
    """Recognize, copy and print; print the error and return False if that is not possible."""
    from posformer.clipboard import write_text
    from posformer.errors import ClipboardError, PosformerError

    try:
        found = recognizer.recognize(source, options)
        text = "\n".join(formula.to(format) for formula in found.formulas)
        write_text(text)
    except ClipboardError:
        raise
    except PosformerError as error:
        print(f"posformer: {error}", file=sys.stderr, flush=True)
        return False
    print(text, flush=True)
    return True
