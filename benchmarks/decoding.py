"""Decoding with caches against plain decoding, on a model of the paper's size with random weights.

Plain decoding is what the authors' program does: at every step the whole prefix of every beam goes
through the network, with its own copy of the picture. Both follow the same number of beams in both
directions to a forced length, and score what they found the other way round. The encoder is left
out. Times are those of one run on one machine; their ratios are what matters.

    python benchmarks/decoding.py --tokens 10 20 40 80 160
"""

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from posformer.latex import Vocabulary
from posformer.model import ModelConfig
from posformer.model.batching import pad_pictures
from posformer.model.encoder import Features
from posformer.model.export import export_onnx
from posformer.model.posformer import PosFormer
from posformer.model.weights import save_model
from posformer.runtime import Runtime
from posformer.runtime.onnx import OnnxRuntime
from posformer.runtime.pytorch import PyTorchRuntime
from posformer.search import SearchOptions, search

WORDS = Vocabulary([f"word{number}" for number in range(110)])
SIZE = (104, 314)  # height and width of CROHME's mean picture
NEVER = -1e4  # log-odds of ending, so that the search goes on until it has to stop


def paper_model() -> PosFormer:
    torch.manual_seed(0)
    model = PosFormer(ModelConfig(position=None), WORDS).for_inference()
    with torch.no_grad():
        model.decoder.head.bias[[WORDS.pad, WORDS.sos, WORDS.eos]] = NEVER
    return model


def next_words(model: PosFormer, features: Features, sequences: Tensor) -> Tensor:
    """Log-probabilities (rows, steps, words), with every row and every step computed anew."""
    rows = len(sequences)
    cells = features.cells.repeat(rows, 1, 1, 1)
    padding = features.padding.repeat(rows, 1, 1)
    memory = model.decoder.stack.remember(Features(cells, padding))
    return model.step(sequences[:, None], memory, None)[0][:, 0]


@torch.inference_mode()
def plain(model: PosFormer, features: Features, beam: int, tokens: int) -> None:
    sequences = torch.tensor([[WORDS.sos], [WORDS.eos]])
    sums = torch.zeros(2, 1)
    for _ in range(tokens):
        scores = next_words(model, features, sequences)[:, -1]
        totals = (sums[..., None] + scores.view(2, -1, scores.shape[-1])).flatten(1)
        sums, best = totals.topk(beam)
        parents, words = best // scores.shape[-1], best % scores.shape[-1]
        parents = parents + torch.arange(2)[:, None] * (len(sequences) // 2)
        sequences = torch.cat((sequences[parents.flatten()], words.view(-1, 1)), dim=1)
    next_words(model, features, sequences)  # the ends
    starts = sequences[:, :1].flip(0)
    next_words(model, features, torch.cat((starts, sequences[:, 1:].flip(1)), dim=1))


def cached(runtime: Runtime, picture: np.ndarray, beam: int) -> Callable[[int], None]:
    model = runtime.encode([picture])

    def decode(tokens: int) -> None:
        options = SearchOptions(beam=beam, max_length=tokens)
        ((best,),) = search(model, options, WORDS.sos, WORDS.eos, 1)
        assert len(best.tokens) == tokens

    return decode


def seconds(work: Callable[[int], None], tokens: int, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work(tokens)
        times.append(time.perf_counter() - start)
    return min(times)


def table(arguments: argparse.Namespace, folder: Path) -> None:
    model = paper_model()
    save_model(model, folder / "model", further=export_onnx(model, folder))
    picture = (np.random.default_rng(0).random(SIZE) < 0.1).astype(np.uint8) * np.uint8(255)
    with torch.inference_mode():
        features = model.encoder(*(torch.from_numpy(part) for part in pad_pictures([picture])))
    onnx = cached(OnnxRuntime.load(folder / "model", arguments.threads), picture, arguments.beam)
    pytorch = cached(PyTorchRuntime(model), picture, arguments.beam)
    onnx(5), pytorch(5)  # the first call of anything is slow

    print("| tokens | plain | cached, PyTorch | cached, ONNX Runtime | ms a token | times faster |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for tokens in arguments.tokens:
        quick = seconds(onnx, tokens, arguments.repeats)
        middle = seconds(pytorch, tokens, arguments.repeats)
        row = f"{middle:.2f} s | {quick:.2f} s | {1e3 * quick / tokens:.1f}"
        if tokens > arguments.plain_up_to:
            print(f"| {tokens} | | {row} | |", flush=True)
            continue
        slow = seconds(lambda count: plain(model, features, arguments.beam, count), tokens, 1)
        print(f"| {tokens} | {slow:.2f} s | {row} | {slow / quick:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[10, 20, 40, 80, 160])
    parser.add_argument("--plain-up-to", type=int, default=160, help="tokens")
    parser.add_argument("--beam", type=int, default=10)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"{platform.processor() or platform.machine()}, {arguments.threads} threads\n")
    with tempfile.TemporaryDirectory() as folder:
        table(arguments, Path(folder))


if __name__ == "__main__":
    main()
