"""Finding the inputs of a job."""

import io
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from batch_runs import IMAGES

from posformer.batch.batch_job import BatchJob
from posformer.batch.input_content import open_input
from posformer.batch.inputs import Input, iter_inputs
from posformer.errors import DataError, ImageError


def keys(*sources: object, **options: str) -> list[str]:
    return [one.key for one in iter_inputs([str(source) for source in sources], **options)]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Images in folders, below the working folder."""
    for name in ("b/2.png", "b/1.jpg", "a/3.png", "a/.hidden.png", ".git/4.png", "a/notes.md"):
        file = tmp_path / "tree" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(name.encode())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_folders_patterns_and_lists(tree):
    assert keys("tree") == ["tree/a/3.png", "tree/b/1.jpg", "tree/b/2.png"]
    assert keys("tree/**/*.png") == ["tree/a/3.png", "tree/b/2.png"]
    assert keys("tree/*/[12].*") == ["tree/b/1.jpg", "tree/b/2.png"]
    (tree / "names.txt").write_bytes(
        "tree/b/2.png\r\n\ngrün \udcff.png\n".encode("utf-8", "surrogateescape")
    )
    assert keys("names.txt") == ["tree/b/2.png", "grün \udcff.png"]
    (tree / "tree" / "b" / "odd[1].png").write_bytes(b"x")
    assert keys("tree/b/odd[1].png") == ["tree/b/odd[1].png"]  # a file that looks like a pattern
    (one,) = iter_inputs(["tree/b/2.png"])
    assert one == Input("tree/b/2.png", str(tree / "tree/b/2.png"))
    with pytest.raises(DataError, match="none: no such file"):
        keys("none")


def test_file_urls_are_paths(tree):
    assert keys(f"file://{tree}/tree/a") == [f"{tree}/tree/a/3.png"]


def test_urls_of_fsspec(tree):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    with tarfile.open(tree / "shard.tar", "w") as archive:
        archive.add(IMAGES[0], "x.png")
    for name in ("scans/2.png", "scans/deep/1.png", "scans/notes.md"):
        memory.pipe_file(f"/{name}", name.encode())
    memory.pipe_file("/shards/0.tar", (tree / "shard.tar").read_bytes())
    memory.pipe_file("/names.txt", b"memory://scans/2.png\n")
    found = ["memory:///scans/2.png", "memory:///scans/deep/1.png"]
    assert keys("memory://scans/") == found
    assert keys("memory://scans/**/*.png") == found[1:] or keys("memory://scans/**/*.png") == found
    assert keys("memory://names.txt") == ["memory://scans/2.png"]
    (member,) = iter_inputs(["memory://shards/"])
    assert member.key == "memory:///shards/0.tar#x.png"
    assert open_input(member).getvalue() == IMAGES[0].read_bytes()
    (listed,) = iter_inputs(["memory://names.txt"])
    assert open_input(listed).getvalue() == b"scans/2.png"
    assert isinstance(open_input(Input("gone", "memory://gone.png")), ImageError)


def test_members_of_tar_files(tree):
    with tarfile.open(tree / "shard.tar", "w") as archive:
        for number in range(2500):
            for suffix, content in (("png", b"image %d" % number), ("json", b"{}")):
                member = tarfile.TarInfo(f"{number:05d}.{suffix}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    found = list(iter_inputs(["shard.tar"]))
    assert [one.key for one in found] == [f"shard.tar#{n:05d}.png" for n in range(2500)]
    assert open_input(found[1234]).read() == b"image 1234"


def test_damaged_archives_are_inputs_with_an_error(tree):
    pytest.importorskip("pyarrow")
    with tarfile.open(tree / "shard.tar", "w") as archive:
        archive.add(IMAGES[0], "0.png")
        archive.add(IMAGES[1], "1.png")
    content = (tree / "shard.tar").read_bytes()
    (tree / "shard.tar").write_bytes(content[: IMAGES[0].stat().st_size + 1000])
    first, *rest = iter_inputs(["shard.tar"])
    assert first.key == "shard.tar#0.png" and first.error is None
    read = [open_input(one) for one in rest]
    assert read and all(isinstance(one, ImageError) for one in read)
    (tree / "bad.parquet").write_bytes(b"PAR1 nothing")
    (tree / "packed.tar.gz").write_bytes(b"")
    for name in ("bad.parquet", "packed.tar.gz", "missing.tar"):
        (tree / "names.txt").write_text(f"{name}\n")
        (one,) = iter_inputs(["names.txt"])
        assert one.key == name and one.error, name
        assert isinstance(open_input(one), ImageError)


def test_memory_does_not_grow_with_the_number_of_inputs(tree):
    listed = tree / "names.txt"
    with listed.open("w") as file:
        file.writelines(f"/nowhere/{number:09d}.png\n" for number in range(250_000))
    job = BatchJob((str(listed),), str(tree / "out"), part_size=1000)

    def peak(work: Callable[[], int]) -> int:
        tracemalloc.start()
        try:
            assert work() == 250_000
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # The interpreter's table of names may grow meanwhile, by a dozen megabytes.
    stream = peak(lambda: sum(len(part.inputs) for part in job.parts()))
    assert stream < peak(lambda: len(list(iter_inputs([str(listed)])))) / 2
