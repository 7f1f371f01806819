"""Write `web/src/tables.js`: the symbol table and more for the JavaScript package.

`python scripts/write_web_tables.py --check` only tells whether the file is up to date.
"""

import json
import sys
from pathlib import Path
from typing import Any

from posformer.latex import symbols

TARGET = Path(__file__).parents[1] / "web" / "src" / "tables.js"
HEAD = "// Written by scripts/write_web_tables.py. Do not edit.\nexport default "


def tables() -> dict[str, Any]:
    """Return the tables as plain values."""
    return {
        "kinds": {token: symbol.kind for token, symbol in symbols.SYMBOLS.items()},
        "signatures": {token: list(pair) for token, pair in symbols.SIGNATURES.items()},
        "fences": {name: list(pair) for name, pair in symbols._FENCES.items()},
    }


def main() -> None:
    """Write the file, or compare it."""
    text = f"{HEAD}{json.dumps(tables(), ensure_ascii=False, indent=1)};\n"
    if sys.argv[1:] == ["--check"]:
        if TARGET.read_text("utf-8") != text:
            sys.exit(f"{TARGET.name} is out of date: run {Path(__file__).name}")
    else:
        TARGET.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
