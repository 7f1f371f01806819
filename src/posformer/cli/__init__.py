"""The command line. Every command only parses its options and calls the package.

Heavy modules are imported inside the commands, so that `posformer --help` and recognition start
fast.
"""

import atexit
import os
import sys
from collections.abc import Callable

import typer

from posformer.cli import standard_output
from posformer.cli.batch_command import batch
from posformer.cli.build_web_command import build_web
from posformer.cli.clip_command import clip
from posformer.cli.evaluation_commands import calibrate, compare, evaluate
from posformer.cli.explain_command import explain
from posformer.cli.forest_command import forest
from posformer.cli.model_commands import (
    count_ngrams,
    export,
    import_checkpoint,
    info,
    train,
    train_language_model,
)
from posformer.cli.recognize_command import recognize
from posformer.cli.serve_command import serve
from posformer.cli.synthesis_commands import render, synthesize
from posformer.errors import PosformerError
from posformer.text_output import one_line

__all__ = ["app", "main", "run"]

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
_READING: _Commands = (
    recognize,
    batch,
    clip,
    serve,
    build_web,
    explain,
    evaluate,
    compare,
    calibrate,
)
_MAKING: _Commands = (
    train,
    train_language_model,
    count_ngrams,
    export,
    import_checkpoint,
    info,
    synthesize,
    render,
)
for _command in _READING + _MAKING:
    app.command()(_command)
# An expression may start with a minus sign, which is not an option.
app.command(context_settings={"ignore_unknown_options": True})(forest)


def main() -> None:
    """Run the command line; a user's mistake prints one line to stderr and exits with code 2."""
    standard_output.escape_unknown_characters()
    try:
        try:
            app()
        finally:
            standard_output.flush()
    except PosformerError as error:
        _fail(str(error))
    except BrokenPipeError:  # the reader of the output has seen enough
        standard_output.discard()
        sys.exit(1)
    except OSError as error:  # such as a full disk
        standard_output.discard()
        reason = error.strerror or str(error)
        _fail(f"{error.filename}: {reason}" if error.filename is not None else reason)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        _fail(f"{error.name} is not installed; run pip install 'posformer[{extra}]'")


def run() -> None:
    """Run the command line as a program of its own, which need not clean up its memory.

    Tearing down modules and sessions takes a tenth of the time of recognizing one image.
    """
    try:
        main()
    except SystemExit as end:
        if sys.argv[1:2] != ["recognize"] or not isinstance(end.code, int):
            raise
        try:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:  # closed by the caller
                    stream.flush()
        except (OSError, ValueError):  # a closed pipe: Python reports it on the usual way
            raise end from None
        atexit._run_exitfuncs()
        os._exit(end.code)


def _fail(message: str) -> None:
    print(f"posformer: {one_line(message)}", file=sys.stderr)
    sys.exit(2)


# The extra that installs each optional module.
_EXTRAS = {
    "matplotlib": "report",
    **dict.fromkeys(("lightning", "onnx", "safetensors", "torch", "yaml"), "train"),
    **dict.fromkeys(("fsspec", "pyarrow"), "batch"),
    "huggingface_hub": "hub",
    "ray": "ray",
    **dict.fromkeys(("fastapi", "python_multipart", "uvicorn"), "serve"),
}
