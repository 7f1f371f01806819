"""How fast a config trains here: real steps on real batches.

    python benchmarks/training.py --config configs/paper.yaml --steps 100 data.images=crohme.zip

Prints images a second, the share of a batch that is image, the time of an epoch, and where the
time of a step goes. The figures are those of one process with the config's threads.
"""

import argparse
import itertools
import time
from pathlib import Path

import numpy as np
import torch

from posformer.data import step_share, valid_share
from posformer.training.allocator import keep_memory
from posformer.training.batch_stream import BatchStream
from posformer.training.collate import Collator
from posformer.training.datasets import open_examples
from posformer.training.feature_cache import keep_features
from posformer.training.frozen_encoder import FrozenEncoder, freeze_blocks
from posformer.training.lightning_module import TrainingModule, make_optimizer
from posformer.training.losses import all_losses, total_loss
from posformer.training.training_config import load_config


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("changes", nargs="*", metavar="key=value")
    options = parser.parse_args()
    keep_memory()
    config = load_config(options.config, options.changes)
    if config.threads:
        torch.set_num_threads(config.threads)
    encoder = FrozenEncoder.load(config.frozen) if config.frozen else None
    config = encoder.settle(config) if encoder else config
    examples = open_examples(config.data, config.model.image)
    if encoder is not None:
        before = time.process_time()
        examples = keep_features(config, examples, encoder)
        print(f"maps of the frozen encoder took {time.process_time() - before:.1f} CPU seconds")
    collator = Collator(examples.vocabulary, config.model.position, examples.with_ink)
    one_way = config.model.decoder.trained_directions == "forward"
    rows = "forward" if one_way else config.batch.directions
    stream = BatchStream(examples.train, collator, config.batch, config.seed, rows=rows)
    print_shares(stream, len(examples.train))
    module = TrainingModule(config, examples.vocabulary, len(examples.train)).train()
    if encoder is not None:
        encoder.put_into(module.model)
    freeze_blocks(module.model, config.optimizer.frozen_blocks)
    optimizer = make_optimizer(module.model, config.optimizer)
    spent = dict.fromkeys(("batch", "forward", "backward", "step"), 0.0)
    images, losses = 0, []
    batches = iter(stream)
    next(batches)  # a whole chunk is drawn before its first batch: see print_drawing
    for _ in range(options.steps):
        times = [time.perf_counter()]
        batch = next(batches)
        times.append(time.perf_counter())
        output = module._run(batch)
        loss = total_loss(all_losses(output, batch, config.loss), config.loss)
        times.append(time.perf_counter())
        loss.backward()
        times.append(time.perf_counter())
        torch.nn.utils.clip_grad_norm_(module.model.parameters(), config.optimizer.clip or 1e9)
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter())
        for part, (before, after) in zip(spent, itertools.pairwise(times), strict=True):
            spent[part] += after - before
        images += len(batch.names)
        losses.append(loss.item())
    total = sum(spent.values())
    print(f"{options.steps} steps, {images} images, {torch.get_num_threads()} thread(s)")
    print(f"loss: {losses[0]:.2f} in the first step, {losses[-1]:.2f} in the last")
    minutes = len(examples.train) * total / images / 60
    print(f"{images / total:.2f} images/s; an epoch takes {minutes:.1f} minutes")
    print_drawing(stream, total / images)
    print(", ".join(f"{part} {100 * seconds / total:.1f} %" for part, seconds in spent.items()))


def print_drawing(stream: BatchStream, seconds: float) -> None:
    """Prints what drawing examples takes of the time that an image takes in training."""
    before = time.process_time()
    for index in range(0, len(stream.source), max(1, len(stream.source) // 300)):
        stream.source.sample(index, np.random.default_rng(index))
    count = len(range(0, len(stream.source), max(1, len(stream.source) // 300)))
    drawing = (time.process_time() - before) / count
    print(f"drawing takes {1000 * drawing:.2f} ms an image, {100 * drawing / seconds:.1f} % more")


def print_shares(stream: BatchStream, count: int) -> None:
    """Prints how much of the batches of an epoch is image."""
    sizes = np.zeros((count, 3), np.int64)
    batches = []
    for drawings, members in stream._plan():
        for index in members.tolist():
            drawing = drawings[index]
            sizes[index] = drawing.height, drawing.width, len(drawing.tokens) + 1
        batches.append(members)
    print(
        f"{len(batches)} batches an epoch; {100 * valid_share(sizes, batches):.1f} % of their "
        f"pixels are image, {100 * step_share(sizes, batches):.1f} % of (step, cell) pairs real"
    )


if __name__ == "__main__":
    main()
