"""Refuses requests that exceed a limit, and adds security headers to every answer."""

import asyncio
from collections.abc import Callable
from time import monotonic
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from posformer.serve.settings import Settings

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_EXPECTED_TYPES = {
    "/api/recognize": "multipart/form-data",
    "/api/strokes": "application/json",
    "/api/latex": "application/json",
}


class RequestGuard:
    """ASGI middleware that checks host, content type, size and the number of open requests.

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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _with_headers(send)
        expected = _EXPECTED_TYPES.get(scope["path"]) if scope["method"] == "POST" else None
        if refusal := self._refusal(Headers(scope=scope), expected):
            await refusal(scope, receive, send)
        elif expected is None:
            await self._app(scope, receive, send)
        else:
            self._open += 1
            try:
                await self._app(scope, self._bounded(receive), send)
            finally:
                self._open -= 1

    def _refusal(self, headers: Headers, expected: str | None) -> JSONResponse | None:
        """Return the answer to a request that must be refused.

        Args:
            headers: The headers of the request.
            expected: The content type of a request with limits; None for other requests.
        """
        if self._settings.hosts and _host(headers) not in self._settings.hosts:
            return _error(421, "this server does not answer to this host name")
        if expected is None:
            return None
        length = headers.get("content-length", "")
        if headers.get("content-type", "").partition(";")[0].strip().lower() != expected:
            return _error(415, f"the content type must be {expected}")
        if length.isdecimal() and int(length) > self._settings.body_bytes:
            return _error(413, self._too_large())
        if self._open >= self._settings.requests:
            wait = {"Retry-After": str(self._retry_after())}
            return _error(503, "too many requests at once; try again soon", wait)
        return None

    def _too_large(self) -> str:
        return f"the request is larger than {self._settings.body_bytes} bytes"

    def _bounded(self, receive: Receive) -> Receive:
        """Wrap `receive` to raise an error if the body is too large or arrives too late."""
        deadline = monotonic() + self._settings.seconds
        received = 0
        complete = False

        async def bounded() -> Message:
            nonlocal received, complete
            if complete:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), max(0.0, deadline - monotonic()))
            except asyncio.TimeoutError:
                within = f"{self._settings.seconds:g} seconds"
                raise HTTPException(408, f"the request did not arrive within {within}") from None
            received += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if received > self._settings.body_bytes:
                raise HTTPException(413, self._too_large())
            return message

        return bounded


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
