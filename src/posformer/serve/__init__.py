"""The web page and the HTTP API."""

from posformer.serve.app import create_app
from posformer.serve.server import allowed_hosts, serve, server_config
from posformer.serve.settings import Settings

__all__ = ["Settings", "allowed_hosts", "create_app", "serve", "server_config"]
