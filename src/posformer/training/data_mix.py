"""The sources of training examples that a config names, and their mix."""

import os
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Literal

import numpy as np

from posformer.data import Sampler, list_splits, open_images
from posformer.data.array_cache import DEFAULT_CACHE
from posformer.data.dataset_registry import FORMATS
from posformer.data.ink_dataset import InkSampler, load_ink
from posformer.data.storage import open_files
from posformer.errors import ConfigError
from posformer.ink import AlignedInk, RenderStyle
from posformer.ink.augmentation import StrokeAugmentation
from posformer.latex import Vocabulary
from posformer.latex.symbols import SYMBOLS
from posformer.models.model_config import ImageConfig
from posformer.synthesis import SymbolBank
from posformer.synthesis.corpora import load_corpus
from posformer.synthesis.fonts import VALIDATION_FAMILIES, handwriting_bank, load_fonts
from posformer.synthesis.glyphs import own_bank
from posformer.synthesis.inventory import COMPOSED
from posformer.synthesis.multiline import environment_tokens
from posformer.synthesis.sources import (
    HAND_KINDS,
    PRINT_KINDS,
    CameraSampler,
    InkWriter,
    PrintWriter,
    TextSampler,
    WeightedSampler,
    Writer,
    compose_lines,
)
from posformer.synthesis.texts import OWN_FORMULAS, TextCorpus, load_texts
from posformer.training.training_config import DataConfig, SourceConfig

__all__ = ["dataset_captions", "held_out_texts", "mix_sources", "open_texts"]

_HANDWRITING_SHARE = 0.2  # of typeset examples
_PUNCTUATED_SHARE = 0.15  # of typeset examples
_LOWERED_SHARE = 0.8  # of texts whose letters could as well be lower case
_CASE_TWINS = frozenset("CKOPSUVWXZ")  # letters that differ in size only

TextSource = Callable[[np.random.Generator], tuple[str, ...]]


def mix_sources(
    config: DataConfig,
    inks: Sequence[AlignedInk],
    image: ImageConfig,
    ink_sampler: Sampler,
    vocabulary: Vocabulary,
) -> Sampler:
    """Return the mix of `config.sources`.

    Args:
        config: The `data` section of the config.
        inks: The ink to train on.
        image: The image size of the model.
        ink_sampler: Examples of that ink, augmented.
        vocabulary: Tokens that texts may use.
    """
    length = config.examples or len(inks)
    mix = _Mix(config, inks, image, vocabulary, length)
    samplers = [
        mix.ink(source, ink_sampler) if source.kind == "ink" else mix.open(source)
        for source in config.sources
    ]
    return WeightedSampler(samplers, [source.weight for source in config.sources], length)


def open_texts(
    texts: Sequence[str | os.PathLike[str]] = (),
    *,
    symbols: Sequence[str | os.PathLike[str]] = (),
    fonts: str | os.PathLike[str] | None = None,
    ink: str | os.PathLike[str] | None = None,
    ink_split: str = "train",
    vocabulary: str | os.PathLike[str] | None = None,
    lines: tuple[int, int] = (1, 1),
    environments: Sequence[str] = (),
    camera: float = 0.0,
    leave_out: str | os.PathLike[str] | None = None,
) -> Sampler:
    """Return examples of formula texts in CROHME's size, for a dataset.

    Args:
        texts: Formula corpora; the project's own formulas if there are none.
        symbols: Corpora of handwritten symbols.
        fonts: Folder of fonts: typeset the texts instead of writing them by hand.
        ink: InkML dataset whose symbols are used, too; without any, the project's own ink is.
        ink_split: Split of that dataset.
        vocabulary: File of allowed tokens; by default all that can be drawn.
        lines: Minimum and maximum number of lines. More than one line composes matrices, cases
            and derivations of texts.
        environments: Environments of lines; all if there are none.
        camera: Share of simulated photographs.
        leave_out: Dataset whose expressions are skipped.
    """
    inks = [] if ink is None else load_ink(ink, ink_split)
    kind: Literal["hands", "print", "lines"] = "hands" if fonts is None else "print"
    kind = "lines" if lines[1] > 1 else kind
    config = DataConfig(
        texts=tuple(map(str, texts)) or (str(OWN_FORMULAS),),
        symbols=tuple(map(str, symbols)),
        fonts=None if fonts is None else str(fonts),
        sources=(SourceConfig(kind, camera=camera),),
        held_out=() if leave_out is None else (str(leave_out),),
    )
    composed = [token for name in COMPOSED for token in sorted(environment_tokens(name))]
    known = Vocabulary(dict.fromkeys([*SYMBOLS, *composed]))
    tokens = known if vocabulary is None else Vocabulary.load(vocabulary)
    image = ImageConfig(scale=1.0)
    mix = _Mix(config, inks, image, tokens, length=1)
    if lines[1] > 1:
        mix.lines, mix.environments = (max(lines[0], 2), lines[1]), tuple(environments)
    return mix.open(config.sources[0])


class _Mix:
    """Opens sources; corpora are loaded when a source first needs them."""

    def __init__(
        self,
        config: DataConfig,
        inks: Sequence[AlignedInk],
        image: ImageConfig,
        vocabulary: Vocabulary,
        length: int,
    ) -> None:
        self.config, self.inks, self.image, self.length = config, inks, image, length
        self.vocabulary = vocabulary
        self.lines = (2, 4)  # of the source `lines`
        self.environments: tuple[str, ...] = COMPOSED
        # Subjects of the camera are rendered in full size.
        self.subject_pixels = image.max_pixels and int(image.max_pixels / image.scale**2)

    @cached_property
    def texts(self) -> TextCorpus:
        """The formula corpora without the texts of validation and test splits."""
        if not self.config.texts:
            raise ConfigError("data.texts: a source of data.sources needs formula corpora")
        return load_texts(
            self.config.texts,
            self.vocabulary.tokens,
            held_out=held_out_texts(self.config),
            max_tokens=self.config.max_tokens,
            cache=DEFAULT_CACHE,
        )

    @cached_property
    def bank(self) -> SymbolBank:
        """Symbols of all corpora and of the ink, or the project's own."""
        corpora = [load_corpus(path) for path in self.config.symbols]
        own = SymbolBank.from_inks(self.inks) if self.inks else own_bank()
        return SymbolBank.merge([*corpora, own])

    @cached_property
    def fonts(self) -> dict[str, SymbolBank]:
        """Fonts for training by kind: math, handwriting; a kind without fonts is missing."""
        if self.config.fonts is None:
            raise ConfigError("data.fonts: a source of data.sources needs a folder of fonts")
        bank = load_fonts(self.config.fonts)
        found = {}
        for kind in ("math", "handwriting"):
            writers = [
                writer
                for writer in bank.writers
                if writer.startswith(f"{kind}:")
                and writer.partition(":")[2] not in VALIDATION_FAMILIES
            ]
            if writers:
                found[kind] = bank.select(writers)
        if "handwriting" in found:
            found["handwriting"] = handwriting_bank(found["handwriting"], self.bank)
        return found

    def ink(self, source: SourceConfig, plain: Sampler) -> Sampler:
        """Examples of the ink, photographed."""
        if not source.camera:
            return plain
        subject = self._template(self.inks, subject=True)
        if isinstance(plain, InkSampler):
            subject.substitution = plain.substitution
        return self._with_camera(source, plain, subject, by_hand=True)

    def open(self, source: SourceConfig) -> Sampler:
        """Examples of texts."""
        texts = self.texts  # loaded here, not in every worker process
        if source.kind == "hands":
            return self._written(source, self._text)
        if source.kind == "print":
            return self._typeset(source, self._printed_text)
        lines = partial(compose_lines, texts, self._environments(), lines=self.lines)
        if self.config.fonts is None:
            return self._written(source, lines)
        both = [self._written(source, lines), self._typeset(source, lines)]
        return WeightedSampler(both, [0.5, 0.5], self.length)

    def _text(self, rng: np.random.Generator) -> tuple[str, ...]:
        """Sample a text; a lone letter that does not show its case is usually lower case."""
        text = self.texts.sample(rng)
        letters = {token for token in text if len(token) == 1 and token.isalpha()}
        capitals = letters & _CASE_TWINS
        if not capitals or {letter.upper() for letter in letters} - _CASE_TWINS:
            return text
        if rng.random() >= _LOWERED_SHARE:
            return text
        return tuple(token.lower() if token in capitals else token for token in text)

    def _printed_text(self, rng: np.random.Generator) -> tuple[str, ...]:
        """Sample a text; as in articles and books, a period or comma follows some of them."""
        text = self._text(rng)
        mark = rng.choice((".", ","))
        if rng.random() >= _PUNCTUATED_SHARE or mark not in self.vocabulary.tokens:
            return text
        return text if text[-1] in (".", ",") else (*text, str(mark))

    def _environments(self) -> tuple[str, ...]:
        known = set(self.vocabulary.tokens)
        wanted = self.environments or COMPOSED
        usable = tuple(name for name in wanted if f"\\begin{{{name}}}" in known)
        if not usable or not {"&", "\\\\"} <= known:
            raise ConfigError("data.vocabulary: lacks environments, which the source 'lines' needs")
        return usable

    def _written(self, source: SourceConfig, texts: TextSource) -> Sampler:
        plain, subject = (
            TextSampler(texts, InkWriter(self.bank, self._template((), subject)), self.length)
            for subject in (False, True)
        )
        return self._with_camera(source, plain, subject, by_hand=True)

    def _typeset(self, source: SourceConfig, texts: TextSource) -> Sampler:
        kinds = list(self.fonts.items())
        shares = {"math": 1 - _HANDWRITING_SHARE, "handwriting": _HANDWRITING_SHARE}
        plain, subject = (
            WeightedSampler(
                [
                    TextSampler(texts, self._typesetter(kind, bank, subject), self.length)
                    for kind, bank in kinds
                ],
                [shares[kind] for kind, _ in kinds],
                self.length,
            )
            for subject in (False, True)
        )
        return self._with_camera(source, plain, subject, by_hand=False)

    def _typesetter(self, kind: str, bank: SymbolBank, subject: bool) -> Writer:
        margin = 12 if self.image.margin is None else self.image.margin
        return PrintWriter(
            bank,
            self.config.scale_range or (1.0, 1.0),
            scale=1.0 if subject else self.image.scale,
            margin=2 if subject else max(1, round(margin * self.image.scale)),
            max_pixels=self.subject_pixels if subject else self.image.max_pixels,
            handwriting=kind == "handwriting",
        )

    def _template(self, inks: Sequence[AlignedInk], subject: bool) -> InkSampler:
        style = RenderStyle(scale=1.0, margin=(2, 2))
        if not subject:
            style = RenderStyle(scale=self.image.scale)
            if self.image.margin is not None:
                style = RenderStyle(self.image.scale, (self.image.margin, self.image.margin))
        strength = self.config.distortion
        return InkSampler(
            inks,
            style,
            scale_range=self.config.scale_range,
            augment=StrokeAugmentation().scaled(strength) if strength else None,
            max_pixels=self.subject_pixels if subject else self.image.max_pixels,
        )

    def _with_camera(
        self, source: SourceConfig, plain: Sampler, subject: Sampler, by_hand: bool
    ) -> Sampler:
        if not source.camera:
            return plain
        kinds = HAND_KINDS if by_hand else PRINT_KINDS
        scale, limit = self.image.scale, self.image.max_pixels
        return CameraSampler(plain, subject, source.camera, kinds, scale, limit)


def held_out_texts(config: DataConfig) -> list[tuple[str, ...]]:
    """Return the texts of validation and test sets.

    These are all splits of the images but the one to train on, the validation split, and all
    splits of `validation_photos` and `held_out`.
    """
    splits = [] if config.images is None else list_splits(config.images)
    texts = [
        example.tokens
        for split in splits
        if split != config.train
        for example in open_images(str(config.images), split)
    ]
    if config.validation not in splits and config.ink is not None:
        texts += [ink.tokens for ink in load_ink(config.ink, config.validation)]
    for path in (*config.validation_photos, *config.held_out):
        texts += dataset_captions(path)
    return texts


def dataset_captions(path: str, chosen: str | None = None) -> list[tuple[str, ...]]:
    """Return the captions of a dataset of images or ink.

    Args:
        path: A folder or a zip archive.
        chosen: The split; all splits if None.

    Raises:
        ConfigError: If there are none.
    """
    files = open_files(path)
    captions = [
        dataset[index].tokens
        for one in FORMATS
        for split in one.list_splits(files)
        if chosen in (None, split)
        for dataset in [one.open_split(files, split)]
        for index in range(len(dataset))
    ]
    if not captions:
        raise ConfigError(
            f"data.held_out: {path} has no captions" + (f" of {chosen}" if chosen else "")
        )
    return captions
