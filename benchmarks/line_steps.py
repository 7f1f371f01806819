"""Decoding steps per expression: token by token, and all lines at once (LAST).

    python benchmarks/line_steps.py lines.zip --split synthetic

The counts are those of the captions with their end, so they depend on neither weights nor machine.
"""

import argparse
import itertools

from posformer.data import open_images
from posformer.models.model_config import LINE_BREAK


def line_lengths(tokens: tuple[str, ...]) -> list[int]:
    """Return the tokens of each line, with its line break or the end of the expression."""
    breaks = [index + 1 for index, token in enumerate(tokens) if token == LINE_BREAK]
    bounds = [0, *breaks, len(tokens) + 1]
    return [end - start for start, end in itertools.pairwise(bounds)]


def main() -> None:
    """Print the means of one split."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("data")
    parser.add_argument("--split", default="synthetic")
    options = parser.parse_args()
    lengths = [line_lengths(one.tokens) for one in open_images(options.data, options.split)]
    single = sum(map(sum, lengths)) / len(lengths)
    lines = sum(map(max, lengths)) / len(lengths)
    most = max(map(len, lengths))
    print(f"{len(lengths)} expressions of up to {most} lines: {single:.1f} steps token by token,")
    print(f"{lines:.1f} all lines at once, ratio {single / lines:.1f}")


if __name__ == "__main__":
    main()
