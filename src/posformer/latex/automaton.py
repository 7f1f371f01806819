r"""A pushdown automaton that accepts exactly the valid expressions, from either end.

It reads tokens one by one, left to right or right to left, and knows at any time which tokens may
come next and how many are needed to finish. `syntax.check` defines what is valid; both follow from
the symbol table. Search uses the automaton to decode nothing but expressions that LaTeX accepts.

Tokens that behave alike form a class: all symbols, all operators, all commands with the same
arguments. A mode is what the automaton knows about the innermost row. A move leads from a mode
with a class to another mode; it may put modes on the stack, to which the automaton returns at the
end of the inner row.

Right to left, the token before a group tells what the group is. Until it is read, the mode counts
the groups that may be arguments of it. Likewise, `[ … ]` turns out to be an optional argument when
`\sqrt` is read: `State.brackets` holds, for each `]` of a row, the number of groups behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from posformer.latex.symbols import SIGNATURES
from posformer.latex.syntax import LIMITS, OPERATORS
from posformer.latex.tree import SCRIPTS, SEPARATORS, closer_of, opener_of

_MOST_ARGUMENTS = max(len(arguments) for arguments, _ in SIGNATURES.values())
_GROUP_ENDS = ("}", "]")  # the ends of rows that have neither lines nor cells
_END_OF_ROW = -1  # target of a move that returns to the outer row


@dataclass(frozen=True)
class TokenClass:
    """Tokens that the grammar does not tell apart."""

    kind: str
    token: str = ""  # of scripts, brackets and ends of rows; for the start of a row, its end
    arguments: int = 0  # number of required arguments; for an end of a row, of those behind it
    option: bool = False  # whether an optional argument may stand before them

    @classmethod
    def of(cls, token: str) -> TokenClass:
        """Return the class of a token; a token that is not in the symbol table is a symbol."""
        arguments, option = SIGNATURES.get(opener_of(token) or token, ("", ""))
        if token in SCRIPTS:
            return cls("script", token, len(arguments))
        if opener_of(token):
            return cls("end", token, len(arguments))
        if closer := closer_of(token):
            return cls("start", closer, len(arguments))  # with arguments: `\root … \of`
        if arguments:
            return cls("command", "", len(arguments), bool(option))
        if token in ("[", "]"):
            return cls("bracket", token)
        if token in SEPARATORS:
            return cls("separator")
        if token == LIMITS:
            return cls("limits")
        return cls("operator" if token in OPERATORS else "symbol")


_GROUP = TokenClass.of("{")


@dataclass(frozen=True)
class _Arguments:
    """Left to right: arguments must follow."""

    count: int
    option: bool = False  # an optional argument may come first

    @property
    def cost(self) -> int:
        """Tokens needed to leave this mode."""
        return 2 * self.count

    def move(self, token: TokenClass) -> _Step | None:
        if token == _GROUP:
            rest = (_Arguments(self.count - 1),) if self.count > 1 else ()
            return _Step(_Row(_GROUP.token), rest)
        if self.option and token == TokenClass.of("["):
            return _Step(_Row("]"), (_Arguments(self.count),))
        return None


@dataclass(frozen=True)
class _Row:
    """Left to right: in a row, behind a node or at the start."""

    end: str = ""  # the token that ends the row; empty for the whole expression
    behind: str = ""  # "nothing" before the first token of all, "operator", "limits", or scripts

    @property
    def cost(self) -> int:
        return (self.end != "") + 3 * (self.behind == "limits")

    def move(self, token: TokenClass) -> _Step | None:
        after = _Row(self.end)
        if token.kind == "script":
            scripts = self.behind if self.behind[:1] in SCRIPTS else ""
            if token.token in scripts:
                return None
            return _Step(_Arguments(1), (_Row(self.end, _joined(scripts, token.token)),))
        if self.behind == "limits":
            return None
        if token.token == self.end and token.kind in ("end", "bracket"):
            return _Step(None)
        match token.kind:
            case "end":
                return None
            case "limits":
                return _Step(replace(self, behind="limits")) if self.behind == "operator" else None
            case "separator":
                return None if self.end in _GROUP_ENDS else _Step(after)
            case "start":
                rest = (_Arguments(token.arguments),) if token.arguments else ()
                return _Step(_Row(token.token), (after, *rest))
            case "command":
                return _Step(_Arguments(token.arguments, token.option), (after,))
            case "operator":
                return _Step(replace(self, behind="operator"))
        return _Step(after)


@dataclass(frozen=True)
class _ReverseRow:
    """Right to left: in a row, before a node or at the end."""

    end: str = ""  # as in _Row
    before: str = ""  # "nothing", "groups", "script", "bracket", "limits"; empty for other nodes
    count: int = 0  # of the groups; before a bracket, of those behind the `]` that pairs with it
    scripts: str = ""  # before a script or a single group: the scripts from here on, or behind it

    @property
    def cost(self) -> int:
        return (self.end != "") + (self.before == "limits")

    def move(self, token: TokenClass) -> _Step | None:
        after = _ReverseRow(self.end)
        if self.before == "limits":
            return _Step(after) if token.kind == "operator" else None
        groups = self.count if self.before == "groups" else 0
        match token.kind:
            case "limits":
                return _Step(replace(after, before="limits")) if self.before == "script" else None
            case "script":
                return self._script(token.token) if groups else None
            case "separator":
                return None if self.end in _GROUP_ENDS else _Step(after, brackets="forget")
            case "start":
                return _Step(None) if token.token == self.end else None
            case "end":
                if groups < token.arguments:
                    return None
                outer = self._group(groups) if token.token == _GROUP.token else after
                return _Step(_ReverseRow(token.token), (outer,))
            case "command" if self.before == "bracket":
                fits = token.option and self.count >= token.arguments
                return _Step(after, brackets="pair") if fits else None
            case "command":
                return _Step(after) if groups >= token.arguments else None
            case "bracket" if token.token == "[":
                return _Step(replace(after, before="bracket"), brackets="look")
            case "bracket":
                return _Step(after, brackets="note")
        return _Step(after)

    def _script(self, script: str) -> _Step | None:
        behind = self.scripts if self.count == 1 else ""
        if script in behind:
            return None
        return _Step(_ReverseRow(self.end, "script", scripts=_joined(behind, script)))

    def _group(self, groups: int) -> _ReverseRow:
        """The mode when the group that ends here has been read."""
        scripts = self.scripts if self.before == "script" else ""
        return _ReverseRow(self.end, "groups", min(groups + 1, _MOST_ARGUMENTS), scripts)


_Mode = _Arguments | _Row | _ReverseRow


class _Step(NamedTuple):
    """A move before it is compiled."""

    target: _Mode | None  # None: the row ends
    pushed: tuple[_Mode, ...] = ()
    brackets: str = ""  # what happens to `State.brackets`


class _Move(NamedTuple):
    """A compiled move; modes are numbers."""

    targets: tuple[int, ...]  # by the number of groups behind the nearest `]`, or only one
    pushed: tuple[int, ...]
    brackets: str
    groups: int  # groups behind the token


class State(NamedTuple):
    """The state of the automaton after some tokens."""

    mode: int
    missing: int  # number of tokens needed to finish
    stack: Any = None  # (mode, brackets, rest of the stack) of the outer rows
    brackets: Any = None  # (groups behind the nearest `]`, further brackets)


class Automaton:
    """The automaton for a list of tokens, in both directions.

    Tokens that no valid expression of these tokens contains, such as `^` without braces, are never
    allowed. The empty expression is not accepted.

    Args:
        tokens: The tokens, which all methods refer to by index.

    Attributes:
        class_of: For each token the number of its class.
        growth: For each mode and class by how much `State.missing` grows; None if a token of this
            class is not allowed.
        complete: For each mode whether the expression may end.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        known = frozenset(tokens)
        classes: dict[TokenClass, int] = {}
        self.class_of = [classes.setdefault(TokenClass.of(one), len(classes)) for one in tokens]
        usable = [_restricted(one, known) for one in classes]
        self._modes: list[_Mode] = []
        self._numbers: dict[_Mode, int] = {}
        starts = [self._number(mode) for mode in (_Row("", "nothing"), _ReverseRow("", "nothing"))]
        self._moves: list[list[_Move | None]] = []
        for mode in self._modes:  # which grows until every mode that can be reached has its moves
            steps = [mode.move(one) if one else None for one in usable]
            self._moves.append([self._compile(mode, step) if step else None for step in steps])
        costs = [mode.cost for mode in self._modes]
        for start in starts:
            lengths = [1 + self._cost(move, costs) for move in self._moves[start] if move]
            costs[start] = min(lengths, default=0)
        self.growth = [
            [self._cost(move, costs) - cost if move else None for move in moves]
            for moves, cost in zip(self._moves, costs, strict=True)
        ]
        self.complete = [cost == 0 for cost in costs]
        self._forward, self._backward = (State(start, costs[start]) for start in starts)

    def start(self, reverse: bool = False) -> State:
        """Return the state before the first token, or if `reverse`, behind the last."""
        return self._backward if reverse else self._forward

    def advance(self, state: State, token: int) -> State:
        """Return the state after another token, which must be allowed."""
        mode, missing, stack, brackets = state
        number = self.class_of[token]
        move, growth = self._moves[mode][number], self.growth[mode][number]
        if move is None or growth is None:
            raise ValueError(f"token {token} is not allowed here")
        targets, pushed, effect, groups = move
        if targets[0] == _END_OF_ROW:
            mode, brackets, stack = stack
            return State(mode, missing + growth, stack, brackets)
        for outer in pushed:
            stack, brackets = (outer, brackets, stack), None
        mode = targets[brackets[0] if effect == "look" and brackets else 0]
        if effect == "note":
            brackets = (groups, brackets)
        elif effect == "pair":
            brackets = brackets[1]
        elif effect == "forget":
            brackets = None
        return State(mode, missing + growth, stack, brackets)

    def _number(self, mode: _Mode) -> int:
        if mode not in self._numbers:
            self._numbers[mode] = len(self._modes)
            self._modes.append(mode)
        return self._numbers[mode]

    def _compile(self, mode: _Mode, step: _Step) -> _Move:
        target, pushed, effect = step
        groups = 0
        if target is None:
            targets = [_END_OF_ROW]
        elif isinstance(target, _ReverseRow) and effect == "look":
            paired = [replace(target, count=count) for count in range(1, _MOST_ARGUMENTS + 1)]
            targets = [self._number(one) for one in (_ReverseRow(target.end), *paired)]
        else:
            targets = [self._number(target)]
        if isinstance(mode, _ReverseRow) and mode.before == "groups":
            groups = mode.count
        return _Move(tuple(targets), tuple(map(self._number, pushed)), effect, groups)

    def _cost(self, move: _Move, costs: Sequence[int]) -> int:
        """The number of tokens needed to finish after a move, as far as it determines them."""
        modes = (*move.targets[:1], *move.pushed)
        return sum(costs[mode] for mode in modes if mode != _END_OF_ROW)


def _joined(scripts: str, script: str) -> str:
    return "".join(sorted((*scripts, script)))


def _restricted(one: TokenClass, known: frozenset[str]) -> TokenClass | None:
    """Return a class as it can be used with the known tokens, or None if it cannot be used."""
    needed = {"{", "}"} if one.arguments else set()
    match one.kind:
        case "start":
            needed.add(one.token)
        case "end":
            needed.add(opener_of(one.token))
        case "limits":
            needed |= {"{", "}"}
            if known.isdisjoint(SCRIPTS) or known.isdisjoint(OPERATORS):
                return None
    if not needed <= known:
        return None
    return replace(one, option=one.option and "]" in known)
