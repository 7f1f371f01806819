"""Atomic files and folders."""

from pathlib import Path

import pytest

from posformer.atomic import atomic_file, atomic_folder, atomic_path, atomic_write


def test_atomic_write_creates_parents_and_replaces(tmp_path):
    target = tmp_path / "new" / "file.txt"
    for text in ("first", "second"):
        atomic_write(target, text)
        assert target.read_text() == text
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("opened", [atomic_file, atomic_path])
def test_failure_keeps_the_existing_file(tmp_path, opened):
    target = tmp_path / "file.txt"
    target.write_text("before")
    with pytest.raises(RuntimeError), opened(target) as part:
        (part.write_text if isinstance(part, Path) else part.write)("after")
        raise RuntimeError
    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("keep", [True, False])
def test_interrupted_file(tmp_path, keep):
    target = tmp_path / "file.txt"
    target.write_text("before")
    with pytest.raises(KeyboardInterrupt), atomic_file(target, keep_interrupted=keep) as stream:
        stream.write("after")
        raise KeyboardInterrupt
    assert target.read_text() == ("after" if keep else "before")
    assert list(tmp_path.iterdir()) == [target]


def test_atomic_folder_replaces_on_success_only(tmp_path):
    target = tmp_path / "new" / "folder"
    for name in ("one", "two"):
        with atomic_folder(target) as part:
            (part / name).touch()
            assert not (target / name).exists()
        assert [file.name for file in target.iterdir()] == [name]
    with pytest.raises(RuntimeError), atomic_folder(target) as part:
        (part / "three").touch()
        raise RuntimeError
    assert [file.name for file in target.iterdir()] == ["two"]
    assert list(target.parent.iterdir()) == [target]


def test_atomic_folder_can_keep_the_first(tmp_path):
    target = tmp_path / "folder"
    with atomic_folder(target, replace=False) as part:
        (part / "ours").touch()
        target.mkdir()
        (target / "theirs").touch()
    assert [file.name for file in target.iterdir()] == ["theirs"]
    assert list(tmp_path.iterdir()) == [target]
