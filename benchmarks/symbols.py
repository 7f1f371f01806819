"""Quality of symbol corpora: how many samples are dropped, and contact sheets of both kinds.

    python benchmarks/symbols.py unipen.jsonl.gz detexify.jsonl.gz --sheets runs/symbols

prints, for each corpus, the samples per reason and the tokens with the most dropped samples. With
`--sheets`, writes `<corpus>-kept.png` and `<corpus>-dropped.png`: one row per token.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from posformer.ink import render, save_image
from posformer.synthesis.corpora import RawSymbol, find_faults, read_symbols

CELL = 56  # pixels


def draw(symbol: RawSymbol) -> np.ndarray:
    """Render a symbol in a square cell, black on white."""
    image = render([stroke * np.float32(0.04) for stroke in symbol.strokes])
    cell = np.zeros((CELL, CELL), np.uint8)
    height, width = (min(side, CELL) for side in image.shape)
    top, left = (CELL - height) // 2, (CELL - width) // 2
    cell[top : top + height, left : left + width] = image[:height, :width]
    return 255 - cell


def sheet(rows: dict[str, list[RawSymbol]], columns: int) -> np.ndarray:
    """Return one row per token with its name at the left, uint8 (height, width)."""
    lines = []
    for token, symbols in sorted(rows.items()):
        line = np.full((CELL, (columns + 2) * CELL), 255, np.uint8)
        cv2.putText(line, token[:14], (2, CELL // 2), cv2.FONT_HERSHEY_SIMPLEX, 0.4, 0)
        for column, symbol in enumerate(symbols[:columns], start=2):
            line[:, column * CELL : (column + 1) * CELL] = draw(symbol)
        lines.append(line)
    return np.concatenate(lines)


def report(path: Path, sheets: Path | None, columns: int, tokens: Sequence[str]) -> None:
    corpus = path.name.split(".")[0]
    symbols = read_symbols(path)
    faults = find_faults(symbols)
    reasons = Counter(fault for fault in faults if fault)
    dropped = Counter(s.token for s, fault in zip(symbols, faults, strict=True) if fault)
    totals = Counter(symbol.token for symbol in symbols)
    print(f"{corpus}: {sum(reasons.values())} of {len(symbols)} dropped: {dict(reasons)}")
    print("  " + ", ".join(f"{t} {n}/{totals[t]}" for t, n in dropped.most_common(30)))
    if sheets is None:
        return
    sheets.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    groups: dict[bool, dict[str, list[RawSymbol]]] = {True: {}, False: {}}
    for is_dropped, group in groups.items():
        found: dict[str, list[RawSymbol]] = defaultdict(list)
        for index in rng.permutation(len(symbols)).tolist():
            if bool(faults[index]) == is_dropped and symbols[index].token in (tokens or totals):
                found[symbols[index].token].append(symbols[index])
        group.update(found)
    for is_dropped, name in ((True, "dropped"), (False, "kept")):
        if groups[is_dropped]:
            save_image(sheet(groups[is_dropped], columns), sheets / f"{corpus}-{name}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="+", type=Path)
    parser.add_argument("--sheets", type=Path, help="folder for contact sheets")
    parser.add_argument("--columns", type=int, default=24, help="samples per token")
    parser.add_argument("--tokens", nargs="*", default=(), help="only these tokens")
    options = parser.parse_args()
    for path in options.corpora:
        report(path, options.sheets, options.columns, options.tokens)


if __name__ == "__main__":
    main()
