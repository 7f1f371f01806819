"""The weight of a model's language model, chosen on validation data."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from posformer.evaluation.conventions import comparable
from posformer.evaluation.predict import EvaluationSet, decode_set
from posformer.runtime import Runtime
from posformer.search import DecodingOptions

WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)  # that are tried
_LIST_LENGTH = 6  # hypotheses of each image that are ranked again


class LanguageTrial(NamedTuple):
    """How many results are right with each weight."""

    weight: float  # the smallest of those with the most right results
    correct: dict[float, int]
    in_list: int  # images whose truth is among the hypotheses
    images: int


def choose_language_weight(
    runtime: Runtime, sets: Sequence[EvaluationSet], options: DecodingOptions
) -> LanguageTrial:
    """Choose the weight with which most results of full search are right.

    Every image is decoded once, without the language model.

    Args:
        runtime: A model with a language model.
        sets: Validation data.
        options: The options of full search.
    """
    assert runtime.language is not None
    beam = max(options.beam, _LIST_LENGTH)
    listed = replace(options, adaptive=False, beam=beam, top_k=_LIST_LENGTH, language_weight=0.0)
    correct, in_list, count = dict.fromkeys(WEIGHTS, 0), 0, 0
    for examples in sets:
        spell = tuple if examples.photographs is None else comparable
        for (found,), truth in zip(
            decode_set(runtime, examples, listed), examples.captions, strict=True
        ):
            is_right = [spell(runtime.vocabulary.decode(one.tokens)) == truth for one in found]
            usual = [runtime.language.mean_log_probability(one.tokens) for one in found]
            for weight in WEIGHTS:
                scores = [one.score + weight * mean for one, mean in zip(found, usual, strict=True)]
                correct[weight] += is_right[max(range(len(scores)), key=scores.__getitem__)]
            in_list += any(is_right)
            count += 1
    return LanguageTrial(max(WEIGHTS, key=correct.__getitem__), correct, in_list, count)


def describe_trial(trial: LanguageTrial) -> str:
    """Return the results with each weight as text."""
    shares = ", ".join(
        f"{weight:g}: {100 * right / trial.images:.1f} %" for weight, right in trial.correct.items()
    )
    return (
        f"weight of the language model {trial.weight:g}; right with each weight: {shares} of "
        f"{trial.images}; in the list of {_LIST_LENGTH}: {100 * trial.in_list / trial.images:.1f} %"
    )
