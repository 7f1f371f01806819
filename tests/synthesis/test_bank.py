"""The symbol bank."""

import pickle

import numpy as np
import pytest

from posformer.errors import DataError
from posformer.ink.aligned import AlignedInk
from posformer.latex import tokenize
from posformer.synthesis.bank import SymbolBank
from posformer.synthesis.glyphs import own_bank
from posformer.synthesis.layout import LayoutStyle, lay_out


def _stroke(left, top, width, height):
    return np.array([[left, top], [left + width, top + height]], np.float32)


@pytest.fixture
def squared() -> AlignedInk:
    """The expression x² + y with an x-height of 10 and the baseline at 20."""
    return AlignedInk(
        name="squared",
        tokens=tuple(tokenize("x ^ { 2 } + y")),
        strokes=(
            _stroke(0, 10, 10, 10),
            _stroke(12, 2, 6, 9),
            _stroke(22, 9.5, 10, 10),
            _stroke(35, 10, 9, 18.5),
        ),
        alignment=((0,), (), (), (1,), (), (2,), (3,)),
        writer="ann",
    )


def test_symbol_has_size_x_height_and_baseline(squared):
    bank = SymbolBank.from_inks([squared])
    (letter,) = bank.samples("y")
    assert (letter.width, letter.height) == (9, 18.5)
    assert letter.points.min(axis=0).tolist() == [0, 0]
    assert letter.unit == pytest.approx(10, rel=0.02)
    assert letter.baseline == pytest.approx(10, abs=0.3)


def test_script_has_its_own_baseline(squared):
    (digit,) = SymbolBank.from_inks([squared]).samples("2")
    assert digit.unit == pytest.approx(6)
    assert digit.baseline == pytest.approx(9)


def test_tokens_without_ink_are_skipped(squared):
    assert SymbolBank.from_inks([squared]).tokens == {"x", "2", "+", "y"}


def test_symbols_are_found_by_writer():
    bank = own_bank()
    writer = bank.writers[3]
    assert {sample.writer for sample in bank.samples("x", writer)} == {writer}
    assert bank.samples("x", "nobody") == ()
    rng = np.random.default_rng(0)
    assert all(bank.choose("x", rng, writer).writer == writer for _ in range(10))


def test_missing_symbols_come_from_other_writers(squared):
    others = own_bank()
    samples = [*SymbolBank.from_inks([squared]).samples("x"), *others.samples("k")]
    bank = SymbolBank.from_samples(samples)
    assert bank.choose("k", np.random.default_rng(0), "ann").writer in others.writers


def test_missing_token_is_named():
    with pytest.raises(DataError, match=r"no ink for '\\heartsuit'"):
        own_bank().choose("\\heartsuit", np.random.default_rng(0))


def test_bank_can_be_pickled(squared):
    bank = SymbolBank.from_inks([squared])
    again = pickle.loads(pickle.dumps(bank))
    assert again.tokens == bank.tokens
    assert np.array_equal(again.samples("y")[0].points, bank.samples("y")[0].points)


def test_symbols_of_a_layout_can_be_extracted():
    rng = np.random.default_rng(0)
    text = tokenize("a + b = \\frac { c } { d ^ { 2 } }")
    ink = lay_out(text, own_bank(), rng, LayoutStyle(irregularity=0))
    bank = SymbolBank.from_inks([ink])
    assert bank.tokens == {"a", "+", "b", "=", "c", "d", "2", "\\frac"}
    (script,), (base,) = bank.samples("2"), bank.samples("d")
    assert script.unit < 0.75 * base.unit
