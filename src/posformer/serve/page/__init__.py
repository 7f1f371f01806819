"""The web page: static files."""

import hashlib
import mimetypes
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
_PATHS = {"index.html": "/", "docs.html": "/docs"}


def page_routes() -> list[BaseRoute]:
    """Return one route per file; no part of a request is used as a file name."""
    return [
        _route(entry.name, entry.read_bytes())
        for entry in files(__name__).iterdir()
        if entry.is_file() and not entry.name.endswith((".py", ".pyc"))
    ]


def _route(name: str, content: bytes) -> Route:
    suffix = name[name.rindex(".") :]
    media_type = _TYPES.get(suffix) or mimetypes.guess_type(name)[0]
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}

    async def answer(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=media_type)

    return Route(_PATHS.get(name, f"/{name}"), answer, include_in_schema=False)
