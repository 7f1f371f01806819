"""The normalizer, which turns LaTeX as people type it into caption form.

Lexemes are expanded first: other spellings are replaced, and what has no ink is dropped. The
expression tree of the result gives the structure. Its rows, inner before outer, become units,
which are written as tokens. Nothing recurses.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Union

from posformer.errors import LatexError
from posformer.latex import characters, macros
from posformer.latex.symbols import ENVIRONMENT, SYMBOLS, tokens_of
from posformer.latex.tokens import Lexeme
from posformer.latex.tree import SEPARATORS, Node, Row, parse

_PRIME = r"\prime"
_LINE_BREAK = r"\\"
_SCRIPT_NAMES = {"_": "subscript", "^": "superscript"}
_STACKING = {r"\overset": "^", r"\underset": "_"}
_DELIMITERS = {**macros.SYNONYMS, ".": (), "<": (r"\langle",), ">": (r"\rangle",)}
_FUNCTIONS = tokens_of("function", "limit")
_LIMIT_OPERATORS = tokens_of("big", "limit")
_KNOWN = frozenset((*SYMBOLS, *macros.MACROS, *macros.INFIX, "'", r"\of"))
_OPENERS, _CLOSERS = ("{", r"\left"), ("}", r"\right")


def normalize(text: str | Sequence[str], *, reorder_scripts: bool = True) -> list[str]:
    r"""Turn LaTeX as people type it into caption form.

    Captions write every argument as a group, use one spelling for each symbol, leave out spacing,
    sizes and fonts, and spell out Unicode characters. Normalizing a result again changes nothing.

    Args:
        text: LaTeX text, or tokens.
        reorder_scripts: Write scripts as captions do, `_` before `^`, and `\limits` before those
            of sums, integrals and limits. Otherwise scripts stay as they were typed.

    Raises:
        LatexError: Something has no caption form, or does not pair up; names the token, its
            number and its column.
    """
    expanded = _Expander(characters.lexemes(text))
    return _Writer(expanded, caption_order=reorder_scripts).tokens()


class _Expander:
    r"""Replaces other spellings and drops what has no ink.

    Attributes:
        lexemes: The result. Delimiters stand around `\left` and `\right`, all that in a group.
        upright: The indices of the tokens that open a row set in roman letters; -1 for the whole.
    """

    def __init__(self, typed: list[Lexeme]) -> None:
        self.typed = typed
        self.at = 0
        self.lexemes: list[Lexeme] = []
        self.upright: set[int] = set()
        self.opened = [-1]
        while self.at < len(typed):
            self.at += 1
            self._read(typed[self.at - 1])

    def _read(self, lexeme: Lexeme) -> None:
        token = lexeme.token
        if replacement := macros.SYNONYMS.get(token) or _run_together(token):
            self.lexemes += lexeme.replaced(replacement)
            self._skip_star(replacement[-1])
        elif token == r"\left":
            self._add(lexeme, "{", *self._delimiter(lexeme), token)
        elif token == r"\right":
            self._add(lexeme, token, *self._delimiter(lexeme), "}")
        elif not self._drops(lexeme):
            if token.startswith(r"\begin{"):
                self._skip_column_letters(lexeme)
            elif not (token in _KNOWN or token.isalnum() or ENVIRONMENT.fullmatch(token)):
                raise _unknown(lexeme)
            self._add(lexeme, token)
            self._skip_star(token)
            self._skip_line_distance(lexeme)

    def _add(self, place: Lexeme, *tokens: str) -> None:
        for token in tokens:
            if token in _OPENERS or token.startswith(r"\begin{"):
                self.opened.append(len(self.lexemes))
            elif len(self.opened) > 1 and (token in _CLOSERS or token.startswith(r"\end{")):
                self.opened.pop()
            self.lexemes += place.replaced([token])

    def _drops(self, lexeme: Lexeme) -> bool:
        """Return whether the lexeme has no ink; consume what belongs to it."""
        token = lexeme.token
        if token in macros.DISCARDED:
            for _ in range(2 if token == r"\rule" else 1):
                self._skip_group()
        elif token in macros.SKIPS:
            self._skip("-")
            while self._next().isdecimal() or self._next() == ".":
                self.at += 1
            for _ in range(len("pt")):
                self.at += self._next().isalpha()
        elif token in macros.SIZED:
            self.lexemes += lexeme.replaced(self._delimiter(lexeme))
        elif token == r"\rm":
            self.upright.add(self.opened[-1])
        elif token == "\\" and self.at == len(self.typed):
            raise lexeme.error("is an unfinished command")
        else:
            return token in macros.INKLESS
        return True

    def _delimiter(self, sized: Lexeme) -> tuple[str, ...]:
        if self.at >= len(self.typed):
            raise sized.error("has no delimiter")
        lexeme = self.typed[self.at]
        self.at += 1
        parts = _DELIMITERS.get(lexeme.token, (lexeme.token,))
        if not all(map(_is_symbol, parts)):
            raise _unknown(lexeme)
        return parts

    def _next(self) -> str:
        return self.typed[self.at].token if self.at < len(self.typed) else ""

    def _skip(self, token: str) -> None:
        if self._next() == token:
            self.at += 1

    def _skip_group(self) -> None:
        """Skip a group with its content, or a single token."""
        self._skip("*")
        if self._next() == "[":
            self._skip_until("]")
        if self._next() == "{":
            self._skip_until("}")
        else:
            self.at += 1

    def _skip_until(self, closer: str) -> None:
        opened = self.typed[self.at]
        depth = 0
        while self.at < len(self.typed):
            token = self._next()
            self.at += 1
            depth += (token == opened.token) - (token == closer)
            if not depth:
                return
        raise opened.error("is never closed")

    def _skip_column_letters(self, environment: Lexeme) -> None:
        name = environment.token[len(r"\begin{") : -1]
        if name.removesuffix("*") not in macros.ENVIRONMENTS:
            raise environment.error("is not known")
        if name in macros.COLUMN_SPECS:
            self._skip_group()

    def _skip_star(self, command: str) -> None:
        if command in macros.TYPED_SIGNATURES and command not in _SCRIPT_NAMES:
            self._skip("*")

    def _skip_line_distance(self, line_break: Lexeme) -> None:
        if line_break.token != _LINE_BREAK or line_break.column is None or self._next() != "[":
            return
        # A bracket after a space is ink.
        if self.typed[self.at].column == line_break.column + len(_LINE_BREAK):
            self._skip_until("]")


Units = deque["_Unit"]
Part = Union[str, "_Unit", Units]


@dataclass(eq=False)
class _Unit:
    """Something that can have scripts: a symbol, a fraction, a group."""

    body: list[Part]
    token: str = ""  # the symbol, if the unit is one
    scripts: dict[str, Units] = field(default_factory=dict)
    limits: bool = False
    only_primes: bool = False  # the superscript consists of primes; another one may be added

    def parts(self, caption_order: bool) -> Iterator[Part]:
        """Yield the parts that the unit is written as."""
        yield from self.body
        if not self.scripts:
            return
        if self.limits or (caption_order and self.token in _LIMIT_OPERATORS):
            yield r"\limits"
        for operator in _SCRIPT_NAMES if caption_order else self.scripts:
            if operator in self.scripts:
                yield from (operator, "{", self.scripts[operator], "}")


@dataclass(eq=False)
class _Line:
    """The units of a row while they are collected."""

    units: Units = field(default_factory=deque)
    group: Units | None = None  # a bare group just read: a base, if a script follows
    infix: tuple[tuple[str, ...], Units] | None = None  # `\over` and what stood before it

    def deliver(self, result: _Unit | Units) -> None:
        """Add a unit or a bare group."""
        self.settle()
        if isinstance(result, _Unit):
            self.units.append(result)
        else:
            self.group = result

    def settle(self) -> None:
        """Add the units of a bare group to the line: braces have no ink."""
        group, self.group = self.group, None
        if not group:
            return
        if not group[0].body and self._has_base():
            # Scripts that a group begins with belong to the unit before it, or to an empty base.
            if self.units[-1].scripts:
                group[0].body = ["{", "}"]
            else:
                self.units[-1].scripts = group.popleft().scripts
        if len(group) <= len(self.units):
            self.units += group
        else:  # the shorter one moves, so that deep nests stay cheap
            group.extendleft(reversed(self.units))
            self.units = group

    def _has_base(self) -> bool:
        return bool(self.units) and self.units[-1].token not in SEPARATORS

    def base(self, kind: str) -> _Unit:
        """Return the unit that the next script belongs to; add an empty one if there is none."""
        group = self.group
        if group is not None:
            previous = group or self.units
            taken = previous[-1].scripts if previous else {}
            if kind in taken if group else taken:  # braces that separate two scripts stay
                self.group = deque([_Unit(["{", group, "}"])])
        self.settle()
        if not self._has_base():
            self.units.append(_Unit([]))
        return self.units[-1]

    def set_limits(self) -> None:
        """Set the scripts of the last unit below and above it."""
        self.settle()
        if self.units and self.units[-1].body:
            self.units[-1].limits = True

    def finished(self, upright: bool) -> Units:
        """Return the units of the whole row."""
        self.settle()
        units = _function(self.units) if upright else self.units
        if not self.infix:
            return units
        template, numerator = self.infix
        return deque([_filled(template, {"#1": numerator, "#2": units})])


class _Writer:
    """Turns the rows of an expression tree into units, and these into tokens."""

    def __init__(self, expanded: _Expander, *, caption_order: bool) -> None:
        self.expanded = expanded
        self.caption_order = caption_order
        self.units: dict[int, Units] = {}  # of each row, by its number

    def tokens(self) -> list[str]:
        tokens = [lexeme.token for lexeme in self.expanded.lexemes]
        try:
            tree = parse(tokens, signatures=macros.TYPED_SIGNATURES)
        except LatexError as fault:
            assert fault.number is not None
            raise self._error(fault.number - 1, fault.reason) from None
        faults: list[LatexError] = []
        for row in reversed(tree.rows):  # inner before outer
            try:
                self.units[row.number] = self._row(row)
            except LatexError as fault:
                faults.append(fault)
                self.units[row.number] = deque()
        if faults:
            raise min(faults, key=lambda fault: fault.number or 0)
        return _flat(self.units[0], self.caption_order)

    def _error(self, index: int, reason: str) -> LatexError:
        return self.expanded.lexemes[index].error(reason)

    def _row(self, row: Row) -> Units:
        self._require_argument(row)
        line = _Line()
        for node in row.nodes:
            self._node(node, row, line)
            if node.limits >= 0:
                line.set_limits()
            for script in node.scripts:
                self._attach(script, self.units[script.arguments[0].number], line)
        return line.finished(row.start in self.expanded.upright)

    def _require_argument(self, row: Row) -> None:
        """Raise an error if the argument of a command cannot be an argument."""
        if row.start >= 0 or row.owner is None or not row.nodes:
            return
        node = row.nodes[0]
        token = node.token or node.scripts[0].token
        if not node.token or token in macros.INFIX or token == r"\limits":
            raise self._error(row.owner.index, f"has no argument before {token}")

    def _node(self, node: Node, row: Row, line: _Line) -> None:
        """Add a node without its scripts to a line."""
        token = node.token
        if token == "'" and not _is_prime_alone(row, line):
            self._attach(node, deque([_symbol(_PRIME)]), line)
        elif token in macros.INFIX:
            if line.infix:
                raise self._error(node.index, "is the second of its kind in a group")
            line.settle()
            line.infix, line.units = (macros.INFIX[token], line.units), deque()
        elif token == r"\limits":
            line.set_limits()
        elif token in _OPENERS:
            line.deliver(self.units[node.arguments[0].number])
        elif node.is_environment:
            line.deliver(_environment(token, self.units[node.arguments[0].number]))
        elif node.arguments:
            line.deliver(self._command(node))
        elif token:
            line.deliver(_symbol(_PRIME if token == "'" else token))

    def _attach(self, operator: Node, content: Units, line: _Line) -> None:
        """Attach a script or a prime."""
        is_prime = operator.token == "'"
        kind = "^" if is_prime else operator.token
        base = line.base(kind)
        if not content:
            return
        if kind in base.scripts and not (kind == "^" and base.only_primes):
            reason = f"is a second {_SCRIPT_NAMES[kind]} of the same base"
            raise self._error(operator.index, reason)
        base.scripts.setdefault(kind, deque()).extend(content)
        if kind == "^":
            base.only_primes = is_prime

    def _command(self, node: Node) -> _Unit | Units:
        """Return the units of a command."""
        arguments = [self.units[row.number] for row in node.arguments]
        if template := macros.MACROS.get(node.token):
            slots = {f"#{number}": units for number, units in enumerate(arguments, start=1)}
            return _spliced(template, slots) if template[0] == "#1" else _filled(template, slots)
        if self.caption_order and node.token in _STACKING:
            kind = _STACKING[node.token]
            script, base = arguments
            operator = base[0].token if len(base) == 1 else ""
            if script and operator in _LIMIT_OPERATORS and kind not in base[0].scripts:
                base[0].scripts[kind] = script
                return base[0]
        body: list[Part] = [r"\sqrt" if node.token == r"\root" else node.token]
        if node.option is not None and (option := self.units[node.option.number]):
            body += ["[", option, "]"]
        return _Unit([*body, *(part for units in arguments for part in ("{", units, "}"))])


def _symbol(token: str) -> _Unit:
    return _Unit([token], token)


def _is_symbol(token: str) -> bool:
    symbol = SYMBOLS.get(token)
    if symbol is None:
        return token.isalnum()
    return symbol.kind not in ("structure", "environment") and not symbol.arguments


def _unknown(lexeme: Lexeme) -> LatexError:
    is_command = lexeme.token.startswith("\\")
    return lexeme.error("is not known" if is_command else "has no caption form")


def _run_together(token: str) -> tuple[str, ...]:
    r"""Return the parts of `\ltN`: ink files escape `<` without a space after it."""
    if token[:3] in (r"\lt", r"\gt") and token not in SYMBOLS:
        return (*macros.SYNONYMS[token[:3]], *token[3:])
    return ()


def _environment(token: str, units: Units) -> _Unit | Units:
    name = macros.ENVIRONMENTS[token[len(r"\begin{") : -1].removesuffix("*")]
    if not name:
        return units
    return _filled((rf"\begin{{{name}}}", "#1", rf"\end{{{name}}}"), {"#1": units})


def _filled(template: tuple[str, ...], slots: dict[str, Units]) -> _Unit:
    last = slots.get(template[-2]) if template[-1].startswith(r"\end{") else None
    while last and last[-1].token == _LINE_BREAK:
        last.pop()  # a line break at the end
    return _Unit([slots.get(part, part) for part in template])


def _spliced(template: tuple[str, ...], slots: dict[str, Units]) -> Units:
    units = _function(slots["#1"])
    for part in template[1:]:
        units += slots.get(part, [_symbol(part)])
    return units


def _function(letters: Units) -> Units:
    r"""Return the function that upright letters spell: `\mathrm{sin}` is `\sin`."""
    if any(unit.scripts or len(unit.token) != 1 for unit in letters):
        return letters
    name = "\\" + "".join(unit.token for unit in letters)
    if name in _FUNCTIONS and name.islower():  # "Pr" is a product as often as a probability
        return deque([_symbol(name)])
    parts = macros.SYNONYMS.get(name, ())
    return deque(map(_symbol, parts)) if parts and _FUNCTIONS.issuperset(parts) else letters


def _is_prime_alone(row: Row, line: _Line) -> bool:
    r"""Return whether a prime is an argument, or in a superscript already, as in `f^{'}`."""
    if row.owner is not None and row.start < 0:
        return True
    if row.owner is None or row.owner.token != "^" or line.group is not None:
        return False
    return not line.units or (line.units[-1].token == _PRIME and not line.units[-1].scripts)


def _flat(units: Units, caption_order: bool) -> list[str]:
    tokens: list[str] = []
    stack: list[Iterator[Part]] = [iter(units)]
    while stack:
        part = next(stack[-1], None)
        if part is None:
            stack.pop()
        elif isinstance(part, str):
            if part in macros.NEGATED and tokens[-1:] == [r"\not"]:
                tokens[-1] = macros.NEGATED[part]
            else:
                tokens.append(part)
        elif isinstance(part, _Unit):
            stack.append(iter(part.parts(caption_order)))
        else:
            stack.append(iter(part))
    return tokens
