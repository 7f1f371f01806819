"""Maps of a frozen encoder, computed once for fixed drawings and kept in a file.

A drawing that was encoded is a drawing like any other: its size and its tokens are known before it
is rendered, and rendering reads its map. So batches are packed as ever, and the boxes of the very
drawing that the encoder saw go along.
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
from posformer.models.encoder import STRIDE
from posformer.models.padding import pad_images
from posformer.training.datasets import Examples
from posformer.training.frozen_encoder import FrozenEncoder
from posformer.training.training_config import DataConfig, TrainingConfig

__all__ = ["FeatureSample", "FeatureSampler", "FeatureStore", "keep_features"]

_FORMAT = 1  # of a store; to be raised whenever drawing or encoding changes
_MAPS, _DRAWINGS = "maps.f16", "drawings.npz"
_CHUNK = 256  # drawings that are held, and packed by size, at a time
_PIXELS = 200_000  # of a batch; more would gain no speed on a CPU, only memory
_VARYING = frozenset(
    ("scale_range", "distortion", "substitution", "subtree_swap", "synthesis", "vocabulary")
)
_VALIDATING = frozenset(("validation", "validation_limit"))


@dataclass(frozen=True)
class FeatureSample:
    """A drawing that was encoded; see `Sample`."""

    name: str
    tokens: tuple[str, ...]
    height: int  # of the image, in pixels
    width: int
    boxes: np.ndarray | None
    file: Path
    start: int  # in the file, in numbers
    channels: int

    def render(self) -> tuple[np.ndarray, np.ndarray | None]:
        """The map, float16 (rows, columns, channels), and the boxes of the image's tokens."""
        shape = (*_cells(self.height, self.width), self.channels)
        count, offset = int(np.prod(shape)), self.start * np.dtype(np.float16).itemsize
        return np.fromfile(self.file, np.float16, count, offset=offset).reshape(shape), self.boxes


class FeatureStore:
    """Encoded drawings in a folder: their maps in one file, all else in another."""

    def __init__(self, folder: Path) -> None:
        """Open a store.

        Raises:
            ValueError: If it is not whole; or one of the errors of reading files.
        """
        with np.load(folder / _DRAWINGS, allow_pickle=False) as arrays:
            texts = json.loads(arrays["texts"].tobytes())
            self._names = [name for name, _ in texts]
            self._captions = [tuple(text.split()) for _, text in texts]
            self._sizes, self._starts = arrays["sizes"], arrays["starts"]
            self._boxes = arrays["boxes"] if len(arrays["boxes"]) else None
            self._channels = int(arrays["channels"])
        self._file = folder / _MAPS
        self._ends = np.cumsum([len(tokens) for tokens in self._captions])
        cells = sum(int(np.prod(_cells(height, width))) for height, width in self._sizes)
        if self._file.stat().st_size != cells * self._channels * np.dtype(np.float16).itemsize:
            raise ValueError(f"{self._file}: not of the size that {_DRAWINGS} tells")

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
    """Draws one of the encoded drawings of an example; see `Sampler`."""

    rounds: tuple[FeatureStore, ...]  # each has one drawing of every example

    def __len__(self) -> int:
        return len(self.rounds[0])

    def sample(self, index: int, rng: np.random.Generator) -> FeatureSample:
        """Chooses between the drawings."""
        return self.rounds[int(rng.integers(len(self.rounds)))][index]


def keep_features(config: TrainingConfig, examples: Examples, encoder: FrozenEncoder) -> Examples:
    """The same examples, encoded; what was encoded before is taken from the cache.

    Args:
        config: says how many variants of each example to draw, and where to keep their maps.
        examples: what to encode.
        encoder: what encodes them.
    """
    assert config.frozen is not None
    data, folder = config.data, Path(config.frozen.cache)

    def store(name: str, source: Sampler, leave_out: frozenset[str], turn: int = 0) -> FeatureStore:
        settings = {key: value for key, value in asdict(data).items() if key not in leave_out}
        key = [_FORMAT, encoder.digest, settings, _states(data), turn]
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
        return _open_store(folder / f"features-{name}-{digest}", source, encoder, turn)

    rounds = [store("train", examples.written, _VARYING | _VALIDATING)]
    for turn in range(1, config.frozen.variants + 1):
        rounds.append(store(f"train-{turn}", examples.train, _VALIDATING, turn))
    validation = store("validation", examples.validation, _VARYING | {"limit"})
    return replace(
        examples,
        train=FeatureSampler(tuple(rounds)),
        written=FeatureSampler((rounds[0],)),
        validation=FeatureSampler((validation,)),
    )


def _open_store(folder: Path, source: Sampler, encoder: FrozenEncoder, turn: int) -> FeatureStore:
    try:
        return FeatureStore(folder)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        shutil.rmtree(folder, ignore_errors=True)  # what is left of a damaged one
    with atomic_folder(folder, replace=False) as fresh:
        _write_store(fresh, source, encoder, turn)
    return FeatureStore(folder)


def _write_store(folder: Path, source: Sampler, encoder: FrozenEncoder, turn: int) -> None:
    count = len(source)
    texts: list[tuple[str, str]] = []
    boxes: list[np.ndarray | None] = [None] * count
    sizes, starts = np.zeros((count, 2), np.int32), np.zeros(count, np.int64)
    console = Console(stderr=True)
    chunks = np.array_split(np.arange(count), -(-count // _CHUNK))
    with (folder / _MAPS).open("wb") as file:
        for chunk in track(
            chunks, f"Encoding {count} drawings", console=console, disable=not console.is_terminal
        ):
            drawn = [source.sample(i, np.random.default_rng([turn, i])) for i in chunk.tolist()]
            texts += [(drawing.name, " ".join(drawing.tokens)) for drawing in drawn]
            sizes[chunk] = [(drawing.height, drawing.width) for drawing in drawn]
            for place, start, around in _encode(drawn, encoder, file):
                starts[chunk[place]], boxes[chunk[place]] = start, around
    known = [around for around in boxes if around is not None]
    np.savez(
        folder / _DRAWINGS,
        texts=np.frombuffer(json.dumps(texts).encode(), np.uint8),
        sizes=sizes,
        starts=starts,
        boxes=np.concatenate(known) if len(known) == count else np.zeros((0, 4), np.float32),
        channels=encoder.net.channels,
    )


@torch.inference_mode()
def _encode(
    drawings: Sequence[Sample], encoder: FrozenEncoder, file: BinaryIO
) -> Iterator[tuple[int, int, np.ndarray | None]]:
    """Writes maps; gives for each drawing its place, where its map starts, and its boxes."""
    masked = encoder.config.encoder.mask_padding
    sizes = np.array([(d.height, d.width, 1) for d in drawings], np.int64)
    packed = pack_batches(
        sizes,
        max_pixels=_PIXELS,
        # Where padding is not masked, an image's map depends on what stands beside it.
        max_images=len(drawings) if masked else 1,
        rng=np.random.default_rng(0),
    )
    for members in packed:
        rendered = [drawings[place].render() for place in members.tolist()]
        padded = pad_images([image for image, _ in rendered], whole_cells=masked)
        images, padding = (torch.from_numpy(part) for part in padded)
        maps, _ = encoder.net(images.contiguous(memory_format=torch.channels_last), padding)
        halves = maps.permute(0, 2, 3, 1).to(torch.float16).numpy()
        for place, (_, boxes), one in zip(members.tolist(), rendered, halves, strict=True):
            rows, columns = _cells(drawings[place].height, drawings[place].width)
            yield place, file.tell() // one.itemsize, boxes
            file.write(one[:rows, :columns].tobytes())


def _cells(height: int, width: int) -> tuple[int, int]:
    return -(-int(height) // STRIDE), -(-int(width) // STRIDE)


def _states(data: DataConfig) -> list[Any]:
    """Sizes and times of the data sets' files."""
    found = []
    for path in (data.images, data.ink):
        if path is not None:
            files = open_files(path)
            whole = files.path.is_file()
            paths = [files.path] if whole else [files.path / name for name in files.names()]
            states = [(one.name, one.stat()) for one in paths]
            found.append([(name, at.st_size, at.st_mtime_ns) for name, at in states])
    return found
