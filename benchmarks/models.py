"""Parameters and speed of all models, in one run.

    python benchmarks/models.py data.images=crohme.zip data.ink=crohme_inkml.zip

For each config, with its own sizes and random weights: training steps on real batches, and greedy
decoding of real images with PyTorch. An untrained model ends anywhere, so the end is suppressed and
decoding takes a fixed number of tokens, the mean of CROHME's captions. LAST has 16 lines; if an
expression has one, the others end at the first step, so it is measured with one.

Speeds are images per second of CPU time with one thread. Compare the ratios of one run, not the
times of different runs.
"""

import argparse
import itertools
import platform
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from posformer.evaluation.predict import open_set
from posformer.runtime import decode_images
from posformer.runtime.pytorch_runtime import PyTorchRuntime, PyTorchStepModel, State
from posformer.search import DecodingOptions
from posformer.training.batch_stream import BatchStream, TrainingDataModule
from posformer.training.datasets import open_examples
from posformer.training.lightning_module import TrainingModule, make_optimizer
from posformer.training.losses import all_losses, total_loss
from posformer.training.training_config import load_config

CONFIGS = Path(__file__).parents[1] / "configs"
NOT_A_MODEL = {"crohme", "default", "frozen", "multiline"}
TOKENS = 16  # mean length of CROHME's captions
ONE_LINE = {"last": ["model.decoder.lines=1"]}


class EndlessRuntime(PyTorchRuntime):
    """Runs a model without ever letting it end an expression."""

    def encode(self, images: Sequence[np.ndarray]) -> PyTorchStepModel:
        """Encode images; see `PyTorchRuntime.encode`."""
        model = super().encode(images)
        step, ends = model.step, [self.vocabulary.sos, self.vocabulary.eos]

        def endless(tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
            output, state = step(tokens, state)
            output[..., ends] = -1e9
            return output, state

        model.step = endless  # type: ignore[method-assign]
        return model


def training_speed(module: TrainingModule, stream: BatchStream, steps: int) -> float:
    """Return images per second of forward, backward and optimizer step; the first is not timed."""
    optimizer = make_optimizer(module.model, module.config.optimizer)
    module.train()
    images, before = 0, 0.0
    for number, batch in enumerate(itertools.islice(stream, steps + 1)):
        if number == 1:
            before = time.process_time()
        loss = all_losses(module._run(batch), batch, module.config.loss)
        total_loss(loss, module.config.loss).backward()
        optimizer.step()
        optimizer.zero_grad()
        images += len(batch.names) if number else 0
    return images / (time.process_time() - before)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=4, help="training steps")
    parser.add_argument("--images", type=int, default=8, help="decoded images")
    parser.add_argument("--only", metavar="NAME,...", help="configs (default: all models)")
    parser.add_argument("changes", nargs="*", metavar="key=value")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = {path.stem for path in CONFIGS.glob("*.yaml")} - NOT_A_MODEL
    print(f"{platform.processor() or platform.machine()}, 1 thread, CPU time\n")
    print("| config | parameters | training, images/s | inference, images/s |")
    print("| --- | ---: | ---: | ---: |")
    for name in options.only.split(",") if options.only else sorted(found):
        changes = ["batch.workers=0", "batch.chunk=200"]
        changes += [*ONE_LINE.get(name, []), *options.changes]
        config = load_config(CONFIGS / f"{name}.yaml", changes)
        torch.manual_seed(0)
        examples = open_examples(config.data, config.model.image)
        module = TrainingModule(config, examples.vocabulary, len(examples.train))
        data = TrainingDataModule(config, examples)
        collator = data._collator(masking=config.batch.masking)
        forward = config.model.decoder.trained_directions == "forward"
        stream = BatchStream(
            examples.train, collator, config.batch, 0, directions="forward" if forward else "both"
        )
        trained = training_speed(module, stream, options.steps)
        runtime = EndlessRuntime(module.model.eval())
        parameters = sum(weight.numel() for weight in runtime.model.parameters())
        assert config.data.images is not None
        known = open_set(config.data.images, config.data.train)
        indices = np.linspace(0, len(known) - 1, options.images).astype(int)
        images = [known.image(index) for index in indices.tolist()]
        greedy = DecodingOptions(greedy=True, max_length=TOKENS)
        decode_images(runtime, images[:1], greedy)  # warm up
        before = time.process_time()
        decode_images(runtime, images, greedy)
        decoded = len(images) / (time.process_time() - before)
        size = f"{parameters / 1e6:.2f} M"
        print(f"| {name} | {size} | {trained:.2f} | {decoded:.2f} |", flush=True)


if __name__ == "__main__":
    main()
