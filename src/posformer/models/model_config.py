"""Config of a model. It is stored with the weights, so nothing here needs PyTorch."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Literal, TypeVar

import dacite

from posformer.errors import ConfigError
from posformer.image.preparation import Preprocessing
from posformer.latex import is_structure
from posformer.models.legacy import current_settings

STRIDE = 16  # pixels per cell of the feature map, in both directions
LINE_BREAK = "\\\\"  # the token between lines

Directions = Literal["both", "forward"]  # left to right only, or right to left as well
_Kind = TypeVar("_Kind")

_MAX_SIZE = 65_536  # of anything that the weights grow with


def _check(name: str, value: float, low: float = 1, high: float = _MAX_SIZE) -> None:
    """Raise an error for a value out of range; a model folder may come from anywhere."""
    if not low <= value <= high:
        raise ConfigError(f"model.{name}: {value} is not between {low} and {high}")


@dataclass(frozen=True)
class ImageConfig:
    """Size and preparation of the input images."""

    scale: float = 1.0  # relative to the images of CROHME
    margin: int | None = None  # pixels around the ink before scaling; None keeps the whole image
    max_pixels: int = 320_000  # larger images are shrunk
    preprocessing: Preprocessing = "binary"  # of photographs and scans, as in training

    def __post_init__(self) -> None:
        """Check the values."""
        _check("image.scale", self.scale, 0.01, 100)
        _check("image.margin", self.margin or 0, 0, 10_000)
        _check("image.max_pixels", self.max_pixels, STRIDE**2, 10**9)


@dataclass(frozen=True)
class EncoderConfig:
    """DenseNet-B with a feature map of 1/16 of the image size."""

    growth: int = 24  # channels that each layer adds
    layers: tuple[int, ...] = (16, 16, 16)  # bottlenecks in each dense block
    dropout: float = 0.2  # after each convolution
    mask_padding: bool = True  # set padding to zero before every 3×3 convolution

    def __post_init__(self) -> None:
        """Check the values."""
        _check("encoder.growth", self.growth)
        for number in self.layers:
            _check("encoder.layers", number)
        _check("encoder.dropout", self.dropout, 0, 1)


@dataclass(frozen=True)
class RefinementConfig:
    """Attention refinement; leaving out structure tokens is implicit attention correction."""

    channels: int = 32  # of the 5×5 convolution over the coverage
    # Tokens whose attention does not count as coverage; None: all without ink, (): none, as in
    # CoMER.
    structure: tuple[str, ...] | None = None
    # Which step a structure token leaves out: the one that decodes it, or the one whose input it
    # is, as in the authors' program.
    masked_by: Literal["decoded", "input"] = "decoded"

    def leaves_out(self, token: str) -> bool:
        """Return whether the attention of a token does not count as coverage."""
        return is_structure(token) if self.structure is None else token in self.structure


@dataclass(frozen=True)
class DecoderConfig:
    """Post-norm Transformer decoder over the cells of the feature map."""

    width: int = 256
    heads: int = 8
    layers: int = 3
    feedforward: int = 1024
    dropout: float = 0.3  # on residuals and inside the feed-forward part
    attention_dropout: float = 0.3  # on attention weights; costly on a CPU
    directions: Directions = "both"
    refinement: RefinementConfig | None = field(default_factory=RefinementConfig)  # None is BTTR

    targets: ClassVar[str | None] = None  # class of the target coding; None: tokens of captions

    def __post_init__(self) -> None:
        """Check the values."""
        for name in ("width", "heads", "layers", "feedforward"):
            _check(f"decoder.{name}", getattr(self, name))
        for name in ("dropout", "attention_dropout"):
            _check(f"decoder.{name}", getattr(self, name), 0, 1)

    @property
    def trained_directions(self) -> Directions:
        """Directions of a training batch."""
        return self.directions

    def describe(self) -> str:
        """Return a short description."""
        return f"Transformer, width {self.width}, {self.layers} layers"


@dataclass(frozen=True)
class LineDecoderConfig(DecoderConfig):
    """LAST: such a decoder that decodes all lines of an expression at once."""

    refinement: RefinementConfig | None = None
    lines: int = 16  # longest expression; further lines share the embedding of the last


@dataclass(frozen=True)
class RecurrentDecoderConfig:
    """DWAP: two GRU cells around an attention with coverage."""

    width: int = 256  # of the states
    embedding: int = 256  # width of an embedded token
    attention: int = 512  # width of the additive attention
    heads: int = 1  # of the attention, each with its own coverage
    layers: int = 1  # of GRU cells and attention, stacked
    coverage: tuple[int, ...] = (11,)  # kernel sizes of the convolutions over the coverage
    positions: bool = False  # add cell positions to the keys
    dropout: float = 0.2  # before the linear layer over the vocabulary
    drop_attention: float = 0.0  # probability of dropping the most attended cells in training
    symbol_classifier: bool = False  # predict the set of symbols of the image in training
    directions: Literal["forward"] = "forward"

    def __post_init__(self) -> None:
        """Check the values."""
        for name in ("width", "embedding", "attention"):
            _check(f"decoder.{name}", getattr(self, name))
        for size in self.coverage:
            _check("decoder.coverage", size)
        _check("decoder.dropout", self.dropout, 0, 1)

    trained_directions: ClassVar[Directions] = "forward"  # directions of a training batch
    refinement: ClassVar[None] = None  # the attention reads the coverage itself
    targets: ClassVar[str | None] = None  # class of the target coding; None: tokens of captions

    def describe(self) -> str:
        """Return a short description."""
        layers = f", {self.layers} layers" if self.layers > 1 else ""
        return f"GRU, width {self.width}{layers}"


@dataclass(frozen=True)
class MutualDecoderConfig(RecurrentDecoderConfig):
    """ABM: two such decoders in opposite directions that learn from each other."""

    coverage: tuple[int, ...] = (5, 11)  # attention aggregation
    temperature: float = 2.0  # of the mutual loss

    trained_directions: ClassVar[Directions] = "both"


@dataclass(frozen=True)
class CountingDecoderConfig(RecurrentDecoderConfig):
    """CAN: such a decoder that also reads how often each symbol occurs."""

    positions: bool = True
    dropout: float = 0.5
    counting: tuple[int, ...] = (3, 5)  # kernel sizes of the counting branches
    counting_channels: int = 512
    counting_reduction: int = 16  # of the channels inside the channel attention


@dataclass(frozen=True)
class DistributionDecoderConfig(RecurrentDecoderConfig):
    """SSAN: such a decoder on an encoder that learns where the symbols are."""

    distribution_hidden: int = 256  # width inside the head of the distribution map


@dataclass(frozen=True)
class LanguageModelConfig:
    """Language model: a causal Transformer over tokens."""

    width: int = 256
    heads: int = 8
    layers: int = 3
    feedforward: int = 1024
    dropout: float = 0.1


@dataclass(frozen=True)
class FusionDecoderConfig(RecurrentDecoderConfig):
    """RLFN: such a decoder, fused with a language model."""

    language: LanguageModelConfig = field(default_factory=LanguageModelConfig)


@dataclass(frozen=True)
class SanDecoderConfig(RecurrentDecoderConfig):
    """SAN: such a decoder over the symbol layout tree."""

    targets: ClassVar[str | None] = "posformer.models.san_targets:SanTargets"


@dataclass(frozen=True)
class TsdnetDecoderConfig(DecoderConfig):
    """TSDNet: two Transformer decoders over the nodes of the symbol layout tree."""

    layers: int = 3  # of each decoder
    directions: Directions = "forward"
    refinement: RefinementConfig | None = None
    hops: int = 2  # self-attention sees nodes up to this distance in the tree

    targets: ClassVar[str | None] = "posformer.models.tsdnet_targets:TsdnetTargets"


@dataclass(frozen=True)
class BpdDecoderConfig(DecoderConfig):
    """BPD: a Transformer decoder of the branches of the symbol layout tree, in parallel."""

    directions: Directions = "forward"
    # None is BPD without coverage.
    refinement: RefinementConfig | None = field(
        default_factory=lambda: RefinementConfig(structure=())
    )

    targets: ClassVar[str | None] = "posformer.models.bpd_targets:BpdTargets"


@dataclass(frozen=True)
class OwnDecoderConfig:
    """Settings of a model outside the package."""

    directions: Directions = "forward"
    settings: dict[str, Any] = field(default_factory=dict)  # read by the model
    targets: str | None = None  # target coding as `package.module:Class`; None: captions

    refinement: ClassVar[None] = None  # not known

    @property
    def trained_directions(self) -> Directions:
        """Directions of a training batch."""
        return self.directions

    def describe(self) -> str:
        """Return a short description."""
        settings = (f"{name} {value}" for name, value in self.settings.items())
        return ", ".join(settings) or "no settings"


AnyDecoderConfig = DecoderConfig | RecurrentDecoderConfig | OwnDecoderConfig


@dataclass(frozen=True)
class PositionConfig:
    """Position forest: a second task in training, absent at inference."""

    form: Literal["separate", "shared", "heads"] = "shared"
    coding: Literal["paper", "authors"] = "paper"  # spelling of identifiers
    levels: int = 5  # distinct nested levels; deeper ones count as the last
    length: int = 5  # positions in an input identifier
    hidden: int = 128  # width inside the two heads


@dataclass(frozen=True)
class ModelConfig:
    """Config of a recognizer, without its vocabulary."""

    name: str = "posformer"  # see `registry.MODELS`; `package.module:Class` for your own
    image: ImageConfig = field(default_factory=ImageConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: AnyDecoderConfig = field(default_factory=DecoderConfig)  # its class depends on `name`
    # None: no position forest, the default of all models but PosFormer. The form alone is short
    # for default values of the rest: `position: heads`.
    position: PositionConfig | None = field(default_factory=PositionConfig)
    symbol_map: bool = False  # predict the symbol of each cell in training (needs ink)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON or YAML."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ModelConfig":
        """Return the config of plain values; unknown settings raise ConfigError."""
        return from_dict(cls, _with_decoder(values))

    def decoder_as(self, kind: type[_Kind]) -> _Kind:
        """Return the decoder config as an instance of a class.

        A model outside the package that extends one of the package has these settings in
        `decoder.settings`.
        """
        if isinstance(self.decoder, kind):
            return self.decoder
        if not isinstance(self.decoder, OwnDecoderConfig):
            raise ConfigError(f"model.decoder: {self.name} needs a {kind.__name__}")
        known = {item.name for item in fields(kind)}  # type: ignore[arg-type]
        told = {"directions": self.decoder.directions} if "directions" in known else {}
        return from_dict(kind, {**told, **self.decoder.settings})


def _with_decoder(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the decoder config of the model, and short forms expanded."""
    from posformer.models.registry import MODELS  # imports this module

    if not isinstance(values, Mapping):
        raise ConfigError(f"model: {str(values)[:80]!r} is not a set of settings")
    result = current_settings(values, "model.")
    name = str(result.get("name", "posformer"))
    if name not in MODELS and ":" not in name:
        raise ConfigError(
            f"model.name: unknown model {name[:80]!r}; available: {', '.join(MODELS)}, and "
            "'package.module:Class' for your own"
        )
    kind = MODELS[name][1] if name in MODELS else OwnDecoderConfig
    decoder = result.get("decoder", {})
    if isinstance(decoder, Mapping):
        result["decoder"] = from_dict(kind, dict(decoder))
    if isinstance(result.get("position"), str):
        result["position"] = {"form": result["position"]}
    elif name != "posformer":
        result.setdefault("position", None)
    return result


def from_dict(kind: type[_Kind], values: dict[str, Any]) -> _Kind:
    """Return a dataclass of nested plain values; unknown names and wrong types are errors."""
    hooks: dict[type[Any], Callable[[Any], Any]] = {ModelConfig: _as_model}
    rules = dacite.Config(cast=[tuple, float], strict=True, type_hooks=hooks)
    try:
        return dacite.from_dict(kind, values, rules)
    except (dacite.DaciteError, ValueError, TypeError) as error:
        raise ConfigError(f"{kind.__name__}: {error}") from error


def _as_model(values: Any) -> Any:
    return ModelConfig.from_dict(values) if isinstance(values, Mapping) else values
