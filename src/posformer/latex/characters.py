r"""Characters as people type them: Unicode to LaTeX, comments, roots written with `√`.

The output is LaTeX again, cut into lexemes that remember where they were typed.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator

from posformer.errors import LatexError
from posformer.latex.tokens import Lexeme, scan

_NAMED = r"""
α \alpha β \beta γ \gamma δ \delta ε \epsilon ϵ \epsilon ζ \zeta η \eta θ \theta ϑ \vartheta
ι \iota κ \kappa λ \lambda μ \mu µ \mu ν \nu ξ \xi ο o π \pi ϖ \varpi ρ \rho ϱ \varrho σ \sigma
ς \varsigma τ \tau υ \upsilon φ \phi ϕ \phi χ \chi ψ \psi ω \omega
Α A Β B Γ \Gamma Δ \Delta Ε E Ζ Z Η H Θ \Theta Ι I Κ K Λ \Lambda Μ M Ν N Ξ \Xi Ο O Π \Pi Ρ P
Σ \Sigma Τ T Υ \Upsilon Φ \Phi Χ X Ψ \Psi Ω \Omega Ω \Omega ∆ \Delta
− - – - — - ‐ - ‑ - × \times ✕ \times ÷ \div ± \pm ∓ \mp · \cdot ⋅ \cdot ∙ \cdot • \bullet
∗ * ⁎ * ∘ \circ ○ \bigcirc ⋆ \star ★ \bigstar ⊕ \oplus ⊖ \ominus ⊗ \otimes ⊘ \oslash ⊙ \odot
∕ / ⁄ / ∖ \setminus † \dagger ‡ \ddagger ∩ \cap ∪ \cup ∧ \wedge ∨ \vee ¬ \neg ⊎ \uplus
≤ \leq ⩽ \leq ≦ \leq ≥ \geq ⩾ \geq ≧ \geq ≠ \neq ≪ \ll ≫ \gg ≡ \equiv ∼ \sim ≃ \simeq ≈ \approx
≅ \cong ≌ \cong ≐ \doteq ≜ \triangleq ≔ \coloneqq ∝ \propto ≺ \prec ≻ \succ ≼ \preceq ≽ \succeq
⪯ \preceq ⪰ \succeq ⊂ \subset ⊃ \supset ⊆ \subseteq ⊇ \supseteq ⊊ \subsetneq ⊋ \supsetneq ∈ \in
∊ \in ∋ \ni ∉ \notin ⊥ \perp ⟂ \perp ∥ \parallel ∦ \nparallel ∣ | ∤ \nmid ⊢ \vdash ⊨ \models
≮ \nless ≯ \ngtr ≰ \nleq ≱ \ngeq ⊄ \not\subset ⌣ \smile ⌢ \frown
→ \rightarrow ⟶ \rightarrow ← \leftarrow ⟵ \leftarrow ↔ \leftrightarrow ⟷ \leftrightarrow
⇒ \Rightarrow ⟹ \Rightarrow ⇐ \Leftarrow ⟸ \Leftarrow ⇔ \Leftrightarrow ⟺ \Leftrightarrow
↑ \uparrow ↓ \downarrow ↕ \updownarrow ⇑ \Uparrow ⇓ \Downarrow ↦ \mapsto ⟼ \mapsto ↪ \hookrightarrow
↩ \hookleftarrow ↗ \nearrow ↘ \searrow ↙ \swarrow ↖ \nwarrow ⇌ \rightleftharpoons
⇋ \leftrightharpoons ⇀ \rightharpoonup ↼ \leftharpoonup ⇄ \rightleftarrows
∞ \infty ∂ \partial ∇ \nabla ∀ \forall ∃ \exists ∄ \nexists ∅ \emptyset ⌀ \emptyset ø \emptyset
ℏ \hbar ħ \hbar ℓ \ell ℜ \Re ℑ \Im ℵ \aleph ℶ \beth ℘ \wp ı \imath ȷ \jmath ∠ \angle
∡ \measuredangle ∢ \sphericalangle △ \triangle ▵ \triangle □ \square ◻ \square ■ \blacksquare
◇ \Diamond ◊ \lozenge ∁ \complement ⊤ \top ♭ \flat ♮ \natural ♯ \sharp ♣ \clubsuit ♢ \diamondsuit
♦ \diamondsuit ♡ \heartsuit ♥ \heartsuit ♠ \spadesuit ∴ \therefore ∵ \because … \ldots ⋯ \cdots
⋮ \vdots ⋱ \ddots ✓ \checkmark £ \pounds ¥ \yen © \copyright
∑ \sum ∏ \prod ∐ \coprod ∫ \int ∬ \iint ∭ \iiint ⨌ \iiiint ∮ \oint ∯ \oiint ⋃ \bigcup ⋂ \bigcap
⋁ \bigvee ⋀ \bigwedge ⨁ \bigoplus ⨂ \bigotimes ⨀ \bigodot ⨄ \biguplus
⟨ \langle 〈 \langle ⟩ \rangle 〉 \rangle ⌊ \lfloor ⌋ \rfloor ⌈ \lceil ⌉ \rceil ‖ \| ⟦ \llbracket
⟧ \rrbracket 【 [ 】 ] 〔 [ 〕 ] 。 . 、 , ∶ :
′ ' ’ ' ‘ ' ″ '' “ '' ” '' " '' ‴ ''' ⁗ '''' ° \degree ℃ \degree{}C ℉ \degree{}F
"""
_WORDS = _NAMED.split()
NAMED: dict[str, str] = dict(zip(_WORDS[::2], _WORDS[1::2], strict=True))
"""Characters and the LaTeX they stand for."""

_MARKS = (
    "\u0300\u0301\u0302\u0303\u0304\u0305\u0306\u0307\u0308\u030a\u030c\u0332\u20d1\u20d7\u20db"
)
_ACCENTS = r"""
\grave \acute \hat \tilde \bar \overline \breve \dot \ddot \mathring \check \underline
\vec \vec \dddot
"""
_COMBINING = dict(zip(_MARKS, _ACCENTS.split(), strict=True))
_NEGATION = "\u0338"
_STYLES = {
    "DOUBLE-STRUCK": r"\mathbb",
    "SCRIPT": r"\mathcal",
    "FRAKTUR": r"\mathfrak",
    "BLACK-LETTER": r"\mathfrak",
}
_INVISIBLE = frozenset(
    "\u00ad\u200b\u200c\u200d\u2060\u2061\u2062\u2063\u2064\ufe00\ufe0e\ufe0f\ufeff"
)
_ROOTS = {"√": r"\sqrt", "∛": r"\sqrt[3]", "∜": r"\sqrt[4]"}
_PERCENT = re.compile(r"\\.|%", re.DOTALL)


def lexemes(source: str | Iterable[str]) -> list[Lexeme]:
    """Split text, or tokens, as people type them into lexemes of plain LaTeX.

    Raises:
        LatexError: A character has no LaTeX; names it and its place.
    """
    if isinstance(source, str):
        raw = list(scan(_without_comments(source)))
    else:
        raw = [
            Lexeme(part.token, number, None)
            for number, token in enumerate(source, start=1)
            for part in scan(token)
        ]
    return list(_Expander(raw).lexemes())


def _without_comments(text: str) -> str:
    """Replace comments by spaces, which keeps the columns."""
    pieces = []
    done = 0
    for match in _PERCENT.finditer(text):
        at = match.start()
        line_break = text.find("\n", at)
        end = len(text) if line_break < 0 else line_break
        if at >= done and match[0] == "%" and not _is_percent_sign(text, at, end):
            pieces += [text[done:at], " " * (end - at)]
            done = end
    return "".join(pieces) + text[done:]


def _is_percent_sign(text: str, at: int, end_of_line: int) -> bool:
    """Return whether `%` is the sign, as in `50%`, and not the start of a comment."""
    rest = text[at + 1 : end_of_line].strip()
    if not text[:at].rstrip()[-1:].isdecimal():
        return False
    return not rest[0].isalpha() if rest else end_of_line == len(text)


class _Expander:
    """Replaces lexemes that are not LaTeX by LaTeX."""

    def __init__(self, raw: list[Lexeme]) -> None:
        self.raw = raw
        self.at = 0
        self.parentheses = 0
        self.root_parentheses: list[int] = []  # depths at which a `√(` was opened

    def lexemes(self) -> Iterator[Lexeme]:
        while self.at < len(self.raw):
            lexeme = self.raw[self.at]
            latex = self._latex()
            if latex == lexeme.token:
                yield lexeme
                continue
            for part in scan(latex):
                yield Lexeme(part.token, lexeme.number, lexeme.column)

    def _latex(self) -> str:
        """Consume the next characters and return their LaTeX."""
        lexeme = self.raw[self.at]
        token = lexeme.token
        if token in _ROOTS:
            return self._root()
        if script := _script_of(token):
            return self._script_run(script)
        if token in "()":
            return self._parenthesis()
        if token == "." and self._run(lambda token: token == ".", len("...")) == len("..."):
            self.at += len("...")
            return r"\ldots"
        self.at += 1
        return self._accented(_latex_of(lexeme))

    def _parenthesis(self) -> str:
        token = self.raw[self.at].token
        self.at += 1
        if token == "(":
            self.parentheses += 1
            return token
        closes_root = self.root_parentheses[-1:] == [self.parentheses]
        self.parentheses -= 1
        if closes_root:
            self.root_parentheses.pop()
        return "}" if closes_root else token

    def _root(self) -> str:
        """Read a root: a whole number or parenthesis is the radicand of `√12` and `√(a + b)`."""
        command = _ROOTS[self.raw[self.at].token]
        self.at += 1
        if self.at < len(self.raw) and self.raw[self.at].token == "(":
            self._parenthesis()
            self.root_parentheses.append(self.parentheses)
            return command + "{"
        digits = self._run(lambda token: token.isdecimal() or token == ".")
        radicand = "".join(lexeme.token for lexeme in self.raw[self.at : self.at + digits])
        self.at += digits
        return f"{command}{{{radicand}}}" if radicand else command

    def _run(self, belongs: Callable[[str], bool], limit: int | None = None) -> int:
        """Count the next lexemes that belong together and were typed without a space."""
        column = self.raw[self.at].column if self.at < len(self.raw) else None
        if column is None:
            return 0
        count = 0
        while self.at + count < len(self.raw) and count != limit:
            lexeme = self.raw[self.at + count]
            if lexeme.column != column + count or not belongs(lexeme.token):
                break
            count += 1
        return count

    def _script_run(self, script: str) -> str:
        content = []
        while self.at < len(self.raw) and _script_of(self.raw[self.at].token) == script:
            lexeme = self.raw[self.at]
            plain = unicodedata.normalize("NFKC", lexeme.token)
            content += [
                _latex_of(Lexeme(character, lexeme.number, lexeme.column)) for character in plain
            ]
            self.at += 1
        return f"{script}{{{' '.join(content)}}}"

    def _accented(self, latex: str) -> str:
        while self.at < len(self.raw) and unicodedata.combining(self.raw[self.at].token[0]):
            latex = _with_mark(latex, self.raw[self.at])
            self.at += 1
        return latex


def _is_latex(token: str) -> bool:
    return token.isascii() or token.startswith("\\")


def _script_of(token: str) -> str:
    decomposition = "" if _is_latex(token) else unicodedata.decomposition(token)
    if decomposition.startswith("<super>"):
        return "^"
    return "_" if decomposition.startswith("<sub>") else ""


def _with_mark(latex: str, mark: Lexeme) -> str:
    if mark.token == _NEGATION:
        return rf"\not {latex}"
    if mark.token not in _COMBINING:
        raise _no_latex(mark)
    return f"{_COMBINING[mark.token]}{{{latex}}}"


def _latex_of(lexeme: Lexeme) -> str:
    """Return the LaTeX of a single token."""
    token = lexeme.token
    if token in NAMED:
        return NAMED[token]
    if token == "%":
        return r"\%"
    if _is_latex(token):
        return token
    if token in _INVISIBLE:
        return ""
    return _from_unicode_data(lexeme)


def _from_unicode_data(lexeme: Lexeme) -> str:
    character = lexeme.token
    kind = unicodedata.decomposition(character).partition(" ")[0]
    plain = unicodedata.normalize("NFKC", character)
    if kind == "<fraction>":
        numerator, _, denominator = plain.partition("⁄")
        return rf"\frac{{{numerator}}}{{{denominator}}}" if denominator else f"{numerator}/"
    if kind == "<circle>":
        return rf"\textcircled{{{plain}}}"
    if kind == "<font>":
        return _styled(character, plain)
    if kind.startswith("<"):
        return " ".join(
            _latex_of(Lexeme(part, lexeme.number, lexeme.column)) for part in plain if part.strip()
        )
    decomposed = unicodedata.normalize("NFD", character)
    base, marks = decomposed[0], decomposed[1:]
    if marks and base.isascii() and all(mark in _COMBINING for mark in marks):
        latex = base
        for mark in marks:
            latex = _with_mark(latex, Lexeme(mark, lexeme.number, lexeme.column))
        return latex
    if base != character and not marks:  # the signs for kelvin and ohm
        return _latex_of(Lexeme(base, lexeme.number, lexeme.column))
    if character.isalpha():
        return character
    raise _no_latex(lexeme)


def _styled(character: str, plain: str) -> str:
    name = unicodedata.name(character)
    latex = NAMED.get(plain, plain)
    for style, command in _STYLES.items():
        if style in name and "DOUBLE-STRUCK ITALIC" not in name:  # the d of integrals
            return f"{command}{{{latex}}}"
    return latex


def _no_latex(lexeme: Lexeme) -> LatexError:
    name = unicodedata.name(lexeme.token, f"U+{ord(lexeme.token):04X}")
    reason = f"is not a mathematical character ({name})"
    return LatexError(reason, lexeme.token, lexeme.number, lexeme.column)
