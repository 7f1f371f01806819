r"""The symbol table: everything the package knows about a token, one row per group of tokens.

A row has four columns: class, arguments, vertical extent, tokens. To add a symbol, add its token
to the row it belongs to, or write a new row.

* Arguments: one letter per argument, which is its relative position in the position forest: `L`
  above, `R` below, `.` on the line of the command itself. An optional argument is in brackets.
* Extent: top and bottom of the ink over the baseline, in x-heights; `~` marks symbols that grow
  with their content and therefore say nothing about the size of their row. The numbers of symbols
  that occur in CROHME are medians over its training set, the others are estimates.
* Delimiters are listed in pairs. An indented line continues a row.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

UPPER, LOWER, MAIN = "L", "R", "M"
"""Relative positions: upper branch, lower branch, main line."""

_TABLE = r"""
letter       -     1.0/0        a c e m n o r s u v w x z
letter       -     1.0/-0.85    g p q y
letter       -     1.45/-0.8    j
letter       -     1.55/0       i t
letter       -     1.7/0        b d h k l
letter       -     1.9/-0.65    f
letter       -     1.6/-0.1     A B C D E F G H I J K L M N O P Q R S T U V W X Z
letter       -     1.6/-0.25    Y
digit        -     1.5/0        0 1 2 3 5
digit        -     1.55/-0.05   4 6 7 8 9
greek        -     1.0/0        \sigma \epsilon \varepsilon \iota \kappa \varkappa \nu \omega \tau
                                \upsilon \varpi
greek        -     1.25/0       \alpha \pi
greek        -     1.0/-0.75    \eta \rho \varrho \chi \varsigma
greek        -     1.15/-0.75   \mu
greek        -     1.25/-0.5    \gamma \digamma
greek        -     1.55/-0.7    \beta \zeta \xi
greek        -     1.75/-0.55   \phi \varphi \psi
greek        -     1.5/0        \theta \vartheta \delta
greek        -     1.55/-0.05   \lambda \Delta \Pi \Gamma \Theta \Lambda \Xi \Sigma \Upsilon \Phi
                                \Psi \Omega
symbol       -     1.0/0        \imath
symbol       -     1.45/-0.8    \jmath \wp
symbol       -     0.95/0.1     \infty
symbol       -     1.5/0        \exists \nexists \partial \Re \Im \aleph \beth \eth \mho
symbol       -     2.0/0        \forall
symbol       -     1.7/0        \ell \hbar \nabla \emptyset \surd \top \bot \complement
symbol       -     1.5/0        \angle \measuredangle \sphericalangle \triangle \square \blacksquare
                                \Diamond \lozenge \bigstar
symbol       -     -            \flat \natural \sharp \clubsuit \diamondsuit \heartsuit \spadesuit
                                \checkmark
symbol       -     -            \pounds \yen \copyright \backslash \neg \not \backprime \% \# \$ \_
                                \& @
symbol       -     1.2/0        \therefore \because
symbol       -     0.25/0.1     \ldots
symbol       -     0.55/0.4     \cdots
symbol       -     1.5/0        \vdots \ddots
operator     -     1.05/0.05    + \times \oplus \ominus \otimes \oslash \odot \bigcirc
operator     -     1.45/-0.1    \pm \div \mp
operator     -     0.6/0.5      -
operator     -     0.65/0.6     \cdot
operator     -     0.8/0.3      \circ \bullet \diamond
operator     -     1.05/0.05    * \star \cap \cup \sqcap \sqcup \uplus \vee \wedge \amalg \wr
                                \ltimes \rtimes \bowtie
operator     -     1.7/-0.1     \setminus \dagger \ddagger \bmod
operator     -     1.2/0        \triangleleft \triangleright \bigtriangleup \bigtriangledown
relation     -     0.75/0.25    =
relation     -     1.2/0.05     < > \in \ni \ll \gg \lll \ggg \prec \succ \subset \supset
relation     -     1.5/-0.2     \leq \geq \preceq \succeq \subseteq \supseteq \sqsubseteq
                                \sqsupseteq \lesssim \gtrsim
relation     -     1.5/-0.55    \neq \notin \nless \ngtr \nleq \ngeq \subsetneq \supsetneq
                                \nsubseteq \nsupseteq
relation     -     0.75/0.25    \sim \backsim \asymp \smile \frown
relation     -     0.95/0.1     \equiv \simeq \approx \cong \propto \doteq \coloneqq \triangleq
                                \eqcirc \nsim \ncong
relation     -     1.7/-0.1     \perp \parallel \nparallel \nmid \models \vdash \dashv \lessgtr
                                \gtrless
arrow        -     0.95/0.1     \rightarrow \leftarrow \leftrightarrow \Rightarrow \Leftarrow
                                \Leftrightarrow \mapsto
arrow        -     0.95/0.1     \hookrightarrow \hookleftarrow \rightharpoonup \rightharpoondown
                                \leftharpoonup \leftharpoondown
arrow        -     1.1/0        \rightleftharpoons \leftrightharpoons \rightleftarrows
                                \leftrightarrows \rightrightarrows \leftleftarrows
arrow        -     1.2/-0.1     \nrightarrow \nleftarrow \nRightarrow \nLeftarrow \leadsto
                                \curvearrowleft \curvearrowright
arrow        -     1.7/-0.3     \uparrow \downarrow \updownarrow \Uparrow \Downarrow \Updownarrow
                                \upharpoonright
arrow        -     1.5/0        \nearrow \searrow \swarrow \nwarrow \circlearrowleft
                                \circlearrowright
punctuation  -     0.2/-0.5     , ;
punctuation  -     0.25/0.1     .
punctuation  -     0.9/0.1      :
postfix      -     1.65/0       ! ?
postfix      -     1.85/1.25    \prime
bar          -     1.9/-0.4~    | / \Vert
delimiter    -     1.9/-0.4~    ( )
delimiter    -     2.05/-0.8~   [ ] \{ \}
delimiter    -     1.9/-0.4~    \langle \rangle \lfloor \rfloor \lceil \rceil \llbracket \rrbracket
                                \ulcorner \urcorner
function     -     1.05/-0.05   \cos \sec \csc
function     -     1.35/-0.1    \sin
function     -     1.55/-0.05   \tan \cot \arccos \arcsin \arctan \sinh \cosh \tanh \coth \dim \ker
                                \hom
function     -     1.8/-0.1     \ln
function     -     1.7/-0.95    \log \lg \arg \deg
function     -     1.0/-0.8     \exp
limit        -     1.8/-0.1     \lim \liminf \limsup \inf \det
limit        -     1.0/0        \max
limit        -     1.4/0        \min
limit        -     1.6/-0.8     \sup \gcd \Pr
big          -     1.95/-0.4~   \sum \prod \coprod \bigcup \bigcap \bigsqcup \bigvee \bigwedge
                                \bigoplus \bigotimes \bigodot \biguplus
big          -     2.75/-1.1~   \int \iint \iiint \iiiint \oint \oiint
fraction     LR    0.6/0.5~     \frac \dfrac \tfrac \cfrac
binomial     LR    -            \binom \dbinom \tbinom
root         [L]R  2.0/-0.3~    \sqrt \root
stack        LR    -            \stackrel \overset
stack        RL    -            \underset
accent       .     -            \hat \bar \vec \tilde \dot \ddot \dddot \check \acute \grave \breve
                                \mathring \widehat \widetilde
accent       .     -            \overline \underline \overrightarrow \overleftarrow
                                \overleftrightarrow \underrightarrow \underleftarrow
accent       .     -            \overbrace \underbrace \overparen \wideparen \overarc \boxed \cancel
                                \bcancel \xcancel \textcircled
font         .     -            \mathbb \mathcal \mathfrak \mathscr
longarrow    [.].  -            \xrightarrow \xleftarrow \xleftrightarrow \xRightarrow \xLeftarrow
                                \xlongequal
script       L     -            ^
script       R     -            _
structure    -     -            { } \limits \\ &
environment  [.]   -            \begin{array}
"""

_FENCES: Mapping[str, tuple[str, str]] = {
    "cases": (r"\{", ""),
    "pmatrix": ("(", ")"),
    "bmatrix": ("[", "]"),
    "Bmatrix": (r"\{", r"\}"),
    "vmatrix": ("|", "|"),
    "Vmatrix": ("| |", "| |"),
}
"""The symbols before and behind the lines of an environment; all other environments have none."""

LOOK_ALIKES: tuple[frozenset[str], ...] = tuple(
    frozenset(tokens.split())
    for tokens in (
        r"- \frac",
        r"- =",
        r". \cdot \ldots \cdots",
        r"| 1 l I",
        r"\prime , ' 1",
        r"x X \times",
        r"o 0 O",
        r"( 0 [",
        r") 0 ]",
    )
)
"""Tokens that one shape may stand for."""

ENVIRONMENT = re.compile(r"\\(begin|end)\{([A-Za-z]+\*?)\}")


class Extent(NamedTuple):
    """The vertical extent of a symbol over its baseline, in x-heights."""

    top: float
    bottom: float

    @property
    def height(self) -> float:
        """The distance from bottom to top."""
        return self.top - self.bottom


class Symbol(NamedTuple):
    """A row of the symbol table, for one token."""

    token: str
    kind: str  # its class
    arguments: str = ""  # the relative position of each argument; `.`: that of the command
    option: str = ""  # the relative position of the optional argument; empty if there is none
    extent: Extent | None = None
    grows: bool = False  # with what it encloses, sums or covers
    partner: str = ""  # the other case of a Latin letter; the closing delimiter of an opening one

    @property
    def limits(self) -> bool:
        """Whether scripts stand below and above the symbol."""
        return self.kind in ("big", "limit")


def _read_table(text: str) -> dict[str, Symbol]:
    table: dict[str, Symbol] = {}
    rows = text.strip().replace("\n ", " ")  # an indented line continues a row
    for row in rows.splitlines():
        kind, arguments, measures, *tokens = row.split()
        option, _, required = arguments.replace("-", "").rpartition("]")
        top, _, bottom = measures.rstrip("~").partition("/")
        extent = Extent(float(top), float(bottom)) if bottom else None
        for token, following in zip(tokens, [*tokens[1:], ""], strict=True):
            if token in table:
                raise ValueError(f"{token} has two rows in the symbol table")
            partner = ""
            if kind == "letter":
                partner = token.swapcase()
            elif kind == "delimiter" and tokens.index(token) % 2 == 0:
                partner = following
            elif token == "|":
                partner = token
            table[token] = Symbol(
                token, kind, required, option[1:], extent, measures.endswith("~"), partner
            )
    return table


SYMBOLS: Mapping[str, Symbol] = _read_table(_TABLE)
"""All tokens of caption form by name, except environments."""

SIGNATURES: Mapping[str, tuple[str, str]] = {
    token: (symbol.arguments, symbol.option)
    for token, symbol in SYMBOLS.items()
    if symbol.arguments or symbol.option
}
"""The positions of the arguments and of the optional argument, for tokens that take arguments."""


def tokens_of(*kinds: str) -> frozenset[str]:
    """Return all tokens of some classes."""
    return frozenset(token for token, symbol in SYMBOLS.items() if symbol.kind in kinds)


STRUCTURE_TOKENS = tokens_of("script", "structure")
"""Tokens without ink, except environments, which `is_structure` recognizes by their form."""

DELIMITER_PAIRS: Mapping[str, str] = {
    token: symbol.partner
    for token, symbol in sorted(SYMBOLS.items(), key=lambda item: item[1].kind == "bar")
    if symbol.partner and symbol.kind != "letter"
}
"""The closing delimiter of every opening one; a bar closes itself."""


def is_structure(token: str) -> bool:
    r"""Return whether a token is structure: `^ _ { } \limits \\ &` or an environment.

    Structure has no ink, except that some environments draw a fence; see `fence_of`.
    """
    return token in STRUCTURE_TOKENS or ENVIRONMENT.fullmatch(token) is not None


def fence_of(token: str) -> tuple[str, ...]:
    r"""Return the symbols that `\begin{…}` or `\end{…}` draws: `\{` for `\begin{cases}`."""
    environment = ENVIRONMENT.fullmatch(token)
    if environment is None:
        return ()
    left, right = _FENCES.get(environment[2].rstrip("*"), ("", ""))
    return tuple((left if environment[1] == "begin" else right).split())
