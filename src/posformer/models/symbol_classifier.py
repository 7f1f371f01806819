"""Symbol classifier of WS-WAP: which symbols the image shows, learned from the caption alone.

Truong et al. (2020) pool the scores of the cells over the image. This module takes their maximum: a
symbol is present if at least one cell shows it. Tokens without ink are not in the set.
"""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posformer.latex import Vocabulary, is_structure
from posformer.models.base import SummedLoss
from posformer.models.encoder import Features

RARE = -5.0  # initial score of a symbol in a cell: most cells do not show it


def tokens_with_ink(vocabulary: Vocabulary) -> Tensor:
    """Return true for tokens with ink, bool (vocab_size)."""
    inked = [not is_structure(token) for token in vocabulary.tokens]
    return torch.tensor([False] * (len(vocabulary) - len(inked)) + inked)


class SymbolClassifier(nn.Module):
    """Scores of all symbols in every cell; only training needs them.

    Args:
        width: channels of the features.
        vocabulary: the tokens.
    """

    visible: Tensor  # bool (vocab_size): tokens with ink

    def __init__(self, width: int, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.predict = nn.Linear(width, len(vocabulary))
        nn.init.constant_(cast(Tensor, self.predict.bias), RARE)
        self.register_buffer("visible", tokens_with_ink(vocabulary), persistent=False)

    def forward(self, features: Features) -> Tensor:
        """Return a score for every token, float (batch, vocab_size)."""
        scores = self.predict(features.cells).masked_fill(features.padding[..., None], -1e4)
        return scores.flatten(1, 2).amax(1)

    def loss(self, features: Features, target_ids: Tensor) -> SummedLoss:
        """Return the binary cross-entropy, averaged over the tokens with ink.

        Args:
            features: of the images.
            target_ids: int64 (batch, directions, steps), negative after the end.
        """
        scores = self(features)
        present = torch.zeros_like(scores).scatter_(1, target_ids[:, 0].clamp(min=0), 1.0)
        losses = F.binary_cross_entropy_with_logits(
            scores[:, self.visible], present[:, self.visible], reduction="sum"
        )
        batch = torch.tensor(float(len(scores)), device=scores.device)
        return SummedLoss(losses / self.visible.sum(), batch)
