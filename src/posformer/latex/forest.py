"""Position forest coding: where every token stands in the nest of scripts, fractions and roots.

Each token belongs to a branch of a tree. The root is the main line, `M`; a substructure opens an
upper branch `L`, a lower branch `R`, or both. Branches are numbered and know their parent, so that
levels and last letters cost constant time a token however deep the nest is, and whole identifiers
are spelled out only on request.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from posformer.errors import LatexError
from posformer.latex.grammar import LOWER, MAIN, SUBSTRUCTURES, UPPER, Substructure
from posformer.latex.tokens import ENVIRONMENT

Coding = Literal["paper", "authors"]

LETTER_CODES = {MAIN: 3, UPPER: 4, LOWER: 5}
"""The numbers of the letters of identifiers; 0 is padding, 1 and 2 are `<sos>` and `<eos>`."""

_PAD_CODE = 0
_ROOT = 0


@dataclass(frozen=True)
class PositionForest:
    """The place of every token of an expression.

    Attributes:
        tokens: The tokens, n of them.
        levels: The nested level of each token: 0 on the main line. (n)
        positions: The relative position of each token: `M` on the main line, `L` in an upper
            branch, `R` in a lower one. (n)
        branches: The branch each token belongs to; 0 is the main line. (n)
        parents: The parent of each branch; that of the main line is -1.
        letters: The letter of each branch.
        coding: `paper` counts an operator and the braces of a group to the group, `authors` to
            its surroundings.
    """

    tokens: tuple[str, ...]
    levels: tuple[int, ...]
    positions: tuple[str, ...]
    branches: tuple[int, ...]
    parents: tuple[int, ...]
    letters: tuple[str, ...]
    coding: Coding = "paper"

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def complexity(self) -> int:
        """The structural complexity: the greatest nested level."""
        return max(self.levels, default=0)

    def identifiers(self) -> list[str]:
        """Spell out the identifier of every token, such as `MLLR`.

        The `authors` coding has the letters of the enclosing groups and then one `M`. Space grows
        with the square of the depth; `identifier_codes` does not.
        """
        spelled = [""]
        for parent, letter in zip(self.parents[1:], self.letters[1:], strict=True):
            spelled.append(spelled[parent] + letter)
        paper = self.coding == "paper"
        spelled = [MAIN + path if paper else path + MAIN for path in spelled]
        return [spelled[branch] for branch in self.branches]

    def reversed(self) -> "PositionForest":
        """The forest of the same tokens read from right to left."""
        return PositionForest(
            self.tokens[::-1],
            self.levels[::-1],
            self.positions[::-1],
            self.branches[::-1],
            self.parents,
            self.letters,
            self.coding,
        )


def encode_forest(
    tokens: Sequence[str], *, coding: Coding = "paper", lenient: bool = False
) -> PositionForest:
    r"""Encode an expression as a position forest, in linear time.

    Args:
        tokens: Tokens in caption form. An argument that is one token needs no braces.
        coding: `paper`: an operator, its group and the group's braces share an identifier;
            `authors`: operators and braces count to their surroundings, as in the public program.
        lenient: Close what is left open and ignore what closes nothing, for model output.

    Raises:
        LatexError: Braces, environments or arguments do not pair up; names the token and its
            number. Never raised when `lenient`.
    """
    if coding not in ("paper", "authors"):
        raise ValueError(f"coding must be 'paper' or 'authors', not {coding!r}")
    return _Encoder(tuple(tokens), coding, lenient).forest()


def complexity(tokens: Sequence[str]) -> int:
    """The structural complexity of an expression: its greatest nested level."""
    return encode_forest(tokens).complexity


def identifier_codes(forest: PositionForest, length: int = 5) -> list[list[int]]:
    """The identifiers as numbers: 0 pad, 3 `M`, 4 `L`, 5 `R`, cut or padded to `length`.

    Args:
        forest: The forest of n tokens.
        length: How many letters to keep, from the outside in.

    Returns:
        n rows of `length` numbers. Rows of one branch are equal but not the same object.
    """
    paper = forest.coding == "paper"
    paths: list[list[int]] = [[LETTER_CODES[MAIN]] if paper else []]
    for parent, letter in zip(forest.parents[1:], forest.letters[1:], strict=True):
        path = paths[parent]
        # Beyond `length` all branches look alike: sharing keeps a deep nest within bounded memory.
        paths.append(path if len(path) >= length else [*path, LETTER_CODES[letter]])
    closing = [] if paper else [LETTER_CODES[MAIN]]
    rows = [([*path, *closing] + [_PAD_CODE] * length)[:length] for path in paths]
    return [list(rows[branch]) for branch in forest.branches]


@dataclass
class _Group:
    """An open `{`, `[` of a root index, or environment."""

    closer: str
    opened_at: int
    outside: int  # the branch around it
    rim: int  # the branch of its own two tokens


@dataclass
class _Arguments:
    """A substructure that waits for arguments."""

    command_at: int
    outside: int
    waiting: str  # the letters of the arguments still to come
    option: str  # the letter of an optional argument that may still come
    branch_of: dict[str, int] = field(default_factory=dict)


class _Encoder:
    """One pass over the tokens with a stack of open groups and of commands that want arguments."""

    def __init__(self, tokens: tuple[str, ...], coding: Coding, lenient: bool) -> None:
        self.tokens = tokens
        self.coding = coding
        self.lenient = lenient
        self.parents, self.letters, self.depths = [-1], [MAIN], [0]
        self.branches: list[int] = []
        self.branch = _ROOT
        self.stack: list[_Group | _Arguments] = []
        self.closers: list[str] = []  # of the groups on the stack
        self.awaited: Counter[str] = Counter()  # the same, counted

    def forest(self) -> PositionForest:
        for at, token in enumerate(self.tokens):
            self._read(at, token)
        self._require_arguments()
        if self.stack and not self.lenient:
            raise self._left_open()
        return PositionForest(
            self.tokens,
            tuple(self.depths[branch] for branch in self.branches),
            tuple(self.letters[branch] for branch in self.branches),
            tuple(self.branches),
            tuple(self.parents),
            tuple(self.letters),
            self.coding,
        )

    def _read(self, at: int, token: str) -> None:
        if self._closes(token):
            self._close(at, token)
        elif token in (r"\\", "&"):
            self._require_arguments()
            self.branches.append(self.branch)
        elif self.stack and isinstance(self.stack[-1], _Arguments):
            self._read_argument(at, token, self.stack[-1])
        else:
            self._read_plain(at, token)

    def _closes(self, token: str) -> bool:
        if token == "]":
            # Everywhere else a bracket is ink: the interval `] 0 , 1 ]` needs no partner.
            return self.closers[-1:] == ["]"]
        return token == "}" or token.startswith(r"\end{")

    def _read_plain(self, at: int, token: str) -> None:
        environment = ENVIRONMENT.fullmatch(token)
        if token == "{":
            self._open(at, "}", self.branch, self.branch)
        elif environment:
            self._open(at, rf"\end{{{environment[2]}}}", self.branch, self.branch)
        elif token in SUBSTRUCTURES:
            self._start_substructure(at, SUBSTRUCTURES[token])
        else:
            self.branches.append(self.branch)

    def _start_substructure(self, at: int, structure: Substructure) -> None:
        frame = _Arguments(at, self.branch, structure.arguments, structure.option)
        own = self._branch_for(frame, structure.own)
        self.branches.append(self._rim(frame, own))
        self.stack.append(frame)

    def _read_argument(self, at: int, token: str, frame: _Arguments) -> None:
        if token == "[" and frame.option:
            branch = self._branch_for(frame, frame.option)
            frame.option = ""
            self._open(at, "]", self._rim(frame, branch), branch)
            return
        branch = self._branch_for(frame, frame.waiting[0])
        frame.waiting, frame.option = frame.waiting[1:], ""
        if token == "{":
            self._open(at, "}", self._rim(frame, branch), branch)
        else:
            # TeX takes a single token, or a command with arguments of its own, as the group.
            self.branch = branch
            self._read_plain(at, token)
            self._leave_served()

    def _branch_for(self, frame: _Arguments, letter: str) -> int:
        if letter not in frame.branch_of:
            frame.branch_of[letter] = len(self.parents)
            self.parents.append(frame.outside)
            self.letters.append(letter)
            self.depths.append(self.depths[frame.outside] + 1)
        return frame.branch_of[letter]

    def _rim(self, frame: _Arguments, inside: int) -> int:
        """The branch that an operator and the braces of its group count to."""
        return inside if self.coding == "paper" else frame.outside

    def _open(self, at: int, closer: str, rim: int, inside: int) -> None:
        self.branches.append(rim)
        outside = self.branch
        self.stack.append(_Group(closer, at, outside, rim))
        self.closers.append(closer)
        self.awaited[closer] += 1
        self.branch = inside

    def _close(self, at: int, token: str) -> None:
        self._require_arguments()
        if not self.closers or (self.closers[-1] != token and not self.lenient):
            self._closes_nothing(at, token)
        elif not self.awaited[token]:
            self.branches.append(self.branch)
        else:
            group = self._pop_group()
            while group.closer != token:
                self._require_arguments()
                group = self._pop_group()
            self.branches.append(group.rim)

    def _pop_group(self) -> _Group:
        group = self.stack.pop()
        assert isinstance(group, _Group)
        self.awaited[self.closers.pop()] -= 1
        self.branch = group.outside
        self._leave_served()
        return group

    def _leave_served(self) -> None:
        """Leave the commands whose arguments are all there."""
        while self.stack and isinstance(frame := self.stack[-1], _Arguments):
            self.branch = frame.outside
            if frame.waiting:
                return
            self.stack.pop()

    def _require_arguments(self) -> None:
        """Arguments can come no more: what lacks some is a mistake, or given up when lenient."""
        while self.stack and isinstance(frame := self.stack[-1], _Arguments):
            if not self.lenient:
                raise self._error("has too few arguments", frame.command_at)
            self.branch = frame.outside
            self.stack.pop()

    def _closes_nothing(self, at: int, token: str) -> None:
        if not self.lenient:
            awaited = f", {self.closers[-1]} is awaited" if self.closers else ""
            raise self._error(f"closes nothing{awaited}", at)
        self.branches.append(self.branch)

    def _left_open(self) -> LatexError:
        group = next(frame for frame in reversed(self.stack) if isinstance(frame, _Group))
        return self._error("is never closed", group.opened_at)

    def _error(self, fault: str, at: int) -> LatexError:
        return LatexError(fault, self.tokens[at], at + 1)
