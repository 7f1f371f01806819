"""Position forest in training: nested level and relative position of the next symbol."""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor, nn

from posformer.models.model_config import PositionConfig

_Decode = Callable[[Tensor], Tensor]

RELATIVE_POSITIONS = ("<pad>", "<sos>", "<eos>", "M", "L", "R")  # by index


class PositionLogits(NamedTuple):
    """Logits for every step."""

    nested_levels: Tensor  # float (batch, directions, steps, levels)
    relative_positions: Tensor  # float (batch, directions, steps, positions)


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
        embedding: input width of those layers; 0 stands for `width`.
    """

    def __init__(
        self, config: PositionConfig, width: int, stack: nn.Module | None = None, embedding: int = 0
    ) -> None:
        super().__init__()
        self.form = config.form
        if config.form != "heads":
            size = embedding or width
            self.embed = nn.Sequential(
                nn.Linear(config.length, size), nn.GELU(), nn.LayerNorm(size)
            )
        self.stack: Any = stack
        self.level = _head(width, config.hidden, config.levels)
        # Named so in stored weights.
        self.letter = _head(width, config.hidden, len(RELATIVE_POSITIONS))

    def forward(
        self, states: Tensor, identifiers: Tensor | None = None, decode: _Decode | None = None
    ) -> PositionLogits:
        """Return logits for states (batch, directions, steps, width).

        Args:
            states: of the recognition decoder; only the form `heads` reads them.
            identifiers: float (batch, directions, steps, length), for the other forms.
            decode: returns the states of embedded identifiers, for the other forms.
        """
        if self.form != "heads":
            assert identifiers is not None, "this form of the position forest reads identifiers"
            assert decode is not None
            states = decode(self.embed(identifiers))
        return PositionLogits(self.level(states), self.letter(states))
