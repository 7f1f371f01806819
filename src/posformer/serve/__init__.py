"""The web page and the HTTP API."""

from posformer.serve.app import create_app
from posformer.serve.server import allowed_hosts, serve
from posformer.serve.settings import Settings
from posformer.serve.worker_pool import WorkerPool

__all__ = ["Settings", "WorkerPool", "allowed_hosts", "create_app", "serve"]
