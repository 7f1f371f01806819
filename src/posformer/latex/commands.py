r"""What the normalizer knows about commands: names, synonyms, arguments.

Caption form has one spelling a symbol, chosen by its ink: `\le` and `\leqslant` are `\leq`, `\to`
and `\longrightarrow` are `\rightarrow`.
"""

from typing import NamedTuple


def _commands(names: str) -> frozenset[str]:
    return frozenset("\\" + name for name in names.split())


FUNCTIONS = _commands(
    "arccos arcsin arctan arg cos cosh cot coth csc deg det dim exp gcd hom inf ker lg lim liminf"
    " limsup ln log max min Pr sec sin sinh sup tan tanh"
)

LIMIT_OPERATORS = _commands(
    "sum prod coprod int iint iiint iiiint oint oiint lim liminf limsup max min sup inf det gcd Pr"
    " bigcup bigcap bigsqcup bigvee bigwedge bigoplus bigotimes bigodot biguplus"
)
r"""Operators whose scripts stand over and under them; captions write `\limits` before these."""

_GREEK = _commands(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau"
    " upsilon phi chi psi omega varepsilon vartheta varpi varrho varsigma varphi varkappa digamma"
    " Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
)
_OPERATORS = _commands(
    "pm mp times div cdot circ bullet star oplus ominus otimes oslash odot cap cup sqcap sqcup"
    " uplus vee wedge setminus amalg dagger ddagger wr diamond bigcirc bigtriangleup"
    " bigtriangledown triangleleft triangleright ltimes rtimes bowtie bmod"
)
_RELATIONS = _commands(
    "leq geq neq ll gg lll ggg equiv sim simeq approx cong doteq propto prec succ preceq succeq"
    " subset supset subseteq supseteq subsetneq supsetneq sqsubseteq sqsupseteq in ni notin perp"
    " parallel nparallel asymp models vdash dashv smile frown nless ngtr nleq ngeq lesssim gtrsim"
    " lessgtr gtrless triangleq eqcirc coloneqq nmid nsim ncong nsubseteq nsupseteq backsim"
)
_ARROWS = _commands(
    "rightarrow leftarrow leftrightarrow Rightarrow Leftarrow Leftrightarrow uparrow downarrow"
    " updownarrow Uparrow Downarrow Updownarrow mapsto hookrightarrow hookleftarrow nearrow searrow"
    " swarrow nwarrow rightharpoonup rightharpoondown leftharpoonup leftharpoondown"
    " rightleftharpoons leftrightharpoons rightleftarrows leftrightarrows rightrightarrows"
    " leftleftarrows upharpoonright curvearrowleft curvearrowright circlearrowleft"
    " circlearrowright nrightarrow nleftarrow nRightarrow nLeftarrow leadsto"
)
_OTHERS = _commands(
    "infty partial nabla forall exists nexists neg emptyset hbar ell Re Im aleph beth wp imath"
    " jmath angle measuredangle sphericalangle triangle bigtriangleup square blacksquare Diamond"
    " lozenge bigstar prime backprime complement top bot surd flat natural sharp clubsuit"
    " diamondsuit heartsuit spadesuit therefore because ldots cdots vdots ddots checkmark eth"
    " mho pounds yen copyright backslash not"
)
_DELIMITERS = _commands(
    "langle rangle lfloor rfloor lceil rceil llbracket rrbracket ulcorner urcorner"
)
_ESCAPES = frozenset({r"\{", r"\}", r"\%", r"\#", r"\$", r"\_", r"\&"})

SYMBOLS: frozenset[str] = (
    FUNCTIONS
    | LIMIT_OPERATORS
    | _GREEK
    | _OPERATORS
    | _RELATIONS
    | _ARROWS
    | _OTHERS
    | _DELIMITERS
    | _ESCAPES
)
"""Commands without arguments that stay as they are."""

PLAIN_CHARACTERS = frozenset("+-*/=<>()[]|!,.:;?@")
"""Characters beside letters and digits that stay as they are."""

_SAME_INK = """
    \\le \\leqslant \\leqq : \\leq
    \\ge \\geqslant \\geqq : \\geq
    \\ne : \\neq
    \\lt : <
    \\gt : >
    \\eq : =
    \\to \\longrightarrow \\rarr : \\rightarrow
    \\gets \\longleftarrow \\larr : \\leftarrow
    \\longleftrightarrow \\lrarr \\harr : \\leftrightarrow
    \\implies \\Longrightarrow \\rArr : \\Rightarrow
    \\impliedby \\Longleftarrow \\lArr : \\Leftarrow
    \\iff \\Longleftrightarrow \\hArr \\Lrarr : \\Leftrightarrow
    \\longmapsto : \\mapsto
    \\dots \\dotsc \\dotso \\hdots \\mathellipsis \\textellipsis : \\ldots
    \\dotsb \\dotsm \\dotsi : \\cdots
    \\cdotp \\centerdot : \\cdot
    \\ast : *
    \\ldotp : .
    \\lbrace : \\{
    \\rbrace : \\}
    \\lbrack : [
    \\rbrack : ]
    \\lparen : (
    \\rparen : )
    \\vert \\lvert \\rvert \\mid \\textbar : |
    \\| \\Vert \\lVert \\rVert \\textbardbl : | |
    \\slash : /
    \\colon : :
    \\owns : \\ni
    \\land : \\wedge
    \\lor : \\vee
    \\lnot : \\neg
    \\varnothing \\empty \\O : \\emptyset
    \\smallsetminus : \\setminus
    \\ang : \\angle
    \\infin : \\infty
    \\part : \\partial
    \\Box : \\square
    \\hslash : \\hbar
    \\thicksim : \\sim
    \\thickapprox : \\approx
    \\mod : \\bmod
    \\exist : \\exists
    \\isin : \\in
    \\sub : \\subset
    \\plusmn : \\pm
    \\sdot : \\cdot
    \\arctg : \\arctan
    \\textless : <
    \\textgreater : >
    \\textbackslash : \\backslash
    \\textasteriskcentered : *
    \\textperiodcentered : \\cdot
    \\textpm : \\pm
    \\texttimes : \\times
    \\textdiv : \\div
    \\textmu : \\mu
    \\argmax : \\arg \\max
    \\argmin : \\arg \\min
    \\degree \\textdegree : ^ { \\circ }
    \\R \\reals : \\mathbb { R }
    \\N \\natnums : \\mathbb { N }
    \\Z : \\mathbb { Z }
    \\Q : \\mathbb { Q }
    \\C \\cnums : \\mathbb { C }
    \\sp : ^
    \\sb : _
    \\cr \\newline \\tabularnewline : \\\\
    \\Alpha : A
    \\Beta : B
    \\Epsilon : E
    \\Zeta : Z
    \\Eta : H
    \\Iota : I
    \\Kappa : K
    \\Mu : M
    \\Nu : N
    \\Omicron : O
    \\Rho : P
    \\Tau : T
    \\Chi : X
    \\omicron : o
    \\varGamma : \\Gamma
    \\varDelta : \\Delta
    \\varTheta : \\Theta
    \\varLambda : \\Lambda
    \\varPi : \\Pi
    \\varSigma : \\Sigma
    \\varPhi : \\Phi
    \\varPsi : \\Psi
    \\varOmega : \\Omega
"""


def _synonyms(table: str) -> dict[str, tuple[str, ...]]:
    entries = {}
    for line in table.strip().splitlines():
        names, tokens = line.split(" : ")
        entries.update(dict.fromkeys(names.split(), tuple(tokens.split())))
    return entries


SYNONYMS: dict[str, tuple[str, ...]] = _synonyms(_SAME_INK)
"""Other spellings, with the tokens they become."""

NEGATED = {
    "=": r"\neq",
    "<": r"\nless",
    ">": r"\ngtr",
    r"\leq": r"\nleq",
    r"\geq": r"\ngeq",
    r"\in": r"\notin",
    r"\exists": r"\nexists",
    "|": r"\nmid",
    r"\sim": r"\nsim",
    r"\cong": r"\ncong",
    r"\parallel": r"\nparallel",
    r"\subseteq": r"\nsubseteq",
    r"\supseteq": r"\nsupseteq",
}
r"""What `\not` makes of the symbol behind it."""

INKLESS = frozenset({"~", "$", "\\", r"\,", r"\:", r"\;", r"\!", r"\>", r"\/", r"\-"}) | {
    r"\(",
    r"\)",
    r"\[",
    r"\]",
    *_commands(
        "quad qquad enspace enskip thinspace medspace thickspace negthinspace negmedspace"
        " negthickspace space nobreakspace displaystyle textstyle scriptstyle scriptscriptstyle"
        " rm bf it sf tt sl sc em mit bfseries itshape rmfamily sffamily ttfamily mdseries upshape"
        " normalfont normalsize tiny scriptsize footnotesize small large Large LARGE huge Huge"
        " nolimits displaylimits relax null nobreak allowbreak noindent par hfill hfil"
        " strut mathstrut nonumber notag hline centering protect boldmath"
        " unboldmath break nolinebreak bigskip medskip smallskip vfill"
    ),
}
"""Spacing, sizes, fonts switched on and math marks: dropped."""

SIZED = _commands(
    "middle big Big bigg Bigg bigl bigr bigm Bigl Bigr Bigm biggl biggr biggm Biggl Biggr Biggm"
)
r"""Commands before a delimiter, which may be `.` for none."""

DISCARDED = {
    r"\label": 1,
    r"\tag": 1,
    r"\color": 1,
    r"\hspace": 1,
    r"\vspace": 1,
    r"\phantom": 1,
    r"\hphantom": 1,
    r"\vphantom": 1,
    r"\cline": 1,
    r"\rule": 2,
    r"\textcolor": 1,
    r"\colorbox": 1,
    r"\raisebox": 1,
}
r"""Commands dropped with this many groups behind them; further groups stay (`\textcolor`)."""

SKIPS = _commands("kern mkern hskip mskip vskip")
"""Commands before a length without braces."""


class Command(NamedTuple):
    """How a command is rewritten: `#1` and `#2` are its arguments, `#0` is its option."""

    arguments: int
    template: tuple[str, ...]
    with_option: tuple[str, ...] = ()  # the template when there is a `[ … ]`; () takes none


def _rewritten(names: str, template: str, with_option: str = "") -> dict[str, Command]:
    arguments = 2 if "#2" in template else 1
    return {
        f"\\{name}": Command(
            arguments,
            tuple(template.replace("NAME", name).split()),
            tuple(with_option.replace("NAME", name).split()),
        )
        for name in names.split()
    }


_STACKED = r"\begin{matrix} #1 \\ #2 \end{matrix}"

COMMANDS: dict[str, Command] = {
    **_rewritten("frac dfrac tfrac", r"\frac { #1 } { #2 }"),
    **_rewritten("cfrac", r"\frac { #1 } { #2 }", r"\frac { #1 } { #2 }"),
    **_rewritten("binom dbinom tbinom", r"\binom { #1 } { #2 }"),
    **_rewritten("overset underset stackrel", r"\NAME { #1 } { #2 }"),
    **_rewritten("sqrt", r"\sqrt { #1 }", r"\sqrt [ #0 ] { #1 }"),
    **_rewritten(
        "xrightarrow xleftarrow xleftrightarrow xRightarrow xLeftarrow xlongequal",
        r"\NAME { #1 }",
        r"\NAME [ #0 ] { #1 }",
    ),
    **_rewritten(
        "hat bar vec tilde dot ddot dddot check acute grave breve mathring widehat widetilde"
        " overline underline overrightarrow overleftarrow overleftrightarrow underrightarrow"
        " underleftarrow overbrace underbrace overparen wideparen overarc boxed cancel bcancel"
        " xcancel textcircled mathbb mathcal mathfrak mathscr",
        r"\NAME { #1 }",
    ),
    **_rewritten("cal", r"\mathcal { #1 }"),
    **_rewritten("Bbb", r"\mathbb { #1 }"),
    **_rewritten("frak", r"\mathfrak { #1 }"),
    **_rewritten("fbox", r"\boxed { #1 }"),
    **_rewritten(
        "mathrm mathbf mathit mathsf mathtt mathnormal boldsymbol bm pmb bold symbf symrm symit"
        " text textrm textbf textit textsf texttt textnormal textup textsl textsc textmd mbox hbox"
        " emph operatorname operatornamewithlimits mathop mathrel mathbin mathord mathopen"
        " mathclose mathpunct mathinner ensuremath smash llap rlap mathllap mathrlap mathclap",
        "#1",
    ),
    **_rewritten("nicefrac sfrac flatfrac", "#1 / #2"),
    **_rewritten("abs", "| #1 |"),
    **_rewritten("norm", "| | #1 | |"),
    **_rewritten("pmod", r"( \bmod #1 )"),
    **_rewritten("substack matrix", r"\begin{matrix} #1 \end{matrix}"),
    **_rewritten("pmatrix cases", r"\begin{NAME} #1 \end{NAME}"),
}
"""Commands with arguments."""

INFIX: dict[str, tuple[str, ...]] = {
    r"\over": (r"\frac", "{", "#1", "}", "{", "#2", "}"),
    r"\choose": (r"\binom", "{", "#1", "}", "{", "#2", "}"),
    r"\atop": tuple(_STACKED.split()),
    r"\brack": ("[", *_STACKED.split(), "]"),
    r"\brace": (r"\{", *_STACKED.split(), r"\}"),
}
"""Commands that stand between their two arguments, and what becomes of them."""

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
