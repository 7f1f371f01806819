"""Routes of the web page: one per file."""

import hashlib
from pathlib import Path, PurePosixPath

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from posformer.serve.site import Content, Site

_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".css": "text/css",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".ttf": "font/ttf",
    ".txt": "text/plain",
    ".svg": "image/svg+xml",
}
_PATHS = {"index.html": "/", "docs.html": "/docs"}
_MAX_IN_MEMORY = 1_000_000  # bytes of a file that is kept in memory


def page_routes(site: Site) -> list[BaseRoute]:
    """Return one route per file; no part of a request is used as a file name."""
    return [_route(name, content) for name, content in site.items()]


def _route(name: str, content: Content) -> Route:
    suffix = PurePosixPath(name).suffix
    media_type = _TYPES.get(suffix, "application/octet-stream")
    if isinstance(content, Path) and content.stat().st_size <= _MAX_IN_MEMORY:
        content = content.read_bytes()
    tag = f'"{_digest(content)[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}

    async def answer(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        if isinstance(content, Path):
            return FileResponse(content, headers=headers, media_type=media_type)
        return Response(content, headers=headers, media_type=media_type)

    return Route(_PATHS.get(name, f"/{name}"), answer, include_in_schema=False)


def _digest(content: Content) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as stream:
        digest = hashlib.sha256()
        while part := stream.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()
