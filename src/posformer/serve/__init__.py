"""The web page and the HTTP interface."""

from posformer.serve.app import create_app
from posformer.serve.server import names_of, serve
from posformer.serve.settings import Settings
from posformer.serve.worker_pool import WorkerPool

__all__ = ["Settings", "WorkerPool", "create_app", "names_of", "serve"]
