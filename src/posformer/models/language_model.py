"""Language model of formulas: a Transformer that predicts the next token from those before it.

It is a part of RLFN, and rescores the n-best list of any model (`posformer evaluate
--language-model`). A folder holds its settings, tokens and weights.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from posformer.atomic import atomic_folder
from posformer.errors import ConfigError, ModelError
from posformer.latex import Vocabulary
from posformer.models.decoder import CausalLayer, LayerCache
from posformer.models.model_config import DecoderConfig, LanguageModelConfig, from_dict
from posformer.models.model_folder import VOCABULARY, WEIGHTS
from posformer.models.positional_encoding import token_positions

_CONFIG = "language_model.json"
_FORMAT = 1


class LanguageOutput(NamedTuple):
    """Output of the language model."""

    states: Tensor  # float (batch, beams, steps, width)
    logits: Tensor  # float (batch, beams, steps, vocab_size)
    cache: list[LayerCache]


class LanguageModel(nn.Module):
    """Token embedding, causal layers, and the linear head over the vocabulary."""

    # Parameters with one entry per token along their first axis.
    by_token = ("embed.weight", "head.weight", "head.bias")

    def __init__(self, config: LanguageModelConfig, vocab_size: int) -> None:
        super().__init__()
        if config.width % 4 or config.width % config.heads:
            raise ConfigError(f"language width {config.width}: not a multiple of 4 and of heads")
        self.config = config
        settings = DecoderConfig(
            width=config.width,
            heads=config.heads,
            feedforward=config.feedforward,
            dropout=config.dropout,
            attention_dropout=0.0,
        )
        self.embed = nn.Embedding(vocab_size, config.width)
        self.norm = nn.LayerNorm(config.width)
        self.layers = nn.ModuleList(CausalLayer(settings) for _ in range(config.layers))
        self.head = nn.Linear(config.width, vocab_size)

    def initial_cache(self, like: Tensor, beams: int) -> list[LayerCache]:
        """Return the cache before the first token, for tensors like one with an axis batch."""
        return [layer.initial_cache(like, beams) for layer in self.layers]  # type: ignore[operator]

    def forward(self, embedded: Tensor, cache: list[LayerCache] | None = None) -> LanguageOutput:
        """Predict the tokens that follow embedded ones.

        Args:
            embedded: float (batch, beams, steps, width), of tokens, or means over a distribution.
            cache: of earlier steps; None at the start.
        """
        start = cache[0].keys.shape[3] if cache else 0
        places = token_positions(start, embedded.shape[2], embedded.shape[3], embedded)
        states = self.norm(embedded + places)
        new_cache = []
        for number, layer in enumerate(self.layers):
            states, layer_cache = layer(states, cache[number] if cache else None)
            new_cache.append(layer_cache)
        return LanguageOutput(states, self.head(states), new_cache)


class LanguageScorer:
    """Scores token sequences with a trained language model.

    Args:
        model: the language model.
        vocabulary: its tokens.
    """

    def __init__(self, model: LanguageModel, vocabulary: Vocabulary) -> None:
        self.model, self.vocabulary = model.eval(), vocabulary

    @torch.inference_mode()
    def scores(self, sequences: Sequence[Sequence[str]]) -> list[float]:
        """Return the mean log-probability per token of each sequence, end token included.

        A token that the language model does not know counts as an even choice of all tokens.
        """
        known = self.vocabulary
        unknown = len(known)
        rows = [
            [known.index(token) if token in known else unknown for token in tokens]
            for tokens in sequences
        ]
        steps = 1 + max((len(row) for row in rows), default=0)
        targets = torch.full((len(rows), steps), -1)
        for number, row in enumerate(rows):
            targets[number, : len(row) + 1] = torch.tensor([*row, known.eos])
        starts = torch.full((len(rows), 1), known.sos)
        inputs = torch.cat((starts, targets[:, :-1]), 1)
        # After the end and for unknown tokens any input will do; padding is the least misleading.
        inputs = torch.where((inputs < 0) | (inputs == unknown), known.pad, inputs)
        logits = self.model(self.model.embed(inputs)[:, None]).logits[:, 0]
        even = logits.new_full((*logits.shape[:2], 1), -float(torch.tensor(unknown).log()))
        log_probs = torch.cat((logits.log_softmax(-1), even), -1)
        chosen = log_probs.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
        counted = targets >= 0
        means = (chosen * counted).sum(-1) / counted.sum(-1)
        return [float(mean) for mean in means]


def save_language_model(
    model: LanguageModel, vocabulary: Vocabulary, path: Path, info: dict[str, Any]
) -> None:
    """Write the folder of a language model; an existing one is replaced."""
    if path.exists() and any(path.iterdir()) and not (path / _CONFIG).exists():
        raise ModelError(f"{path}: not empty and not a language model; choose another path")
    content = {"format": _FORMAT, "config": asdict(model.config), "info": info}
    with atomic_folder(path) as fresh:
        vocabulary.save(fresh / VOCABULARY)
        weights = {name: value.contiguous() for name, value in model.state_dict().items()}
        save_file(weights, fresh / WEIGHTS)
        (fresh / _CONFIG).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def load_language_model(path: Path) -> tuple[LanguageModel, Vocabulary]:
    """Read the folder of a language model.

    Raises:
        ModelError: If it is not one.
    """
    try:
        content = json.loads((path / _CONFIG).read_text(encoding="utf-8"))
        config = from_dict(LanguageModelConfig, content["config"])
        vocabulary = Vocabulary.load(path / VOCABULARY)
        model = LanguageModel(config, len(vocabulary))
        model.load_state_dict(load_file(path / WEIGHTS))
    except OSError as error:
        raise ModelError(f"{path}: not a language model: {error.strerror or error}") from error
    except (ValueError, LookupError, TypeError, RuntimeError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(f"{path}: not a language model: {reason}") from error
    return model.eval(), vocabulary
