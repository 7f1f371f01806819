"""Config of a model. It is stored with the weights, so nothing here needs PyTorch."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypeVar

import dacite

from posformer.errors import ConfigError
from posformer.latex import is_structure
from posformer.models.legacy import current_model_settings

__all__ = [
    "STRIDE",
    "CountingDecoderConfig",
    "DecoderConfig",
    "EncoderConfig",
    "ImageConfig",
    "ModelConfig",
    "MutualDecoderConfig",
    "OwnDecoderConfig",
    "PositionConfig",
    "RecurrentDecoderConfig",
    "RefinementConfig",
    "from_dict",
]

STRIDE = 16  # pixels per cell of the feature map, in both directions

Directions = Literal["both", "forward"]  # left to right only, or right to left as well
_Kind = TypeVar("_Kind")


@dataclass(frozen=True)
class ImageConfig:
    """The size in which a model is given its images."""

    scale: float = 1.0  # against CROHME's images
    margin: int | None = None  # pixels, before scaling, left around the ink; None: all there is
    max_pixels: int = 320_000  # larger images are made smaller


@dataclass(frozen=True)
class EncoderConfig:
    """A DenseNet-B whose feature map is 1/16 of the image."""

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
    # Which step a structure token leaves out: the one that decodes it, or the one whose input it
    # is, as in the authors' program.
    masked_by: Literal["decoded", "input"] = "decoded"

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
    directions: Directions = "both"
    refinement: RefinementConfig | None = field(default_factory=RefinementConfig)  # None is BTTR

    @property
    def trained_directions(self) -> Directions:
        """Which rows a training batch holds for each image."""
        return self.directions

    def describe(self) -> str:
        """In a few words."""
        return f"Transformer, width {self.width}, {self.layers} layers"


@dataclass(frozen=True)
class RecurrentDecoderConfig:
    """Two GRU cells around an attention that knows what it has covered: DWAP."""

    width: int = 256  # of the states
    embedding: int = 256  # width of a symbol that is fed in
    attention: int = 512  # width in which states, cells and coverage are compared
    coverage: tuple[int, ...] = (11,)  # kernels of the convolutions over the summed attention
    positions: bool = False  # whether the attention also knows where a cell is
    dropout: float = 0.2  # in front of the linear layer over the vocabulary
    directions: Literal["forward"] = "forward"

    @property
    def trained_directions(self) -> Directions:
        """Which rows a training batch holds for each image."""
        return "forward"

    @property
    def refinement(self) -> None:
        """None: what was covered goes into the attention itself."""

    def describe(self) -> str:
        """In a few words."""
        return f"GRU, width {self.width}"


@dataclass(frozen=True)
class MutualDecoderConfig(RecurrentDecoderConfig):
    """Two such decoders in opposite directions that learn from each other: ABM."""

    coverage: tuple[int, ...] = (5, 11)  # attention aggregation: near and far
    temperature: float = 2.0  # at which the two distributions are compared

    @property
    def trained_directions(self) -> Directions:
        """Which rows a training batch holds for each image."""
        return "both"


@dataclass(frozen=True)
class CountingDecoderConfig(RecurrentDecoderConfig):
    """Such a decoder that is told how often each symbol occurs: CAN."""

    positions: bool = True
    dropout: float = 0.5
    counting: tuple[int, ...] = (3, 5)  # kernels of the branches that count
    counting_channels: int = 512
    counting_reduction: int = 16  # of the channels inside the channel attention


@dataclass(frozen=True)
class OwnDecoderConfig:
    """Settings of a model that is not of this package."""

    directions: Directions = "forward"
    settings: dict[str, Any] = field(default_factory=dict)  # whatever the model reads

    @property
    def trained_directions(self) -> Directions:
        """Which rows a training batch holds for each image."""
        return self.directions

    @property
    def refinement(self) -> None:
        """None: nothing is known of it."""

    def describe(self) -> str:
        """In a few words."""
        return ", ".join(f"{name} {value}" for name, value in self.settings.items()) or "its own"


AnyDecoderConfig = DecoderConfig | RecurrentDecoderConfig | OwnDecoderConfig

_DECODERS: dict[str, type[AnyDecoderConfig]] = {
    "posformer": DecoderConfig,
    "dwap": RecurrentDecoderConfig,
    "abm": MutualDecoderConfig,
    "can": CountingDecoderConfig,
}


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
    """A whole recognizer, its vocabulary apart."""

    name: str = "posformer"  # which architecture; `package.module:Class` for one of your own
    image: ImageConfig = field(default_factory=ImageConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: AnyDecoderConfig = field(default_factory=DecoderConfig)  # of the kind `name` asks for
    # None: no position forest, as in all architectures but PosFormer unless one is asked for. The
    # form alone stands for the rest: `position: heads`.
    position: PositionConfig | None = field(default_factory=PositionConfig)
    symbol_map: bool = False  # predict the symbol of each cell while training (needs ink)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON or YAML."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ModelConfig":
        """The inverse of `to_dict`; raises ConfigError for a setting that does not exist."""
        model: ModelConfig = from_dict(cls, _with_decoder(values))
        return model

    def decoder_as(self, kind: type[_Kind]) -> _Kind:
        """The settings of the decoder as a model of this kind reads them.

        A model of your own may build on one of the package's: it then has its settings in
        `decoder.settings`.
        """
        if isinstance(self.decoder, kind):
            return self.decoder
        if not isinstance(self.decoder, OwnDecoderConfig):
            raise ConfigError(f"model.decoder: {self.name} reads a {kind.__name__}")
        known = {item.name for item in fields(kind)}  # type: ignore[arg-type]
        told = {"directions": self.decoder.directions} if "directions" in known else {}
        made: _Kind = from_dict(kind, {**told, **self.decoder.settings})
        return made


def _with_decoder(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a model with its decoder's of the right kind, and short forms written out."""
    result = current_model_settings(values)
    name = str(result.get("name", "posformer"))
    if name not in _DECODERS and ":" not in name:
        raise ConfigError(
            f"model.name: there is no {name!r}; there are {', '.join(_DECODERS)}, and "
            "'package.module:Class' for your own"
        )
    kind = _DECODERS.get(name, OwnDecoderConfig)
    decoder = result.get("decoder", {})
    if isinstance(decoder, Mapping):
        result["decoder"] = from_dict(kind, dict(decoder))
    if isinstance(result.get("position"), str):
        result["position"] = {"form": result["position"]}
    elif name != "posformer":
        result.setdefault("position", None)
    return result


def from_dict(kind: type[Any], values: dict[str, Any]) -> Any:
    """A dataclass from nested plain values, strictly: unknown names and wrong types are refused."""
    hooks: dict[type[Any], Callable[[Any], Any]] = {ModelConfig: _as_model}
    rules = dacite.Config(cast=[tuple, float], strict=True, type_hooks=hooks)
    try:
        return dacite.from_dict(kind, values, rules)
    except (dacite.DaciteError, ValueError, TypeError) as error:
        raise ConfigError(f"{kind.__name__}: {error}") from error


def _as_model(values: Any) -> Any:
    return ModelConfig.from_dict(values) if isinstance(values, Mapping) else values
