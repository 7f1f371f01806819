r"""Make a validation set of printed formulas that no training example resembles.

    python scripts/make_print_validation.py --texts texts/*.txt.gz --fonts data/fonts \
        --vocabulary configs/vocabulary.txt --ink crohme_inkml.zip --output data/print.zip
    posformer evaluate --data data/print.zip --split print

Texts are those that `is_validation_text` keeps from training by a hash of the expression tree.
Half of the images are typeset in the font families that training never uses (kind `print-font`),
half by matplotlib's mathtext, another program (kind `print-mathtext`). Sizes reach from 8-point
text on a screen to posters.
"""

import argparse
import io
import logging
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
from matplotlib.figure import Figure

from posformer.atomic import atomic_path
from posformer.data.array_cache import DEFAULT_CACHE
from posformer.data.ink_dataset import load_ink
from posformer.errors import DataError, LatexError
from posformer.ink.fill import fill_aligned
from posformer.latex import Vocabulary, to_latex
from posformer.synthesis.bank import SymbolBank
from posformer.synthesis.fonts import VALIDATION_FAMILIES, load_fonts
from posformer.synthesis.layout import PRINT, UNITS, lay_out
from posformer.synthesis.texts import TextCorpus, load_texts

SPLIT = "print"
EM = (10.7, 160.0)  # pixels: 8 points at 96 dots per inch, and a poster
X_HEIGHT = 0.45  # of the em of a font
MAX_PIXELS = 6_000_000
MAX_TOKENS = 50
MATHTEXT_FONTS = ("cm", "stix", "stixsans", "dejavusans", "dejavuserif")

Typesetter = Callable[[tuple[str, ...], float, np.random.Generator], tuple[np.ndarray, str]]
"""Returns the ink of a text, uint8 (height, width), and the name of the font."""


class UnknownGlyphs(logging.Handler):
    """Notices that mathtext has no glyph for a symbol: it draws another and logs a warning."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count a warning."""
        self.count += 1


def mathtext(glyphs: UnknownGlyphs) -> Typesetter:
    """Return a typesetter by matplotlib; it raises LatexError for what mathtext does not know."""

    def typeset(
        tokens: tuple[str, ...], em: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, str]:
        fonts = str(rng.choice(MATHTEXT_FONTS))
        # Spaces before a script would make mathtext set it on the baseline.
        latex = to_latex([token for token in tokens if token != r"\limits"])
        figure = Figure(figsize=(0.1, 0.1), dpi=72)
        style = {"fontsize": em, "math_fontfamily": fonts}
        figure.text(0, 0, f"${latex}$", **style)
        glyphs.count = 0
        page = io.BytesIO()
        try:
            figure.savefig(page, format="png", bbox_inches="tight", pad_inches=0.05)
        except ValueError as error:
            raise LatexError(str(error)) from error
        if glyphs.count:
            raise LatexError("mathtext lacks a glyph")
        image = cv2.imdecode(np.frombuffer(page.getvalue(), np.uint8), cv2.IMREAD_GRAYSCALE)
        return 255 - image, f"mathtext-{fonts}"

    return typeset


def unseen_fonts(bank: SymbolBank) -> Typesetter:
    """Return a typesetter by this project's layout in the validation families."""
    families = [f"math:{name}" for name in sorted(VALIDATION_FAMILIES)]
    known = bank.select([family for family in families if family in bank.writers])

    def typeset(
        tokens: tuple[str, ...], em: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, str]:
        ink = lay_out(tokens, known, rng, PRINT)
        image, _ = fill_aligned(ink, X_HEIGHT * em / UNITS, 2)
        return image, ink.writer.partition(":")[2]

    return typeset


def show(ink: np.ndarray, em: float, rng: np.random.Generator) -> np.ndarray:
    """Return ink on a page with margins, dark on light or light on dark, uint8."""
    margins = (em * rng.uniform(0.2, 2.0, 4)).astype(int)
    coverage = np.pad(ink, (margins[:2], margins[2:])).astype(np.float32) / 255
    paper, color = rng.uniform(225, 255), rng.uniform(0, 80)
    if rng.random() < 0.2:  # dark mode
        paper, color = 255 - paper, 255 - color
    return np.rint(paper + (color - paper) * coverage).astype(np.uint8)


def typeset_all(
    kind: str, typeset: Typesetter, texts: TextCorpus, count: int, rng: np.random.Generator
) -> Iterator[tuple[list[str], np.ndarray]]:
    """Yield a line of the label file and an image for texts that occur once each."""
    seen: set[tuple[str, ...]] = set()
    for _ in range(50 * count):
        if len(seen) == count:
            return
        tokens, em = texts.sample(rng), float(np.exp(rng.uniform(*np.log(EM))))
        if tokens in seen or len(tokens) > MAX_TOKENS:
            continue
        try:
            ink, font = typeset(tokens, em, rng)
        except (LatexError, DataError):
            continue
        if ink.size > MAX_PIXELS:
            continue
        seen.add(tokens)
        name = f"{kind}-{len(seen):03}"
        yield [name, kind, "1", " ".join(tokens), font, "made for testing"], show(ink, em, rng)
    raise DataError(f"{kind}: only {len(seen)} of {count} texts can be typeset")


def main() -> None:
    """Write the archive."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=Path, nargs="+", required=True, help="Formula corpora.")
    parser.add_argument("--fonts", type=Path, required=True, help="Folder of fonts.")
    parser.add_argument("--vocabulary", type=Path, required=True, help="Allowed tokens.")
    parser.add_argument("--ink", type=Path, help="InkML dataset whose training texts are avoided.")
    parser.add_argument("--count", type=int, default=150, help="Images of each kind.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, required=True, help="Zip archive.")
    options = parser.parse_args()
    known = [] if options.ink is None else [ink.tokens for ink in load_ink(options.ink, "train")]
    tokens = Vocabulary.load(options.vocabulary).tokens
    texts = load_texts(options.texts, tokens, held_out=known, validation=True, cache=DEFAULT_CACHE)
    glyphs = UnknownGlyphs()
    logging.getLogger("matplotlib.mathtext").addHandler(glyphs)
    typesetters = {
        "print-font": unseen_fonts(load_fonts(options.fonts)),
        "print-mathtext": mathtext(glyphs),
    }
    lines = [["name", "kind", "lines", "tokens", "source", "licence"]]
    with atomic_path(options.output) as part, zipfile.ZipFile(part, "w") as archive:
        for number, (kind, typeset) in enumerate(typesetters.items()):
            rng = np.random.default_rng([options.seed, number])
            for line, image in typeset_all(kind, typeset, texts, options.count, rng):
                lines.append(line)
                png = cv2.imencode(".png", image)[1].tobytes()
                archive.writestr(f"{SPLIT}/img/{line[0]}.png", png)
        table = "".join("\t".join(line) + "\n" for line in lines)
        archive.writestr(f"{SPLIT}/labels.tsv", table)
    print(f"{options.output}: {len(lines) - 1} images, from {len(texts)} texts")


if __name__ == "__main__":
    main()
