"""`posformer forest`."""

import json
import sys
from enum import Enum
from typing import Annotated

import typer

from posformer.errors import LatexError


class ForestFormat(str, Enum):
    """Output formats of `posformer forest`."""

    TREE = "tree"
    TABLE = "table"
    JSON = "json"


def forest(
    latex: Annotated[str, typer.Argument(metavar="LATEX", help="Expression; - for stdin.")],
    format: Annotated[
        ForestFormat, typer.Option("--format", help="Trees, a table, or JSON.")
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
