"""Cached against uncached decoding, on a model of the paper's size with random weights.

Uncached decoding is what the authors' program does: every step passes the full prefix of every
beam through the network, with a copy of the image per beam. Both searches decode a given length
with the same beam width in both directions and rescore the hypotheses in the other direction. The
encoder is excluded. Compare the ratios of one run, not times of different runs.

A network with random weights behaves unlike a trained one: its directions never agree, so every
hypothesis is rescored. The network runs, but its output is replaced: in the first table by the
output of an ideal model (probability of at least 0.9 for the correct token), for one image at all
lengths; in the second, with `--data`, by the recorded output of the bundled model on real images,
which reproduces its search exactly.

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
from posformer.models.encoder import Features
from posformer.models.padding import pad_images
from posformer.models.posformer import PosFormer
from posformer.runtime import Runtime, load_runtime
from posformer.runtime.model_export import export_model
from posformer.runtime.onnx_runtime import OnnxRuntime
from posformer.runtime.pytorch_runtime import PyTorchRuntime
from posformer.search import DecodingOptions, StepModel, search

VOCABULARY = Vocabulary([f"token{number}" for number in range(110)])
SIZE = (104, 314)  # mean height and width of CROHME's images
CORRECT_LOGIT = 8.0  # added to the logit of the correct token


def paper_model() -> PosFormer:
    torch.manual_seed(0)
    return PosFormer(ModelConfig(position=None), VOCABULARY).for_inference()


def ideal_output(tokens: int) -> np.ndarray:
    """Return log-probabilities of an ideal model, float32 (2 directions, steps, vocab_size)."""
    random = np.random.default_rng(tokens)
    truth = random.integers(3, len(VOCABULARY), tokens)
    logits = random.normal(size=(2, 2 * tokens + 2, len(VOCABULARY))).astype(np.float32)
    for direction, (sequence, end) in enumerate(
        ((truth, VOCABULARY.eos), (truth[::-1], VOCABULARY.sos))
    ):
        logits[direction, np.arange(tokens), sequence] += CORRECT_LOGIT
        logits[direction, tokens, end] += CORRECT_LOGIT
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


class FixedOutput:
    """A step model that runs its network and returns given output instead."""

    def __init__(self, model: StepModel[Any], output: np.ndarray) -> None:
        self._model, self._output = model, output

    def start(self) -> Any:
        """Return the state before the first token; see `StepModel`."""
        return self._model.start(), None, 0

    def step(self, tokens: np.ndarray, state: Any) -> tuple[np.ndarray, Any]:
        """Run the network and return the given output."""
        inner, directions, position = state
        if directions is None:
            directions = (tokens[..., 0] == VOCABULARY.eos).astype(np.int64)
        _, inner = self._model.step(tokens, inner)
        positions = np.arange(position, position + tokens.shape[-1])
        output = self._output[directions[..., None], positions]
        return output, (inner, directions, position + tokens.shape[-1])

    def select(self, state: Any, images: np.ndarray, beams: np.ndarray) -> Any:
        """Return the state of some images and beams."""
        inner, directions, position = state
        inner = self._model.select(inner, images, beams)
        if directions is not None:
            directions = directions[images[:, None], beams]
        return inner, directions, position


class Recording:
    """A step model that records its output."""

    def __init__(self, model: StepModel[Any]) -> None:
        self._model = model
        self.start, self.select = model.start, model.select
        self.outputs: list[np.ndarray] = []

    def step(self, tokens: np.ndarray, state: Any) -> tuple[np.ndarray, Any]:
        """Run the network and record the output."""
        output, state = self._model.step(tokens, state)
        self.outputs.append(output)
        return output, state


class Replaying:
    """A step model that runs its network and returns recorded output instead."""

    def __init__(self, model: StepModel[Any], recorded: Sequence[np.ndarray]) -> None:
        self._model, self._outputs = model, iter(recorded)
        self.start, self.select = model.start, model.select

    def step(self, tokens: np.ndarray, state: Any) -> tuple[np.ndarray, Any]:
        """Run the network and return the recorded output."""
        _, state = self._model.step(tokens, state)
        return next(self._outputs), state


def uncached_step(model: PosFormer, features: Features, sequences: Tensor) -> Tensor:
    """Return log-probabilities (beams, steps, vocab_size), computed without a cache."""
    beams = len(sequences)
    cells = features.cells.repeat(beams, 1, 1, 1)
    padding = features.padding.repeat(beams, 1, 1)
    memory = model.prepare_memory(Features(cells, padding))
    return model.step(sequences[:, None], memory, model.initial_cache(memory)).log_probs[:, 0]


@torch.inference_mode()
def uncached(model: PosFormer, features: Features, beam: int, tokens: int) -> None:
    output = torch.from_numpy(ideal_output(tokens))
    sequences = torch.tensor([[VOCABULARY.sos], [VOCABULARY.eos]])
    totals = torch.zeros(2, 1)
    for position in range(tokens):
        uncached_step(model, features, sequences)
        candidates = (totals[..., None] + output[:, position, None]).flatten(1)
        totals, best = candidates.topk(beam)
        parents, chosen = best // len(VOCABULARY), best % len(VOCABULARY)
        parents = parents + torch.arange(2)[:, None] * (len(sequences) // 2)
        sequences = torch.cat((sequences[parents.flatten()], chosen.view(-1, 1)), dim=1)
    uncached_step(model, features, sequences)  # the end tokens
    starts = sequences[:, :1].flip(0)
    uncached_step(model, features, torch.cat((starts, sequences[:, 1:].flip(1)), dim=1))


def cached(runtime: Runtime, image: np.ndarray, beam: int) -> Callable[[int], None]:
    model = runtime.encode([image])

    def decode(tokens: int) -> None:
        options = DecodingOptions(beam=beam, finished=beam, scales=1, max_length=2 * tokens)
        fixed = FixedOutput(model, ideal_output(tokens))
        ((best,),) = search(fixed, options, VOCABULARY.sos, VOCABULARY.eos, 1)
        assert len(best.tokens) == tokens

    return decode


def best_time(work: Callable[[int], None], tokens: int, repeats: int, threads: int) -> float:
    return min(seconds(lambda: work(tokens), threads) for _ in range(repeats))


def table(arguments: argparse.Namespace, folder: Path) -> None:
    model, threads = paper_model(), arguments.threads
    export_model(model, folder / "model")
    image = (np.random.default_rng(0).random(SIZE) < 0.1).astype(np.uint8) * np.uint8(255)
    features = encode(model, image)
    onnx = cached(OnnxRuntime.load(folder / "model", threads), image, arguments.beam)
    pytorch = cached(PyTorchRuntime(model), image, arguments.beam)
    onnx(5), pytorch(5)  # warm up

    print(
        "| tokens | uncached | cached, PyTorch | cached, ONNX Runtime | ms per token | speed-up |"
    )
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for tokens in arguments.tokens:
        quick = best_time(onnx, tokens, arguments.repeats, threads)
        middle = best_time(pytorch, tokens, arguments.repeats, threads)
        row = f"{middle:.2f} s | {quick:.2f} s | {1e3 * quick / tokens:.1f}"
        if tokens > arguments.uncached_up_to:
            print(f"| {tokens} | | {row} | |", flush=True)
            continue
        slow = seconds(lambda n=tokens: uncached(model, features, arguments.beam, n), threads)
        print(f"| {tokens} | {slow:.2f} s | {row} | {slow / quick:.0f} |", flush=True)


def nearest(examples: EvaluationSet, tokens: int, count: int) -> list[int]:
    """Return the indices of the expressions whose lengths are closest to a number of tokens."""
    lengths = np.array([len(caption) for caption in examples.captions])
    return np.argsort(np.abs(lengths - tokens), kind="stable")[:count].tolist()


def real_searches(arguments: argparse.Namespace, folder: Path) -> None:
    """Print the second table: searches recorded from the bundled model."""
    threads = arguments.threads
    reader = load_runtime(arguments.model, threads=threads)
    paper = OnnxRuntime.load(folder / "model", threads)
    model, size = paper_model(), reader.config.image
    options = DecodingOptions(beam=arguments.beam, scales=1)
    examples = open_set(arguments.data, arguments.split)
    print("\n| decoded tokens | cells | uncached | cached, ONNX Runtime | speed-up |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for tokens in (count for count in arguments.tokens if count <= arguments.uncached_up_to):
        for index in nearest(examples, tokens, arguments.expressions):
            image = examples.image(index)
            sized = at_working_size(image, size.scale, size.margin, size.max_pixels)
            recording = Recording(reader.encode([sized]))
            ((best,),) = search(recording, options, VOCABULARY.sos, VOCABULARY.eos, 1)
            encoded = paper.encode([image])

            def replay(_: int, encoded: Any = encoded, output: Any = recording.outputs) -> None:
                search(Replaying(encoded, output), options, VOCABULARY.sos, VOCABULARY.eos, 1)

            quick = best_time(replay, 0, arguments.repeats, threads)
            features = encode(model, image)
            length = len(best.tokens)
            slow = seconds(
                lambda n=length, f=features: uncached(model, f, arguments.beam, n), threads
            )
            cells = features.padding[0].numel()
            row = f"{length} | {cells} | {slow:.2f} s | {quick:.2f} s | {slow / quick:.0f}"
            print(f"| {row} |", flush=True)


@torch.inference_mode()
def encode(model: PosFormer, image: np.ndarray) -> Features:
    return model.encoder(*(torch.from_numpy(part) for part in pad_images([image])))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[10, 20, 40, 80, 160])
    parser.add_argument("--uncached-up-to", type=int, default=160, help="tokens")
    parser.add_argument("--beam", type=int, default=10)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--data", help="dataset of the second table")
    parser.add_argument("--split", default="2013")
    parser.add_argument("--expressions", type=int, default=3, help="expressions per length")
    parser.add_argument("--model", help="model folder (default: the bundled model)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"{platform.processor() or platform.machine()}, {describe_clock(arguments.threads)}\n")
    with tempfile.TemporaryDirectory() as folder:
        table(arguments, Path(folder))
        if arguments.data:
            real_searches(arguments, Path(folder))


if __name__ == "__main__":
    main()
