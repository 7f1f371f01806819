"""Runs the server until it is interrupted."""

import ipaddress
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import uvicorn
from fastapi import FastAPI

from posformer.errors import PosformerError
from posformer.serve.connections import guarded_protocol

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(
    app: FastAPI, host: str = "127.0.0.1", port: int = 8000, started: Callable[[str], None] = print
) -> None:
    """Serve until interrupted, and finish accepted requests first.

    Args:
        app: The application, see `create_app`.
        host: Address to listen on.
        port: Port to listen on; 0 for any free port.
        started: Called with the address of the page.

    Raises:
        PosformerError: If the server cannot listen there.
    """
    with _listen(host, port) as listener:
        config = server_config(app)
        started(f"http://{_url_host(host)}:{listener.getsockname()[1]}/")
        # It finishes its requests and then raises the interrupt that stopped it.
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])


def server_config(app: FastAPI, **options: Any) -> uvicorn.Config:
    """Return the configuration of uvicorn, with limits on connections.

    Args:
        app: The application, see `create_app`.
        **options: Further options of `uvicorn.Config`.
    """
    return uvicorn.Config(
        app,
        http=guarded_protocol(app.state.settings),
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        **options,
    )


def allowed_hosts(host: str, further: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the host names that a server should answer to, for `Settings.hosts`.

    Args:
        host: The address to listen on.
        further: Additional host names, such as that of a reverse proxy; `*` allows any.

    Returns:
        The names, or () for any name.
    """
    given = tuple(name.lower() for name in further)
    return () if "*" in given else tuple(dict.fromkeys((*_LOOPBACK, host.lower(), *given)))


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address, or None for a host name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=512)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PosformerError(f"cannot listen on {host} port {port}: {reason}") from error


def _url_host(host: str) -> str:
    """Return a host as it appears in a URL that a browser can open."""
    address = _address(host)
    if address and address.is_unspecified:
        return "localhost"
    return f"[{host}]" if address and address.version == 6 else host
