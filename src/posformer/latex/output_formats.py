"""The output formats. To add one, write a function from tokens to text and add a line here."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from posformer.errors import ConfigError
from posformer.latex.asciimath import to_asciimath
from posformer.latex.markdown import to_markdown
from posformer.latex.mathml import to_mathml
from posformer.latex.normalizer import normalize
from posformer.latex.sympy_source import to_sympy
from posformer.latex.tokens import in_lines, to_latex
from posformer.latex.typst import to_typst
from posformer.latex.unicode_text import to_unicode


def _latex(tokens: Sequence[str]) -> str:
    return to_latex(in_lines(tokens))


def _mathml(tokens: Sequence[str]) -> str:
    return to_mathml(_latex(tokens), display=r"\\" in tokens)


FORMATS: Mapping[str, Callable[[Sequence[str]], str]] = {
    "latex": _latex,
    "mathml": _mathml,
    "markdown": to_markdown,
    "typst": to_typst,
    "asciimath": to_asciimath,
    "sympy": to_sympy,
    "unicode": to_unicode,
}
"""A function from tokens in caption form to one line of text, by the name of the format."""

if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(FORMATS)]


def convert(source: str | Sequence[str], format: str) -> str:
    """Write an expression in another format.

    Args:
        source: LaTeX as people type it, or tokens in caption form.
        format: One of `FORMATS`.

    Raises:
        ConfigError: If the format is unknown.
        LatexError: If the LaTeX is malformed, or cannot be expressed in the format.
    """
    if format not in FORMATS:
        raise ConfigError(f"unknown format {format!r}; the formats are {', '.join(FORMATS)}")
    tokens = normalize(source, reorder_scripts=False) if isinstance(source, str) else source
    return FORMATS[format](tokens)
