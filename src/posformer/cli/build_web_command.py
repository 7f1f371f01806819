"""`posformer build-web`."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from posformer.cli import shared_options as shared


def build_web(
    folder: Annotated[Path, Argument(help="Folder to write; empty, or written before.")],
    model: shared.ModelOption = None,
) -> None:
    """Write the web page for any static host; it recognizes in the browser, offline, too."""
    from posformer.runtime.engine import model_path
    from posformer.serve.site import build_site

    build_site(folder, model_path(model))
    command = f"python -m http.server -d {folder}"
    typer.echo(f"{folder}: serve it with any web server, such as: {command}")
