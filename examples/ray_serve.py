"""Serves the HTTP API with Ray Serve: replicas on one machine or a cluster.

Paths and JSON are those of `posformer serve`. Ray distributes requests among the replicas; each
replica recognizes up to `--batch` waiting requests together, in a process that is killed and
replaced if a request exceeds its budget.

    pip install 'posformer[ray,serve]'
    python examples/ray_serve.py --replicas 2 --port 8000 [--address HEAD:6379]
"""

import os
import time
from functools import partial
from typing import Annotated

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before the import: report nothing

import ray
import typer
from fastapi import FastAPI
from ray import serve

from posformer import Recognizer
from posformer.serve import Settings, create_app


def application(model: str | None, replicas: int, batch: int, requests: int) -> serve.Application:
    """Return the Ray Serve application.

    Args:
        model: Model folder or URL that every machine of the cluster can read; None for the
            bundled model.
        replicas: Number of replicas, each with one CPU.
        batch: Requests that a replica recognizes together.
        requests: Open requests per replica; further ones wait in Ray.
    """

    def build() -> FastAPI:
        """Return the application of a replica; it starts the process that has the model."""
        load = partial(Recognizer.load, model, threads=1)
        return create_app(load, Settings(batch=batch))

    deployment = serve.deployment(
        num_replicas=replicas,
        max_ongoing_requests=requests,
        ray_actor_options={"num_cpus": 1},
        health_check_period_s=10,
    )(serve.ingress(build)())
    return deployment.bind()


def main(
    replicas: Annotated[int, typer.Option(min=1, help="Replicas, one CPU each.")] = 1,
    batch: Annotated[int, typer.Option(min=1, help="Requests recognized together.")] = 8,
    requests: Annotated[int, typer.Option(min=1, help="Open requests per replica.")] = 32,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8000,
    model: Annotated[str | None, typer.Option(help="Model folder or URL.")] = None,
    address: Annotated[str | None, typer.Option(help="Ray cluster to connect to.")] = None,
) -> None:
    """Serve the HTTP API with Ray Serve until Ctrl-C."""
    own = {} if address else {"include_dashboard": False}
    ray.init(address, log_to_driver=False, **own)
    serve.start(http_options={"host": host, "port": port})
    serve.run(application(model, replicas, batch, requests), name="posformer", route_prefix="/")
    typer.echo(f"http://{host}:{port}/ (Ctrl-C stops)")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        serve.shutdown()


if __name__ == "__main__":
    typer.run(main)
