r"""The symbol layout tree: symbols and their spatial relations, without `^ _ { } \limits`.

Tree decoders predict it. A row is a chain of symbols linked by `right`; scripts and arguments hang
on their symbol by the other relations. It is made from the expression tree, and every caption in
normal form is restored from it token by token:

- Scripts behind `\limits` are `below` and `above`, others are `sub` and `sup`.
- Arguments are `above`, `below` or `inside`, as the symbol table says; an optional argument is
  `left-sup`.
- A missing base (`^ { 14 } C`) and an empty row (`\sqrt { }`) are symbols with an empty token.
- Bare groups, environments and `\left … \right` stay on their row: their tokens are symbols, and
  their scripts belong to the closing one.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from posformer.latex.symbols import LOWER, SIGNATURES, SYMBOLS, UPPER
from posformer.latex.tree import Node, Row, parse

RELATIONS = ("above", "below", "sub", "sup", "left-sup", "inside", "right")
"""The relations of a symbol to its parent, in the order in which children are visited."""

ABOVE, BELOW, SUB, SUP, LEFT_SUP, INSIDE, RIGHT = range(len(RELATIONS))

_OF_POSITION = {UPPER: ABOVE, LOWER: BELOW}
_BRACES, _BRACKETS = ("{", "}"), ("[", "]")


class LayoutNode(NamedTuple):
    """A symbol of the layout tree."""

    token: str  # empty for a missing base or an empty row
    parent: int  # index of its parent; -1 for the first symbol
    relation: int  # to its parent, an index in `RELATIONS`; `RIGHT` for the first symbol
    source: int  # index of its token in the caption; -1 if it has none


class _Item(NamedTuple):
    """A symbol of a row before it has a parent."""

    token: str
    source: int
    branches: tuple[tuple[int, Row], ...] = ()  # relation and row


def layout_tree(tokens: Sequence[str]) -> list[LayoutNode]:
    """Return the symbols of an expression, depth first, branches in the order of `RELATIONS`.

    Args:
        tokens: Tokens in caption form. What is malformed is read leniently.
    """
    nodes: list[LayoutNode] = []
    root = parse(tokens, lenient=True).root
    # Rows that are being read: their remaining symbols, and the parent of the next one.
    stack = [(_items(root.nodes, tokens), -1, RIGHT)] if root.nodes else []
    while stack:
        items, parent, relation = stack.pop()
        item = next(items, None)
        if item is None:
            if relation != RIGHT:
                nodes.append(LayoutNode("", parent, relation, -1))
            continue
        index = len(nodes)
        nodes.append(LayoutNode(item.token, parent, relation, item.source))
        stack.append((items, index, RIGHT))
        for branch, row in sorted(item.branches, key=lambda one: -one[0]):
            stack.append((_items(row.nodes, tokens), index, branch))
    return nodes


def layout_tokens(nodes: Sequence[LayoutNode]) -> list[str]:
    """Return the caption of a layout tree.

    Missing arguments are empty groups. Of two children in the same relation, the first counts.
    Children in a relation that their parent does not have are kept, and make the caption malformed.
    """
    children: list[dict[int, int]] = [{} for _ in nodes]
    for index, node in enumerate(nodes):
        if node.parent >= 0:
            children[node.parent].setdefault(node.relation, index)
    tokens: list[str] = []
    stack: list[str | int] = [0] if nodes else []
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            tokens.append(part)
        else:
            stack += reversed(_parts(nodes[part].token, children[part]))
    return tokens


def symbol_parents(tokens: Sequence[str]) -> list[int | None]:
    """Return the index of each token's parent in the layout tree.

    Returns:
        -1 for a token without a parent, None for one that is not a symbol, such as a brace.
    """
    nodes = layout_tree(tokens)
    result: list[int | None] = [None] * len(tokens)
    for node in nodes:
        parent = node.parent
        while parent >= 0 and nodes[parent].source < 0:  # a missing base
            parent = nodes[parent].parent
        if node.source >= 0:
            result[node.source] = nodes[parent].source if parent >= 0 else -1
    return result


def _items(nodes: Iterable[Node], tokens: Sequence[str]) -> Iterator[_Item]:
    """Yield the symbols of a row; groups and environments are part of it."""
    stack: list[Iterator[Node | _Item]] = [iter(nodes)]
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
        elif isinstance(node, _Item):
            yield node
        elif node.token == "{" or node.token == "\\left" or node.is_environment:
            yield _Item(node.token, node.index)
            stack.append(_spread(node, tokens))
        else:
            yield from _symbol(node)


def _spread(node: Node, tokens: Sequence[str]) -> Iterator[Node | _Item]:
    """Yield what follows the token that opens a group."""
    if node.option is not None:  # column letters of an array
        yield from _bracketed(node.option, tokens)
    row = node.arguments[0]
    yield from row.nodes
    limits, branches = _scripts(node, ())
    closer = tokens[row.end] if row.end >= 0 else ""
    if closer or branches:
        yield _Item(closer, row.end, branches)
    if limits is not None:
        yield limits


def _bracketed(row: Row, tokens: Sequence[str]) -> Iterator[Node | _Item]:
    yield _Item(tokens[row.start], row.start)
    yield from row.nodes
    if row.end >= 0:
        yield _Item(tokens[row.end], row.end)


def _symbol(node: Node) -> Iterator[_Item]:
    arguments = [(_argument_relation(node.token, row.position), row) for row in node.arguments]
    if node.option is not None:
        arguments.append((LEFT_SUP, node.option))
    limits, branches = _scripts(node, arguments)
    yield _Item(node.token, node.index, branches)
    if limits is not None:
        yield limits


def _argument_relation(token: str, position: str) -> int:
    is_root = token in SYMBOLS and SYMBOLS[token].kind == "root"
    return INSIDE if is_root else _OF_POSITION.get(position, INSIDE)


def _scripts(
    node: Node, arguments: Sequence[tuple[int, Row]]
) -> tuple[_Item | None, tuple[tuple[int, Row], ...]]:
    r"""Return all branches of a node, and `\limits` if it has to be a symbol of its own."""
    below, above = (BELOW, ABOVE) if node.limits >= 0 else (SUB, SUP)
    scripts = [
        (below if script.token == "_" else above, script.arguments[0]) for script in node.scripts
    ]
    if node.limits >= 0 and (not scripts or {ABOVE, BELOW} & {one for one, _ in arguments}):
        moved = [(SUB if one == BELOW else SUP, row) for one, row in scripts]
        return _Item("\\limits", node.limits, tuple(moved)), tuple(arguments)
    return None, (*arguments, *scripts)


def _parts(token: str, children: dict[int, int]) -> list[str | int]:
    """Return the tokens of a symbol and the indices of its children, in caption order."""
    rest = dict(children)
    parts: list[str | int] = [token] if token else []

    def add(relation: int, fences: tuple[str, str], *before: str) -> None:
        child = rest.pop(relation, None)
        content = [] if child is None else [child]
        parts.extend((*before, fences[0], *content, fences[1]))

    known = SYMBOLS.get(token)
    if token in SIGNATURES and known is not None and known.kind not in ("script", "environment"):
        if token == "\\root":
            child = rest.pop(LEFT_SUP, None)
            parts += [*([] if child is None else [child]), "\\of"]
        elif LEFT_SUP in rest:
            add(LEFT_SUP, _BRACKETS)
        for position in SIGNATURES[token][0]:
            add(_argument_relation(token, "" if position == "." else position), _BRACES)
    for relation, fences in ((LEFT_SUP, _BRACKETS), (INSIDE, _BRACES)):
        if relation in rest:
            add(relation, fences)
    if BELOW in rest or ABOVE in rest:
        parts.append("\\limits")
    for relation, operator in ((BELOW, "_"), (ABOVE, "^"), (SUB, "_"), (SUP, "^")):
        if relation in rest:
            add(relation, _BRACES, operator)
    return [*parts, *rest.values()]
