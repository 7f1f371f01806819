"""Small random decoders that can be searched exhaustively, and the plainest way to search them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

PAD, SOS, EOS = 0, 1, 2
FIRST_WORD = 3


@dataclass(frozen=True)
class Memory:
    images: np.ndarray  # which images are held
    hidden: np.ndarray | None  # (images, rows, size); None before the first token


class RandomDecoder:
    """A random recurrent network whose state is carried along."""

    def __init__(self, seed: int, images: int, words: int, sharpness: float = 2.0) -> None:
        rng = np.random.default_rng(seed)
        size = 12
        self.recurrent = rng.normal(0, 0.4, (size, size))
        self.embedding = rng.normal(0, 1, (FIRST_WORD + words, size))
        self.context = rng.normal(0, 1, (images, size))
        self.output = rng.normal(0, sharpness / np.sqrt(size), (size, FIRST_WORD + words))
        self.calls: list[tuple[int, ...]] = []

    @property
    def images(self) -> int:
        return len(self.context)

    def only(self, image: int) -> RandomDecoder:
        """The same network, holding one of its images."""
        alone = object.__new__(type(self))
        alone.__dict__ = {**self.__dict__, "context": self.context[[image]], "calls": []}
        return alone

    def start(self) -> Memory:
        return Memory(np.arange(self.images), None)

    def step(self, tokens: np.ndarray, state: Memory) -> tuple[np.ndarray, Memory]:
        self.calls.append(tokens.shape)
        images, rows, steps = tokens.shape
        assert images == len(state.images)
        hidden = state.hidden
        if hidden is None:
            hidden = np.zeros((images, rows, self.recurrent.shape[0]))
        assert hidden.shape[:2] == (images, rows)
        context = self.context[state.images][:, None]
        outputs = []
        for step in range(steps):
            hidden = np.tanh(hidden @ self.recurrent + self.embedding[tokens[..., step]] + context)
            outputs.append(hidden @ self.output)
        logits = np.stack(outputs, axis=2)
        normalizer = np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        return (logits - normalizer).astype(np.float32), Memory(state.images, hidden)

    def select(self, state: Memory, images: np.ndarray, rows: np.ndarray) -> Memory:
        return Memory(state.images[images], state.hidden[images[:, None], rows])


class ForgetfulDecoder:
    """The same network without a cache: its state is the prefix, read again at every step."""

    def __init__(self, decoder: RandomDecoder) -> None:
        self.decoder = decoder

    def start(self) -> tuple[np.ndarray, np.ndarray | None]:
        return np.arange(self.decoder.images), None

    def step(self, tokens: np.ndarray, state: tuple) -> tuple[np.ndarray, tuple]:
        images, prefix = state
        whole = tokens if prefix is None else np.concatenate([prefix, tokens], axis=-1)
        output, _ = self.decoder.step(whole, Memory(images, None))
        return output[:, :, -tokens.shape[-1] :], (images, whole)

    def select(self, state: tuple, images: np.ndarray, rows: np.ndarray) -> tuple:
        return state[0][images], state[1][images[:, None], rows]


def log_probabilities(model: RandomDecoder, image: int, prefix: tuple[int, ...]) -> np.ndarray:
    """Of what follows a prefix, start token included."""
    output, _ = model.step(np.array([[prefix]]), Memory(np.array([image]), None))
    return output[0, 0, -1].astype(float)


def score(
    model: RandomDecoder, image: int, tokens: tuple[int, ...], backward: bool, power: float = 1.0
) -> float:
    """Of a sequence in one direction, straight from the definition."""
    start, end = (EOS, SOS) if backward else (SOS, EOS)
    sequence = (start, *(reversed(tokens) if backward else tokens), end)
    output, _ = model.step(np.array([[sequence[:-1]]]), Memory(np.array([image]), None))
    gains = output[0, 0, np.arange(len(sequence) - 1), sequence[1:]].astype(float)
    return float(gains.sum() / (len(tokens) + 1) ** power)


def all_sequences(words: int, max_length: int) -> Iterator[tuple[int, ...]]:
    for length in range(max_length + 1):
        yield from itertools.product(range(FIRST_WORD, FIRST_WORD + words), repeat=length)


def plain_beam_search(
    model: RandomDecoder,
    image: int,
    backward: bool,
    beam: int,
    max_length: int,
    power: float,
    horizon: int | None,
) -> dict[tuple[int, ...], float]:
    """Beam search in lists, of one image in one direction; the `beam` best in reading order.

    It stops when no open beam, taken as if `horizon` tokens long (None: as long as it is), beats
    the worst finished hypothesis; with an endless horizon it never stops early.
    """
    start, end = (EOS, SOS) if backward else (SOS, EOS)
    beams = [((start,), 0.0)]
    finished: list[tuple[float, tuple[int, ...]]] = []
    for length in range(max_length + 1):
        candidates = []
        for prefix, total in beams:
            gains = log_probabilities(model, image, prefix)
            allowed = [word for word in range(len(gains)) if word not in (PAD, start)]
            if length == max_length:
                allowed = [end]
            candidates += [((*prefix, word), total + gains[word]) for word in allowed]
        candidates.sort(key=lambda item: -item[1])
        for words, total in candidates[:beam]:
            if words[-1] == end:
                finished.append((total / (length + 1) ** power, words[1:-1]))
        finished = sorted(finished, reverse=True)[:beam]
        beams = [item for item in candidates if item[0][-1] != end][:beam]
        if not beams:
            break
        reachable = beams[0][1] / float(length + 1 if horizon is None else horizon) ** power
        if len(finished) == beam and finished[-1][0] >= reachable:
            break
    return {(words[::-1] if backward else words): value for value, words in finished}
