"""Small random decoders that can be searched exhaustively, and a reference beam search."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

PAD, SOS, EOS = 0, 1, 2
FIRST_TOKEN = 3


@dataclass(frozen=True)
class State:
    images: np.ndarray  # (batch,), indices of the images
    hidden: np.ndarray | None  # (batch, beams, size); None before the first token


class RandomDecoder:
    """A random recurrent decoder with a cached state."""

    def __init__(self, seed: int, batch: int, vocab_size: int, sharpness: float = 2.0) -> None:
        rng = np.random.default_rng(seed)
        size = 12
        self.recurrent = rng.normal(0, 0.4, (size, size))
        self.embedding = rng.normal(0, 1, (FIRST_TOKEN + vocab_size, size))
        self.context = rng.normal(0, 1, (batch, size))
        self.output = rng.normal(0, sharpness / np.sqrt(size), (size, FIRST_TOKEN + vocab_size))
        self.calls: list[tuple[int, ...]] = []

    @property
    def batch(self) -> int:
        return len(self.context)

    def only(self, image: int) -> RandomDecoder:
        """Return the same decoder with one of its images."""
        alone = object.__new__(type(self))
        alone.__dict__ = {**self.__dict__, "context": self.context[[image]], "calls": []}
        return alone

    def start(self) -> State:
        return State(np.arange(self.batch), None)

    def step(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        self.calls.append(tokens.shape)
        batch, beams, steps = tokens.shape
        assert batch == len(state.images)
        hidden = state.hidden
        if hidden is None:
            hidden = np.zeros((batch, beams, self.recurrent.shape[0]))
        assert hidden.shape[:2] == (batch, beams)
        context = self.context[state.images][:, None]
        outputs = []
        for step in range(steps):
            hidden = np.tanh(hidden @ self.recurrent + self.embedding[tokens[..., step]] + context)
            outputs.append(hidden @ self.output)
        logits = np.stack(outputs, axis=2)
        normalizer = np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        return (logits - normalizer).astype(np.float32), State(state.images, hidden)

    def select(self, state: State, images: np.ndarray, beams: np.ndarray) -> State:
        hidden = None if state.hidden is None else state.hidden[images[:, None], beams]
        return State(state.images[images], hidden)


class UncachedDecoder:
    """The same decoder without a cache: the state is the prefix, decoded again at every step."""

    def __init__(self, decoder: RandomDecoder) -> None:
        self.decoder = decoder

    def start(self) -> tuple[np.ndarray, np.ndarray | None]:
        return np.arange(self.decoder.batch), None

    def step(self, tokens: np.ndarray, state: tuple) -> tuple[np.ndarray, tuple]:
        images, prefix = state
        sequence = tokens if prefix is None else np.concatenate([prefix, tokens], axis=-1)
        output, _ = self.decoder.step(sequence, State(images, None))
        return output[:, :, -tokens.shape[-1] :], (images, sequence)

    def select(self, state: tuple, images: np.ndarray, beams: np.ndarray) -> tuple:
        prefix = None if state[1] is None else state[1][images[:, None], beams]
        return state[0][images], prefix


def log_probabilities(model: RandomDecoder, image: int, prefix: tuple[int, ...]) -> np.ndarray:
    """Return the log-probabilities of the token after a prefix, start token included."""
    output, _ = model.step(np.array([[prefix]]), State(np.array([image]), None))
    return output[0, 0, -1].astype(float)


def score(
    model: RandomDecoder, image: int, tokens: tuple[int, ...], backward: bool, power: float = 1.0
) -> float:
    """Return the score of a sequence in one direction, straight from the definition."""
    start, end = (EOS, SOS) if backward else (SOS, EOS)
    sequence = (start, *(reversed(tokens) if backward else tokens), end)
    output, _ = model.step(np.array([[sequence[:-1]]]), State(np.array([image]), None))
    log_probability = output[0, 0, np.arange(len(sequence) - 1), sequence[1:]].astype(float)
    return float(log_probability.sum() / (len(tokens) + 1) ** power)


def all_sequences(vocab_size: int, max_length: int) -> Iterator[tuple[int, ...]]:
    for length in range(max_length + 1):
        yield from itertools.product(range(FIRST_TOKEN, FIRST_TOKEN + vocab_size), repeat=length)


def reference_beam_search(
    model: RandomDecoder,
    image: int,
    backward: bool,
    beam: int,
    max_length: int,
    power: float,
    horizon: int | None,
) -> dict[tuple[int, ...], float]:
    """Search one image in one direction; return the `beam` best sequences in reading order.

    The search stops when no open beam scores better than the worst finished hypothesis, with its
    total divided by `horizon` tokens (None: its length). A huge horizon never stops early.
    """
    start, end = (EOS, SOS) if backward else (SOS, EOS)
    beams = [((start,), 0.0)]
    finished: list[tuple[float, tuple[int, ...]]] = []
    for length in range(max_length + 1):
        candidates = []
        for prefix, total in beams:
            output = log_probabilities(model, image, prefix)
            allowed = [token for token in range(len(output)) if token not in (PAD, start)]
            if length == max_length:
                allowed = [end]
            candidates += [((*prefix, token), total + output[token]) for token in allowed]
        candidates.sort(key=lambda item: -item[1])
        for tokens, total in candidates[:beam]:
            if tokens[-1] == end:
                finished.append((total / (length + 1) ** power, tokens[1:-1]))
        finished = sorted(finished, reverse=True)[:beam]
        beams = [item for item in candidates if item[0][-1] != end][:beam]
        if not beams:
            break
        reachable = beams[0][1] / float(length + 1 if horizon is None else horizon) ** power
        if len(finished) == beam and finished[-1][0] >= reachable:
            break
    return {(tokens[::-1] if backward else tokens): value for value, tokens in finished}
