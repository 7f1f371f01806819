"""Listens, until it is told to stop."""

import ipaddress
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress

import uvicorn
from fastapi import FastAPI

from posformer.errors import PosformerError

__all__ = ["names_of", "serve"]

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(
    app: FastAPI,
    host: str = "127.0.0.1",
    port: int = 8000,
    started: Callable[[str], None] = print,
) -> None:
    """Serve until interrupted; what was accepted by then is finished first.

    Args:
        app: from `create_app`.
        host: address to listen on.
        port: 0 takes one that is free.
        started: is told the address of the page.

    Raises:
        PosformerError: If nothing can listen there.
    """
    with _listen(host, port) as listener:
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
        started(f"http://{_spelled(host)}:{listener.getsockname()[1]}/")
        # It finishes what it has, and then raises the interrupt that it was stopped by.
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])


def names_of(host: str, further: Iterable[str] = ()) -> tuple[str, ...]:
    """The names that a server on this address goes by, for `Settings.hosts`.

    Args:
        host: the address. One that only this machine reaches has known names; for any other,
            only who runs it knows them.
        further: other names, such as that of a proxy in front.

    Returns:
        () where none are known and so any will do.
    """
    given = tuple(name.lower() for name in further)
    if host.lower() in _LOOPBACK or _is_loopback(host):
        return tuple(dict.fromkeys((*_LOOPBACK, host.lower(), *given)))
    return (host.lower(), *given) if given else ()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=512)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PosformerError(f"cannot listen on {host} port {port}: {reason}") from error


def _spelled(host: str) -> str:
    """A host as addresses spell it, by a name that a browser can open."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.is_unspecified:
        return "localhost"
    return f"[{host}]" if address.version == 6 else host
