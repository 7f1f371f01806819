"""The training and validation examples that a recipe asks for."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from posformer.data import Drawing, PictureSet, PictureSource, Source, list_splits, open_pictures
from posformer.data.inkset import InkSource, load_ink
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
    written: Source  # the training examples as they are, without any variation
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
    if config.source == "ink":
        inks = load_ink(
            _named(config.ink, "ink"), config.train, _captions(config.pictures, config.train)
        )
        captions = [ink.tokens for ink in inks]
        words = _vocabulary(config, captions, vocabulary)
        synthesizer = _synthesizer(config, inks[: config.limit], words)
        if synthesizer is not None:
            words = _with_made_up(config, words, synthesizer)
        train = _varied(config, inks[: config.limit], picture, synthesizer)
        written: Source = _ink_source(inks[: config.limit], picture)
    else:
        # A token outside a vocabulary that was named is a mistake in the data, told with its line.
        allowed = Vocabulary.load(config.vocabulary) if config.vocabulary else None
        path = _named(config.pictures, "pictures")
        pictures = open_pictures(path, config.train, vocabulary=allowed)
        captions = [example.tokens for example in pictures]
        words = _vocabulary(config, captions, vocabulary)
        train = _picture_source(pictures[: config.limit], config.scale_range, picture)
        written = _picture_source(pictures[: config.limit], None, picture)
    validation = _validation(config, picture, captions)
    return Examples(train, written, validation, words, config.source == "ink")


def _validation(
    config: DataConfig, picture: PictureConfig, known: Iterable[tuple[str, ...]]
) -> Source:
    """The validation split as it is: from the pictures where they have it, else from the ink."""
    split = config.validation
    if config.pictures is not None and split in list_splits(config.pictures):
        pictures = open_pictures(config.pictures, split)[: config.validation_limit]
        return _picture_source(pictures, None, picture)
    texts = set(known)  # what the model was trained on would flatter it
    inks = [ink for ink in load_ink(_named(config.ink, "ink"), split) if ink.tokens not in texts]
    return _ink_source(inks[: config.validation_limit], picture)


def _named(path: str | None, name: str) -> str:
    if path is None:
        raise ConfigError(f"data.{name}: the recipe needs this data set and does not name it")
    return path


def _picture_source(
    pictures: PictureSet, scale_range: tuple[float, float] | None, size: PictureConfig
) -> PictureSource:
    low, high = scale_range or (1.0, 1.0)
    return PictureSource(
        pictures,
        (low * size.scale, high * size.scale),
        max_pixels=size.max_pixels,
        crop_margin=size.margin,
    )


def _ink_source(inks: Sequence[AlignedInk], picture: PictureConfig) -> InkSource:
    """Ink as it was written."""
    return InkSource(inks, _style(picture), scale_range=None, max_pixels=picture.max_pixels)


def _varied(
    config: DataConfig,
    inks: Sequence[AlignedInk],
    picture: PictureConfig,
    synthesizer: Synthesizer | None,
) -> Source:
    """Training examples from ink: bent, with other texts, and some made up altogether."""
    bank = None if synthesizer is None else synthesizer.bank
    exchange = Exchange.from_inks(inks, exchange=config.exchange, graft=config.graft, bank=bank)
    usual = InkSource(
        inks,
        _style(picture),
        scale_range=config.scale_range,
        augment=StrokeAugmentation().scaled(config.warp) if config.warp else None,
        exchange=exchange if config.exchange or config.graft else None,
        max_pixels=picture.max_pixels,
    )
    if synthesizer is None:
        return usual
    template = copy(usual)
    if config.multiline is not None:  # whose lines are made to fit each other
        template.exchange = None
    made_up = SynthesisSource(synthesizer, config.examples or len(inks), template)
    return made_up if config.synthesis >= 1 else MixedSource(usual, made_up, config.synthesis)


def _synthesizer(
    config: DataConfig, inks: Sequence[AlignedInk], vocabulary: Vocabulary
) -> Synthesizer | None:
    """What makes up expressions, if the recipe wants any; never a text of the validation split."""
    if not config.synthesis:
        return None
    synthesizer = Synthesizer.from_ink(inks, vocabulary.words)
    if config.multiline is not None:
        synthesizer = replace(synthesizer, **vars(config.multiline))
    return replace(synthesizer, held_out=_validation_texts(config))


def _validation_texts(config: DataConfig) -> frozenset[tuple[str, ...]]:
    split = config.validation
    if config.pictures is not None and split in list_splits(config.pictures):
        return frozenset(example.tokens for example in open_pictures(config.pictures, split))
    return frozenset(ink.tokens for ink in load_ink(_named(config.ink, "ink"), split))


def _with_made_up(
    config: DataConfig, vocabulary: Vocabulary, synthesizer: Synthesizer
) -> Vocabulary:
    """A vocabulary with the words of made-up expressions; a file that was named must have them."""
    extended = vocabulary.extended(sorted(synthesizer.words))
    if config.vocabulary is not None and extended != vocabulary:
        new = extended.words[len(vocabulary.words)]
        raise ConfigError(f"{config.vocabulary}: lacks '{new}', which data.multiline needs")
    return extended


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


def _captions(pictures: str | None, split: str) -> Mapping[str, tuple[str, ...]] | None:
    """Captions of the picture data set, where it has this split; else the ink tells its own."""
    if pictures is None or split not in list_splits(pictures):
        return None
    return {example.name: example.tokens for example in open_pictures(pictures, split)}
