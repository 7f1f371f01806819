"""A training config: every setting of a run, read from YAML."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import yaml

from posformer.data.ink_dataset import DEFAULT_CACHE
from posformer.errors import ConfigError
from posformer.models.legacy import current_key, current_settings
from posformer.models.model_config import ModelConfig, from_dict


@dataclass(frozen=True)
class MultilineConfig:
    """Synthetic expressions of several lines."""

    environments: tuple[str, ...] = ("cases", "aligned", "pmatrix")  # (): lines without one
    lines: tuple[int, int] = (2, 3)  # minimum and maximum
    max_tokens: int = 60  # per line
    max_symbols: int | None = None  # symbols with ink per expression


@dataclass(frozen=True)
class SourceConfig:
    """One of several sources of training examples."""

    kind: Literal["ink", "hands", "print", "lines"]
    # ink: the expressions of `data.ink`, with the augmentation of `data`
    # hands: `data.texts` written with `data.symbols` and the symbols of the ink
    # print: `data.texts` typeset with `data.fonts`
    # lines: matrices, cases and derivations composed from `data.texts`, by hand and in print
    weight: float = 1.0
    camera: float = 0.0  # share of simulated photographs


@dataclass(frozen=True)
class DataConfig:
    """Data sets and augmentation."""

    images: str | None = None  # data set of images (zip or folder)
    ink: str | None = None  # data set of ink
    source: Literal["images", "ink"] = "images"  # which of the two to train on
    train: str = "train"  # split to train on
    validation: str = "2013"  # split to validate on, of the images or else of the ink
    limit: int | None = None  # use only the first training examples
    validation_limit: int | None = None
    validation_photos: tuple[str, ...] = ()  # labeled photographs, validated by kind
    held_out: tuple[str, ...] = ()  # further data sets whose texts `texts` must not contain
    vocabulary: str | None = None  # file of tokens; None: the tokens of the training captions
    scale_range: tuple[float, float] | None = (0.7, 1.4)  # scale augmentation; None: off
    distortion: float = 0.0  # strength of stroke distortion (ink only); 1 is natural variation
    substitution: float = 0.0  # probability of symbol substitution in an expression (ink only)
    subtree_swap: float = 0.0  # probability of swapping a subtree with another expression's
    synthesis: float = 0.0  # share of examples that are synthesized from the grammar
    multiline: MultilineConfig | None = None  # synthesize several lines; None: one line
    examples: int | None = None  # epoch length with synthesis=1; None: as many as the ink has
    sources: tuple[SourceConfig, ...] = ()  # mix of training examples; (): `source` alone
    texts: tuple[str, ...] = ()  # formula corpora
    max_tokens: int = 60  # longer formula texts are dropped
    symbols: tuple[str, ...] = ()  # corpora of handwritten symbols
    fonts: str | None = None  # folder of fonts; see scripts/fetch_fonts.py


@dataclass(frozen=True)
class BatchConfig:
    """Batching."""

    max_pixels: int = 500_000  # per batch, padding included
    max_images: int = 32
    max_cells_steps: int | None = None  # images × cells × steps: bounds the attention's memory
    chunk: int = 2048  # examples packed together: more pads less, fewer start sooner
    directions: Literal["both", "one"] = "both"  # train both directions per image, or a random one
    corruption: float = 0.0  # share of symbols in the decoder input replaced by others
    masking: float = 0.0  # share of symbols of which a part is erased (ink only)
    workers: int = 1  # data loader processes


@dataclass(frozen=True)
class OptimizerConfig:
    """Optimizer and learning rate schedule. Epochs count from the start of the stage."""

    kind: Literal["adamw", "sgd"] = "adamw"
    learning_rate: float = 1e-3
    min_learning_rate: float = 0.0  # at the end of the cosine
    momentum: float = 0.9  # SGD only
    weight_decay: float = 1e-4
    warmup: float = 0.0  # epochs of linear warm-up
    decay: Literal["none", "cosine", "plateau"] = "cosine"
    decay_from: float = 0.0  # epoch at which the cosine starts
    plateau_factor: float = 0.25
    plateau_patience: int = 10  # validations without improvement
    clip: float | None = 5.0  # maximum norm of the gradient
    averaging: float | None = 0.999  # decay of the moving average of the weights; None: off
    # Epoch from which batch norms use their running statistics. The images of a batch have similar
    # sizes, so the statistics of a batch differ from those that recognition uses.
    freeze_norms: float | None = None
    # The stem and the first dense blocks of the encoder stay fixed. They learn first and cost most.
    # Combine with `freeze_norms: 0`.
    frozen_blocks: int = 0


@dataclass(frozen=True)
class LossConfig:
    """Weights of the loss terms; the recognition loss has weight 1."""

    level: float = 1.0  # nested level of the position forest
    relative: float = 1.0  # relative position
    symbol_map: float = 1.0  # symbol of each cell (ink only)
    background: float = 0.15  # weight of empty cells in it
    distribution: float = 1.0  # distribution map of SSAN (ink only)
    attention: float = 0.5  # attention on the ink of the symbol being decoded (ink only)
    own: dict[str, float] = field(default_factory=dict)  # loss terms of the model itself (else 1)
    fade: float | None = None  # epoch at which the weights of the ink losses reach 0
    label_smoothing: float = 0.0


@dataclass(frozen=True)
class FrozenConfig:
    """A pretrained encoder that is not trained; its feature maps are cached."""

    encoder: str = "default"  # model folder or checkpoint; `default`: the bundled model
    variants: int = 0  # augmented versions of each training example, next to the original
    cache: str = str(DEFAULT_CACHE)  # folder of cached feature maps, shared by runs


@dataclass(frozen=True)
class StageConfig:
    """A stage of training: its length, and the settings that differ from the config's."""

    name: str
    epochs: int | None = None  # either this
    minutes: float | None = None  # or this: CPU time, as in `TrainingConfig`
    validate_every: int | None = None
    reset_optimizer: bool = False  # drop the optimizer's state of the stage before
    model: dict[str, Any] = field(default_factory=dict)  # image size and dropout only
    data: dict[str, Any] = field(default_factory=dict)
    batch: dict[str, Any] = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)
    loss: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainingConfig:
    """A training run."""

    name: str = "run"
    seed: int = 0
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    frozen: FrozenConfig | None = None  # None: train the encoder too
    language_model: str | None = None  # folder to start RLFN's language model from; None: random
    baseline: str | None = None  # config that `posformer compare` compares this one with
    epochs: int = 300
    minutes: float | None = None  # CPU time of all processes; replaces epochs
    max_minutes: float | None = None  # wall-clock time of one start
    stages: tuple[StageConfig, ...] | None = None  # each has its own length; None: one stage
    validate_every: int = 1  # epochs
    checkpoint_minutes: float = 5.0
    progress_images: int = 24  # validation images shown with their predictions; 0: none
    accelerator: str = "auto"
    # Mixed precision runs convolutions and matrix products in bfloat16: about twice as fast on
    # processors with AVX-512 BF16 or AMX.
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    devices: int = 1  # processes per node
    nodes: int = 1
    threads: int | None = None  # CPU threads per process; None: PyTorch's default

    def __post_init__(self) -> None:
        if self.minutes is not None and self.minutes <= 0:
            raise ConfigError(f"minutes: {self.minutes} is not positive")
        if self.minutes is not None and self.optimizer.decay_from:
            raise ConfigError("optimizer.decay_from counts epochs, but the length is in `minutes`")
        if self.frozen is not None and self.frozen.variants < 0:
            raise ConfigError(f"frozen.variants: {self.frozen.variants} is negative")
        if not 0 <= self.batch.masking <= 1:
            raise ConfigError(f"batch.masking: {self.batch.masking} is not between 0 and 1")
        if self.batch.masking and (self.data.source != "ink" or self.frozen is not None):
            raise ConfigError("batch.masking needs images of ink: data.source=ink, frozen=null")
        self.split_stages()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for YAML."""
        return asdict(self)

    def split_stages(self) -> list["TrainingConfig"]:
        """Return the config of each stage; the config itself if it has no stages.

        Raises:
            ConfigError: If a stage changes what stages have in common.
        """
        if not self.stages:
            return [self]
        names = [stage.name for stage in self.stages]
        if len(set(names)) < len(names):
            raise ConfigError(f"stages: names are not unique: {', '.join(names)}")
        if wrong := [name for name in names if not name or "." in name]:
            raise ConfigError(f"stages: {wrong[0]!r} is not a name: it is empty or has a dot")
        return [self._stage(stage) for stage in self.stages]

    def _stage(self, stage: StageConfig) -> "TrainingConfig":
        changes = {name: value for name, value in asdict(stage).items() if value is not None}
        del changes["name"], changes["reset_optimizer"]
        common = replace(self, stages=None, minutes=None).to_dict()
        values = _merged(common, current_settings(changes))
        try:
            if ("epochs" in changes) == ("minutes" in changes):
                raise ConfigError("set either epochs or minutes")
            config: TrainingConfig = from_dict(TrainingConfig, values)
        except ConfigError as error:
            raise ConfigError(f"stages.{stage.name}: {error}") from error
        if problem := next(self._problems(stage, config), None):
            raise ConfigError(f"stages.{stage.name}.{problem}")
        return config

    def _problems(self, stage: StageConfig, config: "TrainingConfig") -> Iterator[str]:
        """Yield how the weights or optimizer state of a stage do not fit the others."""
        if stage.epochs is not None and stage.epochs < 1:
            yield f"epochs: {stage.epochs} is less than 1"
        before, only = (
            _flat(self.model.to_dict()),
            "a stage can only change model.image and dropout",
        )
        for key, value in _flat(config.model.to_dict()).items():
            is_free = key.startswith("image.") or key.endswith("dropout")
            if not is_free and before.get(key, ...) != value:
                yield f"model.{key}={value}: changes the weights; {only}"
        if self.data.vocabulary != config.data.vocabulary:
            yield "data.vocabulary: all stages have the same tokens"
        old, new = self.optimizer, config.optimizer
        if (old.averaging is None) != (new.averaging is None):
            yield "optimizer.averaging: all stages average weights or none does"
        is_first = self.stages is not None and stage is self.stages[0]
        if old.kind != new.kind and not (stage.reset_optimizer or is_first):
            yield "optimizer.kind: needs reset_optimizer: true"


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings with dotted keys."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        is_nested = isinstance(value, Mapping)
        result |= _flat(value, f"{prefix}{key}.") if is_nested else {prefix + key: value}
    return result


def load_config(path: Path, overrides: list[str] | None = None) -> TrainingConfig:
    """Read a config.

    Args:
        path: YAML file. With `base: other.yaml`, it lists only what differs from that file.
        overrides: `key=value` with dotted keys, such as `optimizer.learning_rate=3e-4` or
            `stages.NAME.epochs=2`.

    Raises:
        ConfigError: If the file cannot be read, or a setting is unknown or has a wrong value.
    """
    values = current_settings(_read(path, ()))
    for override in overrides or []:
        _override(values, override)
    try:
        config: TrainingConfig = from_dict(TrainingConfig, values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    for override in (overrides or []) if config.stages else []:
        if (key := override.partition("=")[0]) in ("epochs", "minutes"):
            instead = f"use stages.NAME.{key}=… or stages=null"
            raise ConfigError(f"'{override}': {path} has stages; {instead}")
    return config


def _read(path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    if path.resolve() in seen:
        raise ConfigError(f"{path}: is its own base")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: a config must be a mapping of settings")
    name = values.pop("base", None)
    if name is None:
        return values
    base = _read(path.parent / str(name), (*seen, path.resolve()))
    old, new = base.get("model"), values.get("model")
    if isinstance(old, dict) and isinstance(new, dict):
        known = old.get("name", ModelConfig.name)
        if new.get("name", known) != known:  # the decoder of another model has other settings
            old.pop("decoder", None)
    return _merged(base, values)


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
    if outer[:1] == ["stages"]:
        values, outer = _named_stage(values, key), outer[2:]
    for name in outer:
        if values.get(name) is None:
            values[name] = {}
        values = values[name]
        if not isinstance(values, dict):
            raise ConfigError(f"'{key}': '{name}' has no settings below it")
    try:
        values[last] = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"'{override}': the value is not YAML") from error


def _named_stage(values: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the settings of the stage that an override such as `stages.NAME.epochs` names."""
    stages: dict[str, Any] = {stage["name"]: stage for stage in values.get("stages") or []}
    _, name, *rest = key.split(".")
    if name not in stages or not rest:
        names = f"its stages are {', '.join(stages)}" if stages else "it has no stages"
        raise ConfigError(f"'{key}': is no setting of a stage of the config; {names}")
    return stages[name]
