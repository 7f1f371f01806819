"""Options of the search, and its result."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal

from posformer.errors import ConfigError

Directions = Literal["both", "forward"]

SCALE_FACTORS = (1.0, 1.1, 0.9)  # image sizes of multi-scale decoding, in the order of use
_MIN_FINISHED = 3


@dataclass(frozen=True)
class DecodingOptions:
    """How to decode an image.

    The score of a hypothesis in one direction is the sum of its log-probabilities, end token
    included, divided by (tokens + 1) ** length_power.

    Raises:
        ConfigError: If a value is out of range, or `greedy` is combined with `top_k` > 1.
    """

    beam: int = 3  # beam width per image, scale and direction; at least `top_k` is used
    scales: int = 2  # image scales (test-time augmentation), 1 to 3; 1 when greedy
    # Search at one scale, from right to left greedily, and score the hypotheses at the other scales
    # only where others come near the best one. Applies to `top_k` 1, and to models with a margin
    # for it; all others are searched in both directions with all beams at all scales.
    adaptive: bool = True
    greedy: bool = False  # take the best token at each step, left to right, at one scale
    top_k: int = 1  # hypotheses returned per expression, best first
    directions: Directions = "both"  # a model trained in one direction always uses "forward"
    rescore: bool = True  # score each hypothesis in both directions; bidirectional models only
    # Decode only expressions that LaTeX accepts. Models that were imported from the checkpoints of
    # others decode as their authors' program does, whatever this is.
    constrained: bool = True
    max_length: int = 200  # maximum number of tokens, start and end excluded
    length_power: float = 1.0  # 0 ranks by the sum of log-probabilities, 1 by their mean
    finished: int | None = None  # finished hypotheses that end a search; None: max(3, top_k)
    # "likely" ends a search when no open beam scores better than the worst finished hypothesis;
    # "certain" only when none could, even with certain tokens up to max_length.
    stopping: Literal["likely", "certain"] = "likely"
    # Weight of the model's language model against the mean log-probabilities of both directions;
    # None: the one that `posformer calibrate` chose. Not used when greedy.
    language_weight: float | None = None
    # Weight of the tree score of finished hypotheses, for models that have one (TAMER); not used
    # when greedy.
    tree_weight: float = 1.0
    # Return the confidence and the alternatives of each symbol of the best hypothesis; costs one
    # more run of the encoder. Models that do not decode token by token have none.
    symbols: bool = False

    def __post_init__(self) -> None:
        for name in ("beam", "scales", "top_k", "max_length", "finished"):
            value = getattr(self, name)
            if name == "finished" and value is None:
                continue
            if not isinstance(value, Integral) or value < 1:
                raise ConfigError(f"{name} must be an integer of at least 1, not {value!r}")
        if self.scales > len(SCALE_FACTORS):
            raise ConfigError(f"scales must be at most {len(SCALE_FACTORS)}, not {self.scales}")
        if self.greedy and self.top_k > 1:
            raise ConfigError(f"greedy decoding has one result: top_k must be 1, not {self.top_k}")
        if not self.length_power >= 0:
            raise ConfigError(f"length_power must be at least 0, not {self.length_power}")
        if self.language_weight is not None and not self.language_weight >= 0:
            raise ConfigError(f"language_weight must be at least 0, not {self.language_weight}")
        if self.directions not in ("both", "forward"):
            raise ConfigError(f"directions must be 'both' or 'forward', not {self.directions!r}")
        if self.stopping not in ("likely", "certain"):
            raise ConfigError(f"stopping must be 'likely' or 'certain', not {self.stopping!r}")

    def resolve(self, model_directions: Directions = "both") -> DecodingOptions:
        """Return the options with every dependent value filled in.

        Args:
            model_directions: Directions that the model was trained in.
        """
        if self.greedy:
            return replace(
                self,
                beam=1,
                scales=1,
                adaptive=False,
                directions="forward",
                rescore=False,
                finished=1,
            )
        beam = max(self.beam, self.top_k)
        # Waiting for as many finished hypotheses as there are beams is slow and finds little more.
        finished = self.finished or min(beam, max(_MIN_FINISHED, self.top_k))
        options = replace(self, beam=beam, finished=finished)
        if model_directions == "forward":
            options = replace(options, directions="forward", rescore=False)
        needs = self.top_k == 1 and options.directions == "both" and options.rescore
        return replace(options, adaptive=self.adaptive and needs)

    @classmethod
    def override(cls, options: DecodingOptions | None, **changes: Any) -> DecodingOptions:
        """Return the options with some fields changed.

        Args:
            options: The options to start from; the defaults if None.
            **changes: Fields to change; `views` is a deprecated name of `scales`.
        """
        if options is not None and not isinstance(options, DecodingOptions):
            kind = type(options).__name__
            raise ConfigError(f"options must be a DecodingOptions, not {kind}")
        if "views" in changes:
            warnings.warn("views is now called scales", DeprecationWarning, stacklevel=2)
            changes["scales"] = changes.pop("views")
        return replace(options or cls(), **changes)


@dataclass(frozen=True)
class Hypothesis:
    """A token sequence found by the search."""

    tokens: tuple[int, ...]  # in reading order, without start and end
    score: float  # hypotheses are ranked by this, the prior included; higher is better
    forward: float | None  # left-to-right score, mean over the scales; None if not computed
    backward: float | None  # right-to-left score, likewise
