"""The position forest in training: nested level and relative position of the next symbol."""

from typing import NamedTuple

from torch import Tensor, nn

from posformer.models.model_config import PositionConfig

__all__ = ["LETTERS", "PositionHead", "PositionLogits"]

LETTERS = ("<pad>", "<sos>", "<eos>", "M", "L", "R")  # of identifiers, by their number


class PositionLogits(NamedTuple):
    """Scores for every step."""

    levels: Tensor  # float (images, rows, steps, levels)
    letters: Tensor  # float (images, rows, steps, letters)


def _head(width: int, hidden: int, classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))


class PositionHead(nn.Module):
    """Two heads, and what they need in front of them in the chosen form.

    `heads` reads the recognition decoder's states; `shared` and `separate` embed the identifiers
    that are fed in and run them through the recognition decoder's layers or layers of their own.

    Args:
        config: the form, and how much is told apart.
        width: of the states that the heads read.
        stack: layers of a decoder of the model's own kind, for the form `separate`.
        embedding: width of what those layers are fed; by default that of the states.
    """

    def __init__(
        self,
        config: PositionConfig,
        width: int,
        stack: nn.Module | None = None,
        embedding: int | None = None,
    ) -> None:
        super().__init__()
        self.form = config.form
        if config.form != "heads":
            fed = embedding or width
            self.embed = nn.Sequential(nn.Linear(config.length, fed), nn.GELU(), nn.LayerNorm(fed))
        self.stack = stack
        self.level = _head(width, config.hidden, config.levels)
        self.letter = _head(width, config.hidden, len(LETTERS))

    def forward(self, states: Tensor) -> PositionLogits:
        """Scores from states (images, rows, steps, width)."""
        return PositionLogits(self.level(states), self.letter(states))
