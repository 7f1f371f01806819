"""LaTeX as AsciiMath."""

import re
from collections.abc import Iterator, Mapping, Sequence
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

_WITHOUT_NAME = frozenset(
    (r"\digamma", r"\varkappa", r"\varpi", r"\varrho", r"\varsigma", r"\upsilon", r"\Upsilon")
)
_FUNCTIONS = re.findall(
    "[a-z]+",
    "sin cos tan sec csc cot arcsin arccos arctan sinh cosh tanh coth exp log ln det dim lim gcd"
    " min max",
)
_SYMBOLS = r"""
\infty oo  \partial del  \nabla grad  \forall AA  \exists EE  \emptyset O/  \ldots ...  \cdots cdots
\vdots vdots  \ddots ddots  \times xx  \cdot *  * **  \star ***  \pm +-  \mp -+  \div -:  \circ @
\oplus o+  \otimes ox  \odot o.  \leq <=  \geq >=  \neq !=  \equiv -=  \approx ~~
\sim ~  \cong ~=  \propto prop  \prec -<  \succ >-  \preceq -<=  \succeq >-=
\rightarrow ->  \leftarrow larr  \leftrightarrow harr  \Rightarrow =>  \Leftarrow lArr
\Leftrightarrow iff  \mapsto |->  \uparrow uarr  \downarrow darr  \in in  \notin !in  \subset sub
\supset sup  \subseteq sube  \supseteq supe  \cup uu  \cap nn  \wedge ^^  \vee vv  \neg not
\sum sum  \prod prod  \int int  \oint oint  \bigcup uuu  \bigcap nnn  \bigwedge ^^^  \bigvee vvv
\angle /_  \triangle /_\  \therefore :.  \because :'  \aleph aleph  \bot _|_  \top TT
\vdash |--  \models |==  \langle (:  \rangle :)  \lfloor |__  \rfloor __|  \lceil |~  \rceil ~|
/ //  \backslash "\"  \bmod mod  \limits {}
"""
_LITERALS = ("_", "^", "#", r"\#", "$", r"\$", "&", r"\&", "%", r"\%", r"\_", "@", '"', "`", "~")
_TEMPLATES = r"""
\frac (#1)/(#2)  \dfrac (#1)/(#2)  \tfrac (#1)/(#2)  \cfrac (#1)/(#2)
\binom ((#1),(#2))  \dbinom ((#1),(#2))  \tbinom ((#1),(#2))
\sqrt sqrt(#1)  \sqrt[ root(#0)(#1)  \root root(#0)(#1)  \root[ root(#0)(#1)
\stackrel stackrel(#1)(#2)  \overset overset(#1)(#2)  \underset underset(#1)(#2)
\hat hat(#1)  \bar bar(#1)  \vec vec(#1)  \tilde tilde(#1)  \dot dot(#1)  \ddot ddot(#1)
\dddot overset(...)(#1)  \check overset(ˇ)(#1)  \acute overset(´)(#1)  \grave overset("`")(#1)
\breve overset(˘)(#1)  \mathring overset(∘)(#1)  \widehat hat(#1)  \widetilde tilde(#1)
\overline bar(#1)  \underline ul(#1)  \overrightarrow vec(#1)  \overleftarrow overset(larr)(#1)
\overleftrightarrow overset(harr)(#1)  \underrightarrow underset(->)(#1)
\underleftarrow underset(larr)(#1)  \overbrace obrace(#1)  \underbrace ubrace(#1)
\overparen overarc(#1)  \wideparen overarc(#1)  \overarc overarc(#1)
\boxed [#1]  \cancel cancel(#1)  \bcancel cancel(#1)  \xcancel cancel(#1)  \textcircled "("#1")"
\mathbb bbb(#1)  \mathcal cc(#1)  \mathfrak fr(#1)  \mathscr cc(#1)
\xrightarrow overset(#1)(->)  \xrightarrow[ underset(#0)(overset(#1)(->))
\xleftarrow overset(#1)(larr)  \xleftarrow[ underset(#0)(overset(#1)(larr))
\xleftrightarrow overset(#1)(harr)  \xleftrightarrow[ underset(#0)(overset(#1)(harr))
\xRightarrow overset(#1)(=>)  \xRightarrow[ underset(#0)(overset(#1)(=>))
\xLeftarrow overset(#1)(lArr)  \xLeftarrow[ underset(#0)(overset(#1)(lArr))
\xlongequal overset(#1)(=)  \xlongequal[ underset(#0)(overset(#1)(=))
"""

_MAX_COLUMNS = 20  # to which short lines are filled up, so that the text stays linear


def _quoted(text: str) -> str:
    return '"{}"'.format(text.replace('"', "”"))


class _AsciiMath(TreeText):
    symbols: ClassVar[Mapping[str, str]] = {
        **{token: token[1:] for token in tokens_of("greek").difference(_WITHOUT_NAME)},
        **{token: f'"{token[1:]}"' for token in NAMES},
        **{f"\\{name}": name for name in _FUNCTIONS},
        **{token: _quoted(token[-1]) for token in _LITERALS},
        **table(_SYMBOLS),
    }
    templates: ClassVar[Mapping[str, str]] = table(_TEMPLATES)

    def literal(self, text: str) -> str:
        return _quoted(text)

    def expression(self, root: Row) -> Iterator[Part]:
        lines = root.lines
        if len(lines) > 1 or len(lines[0]) > 1:
            yield from self._table("{:", lines, ":}")
        else:
            yield from self.line(root.nodes, whole=True)

    def environment(self, node: Node) -> Iterator[Part]:
        left, right = fences(node)
        return self._table(left or "{:", node.arguments[0].lines, right or ":}")

    def _table(self, left: str, lines: Sequence[Sequence[Nodes]], right: str) -> Iterator[Part]:
        columns = min(max(map(len, lines)), _MAX_COLUMNS)
        yield left
        for number, cells in enumerate(lines):
            yield ",(" if number else "("
            yield from interleave(cells, ",")
            yield "," * (columns - len(cells))  # lines of unequal length are no matrix
            yield ")"
        yield right

    def base(self, node: Node) -> Iterator[Part]:
        if not node.token:
            yield "{}"
        elif node.token == "{" and node.scripts:  # braces that do not show
            yield "{:"
            yield node.arguments[0]
            yield ":}"
        else:
            yield from super().base(node)

    def scripts(self, node: Node) -> Iterator[Part]:
        # AsciiMath wants the subscript first.
        for script in sorted(node.scripts, key=lambda one: one.token == "^"):
            row = script.arguments[0]
            if script.token == "^" and is_primes(row):
                yield "'" * len(row.nodes)
            elif is_plain(row.nodes) and row.nodes[0].token not in _UNSAFE_SCRIPTS:
                yield from (script.token, row)
            else:
                yield from (f"{script.token}(", row, ")")

    def marked(self, nodes: Nodes, whole: bool) -> dict[int, str]:
        texts = super().marked(nodes, whole)
        if not whole:  # commas separate the cells of matrices
            depth = 0
            for node in nodes:
                if node.index not in texts:
                    depth += (node.token in OPENERS) - (node.token in CLOSERS)
                if depth == 0 and node.token == ",":
                    texts[node.index] = '","'
        return texts


_UNSAFE_SCRIPTS = OPENERS | CLOSERS | tokens_of("bar") | {"+", "-"}


def to_asciimath(tokens: Sequence[str]) -> str:
    """Return tokens in caption form as AsciiMath."""
    return _AsciiMath().write(tokens)
