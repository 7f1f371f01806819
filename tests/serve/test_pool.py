"""Workers: what waits together is read together, and nothing that was taken in is lost."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi.testclient import TestClient
from gate import Gate

from posformer.errors import PosformerError
from posformer.serve import Settings, WorkerPool, create_app

CROSS = [[[10, 10], [40, 50]], [[40, 10], [10, 50]]]


@pytest.fixture
def gate(tiny_recognizer):
    return Gate(tiny_recognizer)


def held_pool(gate, batch):
    """A pool whose only worker is busy with a first job."""
    pool = WorkerPool(gate, workers=1, batch=batch, beam=2, views=1)
    first = pool.submit(CROSS)
    assert gate.entered.wait(30)
    return pool, first


def test_what_waits_together_is_read_together(gate):
    pool, first = held_pool(gate, batch=4)
    others = [pool.submit(CROSS) for _ in range(6)]
    assert pool.waiting == 6
    gate.open.set()
    pool.close()
    assert gate.batches == [1, 4, 2]
    texts = {future.result().recognition.latex for future in [first, *others]}
    assert len(texts) == 1


def test_only_jobs_that_ask_for_as_many_readings_share_a_batch(gate):
    pool, _ = held_pool(gate, batch=8)
    futures = [pool.submit(CROSS, top_k) for top_k in (1, 3, 1, 3)]
    gate.open.set()
    pool.close()
    assert gate.batches == [1, 2, 2]
    assert [len(one.result().recognition.readings) for one in futures] == [1, 3, 1, 3]


def test_closing_finishes_what_was_taken_in_and_takes_no_more(gate):
    pool, first = held_pool(gate, batch=1)
    others = [pool.submit(CROSS) for _ in range(3)]
    gate.open.set()
    pool.close()
    assert all(future.done() for future in [first, *others])
    with pytest.raises(RuntimeError):
        pool.submit(CROSS)


def test_a_job_that_nobody_waits_for_any_more_is_not_done(gate):
    pool, _ = held_pool(gate, batch=1)
    given_up = pool.submit(CROSS)
    assert given_up.cancel()
    gate.open.set()
    pool.close()
    assert gate.batches == [1]


def test_one_that_cannot_be_read_does_not_take_its_neighbours_along(gate):
    pool, _ = held_pool(gate, batch=8)
    good, unreadable, fault = (pool.submit(source) for source in (CROSS, b"none", "fault"))
    gate.open.set()
    pool.close()
    assert good.result().recognition.tokens is not None
    with pytest.raises(PosformerError):
        unreadable.result()
    with pytest.raises(RuntimeError):
        fault.result()


def test_a_full_server_says_when_to_come_again_and_loses_nothing(gate):
    app = create_app(gate, Settings(workers=1, requests=3))
    with TestClient(app) as client, ThreadPoolExecutor(8) as clients:
        asked = [
            clients.submit(client.post, "/api/strokes", json={"strokes": CROSS}) for _ in range(8)
        ]
        refused = [one.result(30) for one in _first_done(asked, 5)]
        gate.open.set()
        answers = [one.result(30) for one in asked]
    assert [answer.status_code for answer in refused] == [503] * 5
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in refused)
    assert sorted(answer.status_code for answer in answers) == [200] * 3 + [503] * 5


def _first_done(futures, count):
    done = []
    while len(done) < count:
        done = [future for future in futures if future.done()]
        threading.Event().wait(0.01)
    return done
