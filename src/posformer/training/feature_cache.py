"""Feature maps of a frozen encoder, computed once and cached in files.

A cached sample has the interface of any other `Sample`: its size and tokens are known before it is
rendered, and `render` reads the features. So batches are packed as usual, and the boxes are those
of the image that was encoded.
"""

import hashlib
import json
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from rich.console import Console
from rich.progress import track

from posformer.atomic import atomic_folder
from posformer.data import Sample, Sampler, pack_batches
from posformer.data.storage import open_files
from posformer.models.model_config import STRIDE
from posformer.models.padding import pad_images
from posformer.training.datasets import Examples
from posformer.training.frozen_encoder import FrozenEncoder
from posformer.training.training_config import DataConfig, TrainingConfig

_FORMAT = 2  # raise it whenever rendering or encoding changes
_FEATURES, _SAMPLES = "features.f16", "samples.npz"
_CHUNK = 256  # samples packed by size and encoded together
_PIXELS = 200_000  # per batch; more is not faster on a CPU
_AUGMENTATION = frozenset(
    ("scale_range", "distortion", "substitution", "subtree_swap", "synthesis", "vocabulary")
)
_VALIDATION = frozenset(("validation", "validation_limit"))


@dataclass(frozen=True)
class FeatureSample:
    """An encoded sample; see `Sample`."""

    name: str
    tokens: tuple[str, ...]
    height: int  # of the image, in pixels
    width: int
    boxes: np.ndarray | None  # float32 (tokens, 4)
    file: Path
    start: int  # first number in the file
    channels: int

    def render(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the features, float16 (height, width, channels), and the boxes of the tokens."""
        shape = (*_feature_size(self.height, self.width), self.channels)
        count, offset = int(np.prod(shape)), self.start * np.dtype(np.float16).itemsize
        return np.fromfile(self.file, np.float16, count, offset=offset).reshape(shape), self.boxes


class FeatureStore:
    """Encoded samples in a folder: the features in one file, the rest in another.

    Raises:
        ValueError: If the files do not fit each other; or an error of reading files.
    """

    def __init__(self, folder: Path) -> None:
        with np.load(folder / _SAMPLES, allow_pickle=False) as arrays:
            texts = json.loads(arrays["texts"].tobytes())
            self._names = [name for name, _ in texts]
            self._captions = [tuple(text.split()) for _, text in texts]
            self._sizes, self._starts = arrays["sizes"], arrays["starts"]
            self._boxes = arrays["boxes"] if len(arrays["boxes"]) else None
            self._channels = int(arrays["channels"])
        self._file = folder / _FEATURES
        self._ends = np.cumsum([len(tokens) for tokens in self._captions])
        cells = sum(int(np.prod(_feature_size(height, width))) for height, width in self._sizes)
        if self._file.stat().st_size != cells * self._channels * np.dtype(np.float16).itemsize:
            raise ValueError(f"{self._file}: the size does not fit {_SAMPLES}")

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: int) -> FeatureSample:
        tokens, end = self._captions[index], int(self._ends[index])
        height, width = self._sizes[index].tolist()
        return FeatureSample(
            self._names[index],
            tokens,
            height,
            width,
            boxes=None if self._boxes is None else self._boxes[end - len(tokens) : end],
            file=self._file,
            start=int(self._starts[index]),
            channels=self._channels,
        )


@dataclass(frozen=True)
class FeatureSampler:
    """Samples one of the encoded versions of an example; see `Sampler`."""

    versions: tuple[FeatureStore, ...]  # each has one version of every example

    def __len__(self) -> int:
        return len(self.versions[0])

    def sample(self, index: int, rng: np.random.Generator) -> FeatureSample:
        """Return a random version of an example."""
        return self.versions[int(rng.integers(len(self.versions)))][index]


def cache_features(config: TrainingConfig, examples: Examples, encoder: FrozenEncoder) -> Examples:
    """Encode examples; features that are in the cache are not computed again.

    Args:
        config: Its `frozen` section sets the number of augmented versions and the cache folder.
        examples: Examples to encode.
        encoder: The frozen encoder.

    Returns:
        The same examples, with features in place of images.
    """
    assert config.frozen is not None
    data, folder = config.data, Path(config.frozen.cache)

    def store(name: str, sampler: Sampler, ignored: frozenset[str], seed: int = 0) -> FeatureStore:
        settings = {key: value for key, value in asdict(data).items() if key not in ignored}
        key = [_FORMAT, encoder.digest, settings, _file_states(data), seed]
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
        return _open_store(folder / f"features-{name}-{digest}", sampler, encoder, seed)

    versions = [store("train", examples.unaugmented, _AUGMENTATION | _VALIDATION)]
    for seed in range(1, config.frozen.variants + 1):
        versions.append(store(f"train-{seed}", examples.train, _VALIDATION, seed))
    validation = store("validation", examples.validation, _AUGMENTATION | {"limit"})
    return replace(
        examples,
        train=FeatureSampler(tuple(versions)),
        unaugmented=FeatureSampler((versions[0],)),
        validation=FeatureSampler((validation,)),
    )


def _open_store(folder: Path, sampler: Sampler, encoder: FrozenEncoder, seed: int) -> FeatureStore:
    try:
        return FeatureStore(folder)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        shutil.rmtree(folder, ignore_errors=True)  # missing or damaged
    with atomic_folder(folder, replace=False) as fresh:
        _write_store(fresh, sampler, encoder, seed)
    return FeatureStore(folder)


def _write_store(folder: Path, sampler: Sampler, encoder: FrozenEncoder, seed: int) -> None:
    count = len(sampler)
    texts: list[tuple[str, str]] = []
    boxes: list[np.ndarray | None] = [None] * count
    sizes, starts = np.zeros((count, 2), np.int32), np.zeros(count, np.int64)
    console = Console(stderr=True)
    chunks = np.array_split(np.arange(count), -(-count // _CHUNK))
    with (folder / _FEATURES).open("wb") as file:
        for chunk in track(
            chunks, f"Encoding {count} images", console=console, disable=not console.is_terminal
        ):
            samples = [sampler.sample(i, np.random.default_rng([seed, i])) for i in chunk.tolist()]
            texts += [(sample.name, " ".join(sample.tokens)) for sample in samples]
            sizes[chunk] = [(sample.height, sample.width) for sample in samples]
            for index, start, found in _encode(samples, encoder, file):
                starts[chunk[index]], boxes[chunk[index]] = start, found
    known = [found for found in boxes if found is not None]
    np.savez(
        folder / _SAMPLES,
        texts=np.frombuffer(json.dumps(texts).encode(), np.uint8),
        sizes=sizes,
        starts=starts,
        boxes=np.concatenate(known) if len(known) == count else np.zeros((0, 4), np.float32),
        channels=encoder.net.channels,
    )


@torch.inference_mode()
def _encode(
    samples: Sequence[Sample], encoder: FrozenEncoder, file: BinaryIO
) -> Iterator[tuple[int, int, np.ndarray | None]]:
    """Write features; yield the index of each sample, the start of its features, its boxes."""
    masked = encoder.config.encoder.mask_padding
    packed = pack_batches(
        np.array([(sample.height, sample.width, 1) for sample in samples], np.int64),
        max_pixels=_PIXELS,
        # Without masking, the features of an image depend on its padding.
        max_images=len(samples) if masked else 1,
        rng=np.random.default_rng(0),
    )
    for members in packed:
        rendered = [samples[index].render() for index in members.tolist()]
        padded = pad_images([image for image, _ in rendered], whole_cells=masked)
        images, padding = (torch.from_numpy(part) for part in padded)
        features, _ = encoder.net(images.contiguous(memory_format=torch.channels_last), padding)
        halves = features.permute(0, 2, 3, 1).to(torch.float16).numpy()
        for index, (_, boxes), half in zip(members.tolist(), rendered, halves, strict=True):
            height, width = _feature_size(samples[index].height, samples[index].width)
            yield index, file.tell() // half.itemsize, boxes
            file.write(half[:height, :width].tobytes())


def _feature_size(height: int, width: int) -> tuple[int, int]:
    return -(-int(height) // STRIDE), -(-int(width) // STRIDE)


def _file_states(data: DataConfig) -> list[Any]:
    """Return names, sizes and modification times of the files of the data sets."""
    found = []
    for path in (data.images, data.ink):
        if path is not None:
            files = open_files(path)
            is_file = files.path.is_file()
            paths = [files.path] if is_file else [files.path / name for name in files.names()]
            states = [(file.name, file.stat()) for file in paths]
            found.append([(name, state.st_size, state.st_mtime_ns) for name, state in states])
    return found
