"""A large job: its settings, its parts, and what is left to do after an interrupt."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from posformer import __version__
from posformer.batch.inputs import Input, absolute, iter_inputs
from posformer.batch.part_files import (
    Destination,
    PartFormat,
    Row,
    check_format,
    decode_rows,
    encode_rows,
    open_destination,
    same_path,
)
from posformer.errors import ConfigError, DataError, PosformerError
from posformer.runtime.engine import model_path
from posformer.search import DecodingOptions
from posformer.text_output import json_text
from posformer.urls import is_url
from posformer.worker_pool import Budget

__all__ = ["BatchJob", "Part", "PartDone", "model_version"]

_MANIFEST = "_job.json"  # readers of datasets skip files with this prefix
_PART_NAME = re.compile(r"part-(\d+)\.(jsonl|parquet)")


@dataclass(frozen=True)
class Part:
    """Some inputs whose results are written together."""

    number: int
    inputs: Sequence[Input]


@dataclass(frozen=True)
class PartDone:
    """A part whose file is complete."""

    number: int
    count: int  # inputs
    errors: Counter[str] = field(default_factory=Counter)  # by kind
    is_new: bool = True  # False if an earlier run wrote it


@dataclass(frozen=True)
class BatchJob:
    """What to recognize, how, and where to write the results. Picklable.

    Raises:
        ConfigError: If the results would be written into a source.
    """

    sources: tuple[str, ...]  # see `iter_inputs`
    output: str  # folder, or URL of one
    model: str | None = None  # folder or checkpoint; None for the bundled model
    options: DecodingOptions = field(default_factory=DecodingOptions)
    format: PartFormat = "jsonl"
    part_size: int = 1000  # inputs per part file
    key_column: str | None = None
    budget: Budget = field(default_factory=lambda: Budget(30.0, 2048))  # per image
    images: int = 8  # decoded together
    allow_code: bool = False

    def __post_init__(self) -> None:
        check_format(self.format)
        for source in self.sources:
            if is_url(source) or is_url(self.output):
                continue
            path, output = Path(source).resolve(), Path(self.output).resolve()
            if path == output or path in output.parents:
                raise ConfigError(f"{self.output}: lies in {source}, which would be read again")

    @property
    def destination(self) -> Destination:
        """The folder of the part files."""
        return open_destination(self.output)

    def parts(self) -> Iterator[Part]:
        """Yield the parts of the job, always the same ones."""
        inputs = iter_inputs(self.sources, self.key_column)
        number = 0
        while some := tuple(islice(inputs, self.part_size)):
            yield Part(number, some)
            number += 1

    def prepare(self) -> None:
        """Write down what the job is, or check that an interrupted job is the same one.

        Raises:
            PosformerError: If the folder holds anything else.
        """
        destination, manifest = self.destination, self._manifest()
        stored = destination.read(_MANIFEST)
        if stored is None:
            if names := destination.names():
                raise PosformerError(
                    f"{self.output}: contains {names[0]!r}, which is no part of a job; "
                    "choose another folder"
                )
            destination.write(_MANIFEST, (json_text(manifest, indent=2) + "\n").encode())
            return
        try:
            earlier = dict(json.loads(stored))
        except (ValueError, TypeError) as error:
            raise PosformerError(f"{self.output}/{_MANIFEST}: damaged") from error
        del manifest["program"]  # an interrupted job may be continued with a newer version
        for name, value in manifest.items():
            if earlier.get(name) != json.loads(json_text(value)):
                raise PosformerError(
                    f"{self.output}: holds the results of a job with other {name}; "
                    "choose another folder"
                )

    def find_done(self, part: Part) -> PartDone | None:
        """Return what an earlier run has found for a part; None if it is to be done.

        The last part of a source that has grown since is done again, as is a damaged one.

        Raises:
            DataError: If its file holds the results of other inputs.
        """
        name = self._name(part.number)
        content = self.destination.read(name)
        if content is None:
            return None
        try:
            rows = decode_rows(content, self.format)
        except ValueError:
            return None
        pairs = zip(rows, part.inputs, strict=False)
        if len(rows) > len(part.inputs) or not all(
            same_path(path, one.key) for (path, _), one in pairs
        ):
            raise DataError(
                f"{self.output}/{name}: holds the results of other inputs: the source has changed "
                "since the job began; choose another folder"
            )
        if len(rows) < len(part.inputs):
            return None
        errors = Counter(kind for _, kind in rows if kind)
        return PartDone(part.number, len(rows), errors, is_new=False)

    def write(self, part: Part, rows: Sequence[Row]) -> PartDone:
        """Write the file of a part."""
        self.destination.write(self._name(part.number), encode_rows(rows, self.format))
        errors = Counter(row["error_kind"] for row in rows if row["error_kind"])
        return PartDone(part.number, len(rows), errors)

    def check_complete(self, parts: int) -> None:
        """Raise an error if there are more part files than the job has parts."""
        found = (_PART_NAME.fullmatch(name) for name in self.destination.names())
        if any(match and int(match[1]) >= parts for match in found):
            raise DataError(
                f"{self.output}: has results of inputs that are gone: the source has changed "
                "since the job began"
            )

    def _name(self, number: int) -> str:
        return f"part-{number:08d}.{self.format}"

    def _manifest(self) -> dict[str, Any]:
        """Return what two runs of a job have in common, by the words of error messages."""
        return {
            "program": f"posformer {__version__}",
            "sources": [[source, absolute(source)] for source in self.sources],
            "key column": self.key_column,
            "model": model_version(self.model),
            "decoding options": asdict(self.options),
            "format": self.format,
            "part size": self.part_size,
        }


def model_version(model: str | None) -> str:
    """Return the name of a model and the first digits of a checksum.

    The checksum is that of `config.json`, which has the checksums of the other files of a model
    folder; or of a checkpoint.
    """
    path = model_path(model)
    file = path / "config.json" if path.is_dir() else path
    try:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise PosformerError(f"{path}: {error.strerror or error}") from error
    return f"{path.name}@{digest[:12]}"
