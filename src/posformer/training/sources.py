"""The training and validation examples that a recipe asks for."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from posformer.data import Drawing, PictureSource, Source, list_splits, open_pictures
from posformer.data.inkset import InkSource, drop_known_texts, load_ink
from posformer.data.synthesis import SynthesisSource, Synthesizer
from posformer.ink import AlignedInk, Exchange, RenderStyle, StrokeAugmentation
from posformer.latex import Vocabulary
from posformer.model.config import ConfigError, PictureConfig
from posformer.training.recipe import DataConfig

__all__ = ["Examples", "MixedSource", "open_examples"]


@dataclass(frozen=True)
class Examples:
    """What a run trains on and is measured on."""

    train: Source
    validation: Source
    vocabulary: Vocabulary
    with_ink: bool  # whether boxes of the symbols are known


@dataclass(frozen=True)
class MixedSource:
    """A source whose examples give way, now and then, to those of another."""

    usual: Source
    other: Source
    share: float  # of examples that come from the other one

    def __len__(self) -> int:
        return len(self.usual)

    def draw(self, index: int, rng: np.random.Generator) -> Drawing:
        """One of the two."""
        if rng.random() < self.share:
            return self.other.draw(int(rng.integers(len(self.other))), rng)
        return self.usual.draw(index, rng)


def open_examples(
    config: DataConfig, picture: PictureConfig, vocabulary: Vocabulary | None = None
) -> Examples:
    """Opens the data sets of a recipe.

    Args:
        config: the recipe's `data`.
        picture: the size of pictures that the model works at.
        vocabulary: of the model to start from; words of the training captions that it lacks are
            added. A file that the recipe names takes the place of both.
    """
    if config.ink is not None:
        return _open_ink(config, picture, vocabulary)
    if config.pictures is None:
        raise ConfigError("data.pictures, data.ink: a recipe names its data set")
    train = open_pictures(config.pictures, config.train)[: config.limit]
    validation = open_pictures(config.pictures, config.validation)[: config.validation_limit]
    low, high = config.scale_range or (1.0, 1.0)
    scale = picture.scale
    options: dict[str, Any] = {"max_pixels": picture.max_pixels, "crop_margin": picture.margin}
    return Examples(
        PictureSource(train, (low * scale, high * scale), **options),
        PictureSource(validation, (scale, scale), **options),
        _vocabulary(config, (example.tokens for example in train), vocabulary),
        with_ink=False,
    )


def _open_ink(
    config: DataConfig, picture: PictureConfig, vocabulary: Vocabulary | None
) -> Examples:
    assert config.ink is not None
    whole = load_ink(config.ink, config.train, _captions(config, config.train))
    validation = load_ink(config.ink, config.validation, _captions(config, config.validation))
    train = whole[: config.limit]
    style = _style(picture)
    vocabulary = _vocabulary(config, (ink.tokens for ink in whole), vocabulary)
    return Examples(
        _varied(config, train, style, picture.max_pixels, vocabulary),
        InkSource(
            # Texts that the model was trained on would flatter it.
            drop_known_texts(validation, whole)[: config.validation_limit],
            style,
            scale_range=None,
            max_pixels=picture.max_pixels,
        ),
        vocabulary,
        with_ink=True,
    )


def _varied(
    config: DataConfig,
    inks: Sequence[AlignedInk],
    style: RenderStyle,
    max_pixels: int,
    vocabulary: Vocabulary,
) -> Source:
    """Training examples from ink: bent, with other texts, and some made up altogether."""
    exchange = Exchange.from_inks(inks, exchange=config.exchange, graft=config.graft)
    usual = InkSource(
        inks,
        style,
        scale_range=config.scale_range,
        augment=StrokeAugmentation().scaled(config.warp) if config.warp else None,
        exchange=exchange if config.exchange or config.graft else None,
        max_pixels=max_pixels,
    )
    if not config.synthesis:
        return usual
    template = copy(usual)
    template.exchange = None
    synthesizer = Synthesizer.from_ink(inks, vocabulary.words)
    return MixedSource(usual, SynthesisSource(synthesizer, len(inks), template), config.synthesis)


def _vocabulary(
    config: DataConfig, captions: Iterable[tuple[str, ...]], known: Vocabulary | None
) -> Vocabulary:
    if config.vocabulary is not None:
        return Vocabulary.load(config.vocabulary)
    found = Vocabulary.from_captions(captions)
    return found if known is None else known.extended(found.words)


def _style(picture: PictureConfig) -> RenderStyle:
    if picture.margin is None:
        return RenderStyle(scale=picture.scale)
    return RenderStyle(scale=picture.scale, margin=(picture.margin, picture.margin))


def _captions(config: DataConfig, split: str) -> Mapping[str, tuple[str, ...]] | None:
    """Captions of the picture data set, where it has this split; else the ink tells its own."""
    if config.pictures is None or split not in list_splits(config.pictures):
        return None
    return {example.name: example.tokens for example in open_pictures(config.pictures, split)}
