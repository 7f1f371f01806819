"""Generate the vocabulary from corpora: which tokens can be drawn, and which do texts use?

    python scripts/make_vocabulary.py --texts texts/*.txt.gz --symbols symbols/*.jsonl.gz \
        --ink crohme_inkml.zip --fonts data/fonts --output configs/vocabulary.txt

Prints Markdown tables with the number of texts, samples and fonts of every token, and of every
known symbol that is not in the vocabulary, by the reason.
"""

import argparse
from pathlib import Path

from posformer.data.ink_dataset import load_ink
from posformer.latex import Vocabulary
from posformer.synthesis.bank import SymbolBank
from posformer.synthesis.corpora import load_corpus
from posformer.synthesis.fonts import load_fonts
from posformer.synthesis.inventory import (
    count_tokens,
    list_rejected,
    list_tokens,
    markdown_table,
)


def main() -> None:
    """Write the vocabulary and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=Path, nargs="+", required=True, help="Formula corpora.")
    parser.add_argument("--symbols", type=Path, nargs="*", default=[], help="Symbol corpora.")
    parser.add_argument("--ink", type=Path, help="InkML dataset.")
    parser.add_argument("--fonts", type=Path, help="Folder of fonts.")
    parser.add_argument("--output", type=Path, required=True, help="Vocabulary file.")
    options = parser.parse_args()
    banks = [load_corpus(path) for path in options.symbols]
    if options.ink is not None:
        banks.append(SymbolBank.from_inks(load_ink(options.ink, "train")))
    fonts = None if options.fonts is None else load_fonts(options.fonts)
    basis = count_tokens(options.texts), SymbolBank.merge(banks), fonts
    entries = list_tokens(*basis)
    Vocabulary([entry.token for entry in entries]).save(options.output)
    print(markdown_table(entries))
    print(markdown_table(list_rejected(*basis)), end="")


if __name__ == "__main__":
    main()
