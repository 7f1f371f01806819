"""Training of the language model on formula texts."""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from posformer.errors import ConfigError, DataError
from posformer.latex import Vocabulary
from posformer.models.base import RecognitionModel
from posformer.models.checkpoint import copy_tokens
from posformer.models.language_model import LanguageModel, load_language_model, save_language_model
from posformer.models.model_config import LanguageModelConfig
from posformer.models.rlfn import Rlfn
from posformer.synthesis.texts import TextCorpus, load_texts
from posformer.training.callbacks import say

_HELD_OUT = 100
_CHUNK = 4096  # texts that are sorted by length together
_IGNORED = -100


@dataclass(frozen=True)
class LanguageTraining:
    """Settings of a run."""

    minutes: float = 20.0  # CPU time
    batch_tokens: int = 4000
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    max_tokens: int = 60  # longer texts are dropped
    seed: int = 0


def train_language_model(
    files: Sequence[Path],
    vocabulary: Vocabulary,
    output: Path,
    config: LanguageModelConfig,
    settings: LanguageTraining,
    held_out: Iterable[Sequence[str]] = (),
) -> float:
    """Train a language model and write its folder.

    Texts that are kept for validation (`is_validation_text`) are never trained on. They measure
    the perplexity; if there are none, every hundredth text does.

    Args:
        files: Formula corpora; see `posformer.synthesis.texts`.
        vocabulary: Tokens; texts with others are dropped.
        output: The folder.
        config: Sizes of the model.
        settings: Length of the run, learning rate and more.
        held_out: Texts that must not occur, such as those of validation and test sets.

    Returns:
        The perplexity per token on texts that are kept for validation.
    """
    forbidden = list(held_out)
    corpus = load_texts(
        files, vocabulary.tokens, held_out=forbidden, max_tokens=settings.max_tokens
    )
    train = _encode(corpus, vocabulary)
    validation = _validation_texts(files, vocabulary, forbidden, settings.max_tokens)
    if not validation:  # a small corpus
        validation, train = (
            train[::_HELD_OUT],
            [text for number, text in enumerate(train) if number % _HELD_OUT],
        )
    torch.manual_seed(settings.seed)
    model = LanguageModel(config, len(vocabulary))
    say(f"{corpus.dropped} texts of {len(forbidden)} held-out expressions dropped")
    say(f"{len(train)} texts, {sum(weight.numel() for weight in model.parameters())} parameters")
    seen = _fit(model, train, settings)
    perplexity = _perplexity(model, validation, settings.batch_tokens)
    say(f"{seen} texts seen, perplexity of {len(validation)} validation texts: {perplexity:.2f}")
    info: dict[str, Any] = {
        "texts": [file.name for file in files],
        "dropped": corpus.dropped,
        "seen": seen,
        "perplexity": round(perplexity, 3),
        "minutes": settings.minutes,
    }
    save_language_model(model, vocabulary, output, info)
    return perplexity


def take_language_model(model: RecognitionModel, path: Path) -> None:
    """Copy a trained language model into a recognizer, token by token.

    Raises:
        ConfigError: If the recognizer has none, or one of another size.
    """
    if not isinstance(model, Rlfn):
        raise ConfigError(f"language_model: {model.config.name} has no language model")
    trained, vocabulary = load_language_model(path)
    if trained.config != model.language.config:
        raise ConfigError(f"language_model: {path} has other sizes than model.decoder.language")
    source = trained.state_dict()
    for name, target in model.language.state_dict().items():
        if name in LanguageModel.by_token:
            copy_tokens(target, source[name], model.vocabulary, vocabulary)
        else:
            target.copy_(source[name])


def _validation_texts(
    files: Sequence[Path],
    vocabulary: Vocabulary,
    forbidden: Iterable[Sequence[str]],
    max_tokens: int,
) -> list[np.ndarray]:
    try:
        corpus = load_texts(
            files,
            vocabulary.tokens,
            held_out=forbidden,
            validation=True,
            max_tokens=max_tokens,
        )
    except DataError:
        return []
    return _encode(corpus, vocabulary)


def _encode(corpus: TextCorpus, vocabulary: Vocabulary) -> list[np.ndarray]:
    """Return the token ids of each text, int16 (length,)."""
    ids = np.array(vocabulary.encode(corpus.tokens), np.int16)[corpus.indices]
    return np.split(ids, corpus.starts[1:-1])


def _fit(model: LanguageModel, texts: list[np.ndarray], settings: LanguageTraining) -> int:
    """Train for the given CPU time; return the number of texts seen."""
    optimizer = torch.optim.AdamW(
        model.parameters(), settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )
    began, spent, seen, reported = time.process_time(), 0.0, 0, 0.0
    model.train()
    for inputs, targets in _batches(texts, settings):
        done = min(spent / settings.minutes, 1.0)
        rate = settings.learning_rate * min(1.0, 0.02 + 50 * done) * math.cos(math.pi / 2 * done)
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = _loss(model, inputs, targets, "mean")
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seen += len(inputs)
        spent = (time.process_time() - began) / 60
        if spent - reported >= 1:
            reported = spent
            say(f"{spent:.0f} CPU minutes, {seen} texts, loss {loss.item():.3f}")
        if spent >= settings.minutes:
            break
    return seen


def _batches(
    texts: list[np.ndarray], settings: LanguageTraining
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of texts of similar length, without end."""
    rng = np.random.default_rng(settings.seed)
    while True:
        order = rng.permutation(len(texts))
        for start in range(0, len(order), _CHUNK):
            chunk = sorted(order[start : start + _CHUNK], key=lambda number: len(texts[number]))
            groups = list(_groups([texts[number] for number in chunk], settings.batch_tokens))
            for number in rng.permutation(len(groups)):
                yield _padded(groups[number])


def _groups(texts: list[np.ndarray], batch_tokens: int) -> Iterator[list[np.ndarray]]:
    """Yield consecutive texts, sorted by length, that fit into a batch."""
    group: list[np.ndarray] = []
    for text in texts:
        if group and (len(group) + 1) * (len(text) + 1) > batch_tokens:
            yield group
            group = []
        group.append(text)
    if group:
        yield group


def _padded(texts: list[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Return input and target ids, int64 (batch, steps)."""
    steps = 1 + max(len(text) for text in texts)
    inputs = np.full((len(texts), steps), Vocabulary.pad, np.int64)
    targets = np.full((len(texts), steps), _IGNORED, np.int64)
    for number, text in enumerate(texts):
        inputs[number, 0], inputs[number, 1 : len(text) + 1] = Vocabulary.sos, text
        targets[number, : len(text)], targets[number, len(text)] = text, Vocabulary.eos
    return torch.from_numpy(inputs), torch.from_numpy(targets)


def _loss(model: LanguageModel, inputs: Tensor, targets: Tensor, reduction: str) -> Tensor:
    logits = model(model.embed(inputs)[:, None]).logits
    return F.cross_entropy(logits.flatten(0, 2), targets.flatten(), reduction=reduction)


@torch.inference_mode()
def _perplexity(model: LanguageModel, texts: list[np.ndarray], batch_tokens: int) -> float:
    model.eval()
    total, tokens = 0.0, 0
    for group in _groups(sorted(texts, key=len), batch_tokens):
        inputs, targets = _padded(group)
        total += float(_loss(model, inputs, targets, "sum"))
        tokens += int((targets != _IGNORED).sum())
    return math.exp(total / max(tokens, 1))
