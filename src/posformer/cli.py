"""The command line: one thin function a command.

Heavy modules are imported inside the commands, so that `posformer --help` and recognition start
at once.
"""

import json
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from posformer.errors import PosformerError

app = typer.Typer(
    name="posformer",
    help="Reads handwritten mathematics and writes LaTeX.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _root() -> None:
    """Reads handwritten mathematics and writes LaTeX."""


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
    from posformer.latex import LatexError, encode_forest, normalize
    from posformer.latex.drawing import draw_forest, forest_records, forest_table

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
def train(
    config: Annotated[Path, typer.Option("--config", "-c", help="A recipe (YAML).")],
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
    """Train a model by a recipe."""
    from posformer.training.recipe import load_recipe
    from posformer.training.run import train as run

    recipe = load_recipe(config, changes)
    run(recipe, output or Path("runs") / recipe.name, resume=resume, init=init)


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
    max_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of a line.")] = 60,
    vocabulary: Annotated[
        Path | None, typer.Option(help="A file of the words that may be used, one a line.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Other seeds give other sets.")] = 0,
    split: Annotated[str, typer.Option(help="Name of the set in the archive.")] = "synthetic",
) -> None:
    """Make up handwritten expressions: pictures, captions, InkML and boxes in CROHME's layout."""
    from rich.console import Console
    from rich.progress import track

    from posformer.data.synthesis import open_synthesizer, write_set

    synthesizer = open_synthesizer(
        ink, ink_split, vocabulary, levels=levels, lines=lines, max_tokens=max_tokens
    )
    console = Console(stderr=True)
    expressions = write_set(output, synthesizer, count, seed, split)
    for _ in track(expressions, "writing", count, console=console, disable=not console.is_terminal):
        pass


@app.command()
def render(
    ink: Annotated[Path, typer.Argument(metavar="INK", help="An InkML file.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The picture to write: .png, .bmp.")],
    scale: Annotated[float, typer.Option(help="Size against CROHME's pictures.")] = 1.0,
    margin: Annotated[int | None, typer.Option(help="Pixels of paper around the ink.")] = None,
    pen_width: Annotated[int, typer.Option(help="Pixels the pen is wide.")] = 3,
    black_on_white: Annotated[
        bool, typer.Option("--black-on-white", help="Black ink; CROHME's is white on black.")
    ] = False,
) -> None:
    """Draw an InkML file as a picture, the way CROHME's pictures were drawn."""
    from posformer.ink import RenderStyle, picture_strokes, read_inkml, save_picture
    from posformer.ink import render as draw

    around = RenderStyle().margin if margin is None else (margin, margin)
    style = RenderStyle(scale=scale, margin=around, pen_width=pen_width)
    picture = draw(picture_strokes(read_inkml(ink).strokes), style)
    save_picture(255 - picture if black_on_white else picture, out)


def main() -> None:
    """Run the command line; a user's mistake ends in one line on stderr and exit code 2."""
    try:
        app()
    except PosformerError as error:
        print(f"posformer: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
