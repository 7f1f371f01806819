r"""One spelling for LaTeX that looks the same, to compare labels of different conventions.

Labels of photographs and of other datasets do not follow CROHME's conventions: they rarely mark
`\limits` at integrals or how lines are aligned, and put fences around a `matrix`.
"""

from collections.abc import Sequence

_ALIGNED = (r"\begin{aligned}", r"\end{aligned}")
_ALIGNING = ("{aligned}", "{cases}")  # `&` aligns their lines
_MATRIX = (r"\begin{matrix}", r"\end{matrix}")
_FENCED = {
    ("(", ")"): "{pmatrix}",
    ("[", "]"): "{bmatrix}",
    (r"\{", r"\}"): "{Bmatrix}",
    ("|", "|"): "{vmatrix}",
    (r"\Vert", r"\Vert"): "{Vmatrix}",
}


def comparable(tokens: Sequence[str]) -> tuple[str, ...]:
    r"""Return the tokens in one spelling for all that look the same.

    `\limits`, the alignment of lines (`aligned`, a `matrix` around everything, and `&` outside
    matrices) and `\text` are dropped; `\|` and `| |` become `\Vert`; a `matrix` between fences
    becomes `pmatrix` and so on, or `cases` after a brace that is not closed.
    """
    plain = [token for token in _without_text(tokens) if token != r"\limits"]
    return tuple(_without_alignment(_join_fences(_join_bars(plain))))


def _without_text(tokens: Sequence[str]) -> list[str]:
    r"""Drop `\text` and the braces of its argument, whose letters stay."""
    kept: list[str] = []
    groups: list[bool] = []  # of the open braces: whether they belong to `\text`
    before = ""
    for token in tokens:
        if token == "{":
            groups.append(before == r"\text")
        dropped = token == r"\text" or (token in "{}" and bool(groups) and groups[-1])
        if token == "}" and groups:
            groups.pop()
        if not dropped:
            kept.append(token)
        before = token
    return kept


def _join_bars(tokens: Sequence[str]) -> list[str]:
    """Write a double bar as one token."""
    kept: list[str] = []
    for token in tokens:
        if token == r"\|":
            token = r"\Vert"
        if token == "|" and kept and kept[-1] == "|":
            kept[-1] = r"\Vert"
        else:
            kept.append(token)
    return kept


def _join_fences(tokens: Sequence[str]) -> list[str]:
    """Join each `matrix` with the fences around it."""
    begin, end = _MATRIX
    kept: list[str] = []
    starts: list[int] = []  # where the open matrices begin in `kept`
    closed = -1  # index of a token that is part of the matrix before it
    for place, token in enumerate(tokens):
        if place == closed:
            continue
        if token == begin:
            starts.append(len(kept))
        elif token == end and starts:
            start = starts.pop()
            before = kept[start - 1] if start else ""
            after = tokens[place + 1] if place + 1 < len(tokens) else ""
            name = _FENCED.get((before, after))
            if name is not None:
                closed = place + 1
            elif before == r"\{":
                name = "{cases}"
            if name is not None:
                kept[start - 1 : start + 1] = [rf"\begin{name}"]
                token = rf"\end{name}"
        kept.append(token)
    return kept


def _without_alignment(tokens: Sequence[str]) -> list[str]:
    """Drop the environments that only align lines, and `&` where it aligns."""
    if _is_one_matrix(tokens):
        tokens = [*_ALIGNED[:1], *tokens[1:-1], *_ALIGNED[1:]]
    kept: list[str] = []
    environments: list[str] = []
    for token in tokens:
        if token.startswith(r"\begin{"):
            environments.append(token.removeprefix(r"\begin"))
        aligned = bool(environments) and environments[-1] in _ALIGNING
        if token.startswith(r"\end{") and environments:
            environments.pop()
        if token in _ALIGNED or (token == "&" and aligned):
            continue
        kept.append(token)
    return kept


def _is_one_matrix(tokens: Sequence[str]) -> bool:
    """Return whether a matrix without fences is all there is."""
    begin, end = _MATRIX
    if len(tokens) < 2 or (tokens[0], tokens[-1]) != _MATRIX:
        return False
    depth = 0
    for token in tokens[:-1]:
        depth += (token == begin) - (token == end)
        if not depth:
            return False
    return depth == 1
