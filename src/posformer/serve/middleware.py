"""Refuses requests that exceed a limit, and adds security headers to every answer."""

import asyncio
import ipaddress
from collections.abc import Callable
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from posformer.serve.settings import Settings

HEADERS = {
    "Content-Security-Policy": (
        # ONNX Runtime compiles WebAssembly in a worker.
        "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; "
        "style-src 'self'; font-src 'self' data:; connect-src 'self'; manifest-src 'self'; "
        "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_PATIENCE_SECONDS = 1.0  # to receive a request, if others wait

_EXPECTED_TYPES = {
    "/api/recognize": "multipart/form-data",
    "/api/strokes": "application/json",
    "/api/latex": "application/json",
}


class RequestGuard:
    """ASGI middleware that checks host, origin, content type, size and the number of requests.

    If there are too many, a request that is still arriving makes room for a new one after a
    second: half-sent requests cannot keep others out.

    Args:
        app: The application.
        settings: Limits.
        retry_after: Returns the value of the `Retry-After` header, in seconds.
    """

    def __init__(self, app: ASGIApp, settings: Settings, retry_after: Callable[[], int]) -> None:
        self._app = app
        self._settings = settings
        self._retry_after = retry_after
        self._open = 0
        self._arriving: list[_Arrival] = []  # the oldest first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _with_headers(send)
        expected = _EXPECTED_TYPES.get(scope["path"]) if scope["method"] == "POST" else None
        headers = Headers(scope=scope)
        refusal = self._refusal(headers, scope["path"]) or self._limit_refusal(headers, expected)
        if refusal:
            await refusal(scope, receive, send)
        elif expected is None:
            await self._app(scope, receive, send)
        else:
            arrival = _Arrival(self._settings, receive)
            self._open += 1
            self._arriving.append(arrival)
            try:
                await self._app(scope, arrival.receive, send)
            finally:
                self._open -= 1
                self._arriving.remove(arrival)

    def _refusal(self, headers: Headers, path: str) -> JSONResponse | None:
        """Return the answer to a request from a web page that may not call this server."""
        host, allowed = _host(headers), self._settings.hosts
        if allowed and host not in allowed and not _is_address(host):
            return _error(421, "unknown host name; it can be allowed with --allow-host")
        if path.startswith("/api/") and self._is_foreign(headers):
            return _error(403, "pages of other origins may not call this server")
        return None

    def _is_foreign(self, headers: Headers) -> bool:
        """Whether a page of an origin that is not allowed sent a request.

        Browsers add these headers, other programs do not.
        """
        origin, allowed = headers.get("origin"), self._settings.origins
        if "*" in allowed or origin in allowed:
            return False
        if origin is not None:
            return origin.partition("://")[2].lower() != headers.get("host", "").lower()
        if headers.get("sec-fetch-mode") == "navigate":
            return False  # a link, whose answer the other page cannot read
        return headers.get("sec-fetch-site", "none") not in ("same-origin", "none")

    def _limit_refusal(self, headers: Headers, expected: str | None) -> JSONResponse | None:
        """Return the answer to a request that exceeds a limit.

        Args:
            headers: The headers of the request.
            expected: The content type of a request with limits; None for other requests.
        """
        if expected is None:
            return None
        length = headers.get("content-length", "")
        if headers.get("content-type", "").partition(";")[0].strip().lower() != expected:
            return _error(415, f"the content type must be {expected}")
        if length.isdecimal() and int(length) > self._settings.body_bytes:
            return _error(413, _too_large(self._settings))
        if self._open >= self._settings.requests and not self._make_room():
            wait = {"Retry-After": str(self._retry_after())}
            return _error(503, "too many requests at once; try again soon", wait)
        return None

    def _make_room(self) -> bool:
        """Drop the oldest request that has been arriving for too long, if there is one."""
        for arrival in self._arriving:
            if arrival.is_slow and not arrival.dropped.done():
                arrival.dropped.set_result(None)
                return True
        return False


class _Arrival:
    """Receives the body of a request, and raises an error if it is too large or too late."""

    def __init__(self, settings: Settings, receive: Receive) -> None:
        self._settings, self._receive = settings, receive
        self._started = monotonic()
        self._received = 0
        self._complete = False
        self.dropped: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_slow(self) -> bool:
        return not self._complete and monotonic() - self._started > _PATIENCE_SECONDS

    async def receive(self) -> Message:
        """Receive the next part; see ASGI."""
        if self._complete:
            return await self._receive()
        message = await self._next()
        self._received += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        if self._received > self._settings.body_bytes:
            raise HTTPException(413, _too_large(self._settings))
        return message

    async def _next(self) -> Message:
        seconds = self._settings.seconds
        part = asyncio.ensure_future(self._receive())
        left = max(0.0, self._started + seconds - monotonic())
        either: set[asyncio.Future[Any]] = {part, self.dropped}
        await asyncio.wait(either, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if part.done():
            return part.result()
        part.cancel()
        if self.dropped.done():
            raise HTTPException(408, "the request arrives too slowly while others wait")
        raise HTTPException(408, f"the request did not arrive within {seconds:g} seconds")


def _too_large(settings: Settings) -> str:
    return f"the request is larger than {settings.body_bytes} bytes"


def _is_address(host: str) -> bool:
    """Whether a host is an IP address, which no name server can point elsewhere."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _host(headers: Headers) -> str:
    """Return the requested host name, without the port and the brackets of IPv6."""
    try:
        return urlsplit(f"//{headers.get('host', '')}").hostname or ""
    except ValueError:
        return ""


def _error(status: int, text: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": text}, status, headers)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
