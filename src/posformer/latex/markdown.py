"""LaTeX as a formula in Markdown."""

from collections.abc import Sequence

from posformer.latex.tokens import in_lines, to_latex


def to_markdown(tokens: Sequence[str]) -> str:
    """Return tokens in caption form between dollar signs, two of them if there are lines."""
    fence = "$$" if r"\\" in tokens else "$"
    return f"{fence}{to_latex(in_lines(tokens))}{fence}"
