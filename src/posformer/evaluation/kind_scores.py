"""Scores of predictions, and of photographs by kind.

For photographs ExpRate is given strictly and with case ignored, per image and per source.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from posformer.evaluation.metrics import Scores, evaluate_pairs
from posformer.evaluation.predictions import Prediction

ALL_KINDS = "all"


@dataclass(frozen=True)
class KindScore:
    """ExpRate of the photographs of one kind, in percent."""

    kind: str
    count: int
    sources: int
    exprate: float
    exprate_no_case: float
    """With the case of letters ignored, which often cannot be decided in handwriting."""
    source_exprate: float
    """Mean over sources: images of one source resemble each other."""
    source_exprate_no_case: float

    def to_json(self) -> dict[str, Any]:
        """Return the fields that `evaluate --output` writes."""
        return dict(vars(self))


def score(predictions: Sequence[Prediction]) -> Scores:
    """Score predictions; errors as for `evaluate_pairs`."""
    truths, guesses = [one.truth for one in predictions], [one.prediction for one in predictions]
    return replace(evaluate_pairs(truths, guesses), by_kind=score_kinds(predictions))


def score_kinds(predictions: Sequence[Prediction]) -> tuple[KindScore, ...]:
    """Score photographs by kind, then all together; empty if there are no photographs."""
    photographs = [one for one in predictions if one.kind]
    kinds = sorted({one.kind for one in photographs})
    groups = [(kind, [one for one in photographs if one.kind == kind]) for kind in kinds]
    if len(groups) > 1:
        groups.append((ALL_KINDS, photographs))
    return tuple(_score_kind(kind, members) for kind, members in groups)


def _score_kind(kind: str, members: Sequence[Prediction]) -> KindScore:
    strict = [one.is_correct for one in members]
    no_case = [_lower(one.truth) == _lower(one.prediction) for one in members]
    sources = [one.source for one in members]
    return KindScore(
        kind=kind,
        count=len(members),
        sources=len(set(sources)),
        exprate=_percent(strict),
        exprate_no_case=_percent(no_case),
        source_exprate=_mean_of_sources(strict, sources),
        source_exprate_no_case=_mean_of_sources(no_case, sources),
    )


def _lower(tokens: Sequence[str]) -> list[str]:
    return [token.lower() if len(token) == 1 else token for token in tokens]


def _percent(hits: Sequence[bool]) -> float:
    return 100 * sum(hits) / len(hits)


def _mean_of_sources(hits: Sequence[bool], sources: Sequence[str]) -> float:
    by_source: dict[str, list[bool]] = {}
    for hit, source in zip(hits, sources, strict=True):
        by_source.setdefault(source, []).append(hit)
    return sum(_percent(one) for one in by_source.values()) / len(by_source)
