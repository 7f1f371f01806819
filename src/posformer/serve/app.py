"""The web application: routes and error handling."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, cast

from fastapi import APIRouter, FastAPI, Query, Request, Response, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from posformer import __version__
from posformer.errors import BudgetError, LatexError, PosformerError
from posformer.latex.output_formats import FormatName
from posformer.recognizer import Recognition, Recognizer
from posformer.serve.jobs import (
    DescriptionJob,
    Job,
    JobRunner,
    Outcome,
    RecognitionJob,
    TypesettingJob,
    check_strokes,
)
from posformer.serve.middleware import HEADERS, RequestGuard
from posformer.serve.page_routes import page_routes
from posformer.serve.schemas import (
    Answer,
    Expression,
    Failure,
    FormulaReading,
    Health,
    Latex,
    Model,
    Ready,
    Strokes,
)
from posformer.serve.settings import Settings
from posformer.serve.site import server_site
from posformer.worker_pool import Budget, WorkerPool

_LOG = logging.getLogger("posformer.serve")

_ERROR_TEXTS = {
    400: "The request is malformed.",
    403: "The request comes from a page of an origin that is not allowed.",
    408: "The time limit was exceeded.",
    413: "The request is too large, or takes too much memory.",
    415: "The content type is wrong.",
    421: "The host name is unknown.",
    422: "The input cannot be read, contains no ink or no readable formula, or a field is invalid.",
    503: "Too many open requests.",
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Failure, "description": text} for status, text in _ERROR_TEXTS.items()
}
_BUDGET_STATUS = {"time": 408, "memory": 413, "size": 413, "crash": 422}
_RETRY_AFTER = {"schema": {"type": "integer"}, "description": "Seconds."}
_ERRORS[503]["headers"] = {"Retry-After": _RETRY_AFTER}


def create_app(
    recognizer: Recognizer | Callable[[], Recognizer],
    settings: Settings | None = None,
    model: Path | None = None,
) -> FastAPI:
    """Return the page and the API as an ASGI application, and start its worker processes.

    Args:
        recognizer: What `Recognizer.load` returns, or a picklable function that returns it in the
            worker processes, such as `partial(Recognizer.load, path)`.
        settings: Limits and options; the defaults if None.
        model: The model folder that the page loads to recognize in the browser; None if it
            should only recognize through the server.

    Raises:
        ModelError: If a worker cannot load the model.
    """
    settings = settings or Settings()
    pool: WorkerPool[Job, Any] = WorkerPool(
        partial(JobRunner.start, _loader(recognizer), settings),
        settings.workers,
        settings.batch,
        Budget(settings.job_seconds, settings.megabytes),
    )

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
        routes=page_routes(server_site(model)),
    )
    app.state.settings, app.state.pool = settings, pool
    app.include_router(_Api(pool, settings).router())
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
    app.add_exception_handler(_NotReadableError, _not_readable)
    app.add_exception_handler(Exception, _internal_error)
    return app


def _loader(recognizer: Recognizer | Callable[[], Recognizer]) -> Callable[[], Recognizer]:
    return partial(_same, recognizer) if isinstance(recognizer, Recognizer) else recognizer


def _same(recognizer: Recognizer) -> Recognizer:
    """Return a recognizer that another process loads when it unpickles the argument."""
    return recognizer


class _NotReadableError(Exception):
    """The best hypothesis is a guess."""

    def __init__(self, found: Recognition) -> None:
        self.found = found


@dataclass(frozen=True)
class _Api:
    """The routes under /api."""

    pool: WorkerPool[Job, Any]
    settings: Settings

    def router(self) -> APIRouter:
        """Return the routes. FastAPI documents the inner functions."""
        router = APIRouter(prefix="/api")
        most = self.settings.top_k
        top_k_type = Annotated[
            int, Query(ge=1, le=most, description="Number of results, the best included.")
        ]
        explain_type = Annotated[bool, Query(description="Add the attention map of each symbol.")]
        symbols_type = Annotated[
            bool, Query(description="Add the confidence and the alternatives of each symbol.")
        ]
        format_type = Annotated[
            FormatName | None, Query(description="Add the result in this format, as `text`.")
        ]

        @router.post("/recognize", responses=_ERRORS, response_model_exclude_none=True)
        async def recognize(
            request: Request,
            file: UploadFile,
            top_k: top_k_type = 1,
            explain: explain_type = False,
            format: format_type = None,
            symbols: symbols_type = False,
        ) -> Answer:
            """Recognize an image (PNG, JPEG, WebP, GIF, BMP, TIFF, PPM) or a file of ink.

            Ink is InkML, Xournal++, SVG or Excalidraw.
            """
            options = replace(self.settings.options, top_k=top_k, symbols=symbols)
            name = file.filename or "-"
            job = RecognitionJob(await file.read(), name, options, explain)
            return await self._answer(request, job, format)

        @router.post("/strokes", responses=_ERRORS, response_model_exclude_none=True)
        async def strokes(
            request: Request,
            ink: Strokes,
            top_k: top_k_type = 1,
            explain: explain_type = False,
            format: format_type = None,
            symbols: symbols_type = False,
        ) -> Answer:
            """Recognize pen strokes."""
            check_strokes(ink.strokes, self.settings)
            options = replace(self.settings.options, top_k=top_k, symbols=symbols)
            job = RecognitionJob(ink.strokes, "strokes", options, explain)
            return await self._answer(request, job, format)

        @router.post("/latex", responses=_ERRORS)
        async def latex(request: Request, body: Latex) -> Expression:
            """Convert LaTeX to MathML, a position forest and, on request, another format."""
            limit = self.settings.latex_characters
            if len(body.latex) > limit:
                raise BudgetError(f"the LaTeX is longer than {limit} characters")
            job = TypesettingJob(body.latex, body.format)
            return cast(Expression, await self._run(request, job))

        @router.get("/health")
        async def health() -> Health:
            """Report that the server is running, whatever its workers do."""
            return Health(status="ok", version=__version__, waiting=self.pool.waiting)

        @router.get("/ready", responses={503: {"model": Ready}})
        async def ready(response: Response) -> Ready:
            """Report whether a worker process can take requests."""
            if not (is_ready := self.pool.is_ready):
                response.status_code = 503
            return Ready(ready=is_ready)

        @router.get("/model", responses={408: _ERRORS[408]})
        async def model(request: Request) -> Model:
            """Describe the model: its vocabulary and metadata."""
            return cast(Model, await self._run(request, DescriptionJob()))

        return router

    async def _answer(self, request: Request, job: RecognitionJob, format: str | None) -> Answer:
        """Recognize a source and return the answer; raise an error if it is not readable."""
        start = perf_counter()
        outcome: Outcome = await self._run(request, job, group=job.options)
        found = outcome.recognition
        if found.error:
            raise _NotReadableError(found)
        return Answer(
            path=job.name,
            **found.to_dict(),
            **_formatted(found, format),
            formulas=[FormulaReading(**one.to_dict()) for one in found.formulas]
            if len(found.formulas) > 1
            else None,
            mathml=outcome.mathml,
            milliseconds=round((perf_counter() - start) * 1000, 1),
            unsure=found.is_unsure,
            explanation=outcome.explanation,
        )

    async def _run(self, request: Request, job: Job, group: Hashable = None) -> Any:
        seconds = self.settings.seconds
        client = request.client.host if request.client else ""
        future = asyncio.wrap_future(self.pool.submit(job, client, group))
        try:
            return await asyncio.wait_for(future, seconds)
        except asyncio.TimeoutError:
            raise BudgetError(f"not recognized within {seconds:g} seconds", "time") from None


def _formatted(found: Recognition, format: str | None) -> dict[str, Any]:
    """Return the result in a format as `text`, or why there is none as `problem`."""
    try:
        return {"text": found.to(format)} if format else {}
    except LatexError as error:
        return {"problem": str(error)}


def _http_error(_: Request, error: Any) -> JSONResponse:
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def _validation_error(_: Request, error: Any) -> JSONResponse:
    first = error.errors()[0]
    # "strokes 3 1", without the part of the request ("body", "query") if there is more.
    location = " ".join(str(step) for step in first["loc"][1:]) or str(first["loc"][0])
    return JSONResponse({"error": f"{location}: {first['msg']}"}, 422)


def _input_error(_: Request, error: Exception) -> JSONResponse:
    status = _BUDGET_STATUS[error.kind] if isinstance(error, BudgetError) else 422
    return JSONResponse({"error": str(error)}, status)


def _not_readable(_: Request, error: Any) -> JSONResponse:
    return JSONResponse(error.found.to_failure(), 422)


def _internal_error(_: Request, error: Exception) -> JSONResponse:
    _LOG.error("a request failed", exc_info=error)
    return JSONResponse({"error": "internal server error"}, 500, HEADERS)
