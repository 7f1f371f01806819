"""`posformer batch`."""

from typing import Annotated, Literal

import typer
from typer import Argument, Option

from posformer.cli import shared_options as shared


def batch(
    sources: Annotated[
        list[str],
        Argument(
            metavar="SOURCE...",
            help="Folders, files, glob patterns, lists of files (.txt), tar or Parquet files; "
            "paths or URLs.",
        ),
    ],
    output: Annotated[
        str, Option("--output", "-o", metavar="DEST", help="Folder of the part files; path or URL.")
    ],
    engine: Annotated[
        Literal["local", "ray"], Option(help="Processes of this machine, or a Ray cluster.")
    ] = "local",
    workers: Annotated[
        int | None, Option(min=1, help="Processes, local engine (default: one per core).")
    ] = None,
    format: Annotated[Literal["jsonl", "parquet"], Option(help="JSON lines or Parquet.")] = "jsonl",
    address: Annotated[
        str | None, Option(help="Ray cluster to connect to (default: RAY_ADDRESS, or a new one).")
    ] = None,
    min_workers: Annotated[int, Option(min=1, help="Least number of Ray actors.")] = 1,
    max_workers: Annotated[
        int | None, Option(min=1, help="Largest number of Ray actors (default: one per CPU).")
    ] = None,
    part_size: Annotated[int, Option(min=1, help="Inputs per part file.")] = 1000,
    key_column: Annotated[
        str | None, Option(help="Column of Parquet files that names the images.")
    ] = None,
    beam: shared.BeamOption = shared.DEFAULT_BEAM,
    scales: shared.ScalesOption = shared.DEFAULT_SCALES,
    top_k: Annotated[int, Option(min=1, max=100, help="Results per image.")] = 1,
    greedy: shared.GreedyOption = False,
    constrained: shared.ConstrainedOption = True,
    adaptive: shared.AdaptiveOption = True,
    model: shared.ModelOption = None,
    allow_code: shared.AllowCodeOption = False,
    timeout: Annotated[float, Option(min=0.1, help="Time limit per image, seconds.")] = 30.0,
    memory: Annotated[int, Option(min=64, help="Memory limit per image, megabytes.")] = 2048,
) -> None:
    """Recognize any number of images; run it again to continue after an interrupt."""
    from functools import partial

    from posformer.batch.batch_job import BatchJob
    from posformer.batch.local_engine import run_local
    from posformer.batch.run_batch import Engine, run_batch
    from posformer.search import DecodingOptions
    from posformer.worker_pool import Budget

    options = DecodingOptions(
        beam=beam,
        scales=scales,
        adaptive=adaptive,
        greedy=greedy,
        top_k=top_k,
        constrained=constrained,
    )
    job = BatchJob(
        tuple(sources),
        output,
        _model_name(model, engine),
        options,
        format,
        part_size,
        key_column,
        Budget(timeout, memory),
        allow_code=allow_code,
    )
    runner: Engine = partial(run_local, workers=workers)
    if engine == "ray":
        from posformer.batch.ray_engine import run_ray

        runner = partial(run_ray, address=address, min_workers=min_workers, max_workers=max_workers)
    summary = run_batch(job, runner, lambda line: typer.echo(f"posformer: {line}", err=True))
    typer.echo(f"{output}: {summary}")
    if not summary.is_complete:
        typer.echo("posformer: interrupted; run the same command to continue", err=True)
        raise typer.Exit(130)
    raise typer.Exit(1 if summary.errors else 0)


def _model_name(model: str | None, engine: str) -> str | None:
    """Return the name of a model for worker processes; machines of a cluster fetch their own."""
    from posformer.runtime.engine import model_path
    from posformer.urls import is_url

    if engine == "ray" and (model is None or is_url(model)):
        return model
    return str(model_path(model).absolute())
