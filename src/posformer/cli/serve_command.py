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
    threads: shared.ThreadsOption = None,
    workers: Annotated[int, Option(min=1, max=64, help="Worker threads.")] = 1,
    batch: Annotated[
        int, Option(min=1, max=64, help="Maximum requests that a worker decodes together.")
    ] = 8,
    requests: Annotated[
        int, Option(min=1, help="Maximum open requests; more are refused with status 503.")
    ] = 64,
    timeout: Annotated[float, Option(min=0.1, help="Time limit per request, seconds.")] = 30.0,
    beam: shared.BeamOption = shared.DEFAULT_BEAM,
    scales: shared.ScalesOption = shared.DEFAULT_SCALES,
    cors: Annotated[
        list[str] | None,
        Option(metavar="ORIGIN", help="Origin allowed to call the API; may be repeated."),
    ] = None,
    name: Annotated[
        list[str] | None,
        Option(metavar="HOST", help="Additional host name to answer to; may be repeated."),
    ] = None,
) -> None:
    """Serve the web page and the HTTP API."""
    from posformer.recognizer import Recognizer
    from posformer.search import DecodingOptions
    from posformer.serve import Settings, allowed_hosts, create_app
    from posformer.serve import serve as run

    options = DecodingOptions(beam=beam, scales=scales)
    origins, hosts = tuple(cors or ()), allowed_hosts(host, name or ())
    settings = Settings(
        workers, batch, requests, timeout, options=options, origins=origins, hosts=hosts
    )
    server = create_app(Recognizer.load(model, threads=threads), settings)
    run(server, host, port, lambda address: typer.echo(f"{address} (Ctrl-C stops)"))
