"""The training and validation examples of a config."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from posformer.data import ImageDataset, ImageSampler, Sample, Sampler, list_splits, open_images
from posformer.data.ink_dataset import InkSampler, load_ink
from posformer.errors import ConfigError
from posformer.ink import AlignedInk, RenderStyle
from posformer.ink.augmentation import StrokeAugmentation
from posformer.latex import Vocabulary
from posformer.models.model_config import ImageConfig
from posformer.synthesis import SymbolSubstitution
from posformer.synthesis.synthesizer import SynthesisSampler, Synthesizer
from posformer.synthesis.texts import with_limits, without_limits
from posformer.training.data_mix import mix_sources
from posformer.training.training_config import DataConfig


@dataclass(frozen=True)
class Examples:
    """Training and validation data of a run."""

    train: Sampler
    unaugmented: Sampler  # the training examples without augmentation
    validation: Sampler
    vocabulary: Vocabulary
    with_ink: bool  # whether the symbols have boxes
    validation_by_kind: Mapping[str, Sampler] = field(default_factory=dict)  # photographs


@dataclass(frozen=True)
class MixedSampler:
    """Replaces a random share of the examples of one sampler by those of another."""

    main: Sampler
    other: Sampler
    share: float  # of examples from `other`

    def __len__(self) -> int:
        return len(self.main)

    def sample(self, index: int, rng: np.random.Generator) -> Sample:
        """Return an example of one of the two."""
        if rng.random() < self.share:
            return self.other.sample(int(rng.integers(len(self.other))), rng)
        return self.main.sample(index, rng)


def open_examples(
    config: DataConfig, image: ImageConfig, vocabulary: Vocabulary | None = None
) -> Examples:
    """Open the data sets of a config.

    Args:
        config: The `data` section of the config.
        image: The image size of the model.
        vocabulary: Vocabulary to extend with the tokens of the training captions. A file that the
            config names replaces both.
    """
    if config.source == "ink":
        known = _captions(config.images, config.train)
        inks = load_ink(_named(config.ink, "ink"), config.train, known)
        captions = [ink.tokens for ink in inks]
        vocabulary = _vocabulary(config, captions, vocabulary)
        inks = inks[: config.limit]
        synthesizer = _synthesizer(config, inks, vocabulary)
        if synthesizer is not None:
            vocabulary = _with_synthetic_tokens(config, vocabulary, synthesizer)
        train = _augmented_ink(config, inks, image, synthesizer)
        if config.sources:
            train = mix_sources(config, inks, image, train, vocabulary)
        unaugmented: Sampler = _ink_sampler(inks, image)
    else:
        # With a vocabulary file, another token is an error in the data, reported with its line.
        allowed = Vocabulary.load(config.vocabulary) if config.vocabulary else None
        path = _named(config.images, "images")
        images = open_images(path, config.train, vocabulary=allowed)
        captions = [example.tokens for example in images]
        vocabulary = _vocabulary(config, captions, vocabulary)
        train = _image_sampler(images[: config.limit], config.scale_range, image)
        unaugmented = _image_sampler(images[: config.limit], None, image)
    validation = _validation(config, image, set(captions))
    kinds = photo_validation(config, image)
    return Examples(train, unaugmented, validation, vocabulary, config.source == "ink", kinds)


def shared_vocabulary(
    stages: Sequence[DataConfig], vocabulary: Vocabulary | None = None
) -> Vocabulary:
    """Return the tokens of all stages of a run.

    Args:
        stages: The `data` section of each stage.
        vocabulary: Vocabulary to extend.
    """
    # Augmentation adds no tokens, so stages that differ in nothing else are opened once.
    off: Any = {"scale_range": None, "distortion": 0.0, "substitution": 0.0, "subtree_swap": 0.0}
    off |= {"sources": (), "validation_photos": ()}
    plain = [replace(one, **off, synthesis=float(one.synthesis > 0)) for one in stages]
    for data in dict.fromkeys(plain):
        vocabulary = open_examples(data, ImageConfig(), vocabulary).vocabulary
    assert vocabulary is not None
    return vocabulary


def _validation(config: DataConfig, image: ImageConfig, known: set[tuple[str, ...]]) -> Sampler:
    """Return the validation examples, without ink of expressions that training has."""
    found = _validation_examples(config)
    if isinstance(found, ImageDataset):
        return _image_sampler(found[: config.validation_limit], None, image)
    inks = [ink for ink in found if ink.tokens not in known]
    return _ink_sampler(inks[: config.validation_limit], image)


def photo_validation(config: DataConfig, image: ImageConfig) -> dict[str, Sampler]:
    r"""Return the photographs of `validation_photos` by kind, prepared as `Recognizer` does it.

    Captions get `\limits` where those of training have it.
    """
    found: dict[str, Sampler] = {}
    for path in config.validation_photos:
        for split in list_splits(path):
            photos = open_images(path, split, preprocessing=image.preprocessing)
            for kind, members in photos.by_kind().items():
                if kind in found:
                    raise ConfigError(f"data.validation_photos: more than one has kind {kind!r}")
                found[kind] = PreparedPhotos(_image_sampler(members, None, image))
    return found


@dataclass(frozen=True)
class PreparedPhoto:
    """A photograph that was prepared and is held in memory; see `Sample`."""

    name: str
    tokens: tuple[str, ...]
    image: np.ndarray  # uint8 (height, width)

    @property
    def height(self) -> int:
        """Height of the image."""
        return int(self.image.shape[0])

    @property
    def width(self) -> int:
        """Width of the image."""
        return int(self.image.shape[1])

    def render(self) -> tuple[np.ndarray, None]:
        """Return the image."""
        return self.image, None


class PreparedPhotos:
    """Photographs in memory: preparing them takes longer than recognizing them."""

    def __init__(self, photos: ImageSampler) -> None:
        rng = np.random.default_rng(0)  # not used: validation has no augmentation
        samples = (photos.sample(index, rng) for index in range(len(photos)))
        self._photos = [
            PreparedPhoto(one.name, tuple(with_limits(without_limits(one.tokens))), one.render()[0])
            for one in samples
        ]

    def __len__(self) -> int:
        return len(self._photos)

    def sample(self, index: int, rng: np.random.Generator) -> PreparedPhoto:
        """Return a photograph."""
        return self._photos[index]


def _validation_examples(config: DataConfig) -> ImageDataset | Sequence[AlignedInk]:
    """Open the validation split: of the images if they have it, else of the ink."""
    split = config.validation
    if config.images is not None and split in list_splits(config.images):
        return open_images(config.images, split)
    return load_ink(_named(config.ink, "ink"), split)


def _named(path: str | None, name: str) -> str:
    if path is None:
        raise ConfigError(f"data.{name}: the config needs this data set and does not set it")
    return path


def _image_sampler(
    images: ImageDataset, scale_range: tuple[float, float] | None, size: ImageConfig
) -> ImageSampler:
    low, high = scale_range or (1.0, 1.0)
    scales = low * size.scale, high * size.scale
    return ImageSampler(images, scales, max_pixels=size.max_pixels, crop_margin=size.margin)


def _ink_sampler(inks: Sequence[AlignedInk], image: ImageConfig, **augmentation: Any) -> InkSampler:
    style = RenderStyle(scale=image.scale)
    if image.margin is not None:
        style = replace(style, margin=(image.margin, image.margin))
    options = {"scale_range": None, **augmentation}
    return InkSampler(inks, style, max_pixels=image.max_pixels, **options)


def _augmented_ink(
    config: DataConfig,
    inks: Sequence[AlignedInk],
    image: ImageConfig,
    synthesizer: Synthesizer | None,
) -> Sampler:
    """Return training examples from ink: augmented, and some of them synthetic."""
    bank = None if synthesizer is None else synthesizer.bank
    substitution = SymbolSubstitution.from_inks(
        inks, substitution=config.substitution, subtree_swap=config.subtree_swap, bank=bank
    )
    main = _ink_sampler(
        inks,
        image,
        scale_range=config.scale_range,
        augment=StrokeAugmentation().scaled(config.distortion) if config.distortion else None,
        substitution=substitution if config.substitution or config.subtree_swap else None,
    )
    if synthesizer is None:
        return main
    template = copy(main)
    if config.multiline is not None:  # substitution would break the fit between lines
        template.substitution = None
    synthetic = SynthesisSampler(synthesizer, config.examples or len(inks), template)
    return synthetic if config.synthesis >= 1 else MixedSampler(main, synthetic, config.synthesis)


def _synthesizer(
    config: DataConfig, inks: Sequence[AlignedInk], vocabulary: Vocabulary
) -> Synthesizer | None:
    """Return a synthesizer that avoids validation expressions; None without synthesis."""
    if not config.synthesis:
        return None
    synthesizer = Synthesizer.from_ink(inks, vocabulary.tokens)
    if config.multiline is not None:
        synthesizer = replace(synthesizer, **vars(config.multiline))
    held_out = frozenset(example.tokens for example in _validation_examples(config))
    return replace(synthesizer, held_out=held_out)


def _with_synthetic_tokens(
    config: DataConfig, vocabulary: Vocabulary, synthesizer: Synthesizer
) -> Vocabulary:
    """Add the tokens of synthetic expressions; a vocabulary file must have them."""
    extended = vocabulary.extended(sorted(synthesizer.tokens))
    if config.vocabulary is not None and extended != vocabulary:
        new = extended.tokens[len(vocabulary.tokens)]
        raise ConfigError(f"{config.vocabulary}: lacks '{new}', which synthetic expressions need")
    return extended


def _vocabulary(
    config: DataConfig, captions: Iterable[tuple[str, ...]], known: Vocabulary | None
) -> Vocabulary:
    if config.vocabulary is not None:
        return Vocabulary.load(config.vocabulary)
    found = Vocabulary.from_captions(captions)
    return found if known is None else known.extended(found.tokens)


def _captions(images: str | None, split: str) -> Mapping[str, tuple[str, ...]] | None:
    """Return the captions of the images if they have this split; None: use those of the ink."""
    if images is None or split not in list_splits(images):
        return None
    return {example.name: example.tokens for example in open_images(images, split)}
