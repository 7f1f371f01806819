r"""LaTeX that captions do not use: other spellings, macros, spacing, environments.

Caption form has one spelling for each symbol, chosen by its ink: `\le` and `\leqslant` are `\leq`,
`\to` and `\longrightarrow` are `\rightarrow`. The symbols of caption form are in `symbols.py`. In
the tables, an entry is a caption form and what else is written for it; two spaces separate entries.
"""

import re
from collections.abc import Mapping

from posformer.latex.symbols import SIGNATURES
from posformer.latex.tokens import tokenize


def _commands(names: str) -> frozenset[str]:
    return frozenset("\\" + name for name in names.split())


def entries(table: str) -> list[list[str]]:
    """Return the words of each entry of a table."""
    return [entry.split() for entry in re.split("\n|  ", table.strip())]


_SPELLINGS = r"""
\leq \le \leqslant \leqq ≤ ⩽ ≦  \geq \ge \geqslant \geqq ≥ ⩾ ≧  \neq \ne ≠  < \lt \textless
> \gt \textgreater  = \eq  \rightarrow \to \longrightarrow \rarr → ⟶
\leftarrow \gets \longleftarrow \larr ← ⟵  \leftrightarrow \longleftrightarrow \lrarr \harr ↔ ⟷
\Rightarrow \implies \Longrightarrow \rArr ⇒ ⟹  \Leftarrow \impliedby \Longleftarrow \lArr ⇐ ⟸
\Leftrightarrow \iff \Longleftrightarrow \hArr \Lrarr ⇔ ⟺  \mapsto \longmapsto ↦ ⟼
\ldots \dots \dotsc \dotso \hdots \mathellipsis \textellipsis …  \cdots \dotsb \dotsm \dotsi ⋯
\cdot \cdotp \centerdot \sdot \textperiodcentered · ⋅ ∙  * \ast \textasteriskcentered ∗ ⁎
. \ldotp 。  \{ \lbrace  \} \rbrace  [ \lbrack 【 〔  ] \rbrack 】 〕  ( \lparen  ) \rparen
| \vert \lvert \rvert \mid \textbar ∣  / \slash ∕ ⁄  : \colon ∶  \ni \owns ∋  \wedge \land ∧
\vee \lor ∨  \neg \lnot ¬  \emptyset \varnothing \empty \O ∅ ⌀ ø  \setminus \smallsetminus ∖
\angle \ang ∠  \infty \infin ∞  \partial \part ∂  \square \Box □ ◻  \hbar \hslash ℏ ħ
\sim \thicksim ∼  \approx \thickapprox ≈  \bmod \mod  \frac \dfrac \tfrac  \binom \dbinom \tbinom
\mathcal \cal  \mathbb \Bbb  \mathfrak \frak  \boxed \fbox  \exists \exist ∃  \in \isin ∈ ∊
\subset \sub ⊂  \pm \plusmn \textpm ±  \arctan \arctg  \backslash \textbackslash
\times \texttimes × ✕  \div \textdiv ÷  \mu \textmu μ µ  ^ \sp  _ \sb
\\ \cr \newline \tabularnewline  A \Alpha Α  B \Beta Β  E \Epsilon Ε  Z \Zeta Ζ  H \Eta Η  I \Iota Ι
K \Kappa Κ  M \Mu Μ  N \Nu Ν  O \Omicron Ο  P \Rho Ρ  T \Tau Τ  X \Chi Χ  o \omicron ο
\Gamma \varGamma Γ  \Delta \varDelta Δ ∆  \Theta \varTheta Θ  \Lambda \varLambda Λ  \Pi \varPi Π
\Sigma \varSigma Σ  \Phi \varPhi Φ  \Psi \varPsi Ψ  \Omega \varOmega Ω
|| \| \Vert \lVert \rVert \textbardbl  \arg\max \argmax  \arg\min \argmin
^{\circ} \degree \textdegree  \mathbb{R} \R \reals  \mathbb{N} \N \natnums  \mathbb{Z} \Z
\mathbb{Q} \Q  \mathbb{C} \C \cnums  \alpha α  \beta β  \gamma γ  \delta δ  \epsilon ε ϵ  \zeta ζ
\eta η  \theta θ  \vartheta ϑ  \iota ι  \kappa κ  \lambda λ  \nu ν  \xi ξ  \pi π  \varpi ϖ  \rho ρ
\varrho ϱ  \sigma σ  \varsigma ς  \tau τ  \upsilon υ  \phi φ ϕ  \chi χ  \psi ψ  \omega ω  \Xi Ξ
\Upsilon Υ  - − – — ‐ ‑  \mp ∓  \bullet •  \circ ∘  \bigcirc ○  \star ⋆  \bigstar ★  \oplus ⊕
\ominus ⊖  \otimes ⊗  \oslash ⊘  \odot ⊙  \dagger †  \ddagger ‡  \cap ∩  \cup ∪  \uplus ⊎  \ll ≪
\gg ≫  \equiv ≡  \simeq ≃  \cong ≅ ≌  \doteq ≐  \triangleq ≜  \coloneqq ≔  \propto ∝  \prec ≺
\succ ≻  \preceq ≼ ⪯  \succeq ≽ ⪰  \supset ⊃  \subseteq ⊆  \supseteq ⊇  \subsetneq ⊊  \supsetneq ⊋
\notin ∉  \perp ⊥ ⟂  \parallel ∥  \nparallel ∦  \nmid ∤  \vdash ⊢  \models ⊨  \nless ≮  \ngtr ≯
\nleq ≰  \ngeq ≱  \not\subset ⊄  \smile ⌣  \frown ⌢  \uparrow ↑  \downarrow ↓  \updownarrow ↕
\Uparrow ⇑  \Downarrow ⇓  \hookrightarrow ↪  \hookleftarrow ↩  \nearrow ↗  \searrow ↘  \swarrow ↙
\nwarrow ↖  \rightleftharpoons ⇌  \leftrightharpoons ⇋  \rightharpoonup ⇀  \leftharpoonup ↼
\rightleftarrows ⇄  \nabla ∇  \forall ∀  \nexists ∄  \ell ℓ  \Re ℜ  \Im ℑ  \aleph ℵ  \beth ℶ  \wp ℘
\imath ı  \jmath ȷ  \measuredangle ∡  \sphericalangle ∢  \triangle △ ▵  \blacksquare ■  \Diamond ◇
\lozenge ◊  \complement ∁  \top ⊤  \flat ♭  \natural ♮  \sharp ♯  \clubsuit ♣  \diamondsuit ♢ ♦
\heartsuit ♡ ♥  \spadesuit ♠  \therefore ∴  \because ∵  \vdots ⋮  \ddots ⋱  \checkmark ✓  \pounds £
\yen ¥  \copyright ©  \sum ∑  \prod ∏  \coprod ∐  \int ∫  \iint ∬  \iiint ∭  \iiiint ⨌  \oint ∮
\oiint ∯  \bigcup ⋃  \bigcap ⋂  \bigvee ⋁  \bigwedge ⋀  \bigoplus ⨁  \bigotimes ⨂  \bigodot ⨀
\biguplus ⨄  \langle ⟨ 〈  \rangle ⟩ 〉  \lfloor ⌊  \rfloor ⌋  \lceil ⌈  \rceil ⌉  \llbracket ⟦
\rrbracket ⟧  \ulcorner ⌜  \urcorner ⌝  , 、  \varkappa ϰ  \digamma ϝ  \eth ð  \mho ℧  \backprime ‵
\sqcap ⊓  \sqcup ⊔  \bigsqcup ⨆  \amalg ⨿  \wr ≀  \ltimes ⋉  \rtimes ⋊  \bowtie ⋈  \diamond ⋄
\triangleleft ◁ ⊲  \triangleright ▷ ⊳  \bigtriangledown ▽  \backsim ∽  \asymp ≍  \lll ⋘  \ggg ⋙
\sqsubseteq ⊑  \sqsupseteq ⊒  \lesssim ≲  \gtrsim ≳  \nsubseteq ⊈  \nsupseteq ⊉  \eqcirc ≖  \nsim ≁
\ncong ≇  \dashv ⊣  \lessgtr ≶  \gtrless ≷  \rightharpoondown ⇁  \leftharpoondown ↽
\leftrightarrows ⇆  \rightrightarrows ⇉  \leftleftarrows ⇇  \nrightarrow ↛  \nleftarrow ↚
\nRightarrow ⇏  \nLeftarrow ⇍  \leadsto ⇝  \curvearrowleft ↶  \curvearrowright ↷  \Updownarrow ⇕
\upharpoonright ↾  \circlearrowleft ↺  \circlearrowright ↻
"""

SYNONYMS: dict[str, tuple[str, ...]] = {
    spelling: tuple(tokenize(latex))
    for latex, *spellings in entries(_SPELLINGS)
    for spelling in spellings
}
"""Other spellings, with the tokens they become."""

_NEGATED = r"""
\neq =  \nless <  \ngtr >  \nleq \leq  \ngeq \geq  \notin \in  \nexists \exists  \nmid |  \nsim \sim
\ncong \cong  \nparallel \parallel  \nsubseteq \subseteq  \nsupseteq \supseteq
"""
NEGATED = {symbol: negated for negated, symbol in entries(_NEGATED)}
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

DISCARDED = _commands(
    "label tag color hspace vspace phantom hphantom vphantom cline textcolor colorbox raisebox rule"
)
r"""Commands dropped with one group, `\rule` with two; further groups stay (`\textcolor`)."""

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
    **_macros("over", r"\frac { #1 } { #2 }"),
    **_macros("choose", r"\binom { #1 } { #2 }"),
    **_macros("atop", _STACKED),
    **_macros("brack", f"[ {_STACKED} ]"),
    **_macros("brace", rf"\{{ {_STACKED} \}}"),
}
"""Commands between their two arguments, and their replacement."""

_ENVIRONMENTS = """
matrix array smallmatrix subarray tabular  pmatrix  bmatrix  Bmatrix  vmatrix  Vmatrix  cases dcases
aligned align alignat alignedat eqnarray split gather gathered multline flalign
"""
ENVIRONMENTS: dict[str, str] = {
    **{name: caption for caption, *more in entries(_ENVIRONMENTS) for name in (caption, *more)},
    **dict.fromkeys(("equation", "displaymath", "math"), ""),
}
"""Environments and their caption names, without a star; "" for those that are dropped."""

COLUMN_SPECS = frozenset(("array", "subarray", "tabular", "alignat", "alignat*", "alignedat"))
"""Environments with a group of column letters behind their name."""
