"""Decoder steps per expression of a sequence and of the tree models, and captions they lose.

python benchmarks/tree_targets.py data/crohme.zip --split train
"""

import argparse
from collections.abc import Sequence

from posformer.data import open_images
from posformer.latex import Vocabulary
from posformer.latex.layout_tree import layout_tokens, layout_tree
from posformer.models.bpd_targets import BpdTargets
from posformer.models.san_targets import SanTargets
from posformer.models.tsdnet_targets import TsdnetTargets


def parallel_steps(targets: BpdTargets, tokens: Sequence[str]) -> int:
    """Return the number of decoder calls of BPD."""
    steps, eos = targets.encode(tokens), targets.vocabulary.eos
    inputs: tuple[int, ...] = (targets.vocabulary.sos,)
    place = calls = 0
    while place < len(steps.input_ids):
        chosen = steps.target_ids[place : place + len(inputs)]
        place, calls = place + len(inputs), calls + 1
        inputs = targets.next_inputs(inputs, tuple(eos if one < 0 else one for one in chosen))
    return calls


def main() -> None:
    """Print the counts of one split."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("--split", default="train")
    options = parser.parse_args()
    captions = [one.tokens for one in open_images(options.data, options.split)]
    vocabulary = Vocabulary.from_captions(captions)
    san, tsdnet = SanTargets(vocabulary), TsdnetTargets(vocabulary)
    bpd = BpdTargets(vocabulary)
    trees = [layout_tree(one) for one in captions]
    lost = sum(
        tuple(layout_tokens(tree)) != tokens for tree, tokens in zip(trees, captions, strict=True)
    )
    blank = sum(any(not node.token for node in tree) for tree in trees)
    steps = {
        "sequence": [len(one) + 1 for one in captions],
        "SAN": [len(san.encode(one).target_ids) for one in captions],
        "TSDNet": [len(tsdnet.encode(one).target_ids) for one in captions],
        "BPD": [parallel_steps(bpd, one) for one in captions],
    }
    print(f"{len(captions)} captions, {lost} lost, {blank} with a symbol without a token")
    for name, counts in steps.items():
        print(f"{name}: {sum(counts) / len(counts):.2f} steps per expression")


if __name__ == "__main__":
    main()
