"""Search with decoders of several tokens per step, against an enumeration of all hypotheses."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from posformer.search import DecodingOptions, search
from posformer.search.parallel import JointStepModel

SOS, EOS, SYMBOLS = 1, 2, 5  # ids 3 and 4 are symbols; 4 opens a second branch
_OPENS = 4


def next_inputs(inputs: tuple[int, ...], chosen: tuple[int, ...]) -> tuple[int, ...]:
    """Branches that have ended are dropped; a branch starts with `SOS`."""
    following: list[int] = []
    for token in chosen:
        if token != EOS:
            following += [token, SOS] if token == _OPENS else [token]
    return tuple(following)


class RandomBranches:
    """Log-probabilities that depend on the image, the inputs of a step and all inputs before."""

    def __init__(self, batch: int, seed: int) -> None:
        self.batch, self.seed, self.calls = batch, seed, 0

    def log_probs(self, image: int, history: tuple[tuple[int, ...], ...]) -> np.ndarray:
        rng = np.random.default_rng([self.seed, image, *(one for step in history for one in step)])
        logits = rng.normal(size=(len(history[-1]), SYMBOLS)) * 2
        logits[:, [0, SOS]] = -np.inf
        logits[:, EOS] += len(history)
        return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)

    def start(self):
        return tuple(((image, ()),) for image in range(self.batch))

    def step(self, tokens: np.ndarray, state):
        self.calls += 1
        output = np.full((*tokens.shape, SYMBOLS), -np.inf, np.float32)
        new = []
        for place, row in enumerate(state):
            beams = []
            for beam in range(tokens.shape[1]):
                image, history = row[beam if len(row) > 1 else 0]
                given = tuple(int(one) for one in tokens[place, beam] if one)
                history = (*history, given)
                output[place, beam, : len(given)] = self.log_probs(image, history)
                beams.append((image, history))
            new.append(tuple(beams))
        return output, tuple(new)

    def select(self, state, images, beams):
        return tuple(
            tuple(state[image][beam] for beam in chosen)
            for image, chosen in zip(images, beams, strict=True)
        )


def all_hypotheses(model: RandomBranches, image: int, longest: int):
    """Yield (steps, total) of every hypothesis with up to `longest` steps before the end."""
    open_ones = [((), (), (SOS,), 0.0)]
    while open_ones:
        steps, history, inputs, total = open_ones.pop()
        history = (*history, inputs)
        found = model.log_probs(image, history)
        yield steps, total + found[:, EOS].sum()
        if len(steps) == longest:
            continue
        for chosen in product((EOS, 3, _OPENS), repeat=len(inputs)):
            if any(token != EOS for token in chosen):
                added = sum(found[slot, token] for slot, token in enumerate(chosen))
                following = next_inputs(inputs, chosen)
                open_ones.append(((*steps, chosen), history, following, total + added))


@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_finds_the_best_hypothesis(seed: int) -> None:
    batch, longest = 2, 3
    model = RandomBranches(batch, seed)
    joint = JointStepModel(model, next_inputs, 400, SOS, EOS)
    options = DecodingOptions(
        beam=200, scales=1, max_length=longest, top_k=3, length_power=0, finished=200
    )
    options = replace(options.resolve("forward"), stopping="certain")
    found = search(joint, options, SOS, EOS, batch)
    for image, best in enumerate(found):
        expected = sorted(all_hypotheses(model, image, longest), key=lambda one: -one[1])[:3]
        assert [joint.steps(one.tokens) for one in best] == [steps for steps, _ in expected]
        assert [one.score for one in best] == pytest.approx([one for _, one in expected], abs=1e-4)


def test_greedy_search_takes_the_best_token_of_every_branch() -> None:
    model = RandomBranches(1, 28)
    joint = JointStepModel(model, next_inputs, 2, SOS, EOS)
    ((best,),) = search(joint, DecodingOptions(greedy=True, max_length=6), SOS, EOS, 1)
    steps, history, inputs, total = (), (), (SOS,), 0.0
    while len(steps) < 6:
        history = (*history, inputs)
        found = model.log_probs(0, history)
        chosen = tuple(found.argmax(axis=1).tolist())
        total += found.max(axis=1).sum()
        if set(chosen) == {EOS}:
            break
        steps, inputs = (*steps, chosen), next_inputs(inputs, chosen)
    assert joint.steps(best.tokens) == steps
    assert best.score * (len(steps) + 1) == pytest.approx(total, abs=1e-4)


def test_there_is_one_decoder_call_per_step() -> None:
    model = RandomBranches(1, 28)
    joint = JointStepModel(model, next_inputs, 2, SOS, EOS)
    ((best,),) = search(joint, DecodingOptions(greedy=True, max_length=6), SOS, EOS, 1)
    steps = joint.steps(best.tokens)
    assert model.calls == len(steps) + 1
    assert sum(len(step) for step in steps) > len(steps)


def test_a_hypothesis_can_be_cut_off() -> None:
    joint = JointStepModel(RandomBranches(1, 0), next_inputs, 2, SOS, EOS)
    options = DecodingOptions(beam=2, scales=1, max_length=1).resolve("forward")
    ((best, *_),) = search(joint, options, SOS, EOS, 1)
    assert len(best.tokens) <= 1 and math.isfinite(best.score)
