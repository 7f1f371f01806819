r"""LaTeX as source text of SymPy, such as `Eq(x, (-b + sqrt(b**2 - 4*a*c))/(2*a))`.

`sympy.sympify` evaluates the text. LaTeX does not say what symbols mean; these conventions apply:

* `e`, `\pi` and `\infty` are the constants. `i` is the imaginary unit unless it is the index of a
  sum or product.
* `f`, `g` and `h` before a parenthesis are functions; other letters are factors.
* A function without parentheses takes the product behind it: `\sin 2 x \cos y` is
  `sin(2*x)*cos(y)`. Sums and products over an index do, too. `\log` is the natural logarithm.
* Whatever has a subscript, a prime or an accent is a symbol with that name.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from posformer.errors import LatexError
from posformer.latex.symbols import LOWER, SYMBOLS
from posformer.latex.tokens import to_latex
from posformer.latex.tree import Node, Row, parse
from posformer.latex.tree_text import is_number, is_primes

MAX_DEPTH = 40  # Python refuses to read parentheses that are nested deeper than 200
_SUM, _PRODUCT, _POWER, _ATOM = range(4)

_RELATIONS = {"=": "Eq", r"\neq": "Ne", "<": "Lt", ">": "Gt", r"\leq": "Le", r"\geq": "Ge"}
_MULTIPLICATION = ("*", r"\times", r"\cdot")
_DIVISION = ("/", r"\div")
_CONSTANTS = {"e": "E", r"\pi": "pi", r"\infty": "oo", r"\imath": "I", r"\emptyset": "EmptySet"}
_INVERTIBLE = ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth")
_FUNCTIONS = {
    **{f"\\{name}": name for name in (*_INVERTIBLE, "exp", "arg", "log", "gcd")},
    **{rf"\arc{name}": f"a{name}" for name in ("sin", "cos", "tan")},
    r"\ln": "log",
    r"\lg": "log",
    r"\Re": "re",
    r"\Im": "im",
    r"\max": "Max",
    r"\min": "Min",
}
_SEVERAL_ARGUMENTS = {"Max", "Min", "gcd"}
_INDEXED = {r"\sum": "Sum", r"\prod": "Product"}
_PAIRS = {"(": (")", "({})"), "[": ("]", "({})"), "|": ("|", "Abs({})"),
          r"\lfloor": (r"\rfloor", "floor({})"), r"\lceil": (r"\rceil", "ceiling({})")}  # fmt: skip
_CLOSING = frozenset(closer for closer, _ in _PAIRS.values()) - {"|"}
_FUNCTION_LETTERS = frozenset("fgh")
_MATRICES = {
    **{rf"\begin{{{name}}}": "Matrix({})" for name in ("matrix", "pmatrix", "bmatrix", "array")},
    r"\begin{vmatrix}": "Matrix({}).det()",
}
TAKEN = frozenset((*"EINOQS", "beta", "gamma", "zeta", "lambda", "Lambda", "digamma"))
"""Letters that Python or SymPy use for something else."""


class _Source(NamedTuple):
    """What the readers of one expression share."""

    tokens: Sequence[str]
    i_is_index: bool  # of a sum or product, and not the imaginary unit


class _Term(NamedTuple):
    """Source text and how tightly it binds."""

    text: str
    binding: int

    def within(self, binding: int) -> str:
        """Return the text, in parentheses if it binds less tightly than asked for."""
        return self.text if self.binding >= binding else f"({self.text})"


class _Reader:
    """Reads nodes that stand side by side, from left to right."""

    def __init__(
        self, nodes: Sequence[Node], source: _Source, owner: Node | None, depth: int
    ) -> None:
        self.nodes = nodes
        self.source = source
        self.owner = owner  # of the nodes, for error messages
        self.depth = depth
        self.at = 0
        self.bars = 0  # open ones
        if depth > MAX_DEPTH:
            raise self._error("is nested too deeply for SymPy")

    def whole(self) -> _Term:
        """Return the value of all nodes."""
        term = self.sum()
        self.finish()
        return term

    def statement(self) -> str:
        """Return the value of all nodes, which may be an equation or an inequality."""
        terms, operators = [self.sum()], []
        while self.token in _RELATIONS:
            operators.append(_RELATIONS[self._take().token])
            terms.append(self.sum())
        self.finish()
        if not operators:
            return terms[0].text
        parts = [
            f"{operator}({left.text}, {right.text})"
            for operator, left, right in zip(operators, terms, terms[1:], strict=False)
        ]
        return parts[0] if len(parts) == 1 else f"And({', '.join(parts)})"

    def finish(self) -> None:
        if self.at < len(self.nodes):
            raise self._error("has no meaning there in SymPy")

    # The state of the reader

    @property
    def node(self) -> Node | None:
        return self.nodes[self.at] if self.at < len(self.nodes) else None

    @property
    def token(self) -> str:
        return self.nodes[self.at].token if self.at < len(self.nodes) else ""

    def _take(self) -> Node:
        self.at += 1
        return self.nodes[self.at - 1]

    def _error(self, reason: str) -> LatexError:
        node = self.node or self.owner
        if node is None:
            return LatexError("the expression is incomplete")
        if not node.token and node.scripts:
            node = node.scripts[0]
        return node.error(reason)

    def _inner(self, nodes: Sequence[Node], owner: Node | None) -> "_Reader":
        return _Reader(nodes, self.source, owner, self.depth + 1)

    def _row(self, row: Row) -> _Term:
        """Return the value of a row that belongs to the node just taken."""
        return self._inner(row.nodes, row.owner).whole()

    # Operators, from loose to tight

    def sum(self) -> _Term:
        negative = self.token == "-"
        if self.token in ("+", "-"):
            self._take()
        first = self.product()
        if negative:
            first = _Term(f"-{first.within(_PRODUCT)}", _SUM)
        texts = [first.text]
        while self.token in ("+", "-"):
            sign = self._take().token
            texts.append(f" {sign} {self.product().within(_PRODUCT)}")
        return first if len(texts) == 1 else _Term("".join(texts), _SUM)

    def product(self) -> _Term:
        term = self.factor()
        while True:
            if self.token in _MULTIPLICATION:
                self._take()
                term = _times(term, self._signed_factor())
            elif self.token in _DIVISION:
                self._take()
                term = _quotient(term, self._signed_factor())
            elif self._at_factor():
                term = _times(term, self.factor())
            else:
                return term

    def _signed_factor(self) -> _Term:
        if self.token != "-":
            return self.factor()
        self._take()
        return _Term(f"-{self.factor().within(_PRODUCT)}", _SUM)

    def _at_factor(self) -> bool:
        node = self.node
        if node is None or node.token in _CLOSING:
            return False
        if node.token == "|":
            return not self.bars
        kind = SYMBOLS[node.token].kind if node.token in SYMBOLS else ""
        return kind not in ("operator", "relation", "arrow", "punctuation", "bar") and bool(
            node.token
        )

    def factor(self) -> _Term:
        if self.token in _INDEXED:
            return self._indexed()
        if self.token == r"\int":
            return self._integral()
        if self.token == r"\lim":
            return self._limit()
        if self.token in _FUNCTIONS:
            return self._function()
        term = self._derivative() or self._power()
        while self.token == "!":
            node = self._take()
            term = self._with_scripts(_Term(f"factorial({term.text})", _ATOM), node)
        return term

    def _power(self) -> _Term:
        if self.token.isdecimal():
            return self._number()
        if self.token in _PAIRS:
            return self._delimited()
        if self.node is None or not self._at_factor():
            raise self._error("stands where SymPy needs a value")
        node = self._take()
        term = self._value(node)
        if term is None:
            return self._named(node)
        return self._with_scripts(term, node)

    def _with_scripts(self, base: _Term, node: Node) -> _Term:
        if node.script("_"):
            raise node.error("cannot have a subscript in SymPy")
        return self._raised(base, node.script("^"))

    def _raised(self, base: _Term, exponent: Row | None) -> _Term:
        if exponent is None:
            return base
        if [node.token for node in exponent.nodes] == [r"\circ"]:
            return _Term(f"rad({base.text})", _ATOM)
        return _Term(f"{base.within(_ATOM)}**{self._row(exponent).within(_ATOM)}", _POWER)

    # Values

    def _number(self) -> _Term:
        digits: list[Node] = []
        while is_number(self.token) and not (digits and digits[-1].scripts):
            digits.append(self._take())
        text = "".join(node.token for node in digits)
        if text.count(".") > 1:
            raise digits[0].error(f"begins {text}, which is not a number")
        whole, point, decimals = text.partition(".")
        text = f"{whole.lstrip('0') or '0'}{point}{decimals}"
        return self._with_scripts(_Term(text, _ATOM), digits[-1])

    def _delimited(self) -> _Term:
        opening = self._take()
        closer, template = _PAIRS[opening.token]
        text = template.format(self._until(closer, opening).text)
        closing = self._take()
        if closing.script("_"):
            raise closing.error("cannot have a subscript in SymPy")
        return self._raised(_Term(text, _ATOM), closing.script("^"))

    def _until(self, closer: str, opening: Node) -> _Term:
        """Read a value up to a closing delimiter, which is not taken."""
        self._descend(opening)
        self.bars += closer == "|"
        outer, self.bars = self.bars, self.bars if closer == "|" else 0
        term = self.sum()
        self.bars = outer - (closer == "|")
        self.depth -= 1
        if self.token != closer:
            raise opening.error(f"is not closed by {closer}")
        return term

    def _descend(self, node: Node) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise node.error("is nested too deeply for SymPy")

    def _value(self, node: Node) -> _Term | None:
        """Return the value of a node without its scripts; None if the node is a name."""
        token = node.token
        arguments = node.arguments
        kind = SYMBOLS[token].kind if token in SYMBOLS else ""
        if token == "{":
            return _Term(f"({self._row(arguments[0]).text})", _ATOM)
        if kind == "fraction":
            return _quotient(self._row(arguments[0]), self._row(arguments[1]))
        if kind == "binomial":
            top, bottom = map(self._row, arguments)
            return _Term(f"binomial({top.text}, {bottom.text})", _ATOM)
        if kind == "root":
            index = f", {self._row(node.option).text}" if node.option else ""
            return _Term(
                f"{'root' if index else 'sqrt'}({self._row(arguments[0]).text}{index})", _ATOM
            )
        if token in _MATRICES:
            rows = (", ".join(self._cells(cells, node)) for cells in arguments[0].lines)
            return _Term(_MATRICES[token].format(f"[[{'], ['.join(rows)}]]"), _ATOM)
        constant = _CONSTANTS.get(token) or (
            "I" if token == "i" and not self.source.i_is_index else ""
        )
        if constant and not node.script("_") and not _primes(node):
            return _Term(constant, _ATOM)
        return None

    def _cells(self, cells: Sequence[Sequence[Node]], owner: Node) -> Iterator[str]:
        for cell in cells:
            yield self._inner(cell, owner).whole().text

    def _named(self, node: Node) -> _Term:
        """Return a symbol, or the function of that name if it is one and arguments follow."""
        name = self._name(node)
        exponent = None if _primes(node) else node.script("^")
        if (
            name[:1] in _FUNCTION_LETTERS
            and len(node.token) == 1
            and self.token == "("
            and not exponent
        ):
            values = ", ".join(self._arguments())
            function = _Term(f"Function({name!r})({values})", _ATOM)
            return self._raised(function, self.nodes[self.at - 1].script("^"))
        is_plain_name = name.isidentifier() and name.isascii() and name not in TAKEN
        return self._raised(_Term(name if is_plain_name else f"Symbol({name!r})", _ATOM), exponent)

    def _name(self, node: Node) -> str:
        kind = SYMBOLS[node.token].kind if node.token in SYMBOLS else "letter"
        if kind in ("accent", "font"):
            row = node.arguments[0]
            name = f"{node.token}{{{self._latex(row)}}}"
        elif kind in ("letter", "greek") or node.token in (r"\ell", r"\hbar", r"\jmath"):
            name = node.token.removeprefix("\\")
        else:
            raise node.error("has no meaning in SymPy")
        if subscript := node.script("_"):
            text = self._latex(subscript)
            name += f"_{text}" if text.isalnum() else f"_{{{text}}}"
        return name + "'" * _primes(node)

    def _latex(self, row: Row) -> str:
        if row.start >= 0:
            return to_latex(self.source.tokens[row.start + 1 : row.end])
        return to_latex([node.token for node in row.nodes])

    def _arguments(self) -> list[str]:
        """Read values in parentheses, separated by commas."""
        opening = self._take()
        self._descend(opening)
        values = [self.sum().text]
        while self.token == ",":
            self._take()
            values.append(self.sum().text)
        self.depth -= 1
        if self.token != ")":
            raise opening.error("is not closed by )")
        self._take()
        return values

    # Operators with a body

    def _function(self) -> _Term:
        node = self._take()
        name = _FUNCTIONS[node.token]
        exponent, base = node.script("^"), node.script("_")
        if base and node.token != r"\log":
            raise node.error("cannot have a subscript in SymPy")
        if exponent and [one.token for one in exponent.nodes] == ["-", "1"] and name in _INVERTIBLE:
            name, exponent = f"a{name}", None
        if name in _SEVERAL_ARGUMENTS and self.token != "(":
            raise node.error("needs its arguments in parentheses in SymPy")
        values = self._arguments() if self.token == "(" else [self._body(node).text]
        if len(values) > 1 and name not in _SEVERAL_ARGUMENTS:
            raise node.error("has more than one argument")
        if base or node.token == r"\lg":
            values.append(self._row(base).text if base else "10")
        term = _Term(f"{name}({', '.join(values)})", _ATOM)
        if exponent is None and self.nodes[self.at - 1].token == ")":
            exponent = self.nodes[self.at - 1].script("^")
        return self._raised(term, exponent)

    def _body(self, node: Node) -> _Term:
        """Read the factors behind a function that has no parentheses."""
        self._descend(node)
        term = self._signed_factor()
        while self._at_factor() and self.token not in (
            *_FUNCTIONS,
            *_INDEXED,
            r"\int",
            r"\lim",
            "(",
        ):
            term = _times(term, self.factor())
        self.depth -= 1
        return term

    def _rest(self, node: Node) -> _Term:
        """Read the product behind a sum, a product or a limit."""
        self._descend(node)
        term = self.product()
        self.depth -= 1
        return term

    def _indexed(self) -> _Term:
        node = self._take()
        lower, upper = node.script("_"), node.script("^")
        if lower is None or upper is None or len(lower.nodes) < 3 or lower.nodes[1].token != "=":
            raise node.error("needs an index with both bounds for SymPy, as in _{k=1}^{n}")
        index = self._variable(lower.nodes[0])
        start = self._inner(lower.nodes[2:], node).whole().text
        end = self._row(upper).text
        body = self._rest(node).text
        return _Term(f"{_INDEXED[node.token]}({body}, ({index}, {start}, {end}))", _ATOM)

    def _variable(self, node: Node) -> str:
        if node.token == "i" or node.token not in _CONSTANTS:
            return self._inner([node], node)._named_alone().text
        raise node.error("is not a variable")

    def _named_alone(self) -> _Term:
        return self._named(self._take())

    def _limit(self) -> _Term:
        node = self._take()
        lower = node.script("_")
        if lower is None or len(lower.nodes) < 3 or lower.nodes[1].token != r"\rightarrow":
            raise node.error(r"needs a variable and a point for SymPy, as in _{x\rightarrow 0}")
        variable = self._variable(lower.nodes[0])
        point = self._inner(lower.nodes[2:], node).whole().text
        direction = "" if "oo" in point else ", '+-'"
        return _Term(f"Limit({self._rest(node).text}, {variable}, {point}{direction})", _ATOM)

    def _integral(self) -> _Term:
        node = self._take()
        start = self.at
        end = self._find_differential(node)
        inner = self._inner(self.nodes[start:end], node)
        self.at = end
        if self.token == "d":
            self._take()
            variable = self._variable(self._take())
            integrand = inner.whole() if inner.nodes else _Term("1", _ATOM)
        else:
            variable, integrand = self._differential_in_fraction(inner, self._take())
        bounds = [self._row(row).text for row in (node.script("_"), node.script("^")) if row]
        if len(bounds) == 1:
            raise node.error("needs both bounds or none for SymPy")
        limits = f"({', '.join([variable, *bounds])})" if bounds else variable
        return _Term(f"Integral({integrand.text}, {limits})", _ATOM)

    def _find_differential(self, integral: Node) -> int:
        """Return the index of the `d` of an integral, or of the fraction that has it on top."""
        open_integrals = 1
        for index in range(self.at, len(self.nodes)):
            open_integrals += self.nodes[index].token == r"\int"
            open_integrals -= _is_differential(self.nodes, index) or _has_differential(
                self.nodes[index]
            )
            if not open_integrals:
                return index
        raise integral.error("has no differential, such as dx")

    def _differential_in_fraction(self, before: "_Reader", fraction: Node) -> tuple[str, _Term]:
        top, bottom = fraction.arguments
        variable = self._variable(top.nodes[-1])
        numerator = [*before.nodes, *top.nodes[:-2]]
        value = self._inner(numerator, fraction).whole() if numerator else _Term("1", _ATOM)
        return variable, _quotient(value, self._row(bottom))

    def _derivative(self) -> _Term | None:
        r"""Read `\frac{d}{dx} f` or `\frac{df}{dx}`, if it stands here."""
        node = self.node
        if node is None or node.scripts or SYMBOLS.get(node.token, SYMBOLS["x"]).kind != "fraction":
            return None
        top, bottom = (row.nodes for row in node.arguments)
        if len(bottom) != 2 or not top or not top[0].token == bottom[0].token in ("d", r"\partial"):
            return None
        order = bottom[1].script("^")
        if bool(order) != bool(top[0].script("^")) or bottom[0].scripts:
            return None
        self._take()
        letter = Node(bottom[1].token, bottom[1].index)
        variable = self._variable(letter)
        operand = self._inner(top[1:], node).whole() if len(top) > 1 else self._rest(node)
        times = f"({variable}, {self._row(order).text})" if order else variable
        return _Term(f"Derivative({operand.text}, {times})", _ATOM)


def _primes(node: Node) -> int:
    """Return the number of primes of a node; 0 if its superscript has anything else."""
    row = node.script("^")
    return len(row.nodes) if row is not None and is_primes(row) else 0


def _binds_i(row: Row) -> bool:
    """Return whether a row is the lower bound of a sum or product with the index `i`."""
    return [node.token for node in row.nodes[:2]] == ["i", "="] and row.position == LOWER


def _is_differential(nodes: Sequence[Node], index: int) -> bool:
    if nodes[index].token != "d" or nodes[index].scripts or index + 1 == len(nodes):
        return False
    variable = nodes[index + 1]
    return variable.token in SYMBOLS and SYMBOLS[variable.token].kind in ("letter", "greek")


def _has_differential(node: Node) -> bool:
    if (
        not node.arguments
        or SYMBOLS.get(node.token, SYMBOLS["x"]).kind != "fraction"
        or node.scripts
    ):
        return False
    top = node.arguments[0].nodes
    return len(top) > 1 and _is_differential(top, len(top) - 2)


def _times(left: _Term, right: _Term) -> _Term:
    return _Term(f"{left.within(_PRODUCT)}*{right.within(_POWER)}", _PRODUCT)


def _quotient(top: _Term, bottom: _Term) -> _Term:
    if top.text.isdecimal() and bottom.text.isdecimal():
        return _Term(f"Rational({top.text}, {bottom.text})", _ATOM)
    return _Term(f"{top.within(_PRODUCT)}/{bottom.within(_POWER)}", _PRODUCT)


def to_sympy(tokens: Sequence[str]) -> str:
    """Return tokens in caption form as source text that `sympy.sympify` evaluates.

    An equation becomes `Eq(…)`, several lines become a list.

    Raises:
        LatexError: If the expression is malformed, or has no meaning in SymPy; names the token.
    """
    tree = parse(tokens)
    if not tree.root.nodes:
        raise LatexError("the expression is empty")
    source = _Source(tokens, any(map(_binds_i, tree.rows)))
    lines = [
        _Reader([node for cell in cells for node in cell], source, None, 0).statement()
        for cells in tree.root.lines
    ]
    return lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
