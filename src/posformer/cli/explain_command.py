"""`posformer explain`."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from posformer.cli import shared_options as shared


class DirectionChoice(str, Enum):
    """Decoding directions."""

    FORWARD = "forward"
    BACKWARD = "backward"


def explain(
    image: Annotated[Path, typer.Argument(help="Image of a formula, or InkML file.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write.")],
    model: shared.ModelOption = None,
    against: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="Another model to show side by side.")
    ] = None,
    latex: Annotated[
        str | None, typer.Option(help="LaTeX to explain (default: the recognized LaTeX).")
    ] = None,
    direction: Annotated[
        DirectionChoice, typer.Option(help="Decoding direction.")
    ] = DirectionChoice.FORWARD,
    beam: shared.BeamOption = shared.DEFAULT_BEAM,
    threads: shared.ThreadsOption = None,
) -> None:
    """Show the attention of a model for each symbol, before and after refinement."""
    from posformer.explain import explain as write_explanation
    from posformer.search import DecodingOptions

    explained = write_explanation(
        image,
        output,
        model=model,
        against=against,
        latex=latex,
        direction=direction.value,
        options=DecodingOptions(beam=beam),
        threads=threads,
    )
    for note in explained.notes:
        typer.echo(f"posformer: {note}", err=True)
    for formula in explained.latex:
        typer.echo(formula)
    typer.echo(f"{explained.page}: written", err=True)
