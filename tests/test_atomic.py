"""Atomic files and folders."""

import pytest

from posformer.atomic import atomic_folder, atomic_path, atomic_write, move_file


def test_atomic_write_creates_parents_and_replaces(tmp_path):
    target = tmp_path / "new" / "file.txt"
    for text in ("first", "second"):
        atomic_write(target, text)
        assert target.read_text() == text
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("problem", [RuntimeError, KeyboardInterrupt])
def test_failure_keeps_the_existing_file(tmp_path, problem):
    target = tmp_path / "file.txt"
    target.write_text("before")
    with pytest.raises(problem), atomic_path(target) as part:
        part.write_text("after")
        raise problem
    assert target.read_text() == "before"
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


def test_a_folder_that_cannot_be_replaced_is_kept(tmp_path, monkeypatch):
    target = tmp_path / "folder"
    target.mkdir()
    (target / "old").touch()
    rename = type(target).rename

    def fail(path, other):
        if path.parent == tmp_path and path != target:
            raise OSError("the disk is gone")
        return rename(path, other)

    monkeypatch.setattr(type(target), "rename", fail)
    with pytest.raises(OSError, match="the disk is gone"), atomic_folder(target) as part:
        (part / "new").touch()
    assert [file.name for file in target.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [target]


def test_content_is_on_disk_before_the_name(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr("os.fsync", lambda _: calls.append((tmp_path / "new").exists()))
    (tmp_path / "part").write_text("x")
    move_file(tmp_path / "part", tmp_path / "new")
    assert calls == [False, True]  # the file, then its folder


def test_atomic_folder_can_keep_the_first(tmp_path):
    target = tmp_path / "folder"
    with atomic_folder(target, replace=False) as part:
        (part / "ours").touch()
        target.mkdir()
        (target / "theirs").touch()
    assert [file.name for file in target.iterdir()] == ["theirs"]
    assert list(tmp_path.iterdir()) == [target]
