"""What to search for, and what is found."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["DecodingOptions", "Hypothesis"]


@dataclass(frozen=True)
class DecodingOptions:
    """How wide, how long and in which directions to search.

    The score of a hypothesis in one direction is the sum of its log-probabilities, end included,
    over (tokens + 1) ** length_power: the mean log-probability when the power is 1.
    """

    beam: int = 10  # open hypotheses for each image and direction
    directions: Literal["both", "forward"] = "both"  # in which hypotheses are looked for
    max_length: int = 200  # tokens of the longest hypothesis, start and end not counted
    length_power: float = 1.0  # 0 compares sums, 1 compares means
    rescore: bool = True  # add the score that the other direction gives
    top_k: int = 1  # hypotheses returned for each image
    finished: int | None = None  # hypotheses a direction keeps, and has before it stops; None: beam
    views: int = 1  # images of the model, one behind the other, that show the same expression
    # "likely" stops when the best open beam scores, as it stands, no better than the worst kept
    # hypothesis; "certain" only when it could not even by certain words up to max_length.
    stopping: Literal["likely", "certain"] = "likely"

    def __post_init__(self) -> None:
        for name in ("beam", "max_length", "top_k", "finished", "views"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        if self.length_power < 0:
            raise ValueError(f"length_power must not be negative, not {self.length_power}")
        if self.directions not in ("both", "forward"):
            raise ValueError(f"directions must be both or forward, not {self.directions!r}")
        if self.stopping not in ("likely", "certain"):
            raise ValueError(f"stopping must be likely or certain, not {self.stopping!r}")

    @property
    def is_greedy(self) -> bool:
        """Whether the best word at every step is all that is asked for."""
        return (
            self.beam == 1
            and self.directions == "forward"
            and not self.rescore
            and self.stopping == "likely"
            and self.finished in (None, 1)
        )


@dataclass(frozen=True)
class Hypothesis:
    """A token sequence that a search found."""

    tokens: tuple[int, ...]  # in reading order, without start and end
    score: float  # what hypotheses are ranked by; higher is better
    forward: float | None  # score from left to right, mean of the views; None when not computed
    backward: float | None  # likewise from right to left
