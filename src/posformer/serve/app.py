"""The application: what is answered at which address."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence, Sized
from contextlib import asynccontextmanager
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
from posformer.serve.middleware import HEADERS, Guard
from posformer.serve.page import page_routes
from posformer.serve.schemas import (
    Answer,
    Expression,
    Failure,
    Health,
    Latex,
    Model,
    Strokes,
)
from posformer.serve.settings import Settings
from posformer.serve.worker_pool import WorkerPool

__all__ = ["create_app"]

_LOG = logging.getLogger("posformer.serve")

_REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": Failure, "description": "The request is malformed."},
    408: {"model": Failure, "description": "It took too long."},
    413: {"model": Failure, "description": "The request is too long."},
    415: {"model": Failure, "description": "The content type is another one."},
    422: {"model": Failure, "description": "It cannot be read, or nothing is written there."},
    503: {
        "model": Failure,
        "description": "Too many requests at once.",
        "headers": {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}},
    },
}


def create_app(recognizer: Recognizer, settings: Settings | None = None) -> FastAPI:
    """The page and the interface, for any ASGI server.

    Args:
        recognizer: what reads.
        settings: limits; the usual ones if None.
    """
    settings = settings or Settings()
    pool = WorkerPool(recognizer, settings.workers, settings.batch, settings.beam, settings.views)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(pool.close)

    app = FastAPI(
        title="posformer",
        summary="Reads handwritten mathematics and writes LaTeX.",
        version=__version__,
        lifespan=lifespan,
        openapi_url="/api/openapi.json",
        # The usual pages for it load scripts from elsewhere; /docs is our own.
        docs_url=None,
        redoc_url=None,
        routes=page_routes(),
    )
    app.include_router(_Interface(recognizer, pool, settings).router)
    app.add_middleware(Guard, settings=settings, patience=lambda: pool.patience)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Content-Type"],
        )
    app.add_exception_handler(HTTPException, _tell_refusal)
    app.add_exception_handler(RequestValidationError, _tell_mistake)
    app.add_exception_handler(PosformerError, _tell_unreadable)
    app.add_exception_handler(Exception, _tell_fault)
    return app


class _Interface:
    """What the addresses under /api do."""

    def __init__(self, recognizer: Recognizer, pool: WorkerPool, settings: Settings) -> None:
        self._recognizer = recognizer
        self._pool = pool
        self._settings = settings
        self.router = APIRouter(prefix="/api")
        self._add_recognition()
        self._add_knowledge()

    def _add_recognition(self) -> None:
        most = self._settings.top_k
        top_k_type = Annotated[
            int, Query(ge=1, le=most, description="How many readings, the best included.")
        ]
        explain_type = Annotated[
            bool, Query(description="Also tell where the model looked for each symbol.")
        ]

        async def recognize(
            file: UploadFile,
            top_k: top_k_type = 1,
            explain: explain_type = False,
        ) -> Answer:
            """Read an image (PNG, JPEG, WebP, GIF, BMP, TIFF, PPM) or InkML."""
            name = file.filename or "-"
            source = await asyncio.to_thread(self._opened, await file.read(), name)
            return await self._answer(name, source, top_k, explain)

        async def strokes(
            ink: Strokes,
            top_k: top_k_type = 1,
            explain: explain_type = False,
        ) -> Answer:
            """Read strokes of a pen."""
            self._check_strokes(ink.strokes)
            return await self._answer("strokes", ink.strokes, top_k, explain)

        for address, answer in (("/recognize", recognize), ("/strokes", strokes)):
            self.router.add_api_route(
                address,
                answer,
                methods=["POST"],
                responses=_REFUSALS,
                response_model=Answer,
                response_model_exclude_none=True,
            )

    def _add_knowledge(self) -> None:
        def latex(given: Latex) -> Expression:
            """Typeset an expression as MathML, and draw its position forest."""
            most = self._settings.latex_characters
            if len(given.latex) > most:
                raise HTTPException(413, f"the LaTeX is longer than {most} characters")
            return Expression.of(given.latex)

        def health() -> Health:
            """Whether the server works, and how busy it is."""
            return Health(status="ok", version=__version__, waiting=self._pool.waiting)

        def model() -> Model:
            """What reads: its words, and what is known of it."""
            runtime = self._recognizer.runtime
            return Model(
                architecture=runtime.config.name,
                engine=type(runtime).__name__.removesuffix("Runtime"),
                calibrated=self._recognizer.calibration is not None,
                words=list(runtime.vocabulary.tokens),
                about=runtime.info,
            )

        self.router.add_api_route("/latex", latex, methods=["POST"], responses=_REFUSALS)
        self.router.add_api_route("/health", health)
        self.router.add_api_route("/model", model)

    def _opened(self, content: bytes, name: str) -> Source:
        """What was uploaded: an image as it is, InkML as strokes, so that their limits hold."""
        if not is_inkml(content):
            return content
        strokes = read_inkml(content, name).strokes
        self._check_strokes(strokes)
        return strokes

    def _check_strokes(self, strokes: Sequence[Sized]) -> None:
        points = sum(map(len, strokes))
        if len(strokes) > self._settings.strokes:
            raise HTTPException(413, f"there are more than {self._settings.strokes} strokes")
        if points > self._settings.points:
            raise HTTPException(413, f"there are more than {self._settings.points} points")

    async def _answer(self, path: str, source: Source, top_k: int, explain: bool) -> Answer:
        start = perf_counter()
        future = asyncio.wrap_future(self._pool.submit(source, top_k, explain))
        try:
            outcome = await asyncio.wait_for(future, self._settings.seconds)
        except asyncio.TimeoutError:
            raise HTTPException(
                408, f"not read within {self._settings.seconds:g} seconds"
            ) from None
        milliseconds = (perf_counter() - start) * 1000
        return Answer.of(path, outcome.recognition, outcome.explanation, milliseconds)


def _tell_refusal(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def _tell_mistake(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    # Where it is: "strokes 3 1", without the part of the request it was looked for in.
    place = " ".join(str(step) for step in first["loc"][1:]) or str(first["loc"][0])
    return JSONResponse({"error": f"{place}: {first['msg']}"}, 422)


def _tell_unreadable(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 422)


def _tell_fault(_: Request, error: Exception) -> JSONResponse:
    _LOG.error("a request failed", exc_info=error)
    return JSONResponse({"error": "something went wrong here"}, 500, HEADERS)
