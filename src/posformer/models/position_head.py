"""Position forest in training: nested level and relative position of the next symbol."""

from typing import NamedTuple

from torch import Tensor, nn

from posformer.models.model_config import PositionConfig

LETTERS = ("<pad>", "<sos>", "<eos>", "M", "L", "R")  # letters of position identifiers, by index


class PositionLogits(NamedTuple):
    """Logits for every step."""

    levels: Tensor  # float (batch, directions, steps, levels)
    letters: Tensor  # float (batch, directions, steps, letters)


def _head(width: int, hidden: int, classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))


class PositionHead(nn.Module):
    """Two classifiers over decoder states, with an embedding of identifiers where needed.

    The form `heads` reads the states of the recognition decoder. The forms `shared` and `separate`
    embed the position identifiers of the input tokens and run them through the layers of the
    recognition decoder or through layers of their own.

    Args:
        config: form and sizes.
        width: width of the states.
        stack: decoder layers for the form `separate`.
        embedding: input width of those layers; by default `width`.
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
            size = embedding or width
            self.embed = nn.Sequential(
                nn.Linear(config.length, size), nn.GELU(), nn.LayerNorm(size)
            )
        self.stack = stack
        self.level = _head(width, config.hidden, config.levels)
        self.letter = _head(width, config.hidden, len(LETTERS))

    def forward(self, states: Tensor) -> PositionLogits:
        """Return logits for states (batch, directions, steps, width)."""
        return PositionLogits(self.level(states), self.letter(states))
