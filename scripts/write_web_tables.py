"""Write `web/src/tables.js`: the symbol table and more for the JavaScript package.

`python scripts/write_web_tables.py --check` only tells whether the file is up to date.
"""

import json
import re
import string
import sys
from pathlib import Path
from typing import Any

from posformer.latex import symbols, unicode_text
from posformer.latex.asciimath import _AsciiMath
from posformer.latex.mathml import to_mathml
from posformer.latex.tree_text import CHARACTERS, TreeText
from posformer.latex.typst import _Typst

TARGET = Path(__file__).parents[1] / "web" / "src" / "tables.js"
HEAD = "// Written by scripts/write_web_tables.py. Do not edit.\nexport default "


def tables() -> dict[str, Any]:
    """Return the tables as plain values."""
    return {
        "kinds": {token: symbol.kind for token, symbol in symbols.SYMBOLS.items()},
        "signatures": {token: list(pair) for token, pair in symbols.SIGNATURES.items()},
        "fences": {name: list(pair) for name, pair in symbols._FENCES.items()},
        "delimiterPairs": dict(symbols.DELIMITER_PAIRS),
        "characters": dict(CHARACTERS),
        "typst": texts(_Typst),
        "asciimath": texts(_AsciiMath),
        "unicode": unicode_tables(),
        "mathml": mathml_tables(),
    }


def texts(format: type[TreeText]) -> dict[str, Any]:
    """Return the texts of symbols and the templates of commands in a format."""
    return {"symbols": dict(format.symbols), "templates": dict(format.templates)}


def unicode_tables() -> dict[str, Any]:
    """Return the characters that Unicode has for scripts, accents and styles."""
    letters = string.ascii_letters + string.digits
    styles = {
        command: {letter: unicode_text._styled(letter, names) for letter in letters}
        for command, names in unicode_text._FONTS.items()
    }
    styles[r"\textcircled"] = {
        letter: unicode_text.to_unicode([r"\textcircled", "{", letter, "}"]) for letter in letters
    }
    return {
        **texts(unicode_text._UnicodeText),
        "scripts": unicode_text._SCRIPTS,
        "marks": unicode_text._MARKS,
        "styles": styles,
    }


def mathml_tables() -> dict[str, Any]:
    """Return what Python's converter makes of symbols, commands, fonts and environments."""
    known = symbols.SYMBOLS
    plain = [token for token in known if token not in symbols.SIGNATURES]
    written = {token: elements(token) for token in plain if known[token].kind != "structure"}
    written["|"] = elements("|")
    return {
        "symbols": written,
        "templates": mathml_templates(),
        "negated": {
            token: negated
            for token in sorted(symbols.tokens_of("relation", "arrow"))
            if re.fullmatch("<mo>[^<]*</mo>", negated := elements(rf"\not {token}"))
        },
        "fonts": {token: mathml_font(token) for token in sorted(symbols.tokens_of("font"))},
        "circled": {
            letter: elements(rf"\textcircled{{{letter}}}")
            for letter in string.ascii_letters + string.digits
        },
        "fences": {name: mathml_fences(name) for name in symbols._FENCES},
    }


def elements(latex: str) -> str:
    """Return the MathML of LaTeX without the elements around it."""
    found = re.fullmatch("<math [^>]*><mrow>(.*)</mrow></math>", to_mathml(latex))
    assert found, latex
    return found[1]


def mathml_templates() -> dict[str, str]:
    """Return the MathML of commands with `#1` in the place of their first argument."""
    templates = {}
    for token, (arguments, option) in symbols.SIGNATURES.items():
        kind = symbols.SYMBOLS[token].kind
        if kind in ("script", "environment", "font") or token == r"\textcircled":
            continue
        groups = "".join(f"{{{letter}}}" for letter in "AB"[: len(arguments)])
        if token == r"\root":  # \root … \of …
            templates[f"{token}["] = as_template(elements(r"\root{C}\of{A}"))
            continue
        templates[token] = as_template(elements(token + groups))
        if option:
            templates[f"{token}["] = as_template(elements(f"{token}[C]{groups}"))
    return templates


def as_template(mathml: str) -> str:
    """Put slots in the place of the letters A, B and C."""
    for letter, slot in (("A", "#1"), ("B", "#2"), ("C", "#0")):
        mathml = mathml.replace(f"<mi>{letter}</mi>", slot)
    return mathml


def mathml_font(token: str) -> dict[str, Any]:
    """Return the letters of a font, and the variant that other symbols have in it."""
    written = {letter: elements(f"{token}{{{letter}}}") for letter in string.ascii_letters}
    variant = re.search('mathvariant="([^"]*)"', elements(f"{token}{{AB}}"))
    assert variant, token
    return {"letters": written, "variant": variant[1]}


def mathml_fences(name: str) -> list[str]:
    """Return the elements before and behind the table of an environment."""
    latex = rf"\begin{{{name}}}A\end{{{name}}}"
    before, _, after = elements(latex).partition("<mtable>")
    return [before.removeprefix("<mrow>"), after.partition("</mtable>")[2].removesuffix("</mrow>")]


def main() -> None:
    """Write the file, or compare it."""
    text = f"{HEAD}{json.dumps(tables(), ensure_ascii=False, indent=1, sort_keys=True)};\n"
    if sys.argv[1:] == ["--check"]:
        if TARGET.read_text("utf-8") != text:
            sys.exit(f"{TARGET.name} is out of date: run {Path(__file__).name}")
    else:
        TARGET.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
