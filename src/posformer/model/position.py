"""The position forest in training: nested level and relative position of the next symbol."""

from typing import NamedTuple

from torch import Tensor, nn

from posformer.model.config import DecoderConfig, PositionConfig
from posformer.model.decoder import DecoderStack

__all__ = ["LETTERS", "PositionHead", "PositionLogits"]

LETTERS = ("<pad>", "<sos>", "<eos>", "M", "L", "R")  # of identifiers, by their number


class PositionLogits(NamedTuple):
    """Scores for every step."""

    levels: Tensor  # float (pictures, rows, steps, levels)
    letters: Tensor  # float (pictures, rows, steps, letters)


def _head(width: int, hidden: int, classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))


class PositionHead(nn.Module):
    """Two heads, and what they need in front of them in the chosen form.

    `heads` reads the recognition decoder's states; `shared` and `separate` embed the identifiers
    that are fed in and run them through the recognition decoder's layers or layers of their own.
    """

    def __init__(self, config: PositionConfig, decoder: DecoderConfig) -> None:
        super().__init__()
        self.form = config.form
        width = decoder.width
        if config.form != "heads":
            self.embed = nn.Sequential(
                nn.Linear(config.length, width), nn.GELU(), nn.LayerNorm(width)
            )
        self.stack = DecoderStack(decoder) if config.form == "separate" else None
        self.level = _head(width, config.hidden, config.levels)
        self.letter = _head(width, config.hidden, len(LETTERS))

    def forward(self, states: Tensor) -> PositionLogits:
        """Scores from states (pictures, rows, steps, width)."""
        return PositionLogits(self.level(states), self.letter(states))
