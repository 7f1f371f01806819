"""What people type, turned into caption form.

A single pass with a stack: rows (groups, environments, the whole) collect units; calls (commands
and scripts) wait for their arguments. Nothing recurses, so depth costs nothing but memory.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Union

from posformer.errors import LatexError
from posformer.latex import characters
from posformer.latex.commands import (
    COLUMN_SPECS,
    COMMANDS,
    DISCARDED,
    ENVIRONMENTS,
    FUNCTIONS,
    INFIX,
    INKLESS,
    LIMIT_OPERATORS,
    NEGATED,
    PLAIN_CHARACTERS,
    SIZED,
    SKIPS,
    SYMBOLS,
    SYNONYMS,
    Command,
)
from posformer.latex.tokens import ENVIRONMENT, Lexeme

_PRIME = r"\prime"
_LINE_BREAK = r"\\"
_SEPARATORS = (_LINE_BREAK, "&")
_SCRIPT_ORDER = "_^"
_SCRIPT_NAMES = {"^": "superscript", "_": "subscript"}
_STACKING = {r"\overset": "^", r"\underset": "_"}
_DELIMITERS = {".": (), "<": (r"\langle",), ">": (r"\rangle",)}


def normalize(text: str | Sequence[str], *, reorder_scripts: bool = True) -> list[str]:
    r"""Turn LaTeX as people type it into caption form.

    Captions write every argument as a group, one spelling a symbol, no spacing, sizes or fonts,
    and spell out characters of Unicode. The result is a fixed point.

    Args:
        text: LaTeX text, or tokens.
        reorder_scripts: Write scripts as captions do, `_` before `^`, and `\limits` before those
            of sums, integrals and limits. Otherwise scripts stay as they were typed.

    Raises:
        LatexError: Something has no caption form, or does not pair up; names token and place.
    """
    return _Parser(characters.lexemes(text), caption_order=reorder_scripts).tokens()


Units = deque["_Unit"]
Part = Union[str, "_Unit", Units]


@dataclass(eq=False)
class _Unit:
    """Something scripts can hang on: a symbol, a fraction, a group."""

    body: list[Part]
    token: str = ""  # the symbol, when the unit is one
    scripts: dict[str, Units] = field(default_factory=dict)
    limits: bool = False
    only_primes: bool = False  # the superscript is primes, which another one may join

    def parts(self, caption_order: bool) -> Iterator[Part]:
        """What the unit is written as."""
        yield from self.body
        if not self.scripts:
            return
        if self.limits or (caption_order and self.token in LIMIT_OPERATORS):
            yield r"\limits"
        for operator in _SCRIPT_ORDER if caption_order else self.scripts:
            if operator in self.scripts:
                yield from (operator, "{", self.scripts[operator], "}")


@dataclass(eq=False)
class _Row:
    """An open sequence of units."""

    closer: str
    opened: Lexeme | None = None
    units: Units = field(default_factory=deque)
    group: Units | None = None  # a bare group just closed: a base, if a script follows
    infix: tuple[tuple[str, ...], Units] | None = None  # `\over` and what stood before it
    before: Units = field(default_factory=deque)  # the delimiter of `\left`
    in_superscript: bool = False
    upright: bool = False  # set in roman letters, which may spell a function


@dataclass(eq=False)
class _Call:
    """A command or a script that waits for arguments."""

    lexeme: Lexeme
    command: Command
    may_have_option: bool
    option: Units | None = None
    arguments: list[Units] = field(default_factory=list)


_SCRIPT = Command(1, ())


class _Parser:
    """Reads lexemes into rows of units and hands finished ones to whatever waits for them."""

    def __init__(self, lexemes: list[Lexeme], *, caption_order: bool) -> None:
        self.lexemes = lexemes
        self.caption_order = caption_order
        self.at = 0
        self.stack: list[_Row | _Call] = [_Row("")]

    def tokens(self) -> list[str]:
        while self.at < len(self.lexemes):
            lexeme = self.lexemes[self.at]
            self.at += 1
            self._read(lexeme)
        if isinstance(frame := self.stack[-1], _Call):
            raise _error(frame.lexeme, "has too few arguments")
        if frame.opened:
            raise _error(frame.opened, "is never closed")
        return _flat(_finished(frame), self.caption_order)

    def _read(self, lexeme: Lexeme) -> None:
        token = lexeme.token
        if self._is_closer(token):
            self._close(lexeme)
        elif replacement := SYNONYMS.get(token) or _run_together(token):
            for part in replacement:
                self._read(Lexeme(part, lexeme.number, lexeme.column))
        elif not (self._opens(lexeme) or self._drops(lexeme) or self._structures(lexeme)):
            self._deliver(_symbol(_known(lexeme)))

    def _is_closer(self, token: str) -> bool:
        if token == "]":
            frame = self.stack[-1]
            return isinstance(frame, _Row) and frame.closer == "]"
        return token in ("}", r"\right", r"\of") or token.startswith(r"\end{")

    def _opens(self, lexeme: Lexeme) -> bool:
        """Open a row or a call, if the lexeme does that."""
        token, frame = lexeme.token, self.stack[-1]
        if token == "{":
            superscript = isinstance(frame, _Call) and frame.lexeme.token == "^"
            self.stack.append(_Row("}", lexeme, in_superscript=superscript))
        elif token == "[" and isinstance(frame, _Call) and frame.may_have_option:
            self.stack.append(_Row("]", lexeme))
        elif token == r"\left":
            self.stack.append(_Row(r"\right", lexeme, before=self._delimiter(lexeme)))
        elif token.startswith(r"\begin{"):
            self._begin(lexeme)
        elif token == r"\root":
            self.stack += [_Call(lexeme, COMMANDS[r"\sqrt"], True), _Row(r"\of", lexeme)]
        elif token in _SCRIPT_NAMES:
            self._row(lexeme)
            self.stack.append(_Call(lexeme, _SCRIPT, False))
        elif token in COMMANDS:
            self._skip("*")
            command = COMMANDS[token]
            self.stack.append(_Call(lexeme, command, bool(command.with_option)))
        else:
            return False
        return True

    def _drops(self, lexeme: Lexeme) -> bool:
        """Step over what has no ink, if the lexeme is such."""
        token, frame = lexeme.token, self.stack[-1]
        if token in DISCARDED:
            for _ in range(DISCARDED[token]):
                self._skip_group()
        elif token in SKIPS:
            self._skip_length()
        elif token in SIZED:
            for delimiter in self._delimiter(lexeme):
                self._deliver(delimiter)
        elif token == r"\rm" and isinstance(frame, _Row):
            frame.upright = True
        elif token == "\\" and self.at == len(self.lexemes):
            raise _error(lexeme, "is an unfinished command")
        else:
            return token in INKLESS
        return True

    def _structures(self, lexeme: Lexeme) -> bool:
        """Change the row around the lexeme, if it does that."""
        token = lexeme.token
        if token == "'":
            self._prime(lexeme)
        elif token in INFIX:
            row = self._row(lexeme)
            if row.infix:
                raise _error(lexeme, "is the second of its kind in a group")
            _settle(row)
            row.infix, row.units = (INFIX[token], row.units), deque()
        elif token == r"\limits":
            row = self._row(lexeme)
            _settle(row)
            if row.units and row.units[-1].body:
                row.units[-1].limits = True
        elif token in _SEPARATORS:
            row = self._row(lexeme)
            _settle(row)
            row.units.append(_symbol(token))
            self._skip_line_distance(lexeme)
        else:
            return False
        return True

    def _row(self, lexeme: Lexeme) -> _Row:
        """The innermost row, provided that no command waits for an argument."""
        frame = self.stack[-1]
        if isinstance(frame, _Call):
            raise _error(frame.lexeme, f"has no argument before {lexeme.token}")
        return frame

    def _begin(self, lexeme: Lexeme) -> None:
        name = _environment_name(lexeme)
        if name in COLUMN_SPECS:
            self._skip_group()
        self.stack.append(_Row(rf"\end{{{name}}}", lexeme))

    def _close(self, lexeme: Lexeme) -> None:
        row = self._row(lexeme)
        if lexeme.token != row.closer:
            awaited = f", {row.closer} is awaited" if row.closer else ""
            raise _error(lexeme, f"closes nothing{awaited}")
        self.stack.pop()
        units = _finished(row)
        if row.closer == r"\right":
            units += self._delimiter(lexeme)
        outer = self.stack[-1]
        if row.closer in ("]", r"\of"):
            assert isinstance(outer, _Call)
            outer.option, outer.may_have_option = units, False
        elif row.opened and row.opened.token.startswith(r"\begin{"):
            self._deliver(_environment(row.opened, units))
        else:
            self._deliver(units)

    def _deliver(self, result: "_Unit | Units") -> None:
        """Hand a unit or a group to the row, or to the calls that wait for it."""
        while isinstance(call := self.stack[-1], _Call):
            call.arguments.append(deque([result]) if isinstance(result, _Unit) else result)
            call.may_have_option = False
            if len(call.arguments) < call.command.arguments:
                return
            self.stack.pop()
            if call.command is _SCRIPT:
                self._attach(call.lexeme, call.arguments[0])
                return
            result = _called(call, self.caption_order)
        _settle(call)
        if isinstance(result, _Unit):
            call.units.append(result)
        else:
            call.group = result

    def _attach(self, operator: Lexeme, content: "Units") -> None:
        row = self._row(operator)
        kind = operator.token
        if row.group is not None:
            _settle_as_base(row, kind)
        base = _base(row)
        if not content:
            return
        if kind not in base.scripts:
            base.scripts[kind] = content
        elif kind == "^" and base.only_primes:
            base.scripts[kind] += content
            base.only_primes = False
        else:
            raise _error(operator, f"is a second {_SCRIPT_NAMES[kind]} of the same base")

    def _prime(self, lexeme: Lexeme) -> None:
        frame = self.stack[-1]
        if isinstance(frame, _Call) or _is_prime_alone(frame):
            self._deliver(_symbol(_PRIME))
            return
        if frame.group is not None:
            _settle_as_base(frame, "^")
        base = _base(frame)
        if "^" in base.scripts and not base.only_primes:
            raise _error(lexeme, "is a second superscript of the same base")
        base.scripts.setdefault("^", deque()).append(_symbol(_PRIME))
        base.only_primes = True

    def _delimiter(self, sized: Lexeme) -> "Units":
        if self.at >= len(self.lexemes):
            raise _error(sized, "has no delimiter")
        lexeme = self.lexemes[self.at]
        self.at += 1
        if lexeme.token in _DELIMITERS:
            return deque(_symbol(token) for token in _DELIMITERS[lexeme.token])
        parts = SYNONYMS.get(lexeme.token, (lexeme.token,))
        return deque(_symbol(_known(Lexeme(part, lexeme.number, lexeme.column))) for part in parts)

    def _next(self) -> str:
        return self.lexemes[self.at].token if self.at < len(self.lexemes) else ""

    def _skip(self, token: str) -> None:
        if self._next() == token:
            self.at += 1

    def _skip_group(self) -> None:
        """Step over a group, or a single token, whatever is in it."""
        self._skip("*")
        if self._next() == "[":
            self._skip_until("]")
        if self._next() == "{":
            self._skip_until("}")
        else:
            self.at += 1

    def _skip_until(self, closer: str) -> None:
        opened = self.lexemes[self.at]
        depth = 0
        while self.at < len(self.lexemes):
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

    def _skip_line_distance(self, line_break: Lexeme) -> None:
        if line_break.token != _LINE_BREAK or line_break.column is None or self._next() != "[":
            return
        # A bracket that was typed apart is ink.
        if self.lexemes[self.at].column == line_break.column + len(_LINE_BREAK):
            self._skip_until("]")


def _error(lexeme: Lexeme, reason: str) -> LatexError:
    return LatexError(reason, lexeme.token, lexeme.number, lexeme.column)


def _symbol(token: str) -> _Unit:
    return _Unit([token], token)


def _known(lexeme: Lexeme) -> str:
    token = lexeme.token
    if token in SYMBOLS or token in PLAIN_CHARACTERS or token.isalnum():
        return token
    raise _error(lexeme, "is not known" if token.startswith("\\") else "has no caption form")


def _run_together(token: str) -> tuple[str, ...]:
    r"""The parts of `\ltN`: ink files escape `<` without a space behind it."""
    if token[:3] in (r"\lt", r"\gt") and token not in COMMANDS and token not in SYMBOLS:
        return (token[:3], *token[3:])
    return ()


def _environment_name(lexeme: Lexeme) -> str:
    match = ENVIRONMENT.fullmatch(lexeme.token)
    if not match or match[2] not in ENVIRONMENTS:
        raise _error(lexeme, "is not known")
    return match[2]


def _environment(opened: Lexeme, units: Units) -> _Unit | Units:
    name = ENVIRONMENTS[_environment_name(opened)]
    if not name:
        return units
    return _filled((rf"\begin{{{name}}}", "#1", rf"\end{{{name}}}"), {"#1": units})


def _filled(template: tuple[str, ...], slots: dict[str, Units]) -> _Unit:
    last = slots.get(template[-2]) if template[-1].startswith(r"\end{") else None
    while last and last[-1].token == _LINE_BREAK:
        last.pop()  # a line break that no line follows
    return _Unit([slots.get(part, part) for part in template])


def _spliced(template: tuple[str, ...], slots: dict[str, Units]) -> Units:
    units = _function(slots["#1"])
    for part in template[1:]:
        units += slots.get(part, [_symbol(part)])
    return units


def _called(call: _Call, caption_order: bool) -> _Unit | Units:
    """What a command becomes once its arguments are there."""
    command = call.command
    slots = {f"#{number}": units for number, units in enumerate(call.arguments, start=1)}
    if command.template[0] == "#1":
        return _spliced(command.template, slots)
    if caption_order and call.lexeme.token in _STACKING:
        kind = _STACKING[call.lexeme.token]
        script, base = call.arguments
        operator = base[0].token if len(base) == 1 else ""
        if script and operator in LIMIT_OPERATORS and kind not in base[0].scripts:
            base[0].scripts[kind] = script
            return base[0]
    if call.option:
        return _filled(command.with_option, slots | {"#0": call.option})
    return _filled(command.template, slots)


def _function(letters: Units) -> Units:
    r"""The function that upright letters spell: `\mathrm{sin}` is `\sin`."""
    if any(unit.scripts or len(unit.token) != 1 for unit in letters):
        return letters
    name = "\\" + "".join(unit.token for unit in letters)
    if name in FUNCTIONS and name.islower():  # "Pr" is a product as often as a probability
        return deque([_symbol(name)])
    parts = SYNONYMS.get(name, ())
    return deque(map(_symbol, parts)) if parts and FUNCTIONS.issuperset(parts) else letters


def _finished(row: _Row) -> Units:
    _settle(row)
    units = _function(row.units) if row.upright else row.units
    if row.infix:
        template, numerator = row.infix
        units = deque([_filled(template, {"#1": numerator, "#2": units})])
    units.extendleft(reversed(row.before))
    return units


def _settle(row: _Row) -> None:
    """Let the units of a bare group join the row: braces have no ink."""
    group, row.group = row.group, None
    if not group:
        return
    if not group[0].body:
        _settle_scripts(row, group)
    if len(group) <= len(row.units):
        row.units += group
    else:  # the shorter one moves, so that deep nests stay cheap
        group.extendleft(reversed(row.units))
        row.units = group


def _settle_scripts(row: _Row, group: Units) -> None:
    """Give the scripts that a group begins with to the unit before it, or a base of their own."""
    if not row.units or row.units[-1].token in _SEPARATORS:
        return
    if row.units[-1].scripts:
        group[0].body = ["{", "}"]
    else:
        row.units[-1].scripts = group.popleft().scripts


def _settle_as_base(row: _Row, kind: str) -> None:
    """Settle a bare group that gets a script; it keeps its braces where they tell two apart."""
    group = row.group
    previous = group or row.units
    taken = previous[-1].scripts if previous else {}
    if kind in taken if group else taken:
        row.group = deque([_Unit(["{", group or deque(), "}"])])
    _settle(row)


def _base(row: _Row) -> _Unit:
    """The unit that a script hangs on; an empty one where there is none."""
    _settle(row)
    if not row.units or row.units[-1].token in _SEPARATORS:
        row.units.append(_Unit([]))
    return row.units[-1]


def _is_prime_alone(row: _Row) -> bool:
    r"""Whether a prime stands by itself, as in `f^{'}`, and so needs no superscript of its own."""
    if not row.in_superscript or row.group is not None:
        return False
    return not row.units or (row.units[-1].token == _PRIME and not row.units[-1].scripts)


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
