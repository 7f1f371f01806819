"""The settings of a model. They travel with its weights, so nothing here needs PyTorch."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import dacite

from posformer.errors import PosformerError
from posformer.latex import is_structure

__all__ = [
    "ConfigError",
    "DecoderConfig",
    "EncoderConfig",
    "ModelConfig",
    "PictureConfig",
    "PositionConfig",
    "RefinementConfig",
    "from_dict",
]


class ConfigError(PosformerError):
    """A setting that is unknown, missing or of the wrong kind."""


@dataclass(frozen=True)
class PictureConfig:
    """The size in which a model is given its pictures."""

    scale: float = 1.0  # against CROHME's pictures
    margin: int | None = None  # pixels, before scaling, left around the ink; None: all there is
    max_pixels: int = 320_000  # larger pictures are made smaller


@dataclass(frozen=True)
class EncoderConfig:
    """A DenseNet-B whose feature map is 1/16 of the picture."""

    growth: int = 24  # channels a layer adds
    layers: tuple[int, ...] = (16, 16, 16)  # bottlenecks in each dense block
    dropout: float = 0.2  # behind each convolution
    mask_padding: bool = True  # padding is zero before every convolution that looks sideways


@dataclass(frozen=True)
class RefinementConfig:
    """Attention refinement; leaving structure tokens out is the implicit attention correction."""

    channels: int = 32  # of the 5x5 convolution over the attention of the past
    # Tokens whose attention is no coverage; None: all without ink, (): none, as in CoMER.
    structure: tuple[str, ...] | None = None
    masked_by: Literal["decoded", "fed"] = (
        "decoded"  # the authors' program masks by the token fed in
    )

    def leaves_out(self, token: str) -> bool:
        """Whether the attention of a token is no coverage."""
        return is_structure(token) if self.structure is None else token in self.structure


@dataclass(frozen=True)
class DecoderConfig:
    """A post-norm Transformer decoder over the cells of the feature map."""

    width: int = 256
    heads: int = 8
    layers: int = 3
    feedforward: int = 1024
    dropout: float = 0.3  # on residuals and inside the feed-forward part
    attention_dropout: float = 0.3  # on attention weights; costly on a CPU
    directions: Literal["both", "forward"] = "both"  # left to right only, or right to left as well
    refinement: RefinementConfig | None = field(default_factory=RefinementConfig)  # None is BTTR


@dataclass(frozen=True)
class PositionConfig:
    """The position forest: a second task in training, absent at inference."""

    form: Literal["separate", "shared", "heads"] = "shared"
    coding: Literal["paper", "authors"] = "paper"  # how identifiers are spelled
    levels: int = 5  # nested levels told apart; deeper ones count as the last
    length: int = 5  # letters of an identifier that are fed in
    hidden: int = 128  # width inside the two heads


@dataclass(frozen=True)
class ModelConfig:
    """A whole recogniser, its vocabulary apart."""

    name: str = "posformer"  # which architecture
    picture: PictureConfig = field(default_factory=PictureConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    position: PositionConfig | None = field(
        default_factory=PositionConfig
    )  # None: no position forest
    symbol_map: bool = False  # predict the symbol of each cell while training (needs ink)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON or YAML."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "ModelConfig":
        """The inverse of `to_dict`; raises ConfigError for a setting that does not exist."""
        return from_dict(cls, values)


def from_dict(kind: type[Any], values: dict[str, Any]) -> Any:
    """A dataclass from nested plain values, strictly: unknown names and wrong types are refused."""
    try:
        return dacite.from_dict(kind, values, dacite.Config(cast=[tuple, float], strict=True))
    except (dacite.DaciteError, ValueError, TypeError) as error:
        raise ConfigError(f"{kind.__name__}: {error}") from error
