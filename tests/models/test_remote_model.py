"""Models by name, with the real client libraries and servers on loopback."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_server import HubServer, running_hub

from posformer.models.model_folder import open_folder
from posformer.runtime.engine import DEFAULT_MODEL

pytest.importorskip("huggingface_hub")
IMAGE = Path(__file__).parents[2] / "examples" / "euler.png"
LATEX = "e^{i\\pi}+1=0"

Run = Callable[..., subprocess.CompletedProcess]


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with running_hub() as server:
        yield server


def runner(**environment: str) -> Run:
    """Return a function that runs the command line; the client reads its settings at import."""

    def run(*arguments: object, code: int = 0, **more: str) -> subprocess.CompletedProcess:
        done = subprocess.run(
            [sys.executable, "-m", "posformer.cli", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, **environment, **more},
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def run(hub: HubServer, tmp_path: Path) -> Run:
    return runner(HF_ENDPOINT=hub.url, HF_HOME=str(tmp_path / "cache"), HF_TOKEN="hf_secret")


def stored(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def last_line(done: subprocess.CompletedProcess) -> str:
    assert "Traceback" not in done.stderr
    return done.stderr.strip().splitlines()[-1]


def test_a_model_of_the_hub_is_pinned_and_cached(hub, run, tmp_path):
    hub.commits["me/maths"] = []
    first = hub.commit("me/maths", {**stored(DEFAULT_MODEL), "pytorch_model.bin": b"not ours"})
    damaged = bytearray(stored(DEFAULT_MODEL)["model.safetensors"])
    damaged[5000] ^= 1
    hub.commit("me/maths", {"model.safetensors": bytes(damaged)})
    read = ("recognize", IMAGE, "--model")
    assert run(*read, f"hf://me/maths@{first}").stdout.strip() == LATEX
    assert not any("pytorch_model.bin" in one for one in hub.requests)
    error = last_line(run(*read, "hf://me/maths", code=2))
    assert error.startswith("posformer: hf://me/maths: ") and "damaged" in error
    hub.requests.clear()
    assert run(*read, f"hf://me/maths@{first}").stdout.strip() == LATEX
    assert not hub.requests  # a commit never changes
    for name in ("hf://me/none", "hf://me/maths@none", "hf://maths"):
        assert last_line(run(*read, name, code=2)).startswith(f"posformer: {name}: ")


def test_worker_processes_need_no_download(hub, run, tmp_path):
    hub.commits["me/maths"] = []
    commit = hub.commit("me/maths", stored(DEFAULT_MODEL))
    run("batch", IMAGE, "-o", tmp_path / "out", "--workers", 2, "--model", "hf://me/maths")
    row = (tmp_path / "out" / "part-00000000.jsonl").read_text()
    assert f'"model": "{commit}@' in row
    assert sum("/revision/main" in one for one in hub.requests) == 1
    run("info", "--model", "hf://me/maths")


def test_an_exported_model_is_uploaded(hub, run, tiny_folder, tmp_path):
    arguments = ("export", tiny_folder, tmp_path / "new")
    wrong = run(*arguments, "--push", "me/maths", code=2)
    assert "hf://OWNER/NAME" in last_line(wrong) and not (tmp_path / "new").exists()
    done = run(*arguments, "--push", "hf://me/maths")
    (commit,) = hub.commits["me/maths"]
    assert done.stdout.splitlines()[-1] == f"hf://me/maths@{commit}: uploaded"
    assert hub.files[commit] == stored(tmp_path / "new")
    assert "Bearer hf_secret" in hub.tokens
    details = run("info", "--model", f"hf://me/maths@{commit}").stdout
    assert str(len(open_folder(tiny_folder).vocabulary.tokens)) in details


def test_the_hub_is_unreachable(tmp_path):
    run = runner(HF_ENDPOINT="http://127.0.0.1:9", HF_HOME=str(tmp_path))
    error = last_line(run("recognize", IMAGE, "--model", "hf://me/maths", code=2))
    assert error.startswith("posformer: hf://me/maths: cannot be downloaded")


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """S3 on loopback, with a bucket."""
    moto = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    boto3 = pytest.importorskip("boto3")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3")
    client.create_bucket(Bucket="bucket")
    yield client
    server.stop()


def test_a_model_in_s3(s3, tmp_path):
    run = runner()
    for name, content in stored(DEFAULT_MODEL).items():
        s3.put_object(Bucket="bucket", Key=f"models/ours/{name}", Body=content)
    read = ("recognize", IMAGE, "--model", "s3://bucket/models/ours")
    assert run(*read).stdout.strip() == LATEX
    assert run(*read).stdout.strip() == LATEX  # from the cache
    (cached,) = (tmp_path / "cache" / "posformer" / "models").iterdir()
    assert cached.name.startswith("ours-")
    missing = run("recognize", IMAGE, "--model", "s3://bucket/models/none", code=2)
    assert last_line(missing) == "posformer: s3://bucket/models/none: no such model folder"
    config = stored(DEFAULT_MODEL)["config.json"]
    s3.put_object(Bucket="bucket", Key="models/bad/config.json", Body=config + b" ")
    for name in set(stored(DEFAULT_MODEL)) - {"config.json"}:
        s3.put_object(Bucket="bucket", Key=f"models/bad/{name}", Body=b"x")
    error = last_line(run("recognize", IMAGE, "--model", "s3://bucket/models/bad", code=2))
    assert error.startswith("posformer: s3://bucket/models/bad: ") and "damaged" in error
    assert len(list((tmp_path / "cache" / "posformer" / "models").iterdir())) == 1


def test_a_job_from_s3_to_s3(s3, tmp_path):
    pytest.importorskip("pyarrow")
    run = runner()
    images = sorted(IMAGE.parent.glob("*.png"))[:4]
    for path in images:
        s3.put_object(Bucket="bucket", Key=f"scans/{path.name}", Body=path.read_bytes())
    job = ("batch", "s3://bucket/scans/", "-o", "s3://bucket/out", "--part-size", "3", "--greedy")
    assert "inputs: 4, part files: 2, no errors" in run(*job).stdout
    assert "4 before" in run(*job).stdout
    keys = [one["Key"] for one in s3.list_objects(Bucket="bucket", Prefix="out/")["Contents"]]
    assert sorted(keys) == [
        f"out/{n}" for n in ("_job.json", *(f"part-0000000{i}.jsonl" for i in (0, 1)))
    ]
    body = s3.get_object(Bucket="bucket", Key="out/part-00000000.jsonl")["Body"].read().decode()
    assert body.count("\n") == 3 and "s3://bucket/scans/" in body and '"error": null' in body


def test_a_job_with_images_of_the_hub(hub, run, tmp_path):
    pytest.importorskip("fsspec")
    hub.commits["me/scans"] = []
    images = sorted(IMAGE.parent.glob("*.png"))[:2]
    hub.commit("me/scans", {f"scans/{path.name}": path.read_bytes() for path in images})
    run("batch", "hf://me/scans/scans/", "-o", tmp_path / "out", "--greedy")
    rows = [json.loads(one) for one in (tmp_path / "out" / "part-00000000.jsonl").open()]
    assert [row["path"] for row in rows] == [f"hf://me/scans/scans/{path.name}" for path in images]
    assert not any(row["error"] for row in rows)
