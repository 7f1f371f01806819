r"""Count the formula texts that are dropped because a validation or test set has their tree.

    python scripts/count_held_out.py --texts texts/*.txt.gz --vocabulary configs/vocabulary.txt \
        --sets crohme_inkml.zip:2013 crohme.zip:2014 crohme.zip:2016 photos/dev:dev

Prints a Markdown table: the expressions of each set, their distinct trees, and the texts dropped.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from posformer.data import open_dataset
from posformer.errors import LatexError
from posformer.latex import Vocabulary
from posformer.synthesis.texts import (
    canonical_tokens,
    is_validation_text,
    read_texts,
    with_limits,
)

MAX_TOKENS = 60  # as in training


def canonical(tokens: Sequence[str]) -> tuple[str, ...]:
    """Return the tokens of the tree; empty for a malformed expression."""
    try:
        return canonical_tokens(tokens)
    except LatexError:
        return ()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=Path, nargs="+", required=True, help="Formula corpora.")
    parser.add_argument("--vocabulary", type=Path, required=True, help="Allowed tokens.")
    parser.add_argument("--sets", nargs="+", required=True, help="Datasets as path:split.")
    options = parser.parse_args()
    known = set(Vocabulary.load(options.vocabulary).tokens)
    counts, trees = {}, {}
    for name in options.sets:
        path, _, split = name.rpartition(":")
        dataset = open_dataset(path, split)
        counts[name] = len(dataset)
        trees[name] = {canonical(dataset[index].tokens) for index in range(len(dataset))} - {()}
    every = set().union(*trees.values())
    found: Counter[str] = Counter()
    for text in read_texts(options.texts):
        tokens = with_limits(text)
        if len(tokens) > MAX_TOKENS or not known >= set(tokens):
            continue
        tree = canonical(tokens)
        if tree:
            found["texts"] += 1
            found["validation"] += is_validation_text(tree)
            found["dropped"] += tree in every
            found.update(name for name in trees if tree in trees[name])
    print("| set | expressions | distinct trees | texts dropped |\n| --- | ---: | ---: | ---: |")
    for name, own in trees.items():
        path, _, split = name.rpartition(":")
        print(f"| {Path(path).name} {split} | {counts[name]} | {len(own)} | {found[name]} |")
    print(f"| all | {sum(counts.values())} | {len(every)} | {found['dropped']} |")
    print(f"\nof {found['texts']} texts; {found['validation']} are kept for validation by hash")


if __name__ == "__main__":
    main()
