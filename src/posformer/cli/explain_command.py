"""`posformer explain`."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from posformer.cli import shared_options as shared


def explain(
    image: Annotated[Path, Argument(help="Image of a formula, or InkML file.")],
    output: Annotated[Path, Option("--output", "-o", help="Folder to write.")],
    model: shared.ModelOption = None,
    against: Annotated[
        str | None, Option(metavar="MODEL", help="Another model to show side by side.")
    ] = None,
    latex: Annotated[
        str | None, Option(help="LaTeX to explain (default: the recognized LaTeX).")
    ] = None,
    direction: Annotated[
        Literal["forward", "backward"], Option(help="Decoding direction.")
    ] = "forward",
    beam: shared.BeamOption = shared.DEFAULT_BEAM,
    threads: shared.ThreadsOption = None,
    allow_code: shared.AllowCodeOption = False,
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
        direction=direction,
        options=DecodingOptions(beam=beam),
        threads=threads,
        allow_code=allow_code,
    )
    for note in explained.notes:
        typer.echo(f"posformer: {note}", err=True)
    for formula in explained.latex:
        typer.echo(formula)
    typer.echo(f"{explained.page}: written", err=True)
