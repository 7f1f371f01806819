"""The fuzzer itself: it can be repeated, and it notices what it is there for."""

import os
import time
from random import Random

import pytest
import run_fuzz
from fuzz_targets import ACCEPTED, REFUSED, Targets, make_input
from mutations import mutate_bytes, mutate_json, mutate_text

from posformer.errors import PosformerError

CORPUS = {
    "image": {"a.ppm": b"P5 9 9 255 " + bytes(81)},
    "ink": {"inkml": b"<ink><trace>0 0, 10 10</trace></ink>"},
    "json": {"results": b'{"path": "a.png", "latex": "x"}'},
}


@pytest.mark.parametrize("mutate", [mutate_bytes, mutate_text, mutate_json])
def test_mutations_depend_on_the_seed_only(mutate):
    original = b'{"a": [1, 2, {"b": null}], "c": "text"}'
    found = [mutate(original, [b"other"], Random(seed)) for seed in range(200)]
    assert found == [mutate(original, [b"other"], Random(seed)) for seed in range(200)]
    assert len(set(found)) > 100
    assert max(map(len, found)) <= 400_000


def test_any_part_of_the_cases_has_some_of_each_target():
    cases = run_fuzz.all_cases(0, 1000, list(run_fuzz.SHARES))
    assert len(cases) == len(set(cases)) == 1000
    assert {target for target, _, _ in cases[:20]} == set(run_fuzz.SHARES)


def _fail(kind):
    match kind:
        case "accept":
            return ACCEPTED
        case "refuse":
            raise PosformerError("not an image")
        case "long":
            raise PosformerError("x" * 5000)
        case "lines":
            raise PosformerError("two\nlines")
        case "bug":
            raise KeyError("x")
        case "hang":
            time.sleep(600)
        case "allocate":
            bytearray(10**10)
        case "crash":
            os.abort()
    return None


def start_failing(corpus, folder):
    """A handler whose cases fail in all the ways that the fuzzer must notice."""
    targets = object.__new__(Targets)
    targets._corpus = corpus
    targets._run_json = lambda name, content: _fail(KINDS[content[0]])
    return targets


KINDS = ("accept", "refuse", "long", "lines", "bug", "hang", "allocate", "crash")


@pytest.mark.skipif(os.name == "nt", reason="limits memory")
def test_defects_are_noticed_and_recorded(monkeypatch, tmp_path):
    def numbered(case, corpus):
        return "file", bytes([case[2]])

    monkeypatch.setattr(run_fuzz, "start", start_numbered)
    monkeypatch.setattr(run_fuzz, "make_input", numbered)
    monkeypatch.setattr(run_fuzz, "SECONDS", 2.0)
    cases = [("json", 0, number) for number in range(len(KINDS))]
    summary = run_fuzz.run(cases, CORPUS, tmp_path, tmp_path, minutes=60, workers=1)
    assert summary.outcomes["json"] == {ACCEPTED: 1, REFUSED: 1, "defect": 6}
    assert set(summary.defects) == {f"json:{number}" for number in range(2, 8)}
    assert "KeyError" in summary.defects["json:4"]
    assert "test_run_fuzz.py" in summary.defects["json:4"]
    assert "2 seconds" in summary.defects["json:5"] and "memory" in summary.defects["json:6"]
    assert (tmp_path / "json-7").read_bytes() == bytes([7])
    assert "| json | 8 |" in summary.to_markdown()


def start_numbered(corpus, folder):
    """The same for cases whose input is their number."""
    import fuzz_targets

    fuzz_targets.make_input = lambda case, corpus: ("file", bytes([case[2]]))
    return start_failing(corpus, folder)


def test_a_part_of_the_cases_runs_within_a_time(monkeypatch, tmp_path):
    monkeypatch.setattr(run_fuzz, "start", start_numbered)
    monkeypatch.setattr(run_fuzz, "make_input", lambda case, corpus: ("file", b"\0"))
    cases = [("json", 0, 0)] * 10_000
    summary = run_fuzz.run(cases, CORPUS, tmp_path, tmp_path, minutes=0.0, workers=1)
    assert 0 < sum(summary.outcomes["json"].values()) < 100


def test_cases_can_be_made_again():
    for case in run_fuzz.all_cases(3, 60, list(CORPUS)):
        assert make_input(case, CORPUS) == make_input(case, CORPUS)
