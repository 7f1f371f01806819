"""`posformer synthesize` and `render`."""

from pathlib import Path
from typing import Annotated

from typer import Argument, BadParameter, Option


def synthesize(
    count: Annotated[int, Option(min=1, help="Number of expressions.")],
    output: Annotated[Path, Option(dir_okay=False, help="Zip archive to write.")],
    ink: Annotated[
        Path | None,
        Option(help="InkML dataset to take symbols and expressions from (default: bundled)."),
    ] = None,
    ink_split: Annotated[str, Option(help="Split of the InkML dataset.")] = "train",
    levels: Annotated[str, Option(help="Range of nested levels, such as 1-4 (default: any).")] = "",
    lines: Annotated[str, Option(help="Range of lines, such as 2-4.")] = "1",
    environments: Annotated[
        str, Option(help="Environments of lines, such as cases,aligned,pmatrix.")
    ] = "",
    max_tokens: Annotated[int, Option(min=1, help="Maximum tokens per line.")] = 60,
    max_symbols: Annotated[
        int | None, Option(min=1, help="Maximum symbols per expression.")
    ] = None,
    leave_out: Annotated[
        Path | None, Option(metavar="SET", help="Dataset whose expressions are skipped.")
    ] = None,
    vocabulary: Annotated[Path | None, Option(help="File of allowed tokens, one per line.")] = None,
    seed: Annotated[int, Option(min=0, help="Random seed.")] = 0,
    split: Annotated[str, Option(help="Name of the split in the archive.")] = "synthetic",
    texts: Annotated[
        list[Path] | None, Option(help="Formula corpus instead of the grammar; repeatable.")
    ] = None,
    symbols: Annotated[
        list[Path] | None, Option(help="Corpus of handwritten symbols; repeatable.")
    ] = None,
    fonts: Annotated[Path | None, Option(help="Folder of fonts: typeset the texts.")] = None,
    camera: Annotated[float, Option(min=0, max=1, help="Share of simulated photographs.")] = 0.0,
) -> None:
    """Synthesize handwriting: images, captions, InkML and boxes in CROHME's layout.

    With --texts, --symbols, --fonts or --camera, formulas of a corpus are written, typeset or
    photographed, and there is no InkML. Without --texts these are the project's own formulas.
    """
    from rich.console import Console
    from rich.progress import track

    from posformer.synthesis.synthesizer import (
        open_synthesizer,
        read_range,
        write_samples,
        write_set,
    )

    console = Console(stderr=True)
    if texts or symbols or fonts or camera:
        if levels or max_symbols:
            raise BadParameter("--levels and --max-symbols apply to the grammar only")
        from posformer.training.data_mix import open_texts

        sampler = open_texts(
            texts or (),
            symbols=symbols or (),
            fonts=fonts,
            ink=ink,
            ink_split=ink_split,
            vocabulary=vocabulary,
            lines=read_range(lines),
            environments=environments.split(",") if environments else (),
            camera=camera,
            leave_out=leave_out,
        )
        written = write_samples(output, sampler, count, seed, split)
        for _ in track(written, "Writing", count, console=console, disable=not console.is_terminal):
            pass
        return
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
    expressions = write_set(output, synthesizer, count, seed, split)
    for _ in track(expressions, "Writing", count, console=console, disable=not console.is_terminal):
        pass


def render(
    ink: Annotated[Path, Argument(metavar="INK", help="InkML file.")],
    out: Annotated[Path, Argument(metavar="OUT", help="Image to write: .png or .bmp.")],
    scale: Annotated[float, Option(help="Scale relative to CROHME's images.")] = 1.0,
    margin: Annotated[int | None, Option(help="Margin in pixels (default: as in CROHME).")] = None,
    pen_width: Annotated[int, Option(help="Pen width in pixels.")] = 3,
    black_on_white: Annotated[
        bool, Option("--black-on-white", help="Black ink on white (default: the reverse).")
    ] = False,
) -> None:
    """Render an InkML file as an image in the style of CROHME."""
    from posformer.ink import RenderStyle, read_inkml, save_image, strokes_in_pixels
    from posformer.ink import render as render_strokes

    margins = RenderStyle().margin if margin is None else (margin, margin)
    style = RenderStyle(scale=scale, margin=margins, pen_width=pen_width)
    image = render_strokes(strokes_in_pixels(read_inkml(ink).strokes), style)
    save_image(255 - image if black_on_white else image, out)
