r"""What a language model gains that reranks the n-best list, for several weights.

    python benchmarks/rescoring.py --language-model runs/language_model \
        --sets crohme_inkml.zip:2013 photos:dev --leave-out train

Every image is decoded once. The weight is chosen on the first set; McNemar's test compares it with
no rescoring on all of them. "In the list": the truth is among the hypotheses.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from posformer.evaluation import mcnemar
from posformer.evaluation.conventions import comparable
from posformer.evaluation.predict import EvaluationSet, decode_set, open_set
from posformer.evaluation.rescoring import Rescorer
from posformer.latex import Vocabulary
from posformer.runtime import load_runtime
from posformer.search import DecodingOptions, Hypothesis


def is_correct(
    examples: EvaluationSet, lists: Sequence[Sequence[Hypothesis]], vocabulary: Vocabulary
) -> list[list[bool]]:
    """Return for each hypothesis whether it is the truth."""
    spell = tuple if examples.photographs is None else comparable
    return [
        [spell(vocabulary.decode(one.tokens)) == truth for one in hypotheses]
        for hypotheses, truth in zip(lists, examples.captions, strict=True)
    ]


def main() -> None:
    """Print a Markdown table for each set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--language-model", type=Path, required=True)
    parser.add_argument("--weights", type=float, nargs="+", default=[0.05, 0.1, 0.2, 0.4])
    parser.add_argument("--sets", nargs="+", required=True, help="datasets as path:split")
    parser.add_argument("--leave-out", help="split of ink whose expressions are excluded")
    parser.add_argument("--beam", type=int, default=10)
    parser.add_argument("--limit", type=int)
    arguments = parser.parse_args()
    runtime = load_runtime(arguments.model, threads=1)
    rescorer = Rescorer.load(arguments.language_model, 0.0)
    beam = arguments.beam
    options = DecodingOptions(beam=beam, scales=1, top_k=beam, adaptive=False)
    chosen: float | None = None
    for name in arguments.sets:
        path, _, split = name.rpartition(":")
        leave_out = arguments.leave_out if path.endswith("inkml.zip") else None
        how = runtime.config.image.preprocessing
        examples = open_set(path, split, leave_out, arguments.limit, how)
        lists = [found for (found,) in decode_set(runtime, examples, options)]
        within = is_correct(examples, lists, runtime.vocabulary)
        plain, count = [one[0] for one in within], len(within)
        print(f"\n{name}: {count} images, {100 * sum(map(any, within)) / count:.2f} % in the list")
        print("| weight | ExpRate | gained | lost | p (McNemar) |")
        print("| ---: | ---: | ---: | ---: | ---: |")
        print(f"| 0 | {100 * sum(plain) / count:.2f} | | | |", flush=True)
        rates = {0.0: sum(plain)}
        for weight in arguments.weights:
            ranked = [
                replace(rescorer, weight=weight).rank(one, runtime.vocabulary) for one in lists
            ]
            now = [one[0] for one in is_correct(examples, ranked, runtime.vocabulary)]
            gained = sum(b and not a for a, b in zip(plain, now, strict=True))
            lost = sum(a and not b for a, b in zip(plain, now, strict=True))
            rates[weight] = sum(now)
            mark = " (chosen)" if weight == chosen else ""
            print(
                f"| {weight:g}{mark} | {100 * sum(now) / count:.2f} | {gained} | {lost} "
                f"| {mcnemar(gained, lost):.3f} |",
                flush=True,
            )
        if chosen is None:
            chosen = max(rates, key=lambda weight: rates[weight])
            print(f"\nchosen: {chosen:g}")


if __name__ == "__main__":
    main()
