"""The command line. Every command only parses its options and calls the package.

Heavy modules are imported inside the commands, so that `posformer --help` and recognition start
fast.
"""

import sys
from collections.abc import Callable

import typer

from posformer.cli.evaluation_commands import calibrate, compare, evaluate
from posformer.cli.explain_command import explain
from posformer.cli.forest_command import forest
from posformer.cli.model_commands import export, import_checkpoint, info, train
from posformer.cli.recognize_command import recognize
from posformer.cli.serve_command import serve
from posformer.cli.synthesis_commands import render, synthesize
from posformer.errors import PosformerError

__all__ = ["app", "main"]

_OLD_OPTION_NAMES = {"views": "scales"}

app = typer.Typer(
    name="posformer",
    help="Recognize handwritten mathematics and write LaTeX.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda name: _OLD_OPTION_NAMES.get(name, name),
    },
)

_Commands = tuple[Callable[..., None], ...]
_READING: _Commands = (recognize, serve, explain, evaluate, compare, calibrate)
_MAKING: _Commands = (train, export, import_checkpoint, info, synthesize, render)
for _command in _READING + _MAKING:
    app.command()(_command)
# An expression may start with a minus sign, which is not an option.
app.command(context_settings={"ignore_unknown_options": True})(forest)


def main() -> None:
    """Run the command line; a user's mistake prints one line to stderr and exits with code 2."""
    try:
        app()
    except PosformerError as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        _fail(f"{error.name} is not installed; run pip install 'posformer[{extra}]'")


def _fail(message: str) -> None:
    print(f"posformer: {message}", file=sys.stderr)
    sys.exit(2)


# The extra that installs each optional module.
_EXTRAS = {
    "matplotlib": "report",
    **dict.fromkeys(("lightning", "onnx", "safetensors", "torch", "yaml"), "train"),
    **dict.fromkeys(("fastapi", "python_multipart", "uvicorn"), "serve"),
}
