"""Parts that the tree decoders share: embedding, decisions about branches, checks of settings."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posformer.errors import ConfigError
from posformer.models.model_config import DecoderConfig, ModelConfig

NEVER = -1e4  # log-probability of a step that cannot follow; finite, so that losses stay finite


class SymbolEmbedding(nn.Module):
    """Embedding of tokens and of further ids behind them.

    The two are separate parameters, so that tokens keep theirs when the vocabulary grows; see
    `RecognitionModel.vocabulary_axes`.
    """

    def __init__(self, vocab_size: int, marks: int, width: int) -> None:
        super().__init__()
        self.tokens, self.marks = nn.Embedding(vocab_size, width), nn.Embedding(marks, width)

    def forward(self, ids: Tensor) -> Tensor:
        """Return embedded ids (…, width)."""
        return F.embedding(ids, torch.cat((self.tokens.weight, self.marks.weight)))


class SymbolClassifier(nn.Module):
    """Logits of tokens and of further symbols behind them."""

    def __init__(self, vocab_size: int, marks: int, width: int) -> None:
        super().__init__()
        self.tokens, self.marks = nn.Linear(width, vocab_size), nn.Linear(width, marks)

    def forward(self, states: Tensor) -> Tensor:
        """Return logits (…, vocab_size + marks)."""
        return torch.cat((self.tokens(states), self.marks(states)), -1)


class StructHead(nn.Module):
    """Decides on a symbol, or on `struct` and the set of branches that it opens.

    The probability of a set is the product of one sigmoid per relation, over all sets that are not
    empty.
    """

    bits: Tensor  # float (sets, relations): the relations of each set

    def __init__(self, vocab_size: int, relations: int, width: int) -> None:
        super().__init__()
        self.classify = SymbolClassifier(vocab_size, 2, width)  # tokens, blank, struct
        self.relate = nn.Linear(width, relations)
        self.register_buffer("bits", relation_bits(relations), persistent=False)

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-probabilities of tokens and blank (…, vocab_size + 1) and of all sets."""
        symbols = self.classify(states).log_softmax(-1)
        # A sum of logits, because log σ(x) - log σ(-x) = x: up to a constant, which the softmax
        # removes, this is the logarithm of the product of sigmoids.
        sets = (self.relate(states) @ self.bits.T).log_softmax(-1)
        return symbols[..., :-1], symbols[..., -1:] + sets


def relation_bits(relations: int) -> Tensor:
    """Return all sets of relations that are not empty, float (2 ** relations - 1, relations)."""
    numbers = torch.arange(1, 2**relations)
    return (numbers[:, None] >> torch.arange(relations) & 1).float()


def check_tree_settings(config: ModelConfig) -> None:
    """Raise ConfigError for settings that a tree decoder cannot have."""
    if config.position is not None:
        raise ConfigError(
            f"model.position: {config.name} decodes a tree, not a sequence with positions"
        )
    settings = config.decoder
    if settings.directions != "forward":
        raise ConfigError(f"decoder.directions: {config.name} decodes a tree, in one direction")
    if isinstance(settings, DecoderConfig) and settings.width % (4 * settings.heads):
        raise ConfigError(f"decoder.width {settings.width} is not a multiple of 4 · decoder.heads")
