"""Decoding with caches against plain decoding, on a model of the paper's size with random weights.

Plain decoding is what the authors' program does: at every step the whole prefix of every beam goes
through the network, with its own copy of the image. Both follow the same number of beams in both
directions to a given length, and score what they found the other way round. The encoder is left
out. Times are those of one run on one machine; their ratios are what matters.

A network of random weights answers nothing like a trained one: its directions never agree, and so
every hypothesis must be scored the other way round. The network runs, but its answers are replaced:
in the first table by those of one that knows the expression (0.9 and more for the right word), for
one image at all lengths; in the second, with `--data`, by what the shipped model answered when it
read real images, so that the search goes exactly as it went there, doubts and all.

    python benchmarks/decoding.py --tokens 10 20 40 80 160
    python benchmarks/decoding.py --tokens 40 --data crohme_inkml.zip --split 2013
"""

import argparse
import os
import platform
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from clock import describe_clock, seconds
from torch import Tensor

from posformer.evaluation.predict import EvaluationSet, open_set
from posformer.image.sizing import at_working_size
from posformer.latex import Vocabulary
from posformer.models import ModelConfig
from posformer.models.checkpoint import save_model
from posformer.models.encoder import Features
from posformer.models.export import export_onnx
from posformer.models.padding import pad_images
from posformer.models.posformer import PosFormer
from posformer.runtime import Runtime, load_runtime, search_options
from posformer.runtime.onnx_runtime import OnnxRuntime
from posformer.runtime.pytorch_runtime import PyTorchRuntime
from posformer.search import DecodingOptions, StepModel, search

WORDS = Vocabulary([f"word{number}" for number in range(110)])
SIZE = (104, 314)  # height and width of CROHME's mean image
SURE = 8.0  # log-odds of the right word against any other, give or take one


def paper_model() -> PosFormer:
    torch.manual_seed(0)
    return PosFormer(ModelConfig(position=None), WORDS).for_inference()


def answers(tokens: int) -> np.ndarray:
    """Log-probabilities float32 (2 directions, steps, words) of one that knows what is written."""
    random = np.random.default_rng(tokens)
    truth = random.integers(3, len(WORDS), tokens)
    odds = random.normal(size=(2, 2 * tokens + 2, len(WORDS))).astype(np.float32)
    for direction, (words, end) in enumerate(((truth, WORDS.eos), (truth[::-1], WORDS.sos))):
        odds[direction, np.arange(tokens), words] += SURE
        odds[direction, tokens, end] += SURE
    return odds - np.log(np.exp(odds).sum(-1, keepdims=True))


class Knowing:
    """A step model that runs its network and then gives the answers it was told."""

    def __init__(self, model: StepModel[Any], told: np.ndarray) -> None:
        self._model, self._told = model, told

    def start(self) -> Any:
        """Before the first token; see `StepModel`."""
        return self._model.start(), None, 0

    def step(self, tokens: np.ndarray, state: Any) -> tuple[np.ndarray, Any]:
        """Runs the network, answers from memory."""
        inner, directions, place = state
        if directions is None:
            directions = (tokens[..., 0] == WORDS.eos).astype(np.int64)
        _, inner = self._model.step(tokens, inner)
        places = np.arange(place, place + tokens.shape[-1])
        told = self._told[directions[..., None], places]
        return told, (inner, directions, place + tokens.shape[-1])

    def select(self, state: Any, images: np.ndarray, rows: np.ndarray) -> Any:
        """Keeps some images and some rows of each."""
        inner, directions, place = state
        inner = self._model.select(inner, images, rows)
        return inner, directions[images[:, None], rows], place


class Recording:
    """A step model that keeps what it answers."""

    def __init__(self, model: StepModel[Any]) -> None:
        self._model = model
        self.start, self.select = model.start, model.select
        self.answers: list[np.ndarray] = []

    def step(self, tokens: np.ndarray, state: Any) -> tuple[np.ndarray, Any]:
        """Answers, and keeps the answer."""
        found, state = self._model.step(tokens, state)
        self.answers.append(found)
        return found, state


class Replaying:
    """A step model that runs its network and then gives recorded answers in their order."""

    def __init__(self, model: StepModel[Any], recorded: Sequence[np.ndarray]) -> None:
        self._model, self._answers = model, iter(recorded)
        self.start, self.select = model.start, model.select

    def step(self, tokens: np.ndarray, state: Any) -> tuple[np.ndarray, Any]:
        """Runs the network, answers from the record."""
        _, state = self._model.step(tokens, state)
        return next(self._answers), state


def next_words(model: PosFormer, features: Features, sequences: Tensor) -> Tensor:
    """Log-probabilities (rows, steps, words), with every row and every step computed anew."""
    rows = len(sequences)
    cells = features.cells.repeat(rows, 1, 1, 1)
    padding = features.padding.repeat(rows, 1, 1)
    memory = model.decoder.stack.remember(Features(cells, padding))
    return model.step(sequences[:, None], memory, None)[0][:, 0]


@torch.inference_mode()
def plain(model: PosFormer, features: Features, beam: int, tokens: int) -> None:
    told = torch.from_numpy(answers(tokens))
    sequences = torch.tensor([[WORDS.sos], [WORDS.eos]])
    sums = torch.zeros(2, 1)
    for place in range(tokens):
        next_words(model, features, sequences)
        totals = (sums[..., None] + told[:, place, None]).flatten(1)
        sums, best = totals.topk(beam)
        parents, words = best // len(WORDS), best % len(WORDS)
        parents = parents + torch.arange(2)[:, None] * (len(sequences) // 2)
        sequences = torch.cat((sequences[parents.flatten()], words.view(-1, 1)), dim=1)
    next_words(model, features, sequences)  # the ends
    starts = sequences[:, :1].flip(0)
    next_words(model, features, torch.cat((starts, sequences[:, 1:].flip(1)), dim=1))


def cached(runtime: Runtime, image: np.ndarray, beam: int) -> Callable[[int], None]:
    model = runtime.encode([image])

    def decode(tokens: int) -> None:
        options = DecodingOptions(beam=beam, max_length=2 * tokens)
        knowing = Knowing(model, answers(tokens))
        ((best,),) = search(knowing, options, WORDS.sos, WORDS.eos, 1)
        assert len(best.tokens) == tokens

    return decode


def best_time(work: Callable[[int], None], tokens: int, repeats: int, threads: int) -> float:
    return min(seconds(lambda: work(tokens), threads) for _ in range(repeats))


def table(arguments: argparse.Namespace, folder: Path) -> None:
    model, threads = paper_model(), arguments.threads
    save_model(model, folder / "model", further=export_onnx(model, folder))
    image = (np.random.default_rng(0).random(SIZE) < 0.1).astype(np.uint8) * np.uint8(255)
    features = encode_plainly(model, image)
    onnx = cached(OnnxRuntime.load(folder / "model", threads), image, arguments.beam)
    pytorch = cached(PyTorchRuntime(model), image, arguments.beam)
    onnx(5), pytorch(5)  # the first call of anything is slow

    print("| tokens | plain | cached, PyTorch | cached, ONNX Runtime | ms a token | times faster |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for tokens in arguments.tokens:
        quick = best_time(onnx, tokens, arguments.repeats, threads)
        middle = best_time(pytorch, tokens, arguments.repeats, threads)
        row = f"{middle:.2f} s | {quick:.2f} s | {1e3 * quick / tokens:.1f}"
        if tokens > arguments.plain_up_to:
            print(f"| {tokens} | | {row} | |", flush=True)
            continue
        slow = seconds(lambda n=tokens: plain(model, features, arguments.beam, n), threads)
        print(f"| {tokens} | {slow:.2f} s | {row} | {slow / quick:.0f} |", flush=True)


def nearest(examples: EvaluationSet, tokens: int, count: int) -> list[int]:
    """Expressions of about so many tokens."""
    lengths = np.array([len(caption) for caption in examples.captions])
    return np.argsort(np.abs(lengths - tokens), kind="stable")[:count].tolist()


def real_searches(arguments: argparse.Namespace, folder: Path) -> None:
    """The second table: the time that real searches take, with the paper's network in them."""
    threads = arguments.threads
    reader = load_runtime(arguments.model, threads=threads)
    paper = OnnxRuntime.load(folder / "model", threads)
    model, size = paper_model(), reader.config.image
    options = search_options(reader.config, arguments.beam)
    examples = open_set(arguments.data, arguments.split)
    print("\n| tokens read | cells | plain | cached, ONNX Runtime | times faster |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for tokens in (count for count in arguments.tokens if count <= arguments.plain_up_to):
        for place in nearest(examples, tokens, arguments.expressions):
            image = examples.image(place)
            sized = at_working_size(image, size.scale, size.margin, size.max_pixels)
            recording = Recording(reader.encode([sized]))
            ((best,),) = search(recording, options, WORDS.sos, WORDS.eos, 1)
            encoded = paper.encode([image])

            def again(_: int, encoded: Any = encoded, told: Any = recording.answers) -> None:
                search(Replaying(encoded, told), options, WORDS.sos, WORDS.eos, 1)

            quick = best_time(again, 0, arguments.repeats, threads)
            features = encode_plainly(model, image)
            length = len(best.tokens)
            slow = seconds(lambda n=length, f=features: plain(model, f, arguments.beam, n), threads)
            cells = features.padding[0].numel()
            row = f"{length} | {cells} | {slow:.2f} s | {quick:.2f} s | {slow / quick:.0f}"
            print(f"| {row} |", flush=True)


@torch.inference_mode()
def encode_plainly(model: PosFormer, image: np.ndarray) -> Features:
    return model.encoder(*(torch.from_numpy(part) for part in pad_images([image])))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[10, 20, 40, 80, 160])
    parser.add_argument("--plain-up-to", type=int, default=160, help="tokens")
    parser.add_argument("--beam", type=int, default=10)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--data", help="images or ink, for the second table")
    parser.add_argument("--split", default="2013")
    parser.add_argument("--expressions", type=int, default=3, help="of each length")
    parser.add_argument("--model", help="that reads them; by default the shipped one")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"{platform.processor() or platform.machine()}, {describe_clock(arguments.threads)}\n")
    with tempfile.TemporaryDirectory() as folder:
        table(arguments, Path(folder))
        if arguments.data:
            real_searches(arguments, Path(folder))


if __name__ == "__main__":
    main()
