"""The command line: one thin function a command.

Heavy modules are imported inside the commands, so that `posformer --help` and recognition start
at once.
"""

import json
import sys
from enum import Enum
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


def main() -> None:
    """Run the command line; a user's mistake ends in one line on stderr and exit code 2."""
    try:
        app()
    except PosformerError as error:
        print(f"posformer: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
