r"""The symbol table: everything the package knows about a token, one row per group of tokens.

A row has a class, arguments and, behind each vertical extent, the tokens that have it. To add a
symbol, add its token where it belongs, or write a new row.

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
letter       -     1.0/0: a c e m n o r s u v w x z  1.0/-0.85: g p q y  1.45/-0.8: j  1.55/0: i t
    1.7/0: b d h k l  1.9/-0.65: f  1.6/-0.1: A B C D E F G H I J K L M N O P Q R S T U V W X Z
    1.6/-0.25: Y
digit        -     1.5/0: 0 1 2 3 5  1.55/-0.05: 4 6 7 8 9
greek        -     1.0/0: \sigma \epsilon \varepsilon \iota \kappa \varkappa \nu \omega \tau
        \upsilon \varpi  1.25/0: \alpha \pi  1.0/-0.75: \eta \rho \varrho \chi \varsigma
    1.15/-0.75: \mu  1.25/-0.5: \gamma \digamma  1.55/-0.7: \beta \zeta \xi
    1.75/-0.55: \phi \varphi \psi  1.5/0: \theta \vartheta \delta
    1.55/-0.05: \lambda \Delta \Pi \Gamma \Theta \Lambda \Xi \Sigma \Upsilon \Phi \Psi \Omega
symbol       -     1.0/0: \imath  1.45/-0.8: \jmath \wp  0.95/0.1: \infty
    1.5/0: \exists \nexists \partial \Re \Im \aleph \beth \eth \mho \angle \measuredangle
        \sphericalangle \triangle \square \blacksquare \Diamond \lozenge \bigstar \vdots \ddots
    2.0/0: \forall  1.7/0: \ell \hbar \nabla \emptyset \surd \top \bot \complement
    -: \flat \natural \sharp \clubsuit \diamondsuit \heartsuit \spadesuit \checkmark \pounds \yen
        \copyright \backslash \neg \not \backprime \% \# \$ \_ \& @  1.2/0: \therefore \because
    0.25/0.1: \ldots  0.55/0.4: \cdots
operator     -     1.05/0.05: + \times \oplus \ominus \otimes \oslash \odot \bigcirc * \star \cap
        \cup \sqcap \sqcup \uplus \vee \wedge \amalg \wr \ltimes \rtimes \bowtie
    1.45/-0.1: \pm \div \mp  0.6/0.5: -  0.65/0.6: \cdot  0.8/0.3: \circ \bullet \diamond
    1.7/-0.1: \setminus \dagger \ddagger \bmod
    1.2/0: \triangleleft \triangleright \bigtriangleup \bigtriangledown
relation     -     0.75/0.25: = \sim \backsim \asymp \smile \frown
    1.2/0.05: < > \in \ni \ll \gg \lll \ggg \prec \succ \subset \supset
    1.5/-0.2: \leq \geq \preceq \succeq \subseteq \supseteq \sqsubseteq \sqsupseteq \lesssim \gtrsim
    1.5/-0.55: \neq \notin \nless \ngtr \nleq \ngeq \subsetneq \supsetneq \nsubseteq \nsupseteq
    0.95/0.1: \equiv \simeq \approx \cong \propto \doteq \coloneqq \triangleq \eqcirc \nsim \ncong
    1.7/-0.1: \perp \parallel \nparallel \nmid \models \vdash \dashv \lessgtr \gtrless
arrow        -     0.95/0.1: \rightarrow \leftarrow \leftrightarrow \Rightarrow \Leftarrow
        \Leftrightarrow \mapsto \hookrightarrow \hookleftarrow \rightharpoonup \rightharpoondown
        \leftharpoonup \leftharpoondown
    1.1/0: \rightleftharpoons \leftrightharpoons \rightleftarrows \leftrightarrows \rightrightarrows
        \leftleftarrows
    1.2/-0.1: \nrightarrow \nleftarrow \nRightarrow \nLeftarrow \leadsto \curvearrowleft
        \curvearrowright
    1.7/-0.3: \uparrow \downarrow \updownarrow \Uparrow \Downarrow \Updownarrow \upharpoonright
    1.5/0: \nearrow \searrow \swarrow \nwarrow \circlearrowleft \circlearrowright
punctuation  -     0.2/-0.5: , ;  0.25/0.1: .  0.9/0.1: :
postfix      -     1.65/0: ! ?  1.85/1.25: \prime
bar          -     1.9/-0.4~: | / \Vert
delimiter    -     1.9/-0.4~: ( )  2.05/-0.8~: [ ] \{ \}
    1.9/-0.4~: \langle \rangle \lfloor \rfloor \lceil \rceil \llbracket \rrbracket \ulcorner
        \urcorner
function     -     1.05/-0.05: \cos \sec \csc  1.35/-0.1: \sin
    1.55/-0.05: \tan \cot \arccos \arcsin \arctan \sinh \cosh \tanh \coth \dim \ker \hom
    1.8/-0.1: \ln  1.7/-0.95: \log \lg \arg \deg  1.0/-0.8: \exp
limit        -     1.8/-0.1: \lim \liminf \limsup \inf \det  1.0/0: \max  1.4/0: \min
    1.6/-0.8: \sup \gcd \Pr
big          -     1.95/-0.4~: \sum \prod \coprod \bigcup \bigcap \bigsqcup \bigvee \bigwedge
        \bigoplus \bigotimes \bigodot \biguplus  2.75/-1.1~: \int \iint \iiint \iiiint \oint \oiint
fraction     LR    0.6/0.5~: \frac \dfrac \tfrac \cfrac
binomial     LR    -: \binom \dbinom \tbinom
root         [L]R  2.0/-0.3~: \sqrt \root
stack        LR    -: \stackrel \overset
stack        RL    -: \underset
accent       .     -: \hat \bar \vec \tilde \dot \ddot \dddot \check \acute \grave \breve \mathring
        \widehat \widetilde \overline \underline \overrightarrow \overleftarrow \overleftrightarrow
        \underrightarrow \underleftarrow \overbrace \underbrace \overparen \wideparen \overarc
        \boxed \cancel \bcancel \xcancel \textcircled
font         .     -: \mathbb \mathcal \mathfrak \mathscr
longarrow    [.].  -: \xrightarrow \xleftarrow \xleftrightarrow \xRightarrow \xLeftarrow \xlongequal
script       L     -: ^
script       R     -: _
structure    -     -: { } \limits \\ &
environment  [.]   -: \begin{array}
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

_SHAPES = (
    r"- \frac  - =  . \cdot \ldots \cdots  | 1 l I  \prime , ' 1  x X \times  o 0 O  ( 0 [  ) 0 ]"
)
LOOK_ALIKES = tuple(frozenset(tokens.split()) for tokens in _SHAPES.split("  "))
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
        kind, arguments, *words = row.split()
        option, _, required = arguments.replace("-", "").rpartition("]")
        for measures, listed in re.findall(r"(\S+): (.*?)(?= \S+: |$)", " ".join(words)):
            top, _, bottom = measures.rstrip("~").partition("/")
            extent = Extent(float(top), float(bottom)) if bottom else None
            tokens = listed.split()
            partners = {"|": "|"}
            if kind == "delimiter":
                partners = dict(zip(tokens[::2], tokens[1::2], strict=True))
            for token in tokens:
                if token in table:
                    raise ValueError(f"{token} has two rows in the symbol table")
                partner = token.swapcase() if kind == "letter" else partners.get(token, "")
                grows = measures.endswith("~")
                table[token] = Symbol(token, kind, required, option[1:], extent, grows, partner)
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
