"""How well the confidence of symbols finds errors, and their alternatives correct them.

    python benchmarks/symbol_marks.py --data crohme.zip --split 2014 --count 300

Results are aligned with the truth by edit distance. A symbol that is replaced or inserted is
wrong. Prints for each threshold the share of wrong and of correct symbols below it, and how often
the true token of a replaced symbol is among its alternatives.
"""

import argparse

import numpy as np
from rapidfuzz.distance import Levenshtein

from posformer import Recognizer
from posformer.data import open_images

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--split", default="2014")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    images = open_images(options.data, options.split)
    order = np.random.default_rng(options.seed).permutation(len(images))[: options.count]
    recognizer = Recognizer.load()
    confidence, is_wrong, first, listed = [], [], [], []
    sources = (images.image(int(index)) for index in order)
    for index, found in zip(order, recognizer.recognize_many(sources, symbols=True), strict=True):
        truth = {}  # of the wrong tokens; "" where there should be none
        tokens = images[int(index)].tokens
        for edit in Levenshtein.editops(found.tokens, tokens):
            if edit.tag != "insert":
                truth[edit.src_pos] = tokens[edit.dest_pos] if edit.tag == "replace" else ""
        for symbol in found.symbols:
            confidence.append(symbol.confidence)
            is_wrong.append(symbol.index in truth)
            if right := truth.get(symbol.index):
                others = [token for token, _ in symbol.alternatives]
                first.append(others[:1] == [right])
                listed.append(right in others)
    sure, wrong = np.array(confidence), np.array(is_wrong)
    print(f"{len(order)} expressions, {len(sure)} symbols, {wrong.sum()} of them wrong")
    print(
        f"{len(listed)} replaced: true token among the alternatives {np.mean(listed):.0%}, ", end=""
    )
    print(f"first of them {np.mean(first):.0%}")
    print("| threshold | wrong symbols below | correct symbols below | precision |")
    print("| ---: | ---: | ---: | ---: |")
    for threshold in THRESHOLDS:
        below = sure < threshold
        shares = below[wrong].mean(), below[~wrong].mean(), wrong[below].mean()
        print(f"| {threshold} | " + " | ".join(f"{100 * share:.1f} %" for share in shares) + " |")


if __name__ == "__main__":
    main()
