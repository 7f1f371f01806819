"""LaTeX as Typst mathematics."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from posformer.latex.symbols import tokens_of
from posformer.latex.tree import Node, Row
from posformer.latex.tree_text import (
    CLOSERS,
    NAMES,
    OPENERS,
    Nodes,
    Part,
    TreeText,
    fences,
    interleave,
    is_plain,
    is_primes,
    table,
)

_VARIANTS = r"""
\epsilon epsilon.alt  \varepsilon epsilon  \phi phi.alt  \varphi phi  \vartheta theta.alt
\varpi pi.alt  \varrho rho.alt  \varsigma sigma.alt  \varkappa kappa.alt
"""
_SYMBOLS = r"""
\infty infinity  \partial partial  \nabla nabla  \forall forall  \exists exists
\emptyset emptyset  \ldots dots  \cdots dots.c  \vdots dots.v  \ddots dots.down  \times times
\cdot dot.op  \pm plus.minus  \mp minus.plus  \div div  \leq <=  \geq >=  \neq !=  \ll <<  \gg >>
\lll <<<  \ggg >>>  \equiv equiv  \approx approx  \propto prop  \rightarrow ->  \leftarrow <-
\leftrightarrow <->  \Rightarrow =>  \Leftrightarrow <=>  \mapsto |->  \in in  \notin in.not
\subset subset  \subseteq subset.eq  \supset supset  \supseteq supset.eq  \cup union  \cap inter
\wedge and  \vee or  \neg not  \sum sum  \prod product  \int integral  \iint integral.double
\iiint integral.triple  \oint integral.cont  \therefore therefore  \because because
\ell ell  \angle angle  \bmod mod  \coloneqq :=
/ \/  # \#  \# \#  $ \$  \$ \$  & \&  \& \&  _ \_  \_ \_  ^ \^  " \"  @ \@  ~ \~  ` \`
\backslash \\  \ \\  \limits ""  \surd \√
"""
_TEMPLATES = r"""
\frac frac(#1, #2)  \dfrac frac(#1, #2)  \tfrac frac(#1, #2)  \cfrac frac(#1, #2)
\binom binom(#1, #2)  \dbinom binom(#1, #2)  \tbinom binom(#1, #2)
\sqrt sqrt(#1)  \sqrt[ root(#0, #1)  \root root(#0, #1)  \root[ root(#0, #1)
\stackrel limits(#2)^(#1)  \overset limits(#2)^(#1)  \underset limits(#2)_(#1)
\hat hat(#1)  \bar macron(#1)  \vec arrow(#1)  \tilde tilde(#1)  \dot dot(#1)
\ddot dot.double(#1)  \dddot dot.triple(#1)  \check caron(#1)  \acute acute(#1)  \grave grave(#1)
\breve breve(#1)  \mathring circle(#1)  \widehat hat(#1)  \widetilde tilde(#1)
\overline overline(#1)  \underline underline(#1)  \overrightarrow arrow(#1)
\overleftarrow arrow.l(#1)  \overleftrightarrow arrow.l.r(#1)
\underrightarrow limits(#1)_(->)  \underleftarrow limits(#1)_(<-)
\overbrace overbrace(#1)  \underbrace underbrace(#1)  \overparen overparen(#1)
\wideparen overparen(#1)  \overarc overparen(#1)
\boxed #box(stroke: 0.5pt, inset: 3pt, $#1$)  \cancel cancel(#1)
\bcancel cancel(inverted: #true, #1)  \xcancel cancel(cross: #true, #1)
\textcircled #box(stroke: 0.5pt, radius: 50%, inset: 2pt, $#1$)
\mathbb bb(#1)  \mathcal cal(#1)  \mathfrak frak(#1)  \mathscr scr(#1)
\xrightarrow limits(stretch(->))^(#1)  \xrightarrow[ limits(stretch(->))_(#0)^(#1)
\xleftarrow limits(stretch(<-))^(#1)  \xleftarrow[ limits(stretch(<-))_(#0)^(#1)
\xleftrightarrow limits(stretch(<->))^(#1)  \xleftrightarrow[ limits(stretch(<->))_(#0)^(#1)
\xRightarrow limits(stretch(=>))^(#1)  \xRightarrow[ limits(stretch(=>))_(#0)^(#1)
\xLeftarrow limits(stretch(arrow.l.double))^(#1)
\xLeftarrow[ limits(stretch(arrow.l.double))_(#0)^(#1)
\xlongequal limits(stretch(=))^(#1)  \xlongequal[ limits(stretch(=))_(#0)^(#1)
"""
_EMPTY = '""'
_SEPARATORS = frozenset((",", ";", ":"))  # of the arguments of a function
_LINES = (r"\begin{aligned}", r"\begin{gathered}", r"\begin{split}")
_INTEGRALS = frozenset((r"\int", r"\iint", r"\iiint", r"\iiiint", r"\oint", r"\oiint"))
_WITHOUT_LIMITS = tokens_of("function") | _INTEGRALS
_GROUPS = ("{", r"\left")
_UNSAFE_SCRIPTS = OPENERS | CLOSERS | {"+", "-", "/"}


class _Typst(TreeText):
    symbols: ClassVar[Mapping[str, str]] = {
        **{token: token[1:] for token in tokens_of("greek") | NAMES},
        **table(_VARIANTS),
        **table(_SYMBOLS),
    }
    templates: ClassVar[Mapping[str, str]] = table(_TEMPLATES)

    def literal(self, text: str) -> str:
        if len(text) == 1 and not text.isalnum():
            return f"\\{text}"
        return '"{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"'))

    def expression(self, root: Row) -> Iterator[Part]:
        lines = root.lines
        only = root.nodes[0] if len(root.nodes) == 1 else None
        if only and only.token in _LINES and not only.scripts:
            lines = only.arguments[0].lines
        for number, cells in enumerate(lines):
            if number:
                yield " \\ "
            for column, cell in enumerate(cells):
                yield " & " if column else ""
                yield from self.line(cell, whole=True)

    def environment(self, node: Node) -> Iterator[Part]:
        lines = node.arguments[0].lines
        if node.token == r"\begin{cases}":
            yield "cases("
            rows = [[*interleave(map(self._cell, cells), " & ")] for cells in lines]
            separator = ", "
        else:
            left, _ = fences(node)
            yield f'mat(delim: "{left}", ' if left else "mat(delim: #none, "
            rows = [[*interleave(map(self._cell, cells), ", ")] for cells in lines]
            separator = "; "
        for number, row in enumerate(rows):
            yield separator if number else ""
            yield from row
        yield ")"

    def _cell(self, nodes: Nodes) -> Part:
        return nodes or _EMPTY

    def argument(self, row: Row) -> Iterable[Part]:
        return (row if row.nodes else _EMPTY,)

    def base(self, node: Node) -> Iterable[Part]:
        if not node.token or (node.token in _GROUPS and not node.arguments[0].nodes):
            return (_EMPTY,)
        parts = super().base(node)
        if node.scripts and node.token == "{":  # a group is no unit for scripts
            return ("attach(", *self.argument(node.arguments[0]))
        if node.limits >= 0 and (node.arguments or node.token in _WITHOUT_LIMITS):
            return ("limits(", *parts, ")")
        return parts

    def scripts(self, node: Node) -> Iterator[Part]:
        as_arguments = node.token == "{"
        for script in node.scripts:
            row = script.arguments[0]
            if as_arguments:
                yield ", t: " if script.token == "^" else ", b: "
                yield from self.argument(row)
            elif script.token == "^" and is_primes(row):
                yield "'" * len(row.nodes)
            else:
                yield script.token
                yield from self._script(row)
        if as_arguments and node.scripts:
            yield ")"

    def _script(self, row: Row) -> Iterable[Part]:
        if is_plain(row.nodes) and row.nodes[0].token not in _UNSAFE_SCRIPTS:
            return (row,)
        return ("(", *self.argument(row), ")")

    def marked(self, nodes: Nodes, whole: bool) -> dict[int, str]:
        texts = super().marked(nodes, whole)
        if whole:
            return texts
        depth = 0
        for node in nodes:
            if node.index in texts:
                continue
            depth += (node.token in OPENERS) - (node.token in CLOSERS)
            if depth == 0 and node.token in _SEPARATORS:
                texts[node.index] = f"\\{node.token}"
        return texts


def to_typst(tokens: Sequence[str]) -> str:
    """Return tokens in caption form as Typst mathematics, without the dollar signs around it."""
    return _Typst().write(tokens)
