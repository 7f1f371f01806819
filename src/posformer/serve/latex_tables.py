"""The tables of symbols and output formats for the web page, which writes formats itself."""

import json
import string
from collections.abc import Mapping
from functools import cache
from typing import Any

from posformer.latex.asciimath import ASCIIMATH_TABLES
from posformer.latex.symbols import DELIMITER_PAIRS
from posformer.latex.tree_text import CHARACTERS
from posformer.latex.typst import TYPST_TABLES
from posformer.latex.unicode_text import MARKS, SCRIPTS, STYLED_COMMANDS, UNICODE_TABLES, styled


@cache
def latex_tables() -> bytes:
    """Return the tables as JSON, for `tables.js`."""
    tables: dict[str, Any] = {
        "delimiters": dict(DELIMITER_PAIRS),
        "characters": dict(CHARACTERS),
        "typst": _texts(TYPST_TABLES),
        "asciimath": _texts(ASCIIMATH_TABLES),
        "unicode": {
            **_texts(UNICODE_TABLES),
            "scripts": SCRIPTS,
            "marks": MARKS,
            "styles": {command: _styles(command) for command in STYLED_COMMANDS},
        },
    }
    return json.dumps(tables, ensure_ascii=False, separators=(",", ":")).encode()


def _texts(tables: tuple[Mapping[str, str], Mapping[str, str]]) -> dict[str, Any]:
    symbols, templates = tables
    return {"symbols": dict(symbols), "templates": dict(templates)}


def _styles(command: str) -> dict[str, str]:
    """Return the characters of a command by letter, as far as there are any."""
    found = {letter: styled(command, letter) for letter in string.ascii_letters + string.digits}
    return {letter: text for letter, text in found.items() if text not in ("", letter)}
