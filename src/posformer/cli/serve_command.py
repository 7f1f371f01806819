"""`posformer serve`."""

from typing import Annotated

import typer
from typer import Option

from posformer.cli import shared_options as shared


def serve(
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, Option(min=0, max=65535, help="Port to listen on; 0 for any free port.")
    ] = 8000,
    model: shared.ModelOption = None,
    allow_code: shared.AllowCodeOption = False,
    threads: shared.ThreadsOption = None,
    workers: Annotated[int, Option(min=1, max=64, help="Worker processes.")] = 1,
    batch: Annotated[
        int, Option(min=1, max=64, help="Maximum requests that a worker decodes together.")
    ] = 8,
    requests: Annotated[
        int, Option(min=1, help="Maximum open requests; more are refused with status 503.")
    ] = 64,
    timeout: Annotated[float, Option(min=0.1, help="Time limit per request, seconds.")] = 30.0,
    job_timeout: Annotated[
        float, Option(min=0.1, help="Time limit of a worker per request, seconds.")
    ] = 10.0,
    memory: Annotated[
        int, Option(min=64, help="Memory limit of a worker per request, megabytes.")
    ] = 1024,
    beam: shared.BeamOption = shared.DEFAULT_BEAM,
    scales: shared.ScalesOption = shared.DEFAULT_SCALES,
    constrained: shared.ConstrainedOption = True,
    adaptive: shared.AdaptiveOption = True,
    allow_origin: Annotated[
        list[str] | None,
        Option(
            "--allow-origin",
            "--cors",
            metavar="ORIGIN",
            help="Origin whose pages may call the API; may be repeated.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        Option(
            "--allow-host",
            "--name",
            metavar="HOST",
            help="Additional host name to answer to, * for any; may be repeated.",
        ),
    ] = None,
    connections: Annotated[int, Option(min=1, help="Maximum number of connections.")] = 512,
) -> None:
    """Serve the web page and the HTTP API."""
    from functools import partial

    from posformer.recognizer import Recognizer
    from posformer.runtime.engine import model_path
    from posformer.search import DecodingOptions
    from posformer.serve import Settings, allowed_hosts, create_app
    from posformer.serve import serve as run

    options = DecodingOptions(beam=beam, scales=scales, constrained=constrained, adaptive=adaptive)
    settings = Settings(
        workers,
        batch,
        requests,
        timeout,
        job_seconds=job_timeout,
        megabytes=memory,
        options=options,
        origins=tuple(origin.lower().rstrip("/") for origin in allow_origin or ()),
        hosts=allowed_hosts(host, allow_host or ()),
        connections=connections,
    )
    path = model_path(model)  # worker processes need no download
    load = partial(Recognizer.load, path, threads=threads, allow_code=allow_code)
    server = create_app(load, settings, path)
    run(server, host, port, lambda address: typer.echo(f"{address} (Ctrl-C stops)"))
