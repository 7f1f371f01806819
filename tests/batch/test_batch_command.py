"""`posformer batch` in real processes: results, kills, interrupts, poison, two runs at once."""

import json
import os
import random
import re
import signal
import sys
import tarfile
import time
from pathlib import Path

import pytest
from batch_runs import (
    EXAMPLES,
    IMAGES,
    PLENTY,
    children,
    is_alive,
    many,
    pipe_in_use,
    rows,
    run,
    start,
    wait_until,
)

from hostile import nested_pdf
from posformer import Recognizer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="uses pipes and /proc")


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    """The LaTeX of each example."""
    recognizer = Recognizer.load()
    return {path.name: recognizer.recognize(path, greedy=True).latex for path in IMAGES}


def paths_of(listed: Path) -> list[str]:
    return listed.read_text().splitlines()


def test_rows_of_files_lists_and_archives(expected, tmp_path):
    some = IMAGES[:3]
    (tmp_path / "inputs.txt").write_text("".join(f"{path}\n" for path in some))
    with tarfile.open(tmp_path / "shard.tar", "w") as archive:
        for path in some:
            archive.add(path, path.name)
    sources = tmp_path / "inputs.txt", tmp_path / "shard.tar", IMAGES[3], tmp_path / "gone.txt"
    (tmp_path / "gone.txt").write_text("no/such.png\n")
    done = run(*sources, "-o", tmp_path / "out", "--part-size", 3, code=1)
    found = rows(tmp_path / "out")
    names = [*map(str, some), *(f"{tmp_path}/shard.tar#{path.name}" for path in some)]
    assert [row["path"] for row in found] == [*names, str(IMAGES[3]), "no/such.png"]
    latex = [expected[path.name] for path in (*some, *some, IMAGES[3])]
    assert [row["latex"] for row in found] == [*latex, None]
    assert found[-1]["error_kind"] == "image" and "no such file" in found[-1]["error"].lower()
    assert "inputs: 8, part files: 3, errors: 1 image" in done.stdout
    for row in found[:-1]:
        assert 0 < row["confidence"] <= 1 and row["milliseconds"] > 0 and row["error"] is None
        assert row["model"].startswith("default@") and row["alternatives"] == []


def test_parquet_in_and_out(expected, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    contents = [path.read_bytes() for path in IMAGES[:5]]
    names = [path.name for path in IMAGES[:5]]
    plain = {"name": names, "label": ["?"] * 5, "image": contents}
    nested = {"image": [{"bytes": one, "path": None} for one in contents]}
    pq.write_table(pa.table(plain), tmp_path / "plain.parquet", row_group_size=2)
    pq.write_table(pa.table(nested), tmp_path / "nested.parquet", row_group_size=3)
    out = tmp_path / "out"
    named = ("--format", "parquet", "--key-column", "name", "--top-k", 1)
    run(tmp_path / "plain.parquet", "-o", out, *named, "--part-size", 2)
    table = pq.read_table(out)
    assert table["path"].to_pylist() == names
    assert table["latex"].to_pylist() == [expected[name] for name in names]
    assert table.schema.names == [
        *("path", "latex", "confidence", "alternatives", "error", "error_kind", "model"),
        "milliseconds",
    ]
    assert "5 before" in run(tmp_path / "plain.parquet", "-o", out, *named, "--part-size", 2).stdout
    run(tmp_path / "nested.parquet", "-o", tmp_path / "other")
    found = rows(tmp_path / "other")
    assert [row["latex"] for row in found] == [expected[name] for name in names]
    assert found[4]["path"] == f"{tmp_path}/nested.parquet#4"


def killed_after(parts: int, *arguments: object) -> None:
    """Start a job and kill it with SIGKILL when it has written some parts."""
    out = Path(str(arguments[arguments.index("-o") + 1]))
    process = start(*arguments)
    wait_until(lambda: len(list(out.glob("part-*"))) >= parts or process.poll() is not None)
    workers = children(process.pid)
    process.kill()
    process.communicate(timeout=PLENTY)
    wait_until(lambda: not any(map(is_alive, workers)))  # they do not outlive it


def test_a_killed_job_continues(expected, tmp_path):
    listed, out = many(tmp_path / "in", 40), tmp_path / "out"
    job = (listed, "-o", out, "--part-size", 2, "--workers", 2)
    for parts in (1, 4, 7):
        killed_after(parts, *job)
    before = {file: file.stat().st_mtime_ns for file in out.glob("part-*")}
    assert 7 <= len(before) < 20
    (out / ".part-00000019.jsonl.abc.part").write_text("what a killed run was writing")
    done = run(*job)
    found = rows(out)
    assert [row["path"] for row in found] == paths_of(listed)  # each once, in order
    assert [row["latex"] for row in found] == [
        expected[Path(row["path"]).resolve().name] for row in found
    ]
    assert all(file.stat().st_mtime_ns == time_ for file, time_ in before.items())
    assert f"{2 * len(before)} before" in done.stdout
    assert not list(out.glob(".*.part"))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_kills_at_random_moments(tmp_path):
    listed, out = many(tmp_path / "in", 60), tmp_path / "out"
    job = (listed, "-o", out, "--part-size", 3, "--workers", 2)
    moments = random.Random(0)
    for _ in range(12):
        process = start(*job)
        time.sleep(moments.uniform(0.2, 4.0))
        process.kill()
        process.communicate(timeout=PLENTY)
    run(*job)
    assert [row["path"] for row in rows(out)] == paths_of(listed)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_finishes_the_parts_at_hand(number, tmp_path):
    listed, out, gate = many(tmp_path / "in", 30), tmp_path / "out", tmp_path / "in" / "0003.png"
    gate.unlink()
    os.mkfifo(gate)
    job = (listed, "-o", out, "--part-size", 2, "--workers", 1)
    process = start(*job)
    ends: list[int] = []
    wait_until(lambda: (end := pipe_in_use(gate)) is not None and not ends.append(end))
    process.send_signal(number)
    assert "finishing the parts at hand" in process.stderr.readline()
    os.set_blocking(ends[0], True)
    with os.fdopen(ends[0], "wb") as stream:
        stream.write(IMAGES[3].read_bytes())
    _, errors = process.communicate(timeout=PLENTY)
    assert process.returncode == 130 and "run the same command to continue" in errors
    found = rows(out)
    assert 4 <= len(found) < 30 and len(found) % 2 == 0
    assert [row["path"] for row in found] == paths_of(listed)[: len(found)]
    assert not any(row["error"] for row in found)
    gate.unlink()
    gate.symlink_to(IMAGES[3])
    run(*job)
    assert [row["path"] for row in rows(out)] == paths_of(listed)


def test_native_code_that_crashes_or_hangs_is_an_error_row(expected, tmp_path):
    listed = many(tmp_path / "in", 8)
    poison, pipe, bomb = (tmp_path / name for name in ("poison.png", "pipe.png", "bomb.pdf"))
    poison.symlink_to(IMAGES[0])
    os.mkfifo(pipe)  # nobody writes to it
    bomb.write_bytes(nested_pdf())
    paths = paths_of(listed)
    paths[2:2], paths[5:5], paths[7:7] = [[str(one)] for one in (poison, pipe, bomb)]
    listed.write_text("".join(f"{path}\n" for path in paths))
    log, crashing = tmp_path / "log", Path(__file__).with_name("crashing")
    environment = {
        "POISON_LOG": str(log),
        "PYTHONPATH": os.pathsep.join([str(crashing), os.environ.get("PYTHONPATH", "")]),
    }
    out = tmp_path / "out"
    arguments = (listed, "-o", out, "--timeout", 4, "--workers", 2)
    done = run(*arguments, code=1, **environment)
    found = {row["path"]: row for row in rows(out)}
    assert list(found) == paths and len(rows(out)) == len(paths)
    assert found[str(poison)]["error_kind"] == "crash"
    assert found[str(pipe)]["error_kind"] == "time"
    # It ends PDFium's process after some seconds: before the time limit on a fast machine.
    assert found[str(bomb)]["error_kind"] in ("time", "crash")
    attempts = log.read_text().split()
    assert len(set(attempts)) >= 2  # in a fresh process
    good = [row for row in found.values() if not row["error"]]
    assert len(good) == 8
    assert all(row["latex"] == expected[Path(row["path"]).resolve().name] for row in good)
    summary = re.search(r"errors: \d time, \d crash|errors: \d crash, \d time", done.stdout)
    assert summary and sum(map(int, re.findall(r"\d", summary[0]))) == 3
    assert summary[0] in run(*arguments, code=1).stdout  # not tried again


def test_a_killed_worker_is_replaced(tmp_path):
    listed, out, gate = many(tmp_path / "in", 6), tmp_path / "out", tmp_path / "in" / "0002.png"
    gate.unlink()
    os.mkfifo(gate)
    process = start(listed, "-o", out, "--workers", 1)
    killed = set()
    while len(killed) < 2:  # the retry, too
        ends: list[int] = []
        wait_until(lambda: (end := pipe_in_use(gate)) is not None and not ends.append(end))  # noqa: B023
        (worker,) = (one for one in children(process.pid) if is_alive(one))
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: not is_alive(worker))  # noqa: B023
        os.close(ends[0])
        killed.add(worker)
    process.communicate(timeout=PLENTY)
    assert process.returncode == 1
    kinds = [row["error_kind"] for row in rows(out)]
    assert kinds == [None, None, "crash", None, None, None]


def test_a_second_run_is_refused(tmp_path):
    listed, out, gate = many(tmp_path / "in", 6), tmp_path / "out", tmp_path / "in" / "0004.png"
    gate.unlink()
    os.mkfifo(gate)
    job = (listed, "-o", out, "--part-size", 2)
    process = start(*job)
    ends: list[int] = []
    wait_until(lambda: (end := pipe_in_use(gate)) is not None and not ends.append(end))
    (out / ".part-00000002.jsonl.x.part").write_text("what the first run is writing")
    before = sorted(file.name for file in out.iterdir())
    refused = run(*job, code=2)
    assert refused.stderr == f"posformer: {out}: another run is writing its results there\n"
    assert sorted(file.name for file in out.iterdir()) == before
    os.set_blocking(ends[0], True)
    with os.fdopen(ends[0], "wb") as stream:
        stream.write(IMAGES[4].read_bytes())
    process.communicate(timeout=PLENTY)
    assert process.returncode == 0
    assert [row["path"] for row in rows(out)] == paths_of(listed)


def test_another_job_or_a_changed_source_is_refused(tmp_path):
    listed, out = many(tmp_path / "in", 3), tmp_path / "out"
    run(listed, "-o", out, "--part-size", 2)
    content = {file.name: file.read_bytes() for file in out.iterdir()}

    def refusal(*arguments: object) -> str:
        error = run(*arguments, code=2).stderr
        assert error.count("\n") == 1
        assert {file.name: file.read_bytes() for file in out.iterdir()} == content
        return error

    assert "other part size" in refusal(listed, "-o", out, "--part-size", 3)
    assert "other decoding options" in refusal(
        listed, "-o", out, "--part-size", 2, "--no-constrained"
    )
    assert "other sources" in refusal(EXAMPLES, "-o", out, "--part-size", 2)
    paths = paths_of(listed)
    listed.write_text("\n".join([paths[1], paths[0], paths[2]]) + "\n")
    assert "the source has changed" in refusal(listed, "-o", out, "--part-size", 2)
    listed.write_text("\n".join(paths[:2]) + "\n")
    assert "inputs that are gone" in refusal(listed, "-o", out, "--part-size", 2)
    listed.write_text("\n".join([*paths, paths[0]]) + "\n")  # it may grow
    assert "2 before" in run(listed, "-o", out, "--part-size", 2).stdout
    assert [row["path"] for row in rows(out)] == [*paths, paths[0]]


def test_mistakes_are_one_line(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.md").write_text("mine")
    (tmp_path / "empty").mkdir()
    for source, output, text in (
        (tmp_path / "missing", "out", "missing: no such file or folder"),
        (tmp_path / "empty", "out2", "there are no inputs"),
        (EXAMPLES, "other", "contains 'notes.md'"),
        (EXAMPLES, "other/notes.md", "is not a folder"),
        (EXAMPLES, EXAMPLES / "out", "would be read again"),
        ("nosuch://bucket/x.png", "out3", "nosuch"),
    ):
        done = run(source, "-o", tmp_path / output, code=2)
        assert text in done.stderr and done.stderr.count("\n") == 1, done.stderr
    missing = run(EXAMPLES, "-o", tmp_path / "out4", "--model", tmp_path / "none", code=2)
    assert str(tmp_path / "none") in missing.stderr and missing.stderr.count("\n") == 1
    assert (tmp_path / "other" / "notes.md").read_text() == "mine"


def test_json_of_a_part(tmp_path):
    run(IMAGES[0], "-o", tmp_path / "out")
    (part,) = (tmp_path / "out").glob("part-*")
    assert list(json.loads(part.read_text())) == [
        *("path", "latex", "confidence", "alternatives", "error", "error_kind", "model"),
        "milliseconds",
    ]
