"""Reading and writing InkML."""

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posformer.errors import InkError
from posformer.ink import read_inkml, write_inkml
from writing import aligned, fraction_ink, inkml


def test_reads_strokes_symbols_truth_and_mathml() -> None:
    ink = read_inkml(fraction_ink(), "one")
    assert ink.name == "one"
    assert len(ink.strokes) == 7
    assert ink.strokes[0].tolist() == [[50, 0], [50, 20]]
    assert ink.truth == "$\\frac{1}{x+1}$"
    plus = ink.symbols[2]
    assert (plus.label, plus.strokes, plus.id) == ("+", (4, 5), "+_1")
    assert ink.mathml is not None
    assert ink.mathml.children[0].tag == "mfrac"


def test_source_may_be_a_path_or_an_open_file(tmp_path: Path) -> None:
    file = tmp_path / "note.inkml"
    file.write_bytes(fraction_ink())
    by_path = read_inkml(file)
    by_file = read_inkml(io.BytesIO(fraction_ink()), "note")
    assert by_path.name == by_file.name == "note"
    assert by_path.symbols == by_file.symbols


def test_channels_in_any_order_with_decimals() -> None:
    head = (
        "<traceFormat><channel name='T'/><channel name='Y'/><channel name='F'/>"
        "<channel name='X'/></traceFormat>"
    )
    ink = read_inkml(inkml({"0": "1 20.5 9 10.25, 2 21.5 9 1.1e1"}, head=head))
    assert ink.strokes[0].tolist() == [[10.25, 20.5], [11.0, 21.5]]


def test_mathwriting_labels_are_read_as_truth() -> None:
    head = (
        '<annotation type="label">x^{2}</annotation>'
        '<annotation type="normalizedLabel">x^{2}</annotation>'
        '<annotation type="splitTagOriginal">train</annotation>'
    )
    text = (
        f'<ink xmlns="http://www.w3.org/2003/InkML">{head}'
        '<trace id="0">0.0 1.5 0.0,2 3 0.1</trace></ink>'
    )
    ink = read_inkml(text.encode(), "writing")
    assert ink.truth == "x^{2}"
    assert ink.symbols == ()
    assert ink.strokes[0].shape == (2, 2)


def test_empty_traces_and_dangling_references_are_ignored() -> None:
    ink = read_inkml(inkml({"0": " ", "1": "0 0, 1 1"}, groups=[("x", ["0", "1", "7"], "x_1")]))
    assert len(ink.strokes) == 1
    assert ink.symbols[0].strokes == (0,)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not XML"),
        (b"<ink>", "not XML"),
        (b"<svg/>", "root element is <svg>"),
        (b"<ink/>", "no <trace>"),
        (inkml({"7": "1 2, 3"}), "<trace id='7'>: points have different"),
        (inkml({"7": "1 2, a b"}), "<trace id='7'>: could not convert"),
        (inkml({"7": "1, 2"}), "<trace id='7'>: a point of 1 numbers"),
        (inkml({"7": "1 nan, 2 3"}), "<trace id='7'>: a coordinate"),
        (inkml({"7": "1 1e300, 2 3"}), "<trace id='7'>: a coordinate"),
        (
            inkml({"0": "1 2"}, head="<traceFormat><channel name='Z'/></traceFormat>"),
            "<traceFormat> has no channels X and Y",
        ),
        (b"<ink><trace id='a'>1 2</trace><trace id='a'>1 2</trace></ink>", "two <trace>"),
        (b"<ink><trace>1 2</trace>" + b"<g>" * 5000 + b"</g>" * 5000 + b"</ink>", "too deeply"),
    ],
)
def test_errors_name_file_and_element(data: bytes, message: str) -> None:
    with pytest.raises(InkError, match=r"^bad") as caught:
        read_inkml(data, "bad")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_entities_are_rejected() -> None:
    bomb = (
        b'<!DOCTYPE ink [<!ENTITY a "1 1,"><!ENTITY b "&a;&a;&a;&a;">]>'
        b"<ink><trace>&b;</trace></ink>"
    )
    with pytest.raises(InkError, match="entities are refused"):
        read_inkml(bomb, "bomb")


def test_too_long_file_is_rejected() -> None:
    with pytest.raises(InkError, match="longer than 100 bytes"):
        read_inkml(fraction_ink(), "long", max_bytes=100)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InkError, match=r"nothing\.inkml: No such file"):
        read_inkml(tmp_path / "nothing.inkml")


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(fraction_ink())), st.binary(max_size=12), st.integers(0, 40))
def test_damaged_files_are_read_or_rejected(position: int, junk: bytes, removed: int) -> None:
    data = fraction_ink()
    damaged = data[:position] + junk + data[position + removed :]
    try:
        ink = read_inkml(damaged, "damaged")
    except InkError:
        return
    assert all(np.isfinite(points).all() for points in ink.strokes)


def test_written_ink_reads_back(tmp_path: Path) -> None:
    ink = read_inkml(fraction_ink(), "again")
    write_inkml(ink, tmp_path / "again.inkml")
    back = read_inkml(tmp_path / "again.inkml")
    assert back.symbols == ink.symbols
    assert back.mathml == ink.mathml
    assert back.truth == ink.truth
    assert all((a == b).all() for a, b in zip(ink.strokes, back.strokes, strict=True))


def test_aligned_ink_is_written_with_truth_and_groups(tmp_path: Path) -> None:
    ink = aligned("x ^ { 2 } + 1")
    write_inkml(ink, tmp_path / "made.inkml")
    back = read_inkml(tmp_path / "made.inkml")
    assert back.truth == "x ^ { 2 } + 1"
    assert [symbol.label for symbol in back.symbols] == ["x", "2", "+", "1"]
    assert back.writer == "hand"
