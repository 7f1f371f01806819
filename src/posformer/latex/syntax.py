"""Whether a sequence of tokens is LaTeX that renders."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from posformer.errors import LatexError
from posformer.latex.commands import COMMANDS, FUNCTIONS, LIMIT_OPERATORS
from posformer.latex.grammar import SUBSTRUCTURES
from posformer.latex.tokens import ENVIRONMENT

_SCRIPTS = ("^", "_")

# A command that captions keep stands first in what it is rewritten to.
_GROUPS = {
    name: command.arguments for name, command in COMMANDS.items() if command.template[0] == name
} | {name: len(structure.arguments) for name, structure in SUBSTRUCTURES.items()}
_OPTIONAL = {name for name, command in COMMANDS.items() if command.with_option[:1] == (name,)}


def is_valid(tokens: Sequence[str]) -> bool:
    """Whether tokens in caption form are an expression that LaTeX accepts."""
    try:
        check(tokens)
    except LatexError:
        return False
    return True


def check(tokens: Sequence[str]) -> None:
    r"""Check the syntax of tokens in caption form.

    Groups and environments pair up, scripts and commands have as many groups as they need, no base
    has two scripts of a kind, `\limits` stands between an operator and a script, and lines and
    cells end in an environment or outside of all groups.

    Raises:
        LatexError: Names the first token at fault and its number.
    """
    checker = _Checker(tokens)
    for at in range(len(tokens)):
        checker.read(at)
    checker.finish()


@dataclass
class _Row:
    """What is known at a place of an open group."""

    closer: str = ""
    opened_at: int = -1
    owner: int = -1  # the command that waits for groups
    waiting: int = 0  # for how many
    option: bool = False  # and whether `[ … ]` may come first
    scripts: set[str] = field(default_factory=set)  # of the base so far


class _Checker:
    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self.rows = [_Row()]

    def read(self, at: int) -> None:
        token, row = self.tokens[at], self.rows[-1]
        if row.waiting:
            self._open_argument(at, row)
        elif token == row.closer:
            self.rows.pop()
        elif token == "}" or token.startswith(r"\end{"):
            raise self._error(at, "closes nothing")
        elif token in _SCRIPTS:
            self._script(at, row)
        elif token == r"\limits":
            self._limits(at, row)
        elif token in ("&", r"\\") and row.closer in ("}", "]"):
            raise self._error(at, "stands in a group, where no line or cell can end")
        else:
            row.scripts = set()
            self._base(at, row)

    def finish(self) -> None:
        row = self.rows[-1]
        if row.waiting:
            raise self._error(row.owner, "has too few groups")
        if row.closer:
            raise self._error(row.opened_at, "is never closed")

    def _open_argument(self, at: int, row: _Row) -> None:
        token = self.tokens[at]
        if token == "[" and row.option:
            row.option = False
            self.rows.append(_Row("]", at))
        elif token == "{":
            row.option = False
            row.waiting -= 1
            self.rows.append(_Row("}", at))
        else:
            raise self._error(row.owner, "has too few groups")

    def _script(self, at: int, row: _Row) -> None:
        token = self.tokens[at]
        if token in row.scripts:
            raise self._error(at, "is the second script of its kind on a base")
        row.scripts.add(token)
        row.owner, row.waiting, row.option = at, 1, False

    def _limits(self, at: int, row: _Row) -> None:
        before = self.tokens[at - 1] if at else ""
        behind = self.tokens[at + 1] if at + 1 < len(self.tokens) else ""
        if row.scripts or before not in LIMIT_OPERATORS | FUNCTIONS or behind not in _SCRIPTS:
            raise self._error(at, "does not stand between an operator and a script")

    def _base(self, at: int, row: _Row) -> None:
        token = self.tokens[at]
        environment = ENVIRONMENT.fullmatch(token)
        if token == "{":
            self.rows.append(_Row("}", at))
        elif environment:
            self.rows.append(_Row(rf"\end{{{environment[2]}}}", at))
        elif token in _GROUPS:
            row.owner, row.waiting, row.option = at, _GROUPS[token], token in _OPTIONAL

    def _error(self, at: int, reason: str) -> LatexError:
        return LatexError(reason, self.tokens[at], at + 1)
