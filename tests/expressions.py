"""Random expressions in caption form."""

from itertools import chain

from hypothesis import strategies as st

SYMBOLS = [*"abxyz012+-=()[]|<>,.!", r"\alpha", r"\pi", r"\sin", r"\times", r"\leq", r"\{", r"\}"]


def captions(max_leaves: int = 8) -> st.SearchStrategy[list[str]]:
    """Caption-form expressions: scripts in order, `\\limits` where captions write it."""
    symbol = st.sampled_from(SYMBOLS).map(lambda token: [token])
    return _row(st.recursive(symbol, _extended, max_leaves=max_leaves))


def _row(units: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    return st.lists(units, min_size=1, max_size=3).map(lambda row: list(chain(*row)))


def _extended(units: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    group = _row(units).map(lambda row: ["{", *row, "}"])
    no_script = st.just([])
    lower = st.one_of(no_script, group.map(lambda content: ["_", *content]))
    upper = st.one_of(no_script, group.map(lambda content: ["^", *content]))
    base = st.sampled_from([*"xyc2)", r"\theta", r"\log"]).map(lambda token: [token])
    operator = st.sampled_from([r"\sum", r"\int", r"\lim"])
    return st.one_of(
        units,
        st.tuples(base, lower, upper).map(lambda parts: list(chain(*parts))),
        st.tuples(operator, lower, upper).map(_with_limits),
        st.tuples(st.sampled_from([r"\frac", r"\binom", r"\overset"]), group, group)
        .map(lambda parts: [parts[0], *parts[1], *parts[2]])
        .filter(_is_caption_form),
        group.map(lambda content: [r"\sqrt", *content]),
        st.tuples(st.sampled_from("n34"), group).map(
            lambda parts: [r"\sqrt", "[", parts[0], "]", *parts[1]]
        ),
        group.map(lambda content: [r"\hat", *content]),
        _row(units).map(lambda row: [r"\begin{matrix}", *row, "&", "x", r"\end{matrix}"]),
    )


def _is_caption_form(tokens: list[str]) -> bool:
    r"""Captions write `\sum \limits ^ { a }`, not `\overset { a } { \sum … }`."""
    return tokens[0] != r"\overset" or not {r"\sum", r"\int", r"\lim"} & set(tokens)


def _with_limits(parts: tuple[str, list[str], list[str]]) -> list[str]:
    operator, lower, upper = parts
    scripts = [*lower, *upper]
    return [operator, r"\limits", *scripts] if scripts else [operator]
