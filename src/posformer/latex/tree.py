r"""The expression tree: the one parser of tokens, and the walks over its result.

A row is a sequence of nodes on one baseline: the whole expression, a group, an argument, or the
content of an environment. A node is a token together with the rows that belong to it and with its
scripts. Nodes know the index of their token, so that ink stays tied to tokens. Nothing recurses;
time and memory are linear in the number of tokens, at any depth.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from posformer.errors import LatexError
from posformer.latex.symbols import SIGNATURES, SYMBOLS, tokens_of

WRITABLE_DEPTH = 100
"""The greatest depth of expressions that are written down; no hand nests deeper."""

SEPARATORS = ("\\\\", "&")
SCRIPTS = ("^", "_")
_CLOSERS = {"{": "}", "\\left": "\\right", "\\root": "\\of"}
_OPENERS = {closer: opener for opener, closer in _CLOSERS.items()}
_PLAIN = SYMBOLS.keys() - SIGNATURES.keys() - tokens_of("structure") - {"[", "]"}


class Node:
    r"""A token with its arguments and scripts.

    Attributes:
        token: The token. Empty for the missing base of a script.
        index: The index of the token; -1 if it is missing.
        arguments: The rows of the arguments. A bare group, an environment and `\left … \right`
            are nodes with one row.
        option: The row of the optional argument, or of the column letters of an array.
        limits: The index of the `\limits` behind the node, or -1.
        scripts: At most one node `^` and one node `_`, in the order they were written.
    """

    # Defaults in the class, not in __init__: most nodes are plain symbols.
    arguments: "tuple[Row, ...]" = ()
    option: "Row | None" = None
    limits = -1
    scripts: "tuple[Node, ...]" = ()

    def __init__(self, token: str, index: int) -> None:
        self.token = token
        self.index = index

    def script(self, operator: str) -> "Row | None":
        """Return the row of the script `^` or `_`, if there is one."""
        return next((one.arguments[0] for one in self.scripts if one.token == operator), None)

    @property
    def is_environment(self) -> bool:
        r"""Whether the node is an environment, which `\begin{…}` opens."""
        return self.token.startswith("\\begin{")

    def error(self, reason: str) -> LatexError:
        """Return an error that names the token and its number."""
        return LatexError(reason, self.token, self.index + 1)

    @property
    def rows(self) -> "list[Row]":
        """All rows that belong to the node, without the column letters of an array."""
        option = [] if self.option is None or self.is_environment else [self.option]
        return [*option, *self.arguments, *(one.arguments[0] for one in self.scripts)]


class Row:
    """Nodes that stand side by side.

    Attributes:
        nodes: The nodes. Line breaks and `&` are nodes, too; see `lines`.
        number: The number of the row in `Tree.rows`.
        parent: The number of the row around it; -1 for the whole expression.
        owner: The node the row belongs to; None for the whole expression.
        position: The relative position in the position forest, `L` or `R`; empty if the row stays
            in the branch of its parent.
        start: The index of the token that opens the row; -1 if no token does.
        end: The index of the token that closes the row; -1 if no token does.
    """

    start = -1
    end = -1

    def __init__(self, number: int, parent: int, owner: Node | None, position: str) -> None:
        self.nodes: list[Node] = []
        self.number = number
        self.parent = parent
        self.owner = owner
        self.position = position

    @property
    def lines(self) -> list[list[list[Node]]]:
        r"""The nodes as lines, separated by `\\`, of cells, separated by `&`."""
        lines: list[list[list[Node]]] = [[[]]]
        for node in self.nodes:
            if node.token == "\\\\":
                lines.append([[]])
            elif node.token == "&":
                lines[-1].append([])
            else:
                lines[-1][-1].append(node)
        return lines


class Tree(NamedTuple):
    """A parsed expression.

    Attributes:
        tokens: The tokens.
        rows: All rows, outer before inner; the first is the whole expression.
        row_of: For each token the number of the row it stands in; the tokens that open and close
            a row stand in that row.
    """

    tokens: Sequence[str]
    rows: list[Row]
    row_of: list[int]

    @property
    def root(self) -> Row:
        """The row of the whole expression."""
        return self.rows[0]


def closer_of(token: str) -> str:
    """Return the token that closes what a token opens; empty if it opens nothing."""
    if token[:7] == "\\begin{":
        return "\\end" + token[len("\\begin") :]
    return _CLOSERS.get(token, "")


def opener_of(token: str) -> str:
    """Return the token that opens what a token closes; empty if it closes nothing."""
    if token[:5] == "\\end{":
        return "\\begin" + token[len("\\end") :]
    return _OPENERS.get(token, "")


def baselines(tree: Tree) -> Iterator[list[Node]]:
    """Yield the nodes of each baseline, outer before inner.

    A cell of an environment has its own baseline. Groups and arguments that stay on the line of
    their command are replaced by their nodes.
    """
    cells = deque(cell for line in tree.root.lines for cell in line)
    while cells:
        nodes: list[Node] = []
        stack: list[Node | Row] = [*reversed(cells.popleft())]
        while stack:
            part = stack.pop()
            if isinstance(part, Row):
                cells.extend(cell for line in part.lines for cell in line)
            elif part.is_environment or all(row.position for row in part.arguments):
                nodes.append(part)
                stack += reversed(part.rows)
            else:
                stack += reversed([one.arguments[0] for one in part.scripts])
                stack += [node for row in reversed(part.arguments) for node in reversed(row.nodes)]
        yield nodes


def walk(nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield nodes and all nodes inside of them, in reading order; of scripts only the content."""
    stack = [*reversed(nodes)]
    while stack:
        node = stack.pop()
        yield node
        stack += reversed([inner for row in node.rows for inner in row.nodes])


def parse(
    tokens: Sequence[str],
    *,
    lenient: bool = False,
    max_depth: int | None = None,
    signatures: Mapping[str, tuple[str, str]] = SIGNATURES,
) -> Tree:
    r"""Parse tokens into an expression tree.

    An argument is a group or, as in TeX, a single token or a command with its own arguments. A
    script belongs to the node before it; a second script of the same kind gets a missing base.
    Tokens that are not in the table are symbols.

    Args:
        tokens: Tokens in caption form.
        lenient: Close what is left open, take missing arguments for empty, and take what closes
            nothing for a symbol. For model output.
        max_depth: How deep rows may be nested; any depth by default.
        signatures: The commands with arguments; see `SIGNATURES`.

    Raises:
        LatexError: Groups, environments or arguments do not pair up (never raised if `lenient`),
            or rows are nested too deep; names the token and its number.
    """
    tree = _Parser(tokens, lenient, signatures).parse()
    if max_depth is None:
        return tree
    depths = [0]
    for row in tree.rows[1:]:
        depths.append(depths[row.parent] + 1)
        if depths[-1] > max_depth and row.owner is not None:
            raise row.owner.error(f"is nested deeper than {max_depth} groups")
    return tree


class _Parser:
    """One pass with a stack of open rows and of commands that wait for arguments."""

    def __init__(
        self, tokens: Sequence[str], lenient: bool, signatures: Mapping[str, tuple[str, str]]
    ) -> None:
        self.tokens = tokens
        self.lenient = lenient
        self.signatures = signatures
        self.row = Row(0, -1, None, "")
        self.rows = [self.row]
        self.row_of = [0] * len(tokens)
        self.stack: list[Row | Node] = []
        self.closers: list[str] = []  # of the open rows on the stack
        self.awaited: Counter[str] = Counter()  # the same, counted
        self.command: Node | None = None  # on top of the stack, if it waits for an argument

    def parse(self) -> Tree:
        row_of, row, command = self.row_of, self.row, None
        for index, token in enumerate(self.tokens):
            if command is None and token in _PLAIN:  # most tokens take this short way
                row.nodes.append(Node(token, index))
                row_of[index] = row.number
            else:
                self._read(index, token)
                row, command = self.row, self.command
        self._require_arguments()
        if self.stack and not self.lenient:
            raise Node(self.tokens[self.row.start], self.row.start).error("is never closed")
        while self.stack:
            self._leave_row()
            self._require_arguments()
        return Tree(self.tokens, self.rows, row_of)

    def _read(self, index: int, token: str) -> None:
        command = self.command
        if command is not None and token == "{":
            position = self.signatures[command.token][0][len(command.arguments)]
            command.arguments = (*command.arguments, self._open(index, "}", command, position))
        elif self.closers and token == self.closers[-1]:
            self._close(index)
        elif opener_of(token):
            self._close_early(index, token)
        elif token in SEPARATORS:
            self._require_arguments()
            self._add(Node(token, index))
        elif command is not None:
            self._read_argument(index, token, command)
        else:
            self._place(index, token)

    def _read_argument(self, index: int, token: str, command: Node) -> None:
        """Read an argument without braces, or the start of an optional one."""
        positions, option = self.signatures[command.token]
        if token == "[" and option and not command.arguments and command.option is None:
            command.option = self._open(index, "]", command, option)
            return
        self.row = self._new_row(command, positions[len(command.arguments)])
        command.arguments = (*command.arguments, self.row)
        self.command = None
        self._place(index, token)
        if self.command is None and self.row.owner is command:
            self._leave_served()

    def _place(self, index: int, token: str) -> None:
        """Read a token as a node of the current row."""
        node = Node(token, index)
        if token in SCRIPTS:
            self._place_script(node)
        elif closer := closer_of(token):
            self._place_group(node, closer)
        elif token == "\\limits" and self.row.nodes and _takes_limits(self.row.nodes[-1]):
            self.row.nodes[-1].limits = index
            self.row_of[index] = self.row.number
        else:
            self._add(node)
            if token in self.signatures:
                self._await_arguments(node)

    def _place_group(self, node: Node, closer: str) -> None:
        index = node.index
        before = self.tokens[index - 1] if index else ""
        if node.token == "{" and before[:6] == "\\begin" and before in self.signatures:
            array = self.row.owner
            assert array is not None
            array.option = self._open(index, "}", array, ".")
            return
        self.row.nodes.append(node)
        if node.token == "\\root":
            self._await_arguments(node)
            node.option = self._open(index, closer, node, self.signatures[node.token][1])
        else:
            node.arguments = (self._open(index, closer, node, "."),)

    def _place_script(self, script: Node) -> None:
        nodes = self.row.nodes
        base = nodes[-1] if nodes else None
        if base is None or base.token in SEPARATORS or base.script(script.token):
            base = Node("", -1)
            nodes.append(base)
        base.scripts = (*base.scripts, script)
        self.row_of[script.index] = self.row.number
        self._await_arguments(script)

    def _add(self, node: Node) -> None:
        self.row.nodes.append(node)
        self.row_of[node.index] = self.row.number

    def _await_arguments(self, command: Node) -> None:
        self.stack.append(command)
        self.command = command

    def _new_row(self, owner: Node, position: str) -> Row:
        row = Row(len(self.rows), self.row.number, owner, "" if position == "." else position)
        self.rows.append(row)
        return row

    def _open(self, index: int, closer: str, owner: Node, position: str) -> Row:
        row = self._new_row(owner, position)
        row.start = index
        self.row_of[index] = row.number
        self.stack.append(row)
        self.closers.append(closer)
        self.awaited[closer] += 1
        self.row, self.command = row, None
        return row

    def _close(self, index: int) -> None:
        self._require_arguments()
        self.row.end = index
        self.row_of[index] = self.row.number
        self._leave_row()

    def _close_early(self, index: int, token: str) -> None:
        """Read a token that does not close the innermost row."""
        self._require_arguments()
        if not self.lenient:
            awaited = f", {self.closers[-1]} is awaited" if self.closers else ""
            raise Node(token, index).error(f"closes nothing{awaited}")
        if not self.awaited[token]:
            self._add(Node(token, index))
            return
        while self.closers[-1] != token:
            self._leave_row()
            self._require_arguments()
        self._close(index)

    def _leave_row(self) -> None:
        self.stack.pop()
        self.awaited[self.closers.pop()] -= 1
        self.row = self.rows[self.row.parent]
        self._leave_served()

    def _leave_served(self) -> None:
        """Leave the commands that have all their arguments."""
        stack = self.stack
        while stack and isinstance(command := stack[-1], Node):
            if self.row.owner is command:  # an argument without braces
                self.row = self.rows[self.row.parent]
            if len(command.arguments) < len(self.signatures[command.token][0]):
                self.command = command
                return
            stack.pop()
        self.command = None

    def _require_arguments(self) -> None:
        """Raise an error if a command still waits for arguments; if lenient, add empty ones."""
        while (command := self.command) is not None:
            if not self.lenient:
                raise command.error("has too few arguments")
            positions = self.signatures[command.token][0][len(command.arguments) :]
            missing = [self._new_row(command, position) for position in positions]
            command.arguments = (*command.arguments, *missing)
            self._leave_served()


def _takes_limits(node: Node) -> bool:
    return node.limits < 0 and not node.scripts and node.token not in SEPARATORS
