"""Limits on connections, which uvicorn does not have: their number, and time to send headers."""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from posformer.serve.settings import Settings

_MAX_HEAD_BYTES = 65_536  # of the request line and headers


def guarded_protocol(settings: Settings) -> type[asyncio.Protocol]:
    """Return uvicorn's HTTP protocol with the limits of the settings."""
    limits = {"max_connections": settings.connections, "header_seconds": settings.header_seconds}
    return type("LimitedProtocol", (GuardedProtocol,), limits)


class GuardedProtocol(cast(Any, AutoHTTPProtocol)):  # type: ignore[misc]
    """A connection that is closed if it does not send the headers of a request in time.

    A new connection beyond the limit replaces the oldest one that waits for headers. If all have a
    request in progress, it is refused.
    """

    max_connections = 512
    header_seconds = 10.0

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Accept the connection if there is room for it."""
        self._made = self.loop.time()
        self._last_cycle: Any = None
        self._head_bytes = 0
        super().connection_made(transport)
        if sum(not one.transport.is_closing() for one in self.connections) > self.max_connections:
            self._oldest_waiting().transport.abort()
        self._timer = self.loop.call_later(self.header_seconds, self._check_progress)

    def connection_lost(self, error: Exception | None) -> None:
        """Stop the timer."""
        self._timer.cancel()
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request; headers that never end close the connection."""
        super().data_received(data)
        if self.is_waiting:
            self._head_bytes += len(data)
            if self._head_bytes > _MAX_HEAD_BYTES:
                self.transport.abort()
        else:
            self._head_bytes = 0

    @property
    def is_waiting(self) -> bool:
        """Whether no request is in progress: its headers are incomplete."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def _check_progress(self) -> None:
        """Close the connection if there was no request since the last check."""
        if self.is_waiting and self.cycle is self._last_cycle:
            self.transport.abort()
            return
        self._last_cycle = self.cycle
        self._timer = self.loop.call_later(self.header_seconds, self._check_progress)

    def _oldest_waiting(self) -> "GuardedProtocol":
        """Return the connection to close: this one if all others have a request in progress."""
        others = (one for one in self.connections if one is not self and one.is_waiting)
        open_ = [one for one in others if not one.transport.is_closing()]
        return min(open_, key=lambda one: one._made, default=self)
