"""The symbol table."""

import pytest

from posformer.latex import is_structure, is_valid, normalize
from posformer.latex.symbols import (
    DELIMITER_PAIRS,
    LOOK_ALIKES,
    SIGNATURES,
    SYMBOLS,
    _read_table,
    tokens_of,
)

PLANNED = r"""
\partial \nabla \ell \hbar \Re \Im \aleph \emptyset \infty \prime \circ \dagger \angle \triangle
\perp \parallel \sum \prod \int \oint \iint \bigcup \bigcap \sin \arctan \ln \exp \max \min \sup
\inf \det \dim \ker \gcd \Pr \arg \lim \limsup \hat \bar \tilde \vec \dot \ddot \overline \underline
\widehat \overrightarrow \mathbb \mathcal \langle \lfloor \lceil \Vert \binom \sqrt \frac \cup \cap
\subset \subseteq \in \notin \forall \exists \neg \wedge \vee \rightarrow \Leftrightarrow \mapsto
"""


def test_a_token_has_one_row() -> None:
    assert len(SYMBOLS) > 300
    assert _read_table("letter - 1/0: x\n  y").keys() == {"x", "y"}
    with pytest.raises(ValueError, match="x has two rows"):
        _read_table("letter - 1/0: x\noperator - -: x")


def test_symbols_of_the_planned_vocabulary_are_there() -> None:
    assert not set(PLANNED.split()) - SYMBOLS.keys()
    assert len(tokens_of("letter")) == 52
    assert len(tokens_of("digit")) == 10


@pytest.mark.parametrize(
    ("token", "kind", "arguments", "option"),
    [
        ("x", "letter", "", ""),
        (r"\frac", "fraction", "LR", ""),
        (r"\binom", "binomial", "LR", ""),
        (r"\sqrt", "root", "R", "L"),
        (r"\underset", "stack", "RL", ""),
        (r"\hat", "accent", ".", ""),
        (r"\xrightarrow", "longarrow", ".", "."),
        ("^", "script", "L", ""),
    ],
)
def test_arguments_and_class(token: str, kind: str, arguments: str, option: str) -> None:
    symbol = SYMBOLS[token]
    assert (symbol.kind, symbol.arguments, symbol.option) == (kind, arguments, option)


def test_partners() -> None:
    assert SYMBOLS["c"].partner == "C" and SYMBOLS["C"].partner == "c"
    assert all(
        SYMBOLS[closing].kind == SYMBOLS[opening].kind
        for opening, closing in DELIMITER_PAIRS.items()
    )
    assert DELIMITER_PAIRS["["] == "]" and DELIMITER_PAIRS["|"] == "|"


def test_limits() -> None:
    assert [SYMBOLS[token].limits for token in (r"\sum", r"\lim", r"\sin", "x")] == [
        True, True, False, False,
    ]  # fmt: skip


def test_extents_are_upright_and_only_growing_symbols_are_marked() -> None:
    measured = [symbol for symbol in SYMBOLS.values() if symbol.extent]
    assert all(symbol.extent.top > symbol.extent.bottom for symbol in measured)
    assert all(SYMBOLS[token].grows for token in (*DELIMITER_PAIRS, r"\sum", r"\sqrt"))
    assert not SYMBOLS["x"].grows


def test_look_alikes_are_tokens() -> None:
    assert frozenset().union(*LOOK_ALIKES) - {"'"} <= SYMBOLS.keys()


@pytest.mark.parametrize(
    "token", sorted(token for token in SYMBOLS if not is_structure(token) and token != r"\root")
)
def test_every_token_is_caption_form(token: str) -> None:
    arguments = SIGNATURES.get(token, ("", ""))[0]
    tokens = [token, *(part for _ in arguments for part in "{x}")]
    assert is_valid(tokens)
    other_spelling = token in (r"\dfrac", r"\tfrac", r"\cfrac", r"\dbinom", r"\tbinom", r"\Vert")
    assert (normalize(tokens) == tokens) is not other_spelling
