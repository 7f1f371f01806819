"""Search for captions, whatever the decoder predicts."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from posformer.latex import Vocabulary, is_valid
from posformer.models.model_config import LINE_BREAK, LineDecoderConfig, ModelConfig
from posformer.models.target_coding import ParallelCoding, TargetCoding, open_target_coding
from posformer.runtime.engine import TreeScoring
from posformer.runtime.grammar_constraint import grammar_constraint
from posformer.search import (
    DecodingOptions,
    Hypothesis,
    LineTokens,
    Prior,
    StepModel,
    line_search,
    no_prior,
    search,
)
from posformer.search.parallel import JointStepModel

_Ids = tuple[int, ...]


def search_captions(
    model: StepModel[Any],
    config: ModelConfig,
    vocabulary: Vocabulary,
    options: DecodingOptions,
    limits: Sequence[int],
    prior: Prior = no_prior,
) -> list[list[Hypothesis]]:
    """Find the best captions of every expression; malformed ones rank last, if there are any.

    Args:
        model: The decoder, with its images encoded.
        config: Its config, which tells what it predicts.
        vocabulary: Vocabulary of the captions.
        options: How to search. `max_length` limits the tokens of captions.
        limits: Further limit of the tokens for each image in the model; see `search`.
        prior: Of the captions; only decoders of tokens have one.
    """
    decoder = config.decoder
    shorter = replace(options, max_length=min(options.max_length, max(limits, default=1)))
    if isinstance(decoder, LineDecoderConfig):
        return _search_lines(model, decoder, vocabulary, shorter, len(limits))
    coding = open_target_coding(config, vocabulary)
    if coding is not None:
        return _search_coded(model, coding, vocabulary, shorter, len(limits))

    scores_trees = isinstance(model, TreeScoring) and model.scores_trees
    if not scores_trees or options.greedy or not options.tree_weight:
        return _search_tokens(model, vocabulary, options, limits, prior)
    every = replace(options, top_k=max(options.top_k, options.beam))
    found = _search_tokens(model, vocabulary, every, limits, prior)
    assert isinstance(model, TreeScoring)
    return _rescored(found, model, options, lambda ids: _is_well_formed(ids, vocabulary))


def _search_tokens(
    model: StepModel[Any],
    vocabulary: Vocabulary,
    options: DecodingOptions,
    limits: Sequence[int],
    prior: Prior,
) -> list[list[Hypothesis]]:
    """Search with a decoder of tokens."""
    return search(
        model,
        options,
        vocabulary.sos,
        vocabulary.eos,
        len(limits),
        is_well_formed=lambda ids: _is_well_formed(ids, vocabulary),
        constraint=grammar_constraint(vocabulary) if options.constrained else None,
        limits=limits,
        prior=prior,
    )


def _search_lines(
    model: StepModel[Any],
    decoder: LineDecoderConfig,
    vocabulary: Vocabulary,
    options: DecodingOptions,
    batch: int,
) -> list[list[Hypothesis]]:
    """Search with a decoder of lines; well-formed hypotheses rank first."""
    line_break = vocabulary.index(LINE_BREAK) if LINE_BREAK in vocabulary else -1
    tokens = LineTokens(vocabulary.sos, vocabulary.eos, line_break, vocabulary.pad)
    found = line_search(model, tokens, decoder.lines, options, batch)
    for hypotheses in found:
        hypotheses.sort(key=lambda one: not _is_well_formed(one.tokens, vocabulary))
        del hypotheses[options.top_k :]
    return found


def _search_coded(
    model: StepModel[Any],
    coding: TargetCoding,
    vocabulary: Vocabulary,
    options: DecodingOptions,
    batch: int,
) -> list[list[Hypothesis]]:
    """Find the best steps of a target coding, and convert them to captions."""
    steps: Callable[[_Ids], Sequence[Any]] = tuple
    if isinstance(coding, ParallelCoding):
        width = 2 * max(options.beam, options.top_k)
        special = vocabulary.sos, vocabulary.eos
        model = joint = JointStepModel(model, coding.next_inputs, width, *special)
        steps = joint.steps

    @cache
    def caption(found: _Ids) -> _Ids:
        tokens = [one for one in coding.decode(steps(found)) if one in vocabulary]
        return tuple(vocabulary.encode(tokens[: options.max_length]))

    found = search(
        model,
        replace(options, max_length=coding.max_steps(options.max_length)),
        vocabulary.sos,
        vocabulary.eos,
        batch,
        is_well_formed=lambda ids: _is_well_formed(caption(ids), vocabulary),
    )
    captions: list[list[Hypothesis]] = []
    for best in found:
        distinct: dict[_Ids, Hypothesis] = {}  # different steps may have the same caption
        for one in best:
            distinct.setdefault(caption(one.tokens), replace(one, tokens=caption(one.tokens)))
        captions.append(list(distinct.values()))
    return captions


def _is_well_formed(ids: _Ids, vocabulary: Vocabulary) -> bool:
    return bool(ids) and is_valid(vocabulary.decode(ids))


def _rescored(
    found: Sequence[Sequence[Hypothesis]],
    model: TreeScoring,
    options: DecodingOptions,
    is_well_formed: Callable[[_Ids], bool],
) -> list[list[Hypothesis]]:
    """Rank hypotheses by their score plus that of their tree, well-formed ones first."""
    scales = options.scales
    trees = model.tree_scores(
        [[one.tokens for one in best] for best in found for _ in range(scales)]
    )
    ranked = []
    for number, best in enumerate(found):
        means = np.mean(trees[number * scales : (number + 1) * scales], axis=0)
        scored = [
            replace(one, score=one.score + options.tree_weight * float(mean))
            for one, mean in zip(best, means, strict=True)
        ]
        scored.sort(key=lambda one: (not is_well_formed(one.tokens), -one.score, one.tokens))
        ranked.append(scored[: options.top_k])
    return ranked
