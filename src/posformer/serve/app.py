"""The web application: routes and error handling."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence, Sized
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from posformer import __version__
from posformer.errors import PosformerError
from posformer.ink import read_inkml
from posformer.recognizer import Recognizer, Source, is_inkml
from posformer.serve.middleware import HEADERS, RequestGuard
from posformer.serve.page import page_routes
from posformer.serve.schemas import Answer, Expression, Failure, Health, Latex, Model, Strokes
from posformer.serve.settings import Settings
from posformer.serve.worker_pool import WorkerPool

_LOG = logging.getLogger("posformer.serve")

_ERROR_TEXTS = {
    400: "The request is malformed.",
    408: "The time limit was exceeded.",
    413: "The request is too large.",
    415: "The content type is wrong.",
    422: "The input cannot be read or contains no ink, or a field is invalid.",
    503: "Too many open requests.",
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Failure, "description": text} for status, text in _ERROR_TEXTS.items()
}
_RETRY_AFTER = {"schema": {"type": "integer"}, "description": "Seconds."}
_ERRORS[503]["headers"] = {"Retry-After": _RETRY_AFTER}


def create_app(recognizer: Recognizer, settings: Settings | None = None) -> FastAPI:
    """Return the page and the API as an ASGI application.

    Args:
        recognizer: The recognizer.
        settings: Limits and options; the defaults if None.
    """
    settings = settings or Settings()
    pool = WorkerPool(recognizer, settings.workers, settings.batch, settings.options)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(pool.close)

    app = FastAPI(
        title="posformer",
        summary="Recognizes handwritten mathematics and writes LaTeX.",
        version=__version__,
        lifespan=lifespan,
        openapi_url="/api/openapi.json",
        # The default pages load scripts from other hosts; /docs is a page of this package.
        docs_url=None,
        redoc_url=None,
        routes=page_routes(),
    )
    app.include_router(_Api(recognizer, pool, settings).router())
    app.add_middleware(RequestGuard, settings=settings, retry_after=lambda: pool.retry_after)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Content-Type"],
        )
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(PosformerError, _input_error)
    app.add_exception_handler(Exception, _internal_error)
    return app


@dataclass(frozen=True)
class _Api:
    """The routes under /api."""

    recognizer: Recognizer
    pool: WorkerPool
    settings: Settings

    def router(self) -> APIRouter:
        """Return the routes. FastAPI documents the inner functions."""
        router = APIRouter(prefix="/api")
        most = self.settings.top_k
        top_k_type = Annotated[
            int, Query(ge=1, le=most, description="Number of results, the best included.")
        ]
        explain_type = Annotated[bool, Query(description="Add the attention map of each symbol.")]

        @router.post("/recognize", responses=_ERRORS, response_model_exclude_none=True)
        async def recognize(
            file: UploadFile, top_k: top_k_type = 1, explain: explain_type = False
        ) -> Answer:
            """Recognize an image (PNG, JPEG, WebP, GIF, BMP, TIFF, PPM) or InkML."""
            name = file.filename or "-"
            source = await asyncio.to_thread(self._open, await file.read(), name)
            return await self._answer(name, source, top_k, explain)

        @router.post("/strokes", responses=_ERRORS, response_model_exclude_none=True)
        async def strokes(
            ink: Strokes, top_k: top_k_type = 1, explain: explain_type = False
        ) -> Answer:
            """Recognize pen strokes."""
            self._check_strokes(ink.strokes)
            return await self._answer("strokes", ink.strokes, top_k, explain)

        @router.post("/latex", responses=_ERRORS)
        def latex(request: Latex) -> Expression:
            """Convert LaTeX to MathML and a position forest."""
            limit = self.settings.latex_characters
            if len(request.latex) > limit:
                raise HTTPException(413, f"the LaTeX is longer than {limit} characters")
            return Expression.of(request.latex)

        @router.get("/health")
        def health() -> Health:
            """Report the status of the server."""
            return Health(status="ok", version=__version__, waiting=self.pool.waiting)

        @router.get("/model")
        def model() -> Model:
            """Describe the model: its vocabulary and metadata."""
            runtime = self.recognizer.runtime
            return Model(
                architecture=runtime.config.name,
                engine=type(runtime).__name__.removesuffix("Runtime"),
                calibrated=self.recognizer.calibration is not None,
                words=list(runtime.vocabulary.tokens),
                about=runtime.info,
            )

        return router

    def _open(self, content: bytes, name: str) -> Source:
        """Return an uploaded image unchanged, and InkML as strokes to check their limits."""
        if not is_inkml(content):
            return content
        strokes = read_inkml(content, name).strokes
        self._check_strokes(strokes)
        return strokes

    def _check_strokes(self, strokes: Sequence[Sized]) -> None:
        if len(strokes) > self.settings.strokes:
            raise HTTPException(413, f"there are more than {self.settings.strokes} strokes")
        if sum(map(len, strokes)) > self.settings.points:
            raise HTTPException(413, f"there are more than {self.settings.points} points")

    async def _answer(self, path: str, source: Source, top_k: int, explain: bool) -> Answer:
        start = perf_counter()
        seconds = self.settings.seconds
        future = asyncio.wrap_future(self.pool.submit(source, top_k, explain))
        try:
            outcome = await asyncio.wait_for(future, seconds)
        except asyncio.TimeoutError:
            raise HTTPException(408, f"not recognized within {seconds:g} seconds") from None
        found = outcome.recognition
        return Answer(
            path=path,
            **found.to_dict(),
            mathml=found.mathml,
            milliseconds=round((perf_counter() - start) * 1000, 1),
            unsure=found.is_unsure,
            explanation=outcome.explanation,
        )


def _http_error(_: Request, error: Any) -> JSONResponse:
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def _validation_error(_: Request, error: Any) -> JSONResponse:
    first = error.errors()[0]
    # "strokes 3 1", without the part of the request ("body", "query") if there is more.
    location = " ".join(str(step) for step in first["loc"][1:]) or str(first["loc"][0])
    return JSONResponse({"error": f"{location}: {first['msg']}"}, 422)


def _input_error(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 422)


def _internal_error(_: Request, error: Exception) -> JSONResponse:
    _LOG.error("a request failed", exc_info=error)
    return JSONResponse({"error": "internal server error"}, 500, HEADERS)
