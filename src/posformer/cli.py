"""The command line: one thin function a command.

Heavy modules are imported inside the commands, so that `posformer --help` and recognition start at once.
"""

import sys

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


def main() -> None:
    """Run the command line; a user's mistake ends in one line on stderr and exit code 2."""
    try:
        app()
    except PosformerError as error:
        print(f"posformer: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
