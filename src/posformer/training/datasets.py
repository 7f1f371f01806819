"""The training and validation examples that a config asks for."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

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
from posformer.training.training_config import DataConfig

__all__ = ["Examples", "MixedSampler", "open_examples"]


@dataclass(frozen=True)
class Examples:
    """What a run trains on and is measured on."""

    train: Sampler
    written: Sampler  # the training examples as they are, without any variation
    validation: Sampler
    vocabulary: Vocabulary
    with_ink: bool  # whether boxes of the symbols are known


@dataclass(frozen=True)
class MixedSampler:
    """A source whose examples give way, now and then, to those of another."""

    usual: Sampler
    other: Sampler
    share: float  # of examples that come from the other one

    def __len__(self) -> int:
        return len(self.usual)

    def sample(self, index: int, rng: np.random.Generator) -> Sample:
        """One of the two."""
        if rng.random() < self.share:
            return self.other.sample(int(rng.integers(len(self.other))), rng)
        return self.usual.sample(index, rng)


def open_examples(
    config: DataConfig, image: ImageConfig, vocabulary: Vocabulary | None = None
) -> Examples:
    """Opens the data sets of a config.

    Args:
        config: the config's `data`.
        image: the size of images that the model works at.
        vocabulary: of the model to start from; words of the training captions that it lacks are
            added. A file that the config names takes the place of both.
    """
    if config.source == "ink":
        inks = load_ink(
            _named(config.ink, "ink"), config.train, _captions(config.images, config.train)
        )
        captions = [ink.tokens for ink in inks]
        words = _vocabulary(config, captions, vocabulary)
        synthesizer = _synthesizer(config, inks[: config.limit], words)
        if synthesizer is not None:
            words = _with_made_up(config, words, synthesizer)
        train = _varied(config, inks[: config.limit], image, synthesizer)
        written: Sampler = _ink_source(inks[: config.limit], image)
    else:
        # A token outside a vocabulary that was named is a mistake in the data, told with its line.
        allowed = Vocabulary.load(config.vocabulary) if config.vocabulary else None
        path = _named(config.images, "images")
        images = open_images(path, config.train, vocabulary=allowed)
        captions = [example.tokens for example in images]
        words = _vocabulary(config, captions, vocabulary)
        train = _image_source(images[: config.limit], config.scale_range, image)
        written = _image_source(images[: config.limit], None, image)
    validation = _validation(config, image, captions)
    return Examples(train, written, validation, words, config.source == "ink")


def _validation(
    config: DataConfig, image: ImageConfig, known: Iterable[tuple[str, ...]]
) -> Sampler:
    """The validation split as it is: from the images where they have it, else from the ink."""
    split = config.validation
    if config.images is not None and split in list_splits(config.images):
        images = open_images(config.images, split)[: config.validation_limit]
        return _image_source(images, None, image)
    texts = set(known)  # what the model was trained on would flatter it
    inks = [ink for ink in load_ink(_named(config.ink, "ink"), split) if ink.tokens not in texts]
    return _ink_source(inks[: config.validation_limit], image)


def _named(path: str | None, name: str) -> str:
    if path is None:
        raise ConfigError(f"data.{name}: the config needs this data set and does not name it")
    return path


def _image_source(
    images: ImageDataset, scale_range: tuple[float, float] | None, size: ImageConfig
) -> ImageSampler:
    low, high = scale_range or (1.0, 1.0)
    return ImageSampler(
        images,
        (low * size.scale, high * size.scale),
        max_pixels=size.max_pixels,
        crop_margin=size.margin,
    )


def _ink_source(inks: Sequence[AlignedInk], image: ImageConfig) -> InkSampler:
    """Ink as it was written."""
    return InkSampler(inks, _style(image), scale_range=None, max_pixels=image.max_pixels)


def _varied(
    config: DataConfig,
    inks: Sequence[AlignedInk],
    image: ImageConfig,
    synthesizer: Synthesizer | None,
) -> Sampler:
    """Training examples from ink: bent, with other texts, and some made up altogether."""
    bank = None if synthesizer is None else synthesizer.bank
    substitution = SymbolSubstitution.from_inks(
        inks, substitution=config.substitution, subtree_swap=config.subtree_swap, bank=bank
    )
    usual = InkSampler(
        inks,
        _style(image),
        scale_range=config.scale_range,
        augment=StrokeAugmentation().scaled(config.distortion) if config.distortion else None,
        substitution=substitution if config.substitution or config.subtree_swap else None,
        max_pixels=image.max_pixels,
    )
    if synthesizer is None:
        return usual
    template = copy(usual)
    if config.multiline is not None:  # whose lines are made to fit each other
        template.substitution = None
    made_up = SynthesisSampler(synthesizer, config.examples or len(inks), template)
    return made_up if config.synthesis >= 1 else MixedSampler(usual, made_up, config.synthesis)


def _synthesizer(
    config: DataConfig, inks: Sequence[AlignedInk], vocabulary: Vocabulary
) -> Synthesizer | None:
    """What makes up expressions, if the config wants any; never a text of the validation split."""
    if not config.synthesis:
        return None
    synthesizer = Synthesizer.from_ink(inks, vocabulary.tokens)
    if config.multiline is not None:
        synthesizer = replace(synthesizer, **vars(config.multiline))
    return replace(synthesizer, held_out=_validation_texts(config))


def _validation_texts(config: DataConfig) -> frozenset[tuple[str, ...]]:
    split = config.validation
    if config.images is not None and split in list_splits(config.images):
        return frozenset(example.tokens for example in open_images(config.images, split))
    return frozenset(ink.tokens for ink in load_ink(_named(config.ink, "ink"), split))


def _with_made_up(
    config: DataConfig, vocabulary: Vocabulary, synthesizer: Synthesizer
) -> Vocabulary:
    """A vocabulary with the words of made-up expressions; a file that was named must have them."""
    extended = vocabulary.extended(sorted(synthesizer.tokens))
    if config.vocabulary is not None and extended != vocabulary:
        new = extended.tokens[len(vocabulary.tokens)]
        raise ConfigError(f"{config.vocabulary}: lacks '{new}', which data.multiline needs")
    return extended


def _vocabulary(
    config: DataConfig, captions: Iterable[tuple[str, ...]], known: Vocabulary | None
) -> Vocabulary:
    if config.vocabulary is not None:
        return Vocabulary.load(config.vocabulary)
    found = Vocabulary.from_captions(captions)
    return found if known is None else known.extended(found.tokens)


def _style(image: ImageConfig) -> RenderStyle:
    if image.margin is None:
        return RenderStyle(scale=image.scale)
    return RenderStyle(scale=image.scale, margin=(image.margin, image.margin))


def _captions(images: str | None, split: str) -> Mapping[str, tuple[str, ...]] | None:
    """Captions of the image data set, where it has this split; else the ink tells its own."""
    if images is None or split not in list_splits(images):
        return None
    return {example.name: example.tokens for example in open_images(images, split)}
