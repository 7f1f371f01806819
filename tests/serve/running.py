"""A server on loopback in a background thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from posformer.serve import server_config


@contextmanager
def running(app) -> Iterator[tuple[str, uvicorn.Server]]:
    """Run a server; yield its address, ending in a slash, and the server."""
    server = uvicorn.Server(server_config(app, port=0))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        threading.Event().wait(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/", server
    server.should_exit = True
    thread.join(30)
    assert not thread.is_alive()
