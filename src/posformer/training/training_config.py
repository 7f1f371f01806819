"""A training config: everything that decides a run, read from YAML."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from posformer.data.ink_dataset import DEFAULT_CACHE
from posformer.errors import ConfigError
from posformer.models.legacy import current_key, current_settings
from posformer.models.model_config import ModelConfig, from_dict

__all__ = [
    "BatchConfig",
    "DataConfig",
    "FrozenConfig",
    "LossConfig",
    "MultilineConfig",
    "OptimizerConfig",
    "TrainingConfig",
    "load_config",
]


@dataclass(frozen=True)
class MultilineConfig:
    """Made-up expressions of several lines."""

    environments: tuple[str, ...] = ("cases", "aligned", "pmatrix")  # (): bare lines
    lines: tuple[int, int] = (2, 3)  # fewest and most
    max_tokens: int = 60  # of a line
    max_symbols: int | None = None  # with ink, of an expression


@dataclass(frozen=True)
class DataConfig:
    """Where examples come from and how they are varied."""

    images: str | None = None  # data set of images (zip or folder)
    ink: str | None = None  # data set of ink
    source: Literal["images", "ink"] = "images"  # what training images come from
    train: str = "train"  # split to train on
    validation: str = "2013"  # split to validate on, of the images or else of the ink
    limit: int | None = None  # use only so many training examples
    validation_limit: int | None = None
    vocabulary: str | None = None  # file of words; None: the words of the training captions
    scale_range: tuple[float, float] | None = (0.7, 1.4)  # scale augmentation
    distortion: float = 0.0  # strength of stroke augmentation (ink only); 1 is natural variation
    substitution: float = 0.0  # chance that the letters and digits of an expression are substituted
    subtree_swap: float = 0.0  # chance that a subtree is replaced by one of another expression
    synthesis: float = 0.0  # share of examples that are made up from the grammar
    multiline: MultilineConfig | None = None  # these have several lines; None: one
    examples: int | None = None  # of an epoch, where all are made up; None: as many as the ink has


@dataclass(frozen=True)
class BatchConfig:
    """How examples become batches."""

    max_pixels: int = 500_000
    max_images: int = 32
    max_cells_steps: int | None = None  # bound on cells × steps × images: memory of the attention
    chunk: int = 2048  # examples packed together: more is tighter, less starts sooner
    directions: Literal["both", "one"] = "both"  # rows an image: both directions or one by chance
    corruption: float = 0.0  # share of fed-in ink tokens replaced by others
    workers: int = 1


@dataclass(frozen=True)
class OptimizerConfig:
    """How weights move."""

    kind: Literal["adamw", "sgd"] = "adamw"
    learning_rate: float = 1e-3
    momentum: float = 0.9  # SGD only
    weight_decay: float = 1e-4
    warmup: float = 0.0  # epochs of rising learning rate
    decay: Literal["none", "cosine", "plateau"] = "cosine"
    decay_from: float = 0.0  # epoch at which the cosine begins
    plateau_factor: float = 0.25
    plateau_patience: int = 10  # validations without progress
    clip: float | None = 5.0  # greatest norm of the gradient
    averaging: float | None = 0.999  # decay of the averaged weights; None: no averaging
    # Epoch from which batch norms use their running averages. Batches hold images of one size, so
    # their own statistics differ from the averages that recognition uses.
    freeze_norms: float | None = None
    # Dense blocks of the encoder, the stem with them, that stay as they are: what they see of a
    # stroke is learned first, and they cost most. Best with `freeze_norms: 0`, or when resumed.
    frozen_blocks: int = 0


@dataclass(frozen=True)
class LossConfig:
    """Weights of the parts of the loss beside recognition, whose weight is 1."""

    level: float = 1.0  # nested level of the position forest
    relative: float = 1.0  # relative position
    symbol_map: float = 1.0  # symbol of each cell (ink only)
    background: float = 0.15  # weight of cells without ink in it
    attention: float = 0.5  # attention on the ink of the symbol being written (ink only)
    own: dict[str, float] = field(default_factory=dict)  # the model's own losses by name, else 1
    fade: float | None = None  # epoch at which the two ink losses have faded to nothing
    label_smoothing: float = 0.0


@dataclass(frozen=True)
class FrozenConfig:
    """An encoder that is taken over from another model and not trained; its maps are kept."""

    encoder: str = "default"  # model folder or checkpoint; `default`: the model that comes along
    # Drawings of each training example, varied as `data` says, beside the one as it was written.
    variants: int = 0
    cache: str = str(DEFAULT_CACHE)  # folder that keeps the maps between runs


@dataclass(frozen=True)
class TrainingConfig:
    """A whole training run."""

    name: str = "run"
    seed: int = 0
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    frozen: FrozenConfig | None = None  # None: the encoder is trained too
    baseline: str | None = None  # config that `posformer compare` states the gains against
    epochs: int = 300
    minutes: float | None = None  # of CPU time, of all processes; takes the place of epochs
    max_minutes: float | None = None  # by the clock, of one start
    validate_every: int = 1  # epochs
    checkpoint_minutes: float = 5.0
    progress_images: int = 24  # validation examples drawn with their readings; 0: no images
    accelerator: str = "auto"
    devices: int = 1
    nodes: int = 1
    threads: int | None = None  # CPU threads of a process; None: as PyTorch chooses

    def __post_init__(self) -> None:
        if self.minutes is not None and self.minutes <= 0:
            raise ConfigError(f"minutes: {self.minutes} is no time to train in")
        if self.minutes is not None and self.optimizer.decay_from:
            raise ConfigError("optimizer.decay_from counts epochs, but `minutes` takes their place")
        if self.frozen is not None and self.frozen.variants < 0:
            raise ConfigError(f"frozen.variants: {self.frozen.variants} is less than none")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for YAML."""
        return asdict(self)


def load_config(path: Path, overrides: list[str] | None = None) -> TrainingConfig:
    """Reads a config.

    Args:
        path: YAML; with `base: other.yaml` it says only what differs from the config beside it.
        overrides: `key=value` with dotted keys, such as `optimizer.learning_rate=3e-4`.
    """
    values = current_settings(_read(path, ()))
    for override in overrides or []:
        _override(values, override)
    try:
        return from_dict(TrainingConfig, values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _read(path: Path, above: tuple[Path, ...]) -> dict[str, Any]:
    if path.resolve() in above:
        raise ConfigError(f"{path}: is its own base")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: a config is a mapping of settings")
    base = values.pop("base", None)
    if base is None:
        return values
    below = _read(path.parent / str(base), (*above, path.resolve()))
    return _merged(_of_the_same_model(below, values), values)


def _of_the_same_model(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A base without its decoder where another model is named: they have no settings in common."""
    old, new = base.get("model"), changes.get("model")
    if not isinstance(old, dict) or not isinstance(new, dict) or "name" not in new:
        return base
    if new["name"] == old.get("name", ModelConfig.name):
        return base
    return {**base, "model": {key: value for key, value in old.items() if key != "decoder"}}


def _merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        result[key] = _merged(old, value) if both else value  # type: ignore[arg-type]
    return result


def _override(values: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise ConfigError(f"'{override}' is not of the form key=value")
    *outer, last = current_key(key).split(".")
    for name in outer:
        inner = values.setdefault(name, {})
        if inner is None:
            inner = values[name] = {}
        if not isinstance(inner, dict):
            raise ConfigError(f"'{key}': '{name}' has no settings below it")
        values = inner
    try:
        values[last] = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"'{override}': the value is not YAML") from error
