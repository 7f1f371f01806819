"""`posformer forest`."""

import sys
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from posformer.errors import LatexError


def forest(
    latex: Annotated[str, Argument(metavar="LATEX", help="Expression; - for stdin.")],
    format: Annotated[
        Literal["tree", "table", "json"], Option(help="Trees, a table, or JSON.")
    ] = "tree",
) -> None:
    """Show the position forest of an expression: identifiers, levels, relative positions."""
    from posformer.cli.standard_output import use_utf8
    from posformer.latex import encode_forest, normalize
    from posformer.latex.forest_drawing import draw_forest, forest_records, forest_table
    from posformer.text_output import json_text

    tokens = normalize(sys.stdin.read() if latex == "-" else latex, reorder_scripts=False)
    if not tokens:
        raise LatexError("there is no expression to encode")
    encoded = encode_forest(tokens)
    if format == "tree":
        typer.echo(draw_forest(encoded))
    elif format == "table":
        typer.echo(forest_table(encoded))
    else:
        use_utf8()
        typer.echo(json_text(forest_records(encoded), indent=2))
