"""The worker pool: batching, failures and shutdown."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from blocked_recognizer import BlockedRecognizer
from fastapi.testclient import TestClient

from posformer import DecodingOptions
from posformer.errors import ConfigError, PosformerError
from posformer.serve import Settings, WorkerPool, create_app

CROSS = [[[10, 10], [40, 50]], [[40, 10], [10, 50]]]


@pytest.fixture
def recognizer(tiny_recognizer):
    return BlockedRecognizer(tiny_recognizer)


def busy_pool(recognizer, batch, **options):
    """A pool whose only worker is busy with a first job."""
    decoding = DecodingOptions(**{"beam": 2, "scales": 1, **options})
    pool = WorkerPool(recognizer, 1, batch, decoding)
    first = pool.submit(CROSS)
    assert recognizer.entered.wait(30)
    return pool, first


def test_queued_jobs_share_a_batch(recognizer):
    pool, first = busy_pool(recognizer, batch=4)
    others = [pool.submit(CROSS) for _ in range(6)]
    assert pool.waiting == 6
    recognizer.open.set()
    pool.close()
    assert recognizer.batches == [1, 4, 2]
    texts = {future.result().recognition.latex for future in [first, *others]}
    assert len(texts) == 1


def test_only_jobs_with_equal_options_share_a_batch(recognizer):
    pool, _ = busy_pool(recognizer, batch=8)
    futures = [pool.submit(CROSS, top_k) for top_k in (1, 3, 1, 3)]
    recognizer.open.set()
    pool.close()
    assert recognizer.batches == [1, 2, 2]
    assert [len(one.result().recognition.readings) for one in futures] == [1, 3, 1, 3]


def test_close_finishes_queued_jobs(recognizer):
    pool, first = busy_pool(recognizer, batch=1)
    others = [pool.submit(CROSS) for _ in range(3)]
    recognizer.open.set()
    pool.close()
    assert all(future.done() for future in [first, *others])
    with pytest.raises(RuntimeError):
        pool.submit(CROSS)


def test_cancelled_jobs_are_skipped(recognizer):
    pool, _ = busy_pool(recognizer, batch=1)
    cancelled = pool.submit(CROSS)
    assert cancelled.cancel()
    recognizer.open.set()
    pool.close()
    assert recognizer.batches == [1]


def test_failed_jobs_do_not_affect_the_batch(recognizer):
    pool, _ = busy_pool(recognizer, batch=8)
    good, unreadable, fault = (pool.submit(source) for source in (CROSS, b"none", "fault"))
    recognizer.open.set()
    pool.close()
    assert good.result().recognition.tokens is not None
    with pytest.raises(PosformerError):
        unreadable.result()
    with pytest.raises(RuntimeError):
        fault.result()


def test_full_server_refuses_with_retry_after(recognizer):
    app = create_app(recognizer, Settings(workers=1, requests=3))
    with TestClient(app) as client, ThreadPoolExecutor(8) as clients:
        requests = [
            clients.submit(client.post, "/api/strokes", json={"strokes": CROSS}) for _ in range(8)
        ]
        refused = [one.result(30) for one in _first_done(requests, 5)]
        recognizer.open.set()
        answers = [one.result(30) for one in requests]
    assert [answer.status_code for answer in refused] == [503] * 5
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in refused)
    assert sorted(answer.status_code for answer in answers) == [200] * 3 + [503] * 5


def test_greedy_pool_refuses_several_results(recognizer):
    recognizer.open.set()
    pool, first = busy_pool(recognizer, batch=1, greedy=True)
    with pytest.raises(ConfigError, match="top_k"):
        pool.submit(CROSS, top_k=2)
    pool.close()
    assert len(first.result().recognition.readings) == 1


def _first_done(futures, count):
    done = []
    while len(done) < count:
        done = [future for future in futures if future.done()]
        threading.Event().wait(0.01)
    return done
