r"""LaTeX that captions do not use: other spellings, macros, spacing, environments.

Caption form has one spelling for each symbol, chosen by its ink: `\le` and `\leqslant` are `\leq`,
`\to` and `\longrightarrow` are `\rightarrow`. The symbols of caption form are in `symbols.py`.
"""

from collections.abc import Mapping

from posformer.latex.symbols import SIGNATURES


def _commands(names: str) -> frozenset[str]:
    return frozenset("\\" + name for name in names.split())


_SAME_INK = r"""
\le \leq  \leqslant \leq  \leqq \leq  \ge \geq  \geqslant \geq  \geqq \geq  \ne \neq  \lt <  \gt >
\eq =  \to \rightarrow  \longrightarrow \rightarrow  \rarr \rightarrow  \gets \leftarrow
\longleftarrow \leftarrow  \larr \leftarrow  \longleftrightarrow \leftrightarrow
\lrarr \leftrightarrow  \harr \leftrightarrow  \implies \Rightarrow  \Longrightarrow \Rightarrow
\rArr \Rightarrow  \impliedby \Leftarrow  \Longleftarrow \Leftarrow  \lArr \Leftarrow
\iff \Leftrightarrow  \Longleftrightarrow \Leftrightarrow  \hArr \Leftrightarrow
\Lrarr \Leftrightarrow  \longmapsto \mapsto  \dots \ldots  \dotsc \ldots  \dotso \ldots
\hdots \ldots  \mathellipsis \ldots  \textellipsis \ldots  \dotsb \cdots  \dotsm \cdots
\dotsi \cdots  \cdotp \cdot  \centerdot \cdot  \ast *  \ldotp .  \lbrace \{  \rbrace \}  \lbrack [
\rbrack ]  \lparen (  \rparen )  \vert |  \lvert |  \rvert |  \mid |  \textbar |  \slash /  \colon :
\owns \ni  \land \wedge  \lor \vee  \lnot \neg  \varnothing \emptyset  \empty \emptyset
\O \emptyset  \smallsetminus \setminus  \ang \angle  \infin \infty  \part \partial  \Box \square
\hslash \hbar  \thicksim \sim  \thickapprox \approx  \mod \bmod  \dfrac \frac  \tfrac \frac
\dbinom \binom  \tbinom \binom  \cal \mathcal  \Bbb \mathbb  \frak \mathfrak  \fbox \boxed
\exist \exists  \isin \in  \sub \subset  \plusmn \pm  \sdot \cdot  \arctg \arctan  \textless <
\textgreater >  \textbackslash \backslash  \textasteriskcentered *  \textperiodcentered \cdot
\textpm \pm  \texttimes \times  \textdiv \div  \textmu \mu  \sp ^  \sb _  \cr \\  \newline \\
\tabularnewline \\  \Alpha A  \Beta B  \Epsilon E  \Zeta Z  \Eta H  \Iota I  \Kappa K  \Mu M  \Nu N
\Omicron O  \Rho P  \Tau T  \Chi X  \omicron o  \varGamma \Gamma  \varDelta \Delta  \varTheta \Theta
\varLambda \Lambda  \varPi \Pi  \varSigma \Sigma  \varPhi \Phi  \varPsi \Psi  \varOmega \Omega
"""

_SEVERAL_TOKENS = r"""
\| \Vert \lVert \rVert \textbardbl : | |
\argmax : \arg \max
\argmin : \arg \min
\degree \textdegree : ^ { \circ }
\R \reals : \mathbb { R }
\N \natnums : \mathbb { N }
\Z : \mathbb { Z }
\Q : \mathbb { Q }
\C \cnums : \mathbb { C }
"""

_NEGATED = r"""
= \neq  < \nless  > \ngtr  \leq \nleq  \geq \ngeq  \in \notin  \exists \nexists  | \nmid  \sim \nsim
\cong \ncong  \parallel \nparallel  \subseteq \nsubseteq  \supseteq \nsupseteq
"""


def _pairs(table: str) -> dict[str, str]:
    words = table.split()
    return dict(zip(words[::2], words[1::2], strict=True))


SYNONYMS: dict[str, tuple[str, ...]] = {
    **{name: (token,) for name, token in _pairs(_SAME_INK).items()},
    **{
        name: tuple(tokens.split())
        for names, _, tokens in (line.partition(" : ") for line in _SEVERAL_TOKENS.splitlines())
        for name in names.split()
    },
}
"""Other spellings, with the tokens they become."""

NEGATED = _pairs(_NEGATED)
r"""The tokens for `\not` and a symbol."""

INKLESS = _commands(
    ", : ; ! > / - ( ) [ ]"
    " quad qquad enspace enskip thinspace medspace thickspace negthinspace negmedspace"
    " negthickspace space nobreakspace displaystyle textstyle scriptstyle scriptscriptstyle"
    " rm bf it sf tt sl sc em mit bfseries itshape rmfamily sffamily ttfamily mdseries upshape"
    " normalfont normalsize tiny scriptsize footnotesize small large Large LARGE huge Huge"
    " nolimits displaylimits relax null nobreak allowbreak noindent par hfill hfil"
    " strut mathstrut nonumber notag hline centering protect boldmath"
    " unboldmath break nolinebreak bigskip medskip smallskip vfill"
) | {"~", "$", "\\"}
"""Spacing, sizes, font switches and math delimiters, which are dropped."""

SIZED = _commands(
    "middle big Big bigg Bigg bigl bigr bigm Bigl Bigr Bigm biggl biggr biggm Biggl Biggr Biggm"
)
r"""Commands before a delimiter, which may be `.` for none."""

DISCARDED = dict.fromkeys(
    _commands(
        "label tag color hspace vspace phantom hphantom vphantom cline textcolor colorbox raisebox"
    ),
    1,
) | {r"\rule": 2}
r"""Commands dropped with this many groups behind them; further groups stay (`\textcolor`)."""

SKIPS = _commands("kern mkern hskip mskip vskip")
"""Commands before a length without braces."""


def _macros(names: str, template: str) -> dict[str, tuple[str, ...]]:
    return {f"\\{name}": tuple(template.replace("NAME", name).split()) for name in names.split()}


_STACKED = r"\begin{matrix} #1 \\ #2 \end{matrix}"

MACROS: dict[str, tuple[str, ...]] = {
    **_macros("cfrac", r"\frac { #1 } { #2 }"),
    **_macros(
        "mathrm mathbf mathit mathsf mathtt mathnormal boldsymbol bm pmb bold symbf symrm symit"
        " text textrm textbf textit textsf texttt textnormal textup textsl textsc textmd mbox hbox"
        " emph operatorname operatornamewithlimits mathop mathrel mathbin mathord mathopen"
        " mathclose mathpunct mathinner ensuremath smash llap rlap mathllap mathrlap mathclap",
        "#1",
    ),
    **_macros("nicefrac sfrac flatfrac", "#1 / #2"),
    **_macros("abs", "| #1 |"),
    **_macros("norm", "| | #1 | |"),
    **_macros("pmod", r"( \bmod #1 )"),
    **_macros("substack matrix", r"\begin{matrix} #1 \end{matrix}"),
    **_macros("pmatrix cases", r"\begin{NAME} #1 \end{NAME}"),
}
"""Commands with arguments that captions do not use, and their replacement with `#1`, `#2`."""

TYPED_SIGNATURES: Mapping[str, tuple[str, str]] = {
    **{token: signature for token, signature in SIGNATURES.items() if signature[0]},
    **{name: (".." if "#2" in template else ".", "") for name, template in MACROS.items()},
    r"\cfrac": ("..", "."),
}
"""The arguments of all commands that can be typed; see `SIGNATURES`."""

INFIX: dict[str, tuple[str, ...]] = {
    r"\over": (r"\frac", "{", "#1", "}", "{", "#2", "}"),
    r"\choose": (r"\binom", "{", "#1", "}", "{", "#2", "}"),
    r"\atop": tuple(_STACKED.split()),
    r"\brack": ("[", *_STACKED.split(), "]"),
    r"\brace": (r"\{", *_STACKED.split(), r"\}"),
}
"""Commands between their two arguments, and their replacement."""

_MATRICES = ("matrix", "pmatrix", "bmatrix", "Bmatrix", "vmatrix", "Vmatrix")

_ENVIRONMENT_NAMES = """
    array smallmatrix subarray tabular : matrix
    cases dcases : cases
    aligned align alignat alignedat eqnarray split gather gathered multline flalign : aligned
    equation displaymath math :
"""


def _environments() -> dict[str, str]:
    table = {name: name for name in _MATRICES}
    for line in _ENVIRONMENT_NAMES.strip().splitlines():
        names, _, caption = line.partition(":")
        table |= dict.fromkeys(names.split(), caption.strip())
    return table | {f"{name}*": caption for name, caption in table.items()}


ENVIRONMENTS: dict[str, str] = _environments()
"""Environments and their caption names; "" for those that are dropped."""

COLUMN_SPECS = frozenset(("array", "subarray", "tabular", "alignat", "alignat*", "alignedat"))
"""Environments with a group of column letters behind their name."""
