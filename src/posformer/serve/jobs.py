"""What the server's worker processes do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import chain, tee
from typing import TypeVar, cast

from posformer.errors import BudgetError, PosformerError
from posformer.ink.ink_formats import is_ink, read_ink
from posformer.recognizer import Recognition, Recognizer, Source
from posformer.search import DecodingOptions
from posformer.serve.explanation import explain
from posformer.serve.schemas import Explanation, Expression, Model
from posformer.serve.settings import Settings

Given = TypeVar("Given")
Found = TypeVar("Found")


@dataclass(frozen=True)
class RecognitionJob:
    """An image or strokes to recognize."""

    source: Source
    name: str
    options: DecodingOptions
    explained: bool = False


@dataclass(frozen=True)
class TypesettingJob:
    """LaTeX to convert to MathML, a position forest and another format."""

    latex: str
    format: str | None = None


@dataclass(frozen=True)
class DescriptionJob:
    """A request for the description of the model."""


Job = RecognitionJob | TypesettingJob | DescriptionJob


@dataclass(frozen=True)
class Outcome:
    """A recognition, with attention maps if requested."""

    recognition: Recognition
    mathml: str
    explanation: list[Explanation] | None = None


Answer = Outcome | Expression | Model


@dataclass(frozen=True)
class JobRunner:
    """Runs the jobs of one worker; see `posformer.worker_pool.Handler`."""

    recognizer: Recognizer
    settings: Settings

    @classmethod
    def start(cls, load: Callable[[], Recognizer], settings: Settings) -> JobRunner:
        """Load the model."""
        return cls(load(), settings)

    def __call__(self, jobs: Iterator[Job]) -> Iterator[Answer | Exception]:
        """Run jobs; recognitions that follow each other must have the same options."""
        for job in jobs:
            if isinstance(job, RecognitionJob):
                yield from self._recognize(chain([job], cast(Iterator[RecognitionJob], jobs)))
            elif isinstance(job, TypesettingJob):
                yield _attempt(_typeset, job)
            else:
                yield self._describe()

    def _recognize(self, jobs: Iterator[RecognitionJob]) -> Iterator[Outcome | Exception]:
        first = next(jobs)
        read_ahead, same = tee(chain([first], jobs))
        sources = (_attempt(self._open, job) for job in read_ahead)
        results = self.recognizer.attempt_many(sources, first.options)
        for result, job in zip(results, same, strict=False):  # it reads some jobs ahead
            yield result if isinstance(result, PosformerError) else self._outcome(job, result)

    def _open(self, job: RecognitionJob) -> Source:
        """Return an image unchanged, and ink as a document to check its limits."""
        if not isinstance(job.source, bytes) or not is_ink(job.source[:64]):
            return job.source
        document = read_ink(job.source, job.name)
        check_strokes(document.strokes, self.settings)
        return document

    def _outcome(self, job: RecognitionJob, found: Recognition) -> Outcome:
        explanation = explain(self.recognizer, job.source, found) if job.explained else None
        return Outcome(found, found.mathml, explanation)

    def _describe(self) -> Model:
        runtime = self.recognizer.runtime
        return Model(
            architecture=runtime.config.name,
            engine=type(runtime).__name__.removesuffix("Runtime"),
            calibrated=self.recognizer.calibration is not None,
            words=list(runtime.vocabulary.tokens),
            about=runtime.info,
        )


def _typeset(job: TypesettingJob) -> Expression:
    return Expression.of(job.latex, job.format)


def check_strokes(strokes: Sequence[Sized], settings: Settings) -> None:
    """Raise an error if there are more strokes or points than the settings allow."""
    if len(strokes) > settings.strokes:
        raise BudgetError(f"there are more than {settings.strokes} strokes")
    if sum(map(len, strokes)) > settings.points:
        raise BudgetError(f"there are more than {settings.points} points")


def _attempt(work: Callable[[Given], Found], given: Given) -> Found | PosformerError:
    try:
        return work(given)
    except PosformerError as error:
        return error
