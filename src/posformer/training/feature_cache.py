"""Feature maps of a frozen encoder, computed once and cached in files.

A cached sample has the interface of any other `Sample`: its size and tokens are known before it is
rendered, and `render` reads the features. So batches are packed as usual, and the boxes are those
of the image that was encoded.
"""

import hashlib
import json
import math
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

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

_FORMAT = 3  # raise it whenever rendering or encoding changes
_FEATURES, _SAMPLES = "features.f16", "samples.json"
_CHUNK = 256  # samples packed by size and encoded together
_PIXELS = 200_000  # per batch; more is not faster on a CPU
_AUGMENTATION = {
    "scale_range", "distortion", "substitution", "subtree_swap", "synthesis", "vocabulary"
}  # fmt: skip
_VALIDATION = {"validation", "validation_limit"}


@dataclass(frozen=True)
class FeatureSample:
    """An encoded sample; see `Sample`."""

    file: Path
    start: int  # first byte in the file
    name: str
    height: int  # of the image, in pixels
    width: int
    tokens: tuple[str, ...]
    shape: tuple[int, ...]  # of the features
    boxes: np.ndarray | None  # float32 (tokens, 4)

    def render(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the features, float16 (height, width, channels), and the boxes of the tokens."""
        numbers = np.fromfile(self.file, np.float16, math.prod(self.shape), offset=self.start)
        return numbers.reshape(self.shape), self.boxes


@dataclass(frozen=True)
class FeatureSampler:
    """Samples one of the encoded versions of an example; see `Sampler`."""

    versions: tuple[list[FeatureSample], ...]  # each has one version of every example

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

    def store(name: str, sampler: Sampler, ignored: set[str], seed: int = 0) -> list[FeatureSample]:
        settings = {key: value for key, value in asdict(data).items() if key not in ignored}
        key = [_FORMAT, encoder.digest, settings, _file_states(data), seed]
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
        path = folder / f"features-{name}-{digest}"
        try:
            return _read_store(path)
        except (OSError, ValueError, LookupError, TypeError):
            shutil.rmtree(path, ignore_errors=True)  # missing or damaged
        with atomic_folder(path, replace=False) as fresh:
            _write_store(fresh, sampler, encoder, seed)
        return _read_store(path)

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


def _read_store(folder: Path) -> list[FeatureSample]:
    """Return the samples of a folder: features are in one file, the rest in another.

    Raises:
        ValueError: If the files do not fit each other; or an error of reading files.
    """
    file, samples = folder / _FEATURES, []
    for record in json.loads((folder / _SAMPLES).read_text(encoding="utf-8")):
        record["tokens"], record["shape"] = tuple(record["tokens"]), tuple(record["shape"])
        if record["boxes"] is not None:
            record["boxes"] = np.array(record["boxes"], np.float32)
        samples.append(FeatureSample(file, **record))
    numbers = sum(math.prod(sample.shape) for sample in samples)
    if file.stat().st_size != numbers * np.dtype(np.float16).itemsize:
        raise ValueError(f"{file}: the size does not fit {_SAMPLES}")
    return samples


def _write_store(folder: Path, sampler: Sampler, encoder: FrozenEncoder, seed: int) -> None:
    count = len(sampler)
    records: dict[int, dict[str, Any]] = {}
    console, label = Console(stderr=True), f"Encoding {count} images"
    starts = range(0, count, _CHUNK)
    with (folder / _FEATURES).open("wb") as file:
        for first in track(starts, label, console=console, disable=not console.is_terminal):
            chunk = range(first, min(first + _CHUNK, count))
            samples = [sampler.sample(i, np.random.default_rng([seed, i])) for i in chunk]
            for index, features, boxes in _encode(samples, encoder):
                one, places = samples[index], None if boxes is None else boxes.tolist()
                size = {"height": int(one.height), "width": int(one.width)}
                text = {"name": one.name, "tokens": one.tokens, "boxes": places}
                place = {"start": file.tell(), "shape": features.shape}
                records[first + index] = text | size | place
                file.write(features.tobytes())
    ordered = [records[index] for index in range(count)]
    (folder / _SAMPLES).write_text(json.dumps(ordered), encoding="utf-8")


@torch.inference_mode()
def _encode(
    samples: Sequence[Sample], encoder: FrozenEncoder
) -> Iterator[tuple[int, np.ndarray, np.ndarray | None]]:
    """Yield the index of each sample, its features and its boxes."""
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
            height, width = -(-samples[index].height // STRIDE), -(-samples[index].width // STRIDE)
            yield index, half[:height, :width], boxes


def _file_states(data: DataConfig) -> list[Any]:
    """Return names, sizes and modification times of the files of the data sets."""
    states = []
    for path in filter(None, (data.images, data.ink)):
        files = open_files(path)
        is_file = files.path.is_file()
        paths = [files.path] if is_file else [files.path / name for name in files.names()]
        stats = [(file.name, file.stat()) for file in paths]
        states.append([(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats])
    return states
