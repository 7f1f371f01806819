"""The training and validation examples that a recipe asks for."""

from dataclasses import dataclass

from posformer.data import PictureSet, PictureSource, Source, open_pictures
from posformer.latex import Vocabulary
from posformer.model.config import ConfigError
from posformer.training.recipe import DataConfig

__all__ = ["Examples", "open_examples"]


@dataclass(frozen=True)
class Examples:
    """What a run trains on and is measured on."""

    train: Source
    validation: Source
    vocabulary: Vocabulary
    with_ink: bool  # whether boxes of the symbols are known


def open_examples(config: DataConfig, vocabulary: Vocabulary | None = None) -> Examples:
    """Opens the data sets of a recipe.

    Args:
        config: the recipe's `data`.
        vocabulary: of the model to go on with; None: the recipe's file, else the training captions' words.
    """
    if config.vocabulary is not None:
        vocabulary = Vocabulary.load(config.vocabulary)
    if config.pictures is None:
        raise ConfigError("data.pictures: a recipe names its data set")
    train = _limited(open_pictures(config.pictures, config.train), config.limit)
    if vocabulary is None:
        vocabulary = Vocabulary.from_captions(example.tokens for example in train)
    return Examples(
        _picture_source(train, config, config.scale_range),
        _validation(config),
        vocabulary,
        with_ink=False,
    )


def _validation(config: DataConfig) -> Source:
    assert config.pictures is not None
    pictures = _limited(open_pictures(config.pictures, config.validation), config.validation_limit)
    return _picture_source(pictures, config, None)


def _limited(pictures: PictureSet, limit: int | None) -> PictureSet:
    return pictures if limit is None else pictures[:limit]


def _picture_source(
    pictures: PictureSet, config: DataConfig, scale_range: tuple[float, float] | None
) -> PictureSource:
    low, high = scale_range or (1.0, 1.0)
    return PictureSource(
        pictures,
        (low * config.scale, high * config.scale),
        max_pixels=config.max_pixels,
        crop_margin=config.margin,
    )
