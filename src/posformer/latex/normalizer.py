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
from posformer.latex import characters
from posformer.latex.macros import (
    COLUMN_SPECS,
    DISCARDED,
    ENVIRONMENTS,
    INFIX,
    INKLESS,
    MACROS,
    NEGATED,
    SIZED,
    SKIPS,
    SYNONYMS,
    TYPED_SIGNATURES,
)
from posformer.latex.symbols import ENVIRONMENT, SYMBOLS, tokens_of
from posformer.latex.tokens import Lexeme
from posformer.latex.tree import SEPARATORS, Node, Row, Tree, parse

_PRIME = r"\prime"
_LINE_BREAK = r"\\"
_SCRIPT_ORDER = "_^"
_SCRIPT_NAMES = {"^": "superscript", "_": "subscript"}
_STACKING = {r"\overset": "^", r"\underset": "_"}
_DELIMITERS = {".": (), "<": (r"\langle",), ">": (r"\rangle",)}
_FUNCTIONS = tokens_of("function", "limit")
_LIMIT_OPERATORS = tokens_of("big", "limit")
_TYPED = frozenset((*MACROS, *INFIX, "'", r"\right", r"\of"))  # handled by the writer
_OPENERS = ("{", r"\left")


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
        lexemes: The result.
        fences: The delimiters behind a `\left` or `\right`, by its index in the result.
        upright: The indices of the tokens that open a row set in roman letters; -1 for the whole.
    """

    def __init__(self, typed: list[Lexeme]) -> None:
        self.typed = typed
        self.at = 0
        self.lexemes: list[Lexeme] = []
        self.fences: dict[int, Units] = {}
        self.upright: set[int] = set()
        self.opened = [-1]
        while self.at < len(self.typed):
            lexeme = self.typed[self.at]
            self.at += 1
            self._read(lexeme)

    def _read(self, lexeme: Lexeme) -> None:
        token = lexeme.token
        if replacement := SYNONYMS.get(token) or _run_together(token):
            self.lexemes += [Lexeme(part, lexeme.number, lexeme.column) for part in replacement]
            self._skip_star(replacement[-1])
        elif token in (r"\left", r"\right"):
            self.fences[len(self.lexemes)] = self._delimiter(lexeme)
            self._add(lexeme)
        elif not self._drops(lexeme):
            if token.startswith(r"\begin{") and _environment_name(lexeme) in COLUMN_SPECS:
                self._skip_group()
            self._add(_known(lexeme))
            self._skip_star(token)
            self._skip_line_distance(lexeme)

    def _add(self, lexeme: Lexeme) -> None:
        token = lexeme.token
        if token in _OPENERS or token.startswith(r"\begin{"):
            self.opened.append(len(self.lexemes))
        elif (token in ("}", r"\right") or token.startswith(r"\end{")) and len(self.opened) > 1:
            self.opened.pop()
        self.lexemes.append(lexeme)

    def _drops(self, lexeme: Lexeme) -> bool:
        """Return whether the lexeme has no ink; consume what belongs to it."""
        token = lexeme.token
        if token in DISCARDED:
            for _ in range(DISCARDED[token]):
                self._skip_group()
        elif token in SKIPS:
            self._skip_length()
        elif token in SIZED:
            for unit in self._delimiter(lexeme):
                self.lexemes.append(Lexeme(unit.token, lexeme.number, lexeme.column))
        elif token == r"\rm":
            self.upright.add(self.opened[-1])
        elif token == "\\" and self.at == len(self.typed):
            raise _error(lexeme, "is an unfinished command")
        else:
            return token in INKLESS
        return True

    def _delimiter(self, sized: Lexeme) -> "Units":
        if self.at >= len(self.typed):
            raise _error(sized, "has no delimiter")
        lexeme = self.typed[self.at]
        self.at += 1
        if lexeme.token in _DELIMITERS:
            return deque(map(_symbol, _DELIMITERS[lexeme.token]))
        parts = SYNONYMS.get(lexeme.token, (lexeme.token,))
        if not all(map(_is_symbol, parts)):
            raise _unknown(lexeme)
        return deque(map(_symbol, parts))

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
        raise _error(opened, "is never closed")

    def _skip_length(self) -> None:
        self._skip("-")
        while self._next().isdecimal() or self._next() == ".":
            self.at += 1
        for _ in range(len("pt")):
            if self._next().isalpha():
                self.at += 1

    def _skip_star(self, command: str) -> None:
        if command in TYPED_SIGNATURES and command not in _SCRIPT_NAMES:
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
        for operator in _SCRIPT_ORDER if caption_order else self.scripts:
            if operator in self.scripts:
                yield from (operator, "{", self.scripts[operator], "}")


@dataclass(eq=False)
class _Line:
    """The units of a row while they are collected."""

    units: Units = field(default_factory=deque)
    group: Units | None = None  # a bare group just read: a base, if a script follows
    infix: tuple[tuple[str, ...], Units] | None = None  # `\over` and what stood before it


class _Writer:
    """Turns the rows of an expression tree into units, and these into tokens."""

    def __init__(self, expanded: _Expander, *, caption_order: bool) -> None:
        self.expanded = expanded
        self.caption_order = caption_order
        self.units: dict[int, Units] = {}  # of each row, by its number

    def tokens(self) -> list[str]:
        faults: list[LatexError] = []
        for row in reversed(self._tree().rows):  # inner before outer
            try:
                self.units[row.number] = self._row(row)
            except LatexError as fault:
                faults.append(fault)
                self.units[row.number] = deque()
        if faults:
            raise min(faults, key=lambda fault: fault.number or 0)
        return _flat(self.units[0], self.caption_order)

    def _tree(self) -> Tree:
        try:
            tokens = [lexeme.token for lexeme in self.expanded.lexemes]
            return parse(tokens, signatures=TYPED_SIGNATURES)
        except LatexError as fault:
            assert fault.number is not None
            raise self._error(fault.number - 1, fault.reason) from None

    def _error(self, index: int, reason: str) -> LatexError:
        return _error(self.expanded.lexemes[index], reason)

    def _row(self, row: Row) -> Units:
        self._require_argument(row)
        line = _Line()
        for node in row.nodes:
            self._node(node, row, line)
            if node.limits >= 0:
                _set_limits(line)
            for script in node.scripts:
                self._attach(script, self.units[script.arguments[0].number], line)
        units = _finished(line, row.start in self.expanded.upright)
        units.extendleft(reversed(self.expanded.fences.get(row.start, ())))
        units += self.expanded.fences.get(row.end, ())
        return units

    def _require_argument(self, row: Row) -> None:
        """Raise an error if the argument of a command cannot be an argument."""
        if row.start >= 0 or row.owner is None or not row.nodes:
            return
        node = row.nodes[0]
        token = node.token or node.scripts[0].token
        if not node.token or token in INFIX or token == r"\limits":
            raise self._error(row.owner.index, f"has no argument before {token}")

    def _node(self, node: Node, row: Row, line: _Line) -> None:
        """Add a node without its scripts to a line."""
        token = node.token
        if token == "'":
            self._prime(node, row, line)
        elif token in INFIX:
            if line.infix:
                raise self._error(node.index, "is the second of its kind in a group")
            _settle(line)
            line.infix, line.units = (INFIX[token], line.units), deque()
        elif token == r"\limits":
            _set_limits(line)
        elif token in _OPENERS:
            _deliver(self.units[node.arguments[0].number], line)
        elif node.is_environment:
            _deliver(_environment(token, self.units[node.arguments[0].number]), line)
        elif node.arguments:
            _deliver(self._command(node), line)
        elif token:
            _deliver(_symbol(token), line)

    def _prime(self, node: Node, row: Row, line: _Line) -> None:
        is_argument = row.owner is not None and row.start < 0
        if is_argument or _is_prime_alone(row, line):
            _deliver(_symbol(_PRIME), line)
            return
        if line.group is not None:
            _settle_as_base(line, "^")
        base = _base(line)
        if "^" in base.scripts and not base.only_primes:
            raise self._error(node.index, "is a second superscript of the same base")
        base.scripts.setdefault("^", deque()).append(_symbol(_PRIME))
        base.only_primes = True

    def _attach(self, operator: Node, content: Units, line: _Line) -> None:
        kind = operator.token
        if line.group is not None:
            _settle_as_base(line, kind)
        base = _base(line)
        if not content:
            return
        if kind not in base.scripts:
            base.scripts[kind] = content
        elif kind == "^" and base.only_primes:
            base.scripts[kind] += content
            base.only_primes = False
        else:
            reason = f"is a second {_SCRIPT_NAMES[kind]} of the same base"
            raise self._error(operator.index, reason)

    def _command(self, node: Node) -> _Unit | Units:
        """Return the units of a command."""
        arguments = [self.units[row.number] for row in node.arguments]
        if template := MACROS.get(node.token):
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


def _error(lexeme: Lexeme, reason: str) -> LatexError:
    return LatexError(reason, lexeme.token, lexeme.number, lexeme.column)


def _symbol(token: str) -> _Unit:
    return _Unit([token], token)


def _is_symbol(token: str) -> bool:
    symbol = SYMBOLS.get(token)
    if symbol is None:
        return token.isalnum()
    return symbol.kind not in ("structure", "environment") and not symbol.arguments


def _known(lexeme: Lexeme) -> Lexeme:
    token = lexeme.token
    if token in SYMBOLS or token in _TYPED or token.isalnum() or ENVIRONMENT.fullmatch(token):
        return lexeme
    raise _unknown(lexeme)


def _unknown(lexeme: Lexeme) -> LatexError:
    is_command = lexeme.token.startswith("\\")
    return _error(lexeme, "is not known" if is_command else "has no caption form")


def _run_together(token: str) -> tuple[str, ...]:
    r"""Return the parts of `\ltN`: ink files escape `<` without a space after it."""
    if token[:3] in (r"\lt", r"\gt") and token not in SYMBOLS:
        return (*SYNONYMS[token[:3]], *token[3:])
    return ()


def _environment_name(lexeme: Lexeme) -> str:
    match = ENVIRONMENT.fullmatch(lexeme.token)
    if not match or match[2] not in ENVIRONMENTS:
        raise _error(lexeme, "is not known")
    return match[2]


def _environment(token: str, units: Units) -> _Unit | Units:
    name = ENVIRONMENTS[token[len(r"\begin{") : -1]]
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
    parts = SYNONYMS.get(name, ())
    return deque(map(_symbol, parts)) if parts and _FUNCTIONS.issuperset(parts) else letters


def _finished(line: _Line, upright: bool) -> Units:
    _settle(line)
    units = _function(line.units) if upright else line.units
    if line.infix:
        template, numerator = line.infix
        units = deque([_filled(template, {"#1": numerator, "#2": units})])
    return units


def _deliver(result: _Unit | Units, line: _Line) -> None:
    _settle(line)
    if isinstance(result, _Unit):
        line.units.append(result)
    else:
        line.group = result


def _set_limits(line: _Line) -> None:
    _settle(line)
    if line.units and line.units[-1].body:
        line.units[-1].limits = True


def _settle(line: _Line) -> None:
    """Add the units of a bare group to the line: braces have no ink."""
    group, line.group = line.group, None
    if not group:
        return
    if not group[0].body:
        _settle_scripts(line, group)
    if len(group) <= len(line.units):
        line.units += group
    else:  # the shorter one moves, so that deep nests stay cheap
        group.extendleft(reversed(line.units))
        line.units = group


def _settle_scripts(line: _Line, group: Units) -> None:
    """Move the scripts that a group begins with to the unit before it, or to an empty base."""
    if not line.units or line.units[-1].token in SEPARATORS:
        return
    if line.units[-1].scripts:
        group[0].body = ["{", "}"]
    else:
        line.units[-1].scripts = group.popleft().scripts


def _settle_as_base(line: _Line, kind: str) -> None:
    """Settle a bare group that gets a script; keep its braces if they separate two scripts."""
    group = line.group
    previous = group or line.units
    taken = previous[-1].scripts if previous else {}
    if kind in taken if group else taken:
        line.group = deque([_Unit(["{", group or deque(), "}"])])
    _settle(line)


def _base(line: _Line) -> _Unit:
    """Return the unit that the next script belongs to; add an empty one if there is none."""
    _settle(line)
    if not line.units or line.units[-1].token in SEPARATORS:
        line.units.append(_Unit([]))
    return line.units[-1]


def _is_prime_alone(row: Row, line: _Line) -> bool:
    r"""Return whether a prime is in a superscript already, as in `f^{'}`."""
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
            if part in NEGATED and tokens[-1:] == [r"\not"]:
                tokens[-1] = NEGATED[part]
            else:
                tokens.append(part)
        elif isinstance(part, _Unit):
            stack.append(iter(part.parts(caption_order)))
        else:
            stack.append(iter(part))
    return tokens
