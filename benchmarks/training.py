"""Measure the training speed of a config, with real steps on real batches.

    python benchmarks/training.py --config configs/posformer.yaml --steps 100 data.images=crohme.zip

Prints images per second, the share of a batch that is not padding, the time of an epoch, and the
time of the parts of a step, for one process with the config's threads. Of a config with stages, it
runs the first; add `stages=null` or another stage's settings for others.
"""

import argparse
import itertools
import time
from pathlib import Path

import numpy as np
import torch

from posformer.data import step_share, valid_share
from posformer.training.allocator import retain_freed_memory
from posformer.training.batch_stream import BatchStream
from posformer.training.collate import Collator
from posformer.training.datasets import open_examples
from posformer.training.feature_cache import cache_features
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
    retain_freed_memory()
    config = load_config(options.config, options.changes).split_stages()[0]
    if config.threads:
        torch.set_num_threads(config.threads)
    encoder = FrozenEncoder.load(config.frozen) if config.frozen else None
    config = encoder.adapt_config(config) if encoder else config
    examples = open_examples(config.data, config.model.image)
    if encoder is not None:
        before = time.process_time()
        examples = cache_features(config, examples, encoder)
        print(f"features of the frozen encoder took {time.process_time() - before:.1f} CPU seconds")
    collator = Collator(examples.vocabulary, config.model.position, examples.with_ink)
    forward_only = config.model.decoder.trained_directions == "forward"
    directions = "forward" if forward_only else config.batch.directions
    stream = BatchStream(examples.train, collator, config.batch, config.seed, directions=directions)
    print_shares(stream, len(examples.train))
    module = TrainingModule(config, examples.vocabulary, len(examples.train)).train()
    if encoder is not None:
        encoder.copy_to(module.model)
    freeze_blocks(module.model, config.optimizer.frozen_blocks)
    optimizer = make_optimizer(module.model, config.optimizer)
    spent = dict.fromkeys(("batch", "forward", "backward", "step"), 0.0)
    images, losses = 0, []
    batches = iter(stream)
    next(batches)  # a whole chunk is sampled before its first batch: see print_sampling
    for _ in range(options.steps):
        times = [time.perf_counter()]
        batch = next(batches)
        times.append(time.perf_counter())
        with torch.autocast("cpu", torch.bfloat16, enabled=config.precision == "bf16-mixed"):
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
    print(f"{images / total:.2f} images/s, {minutes:.1f} minutes per epoch")
    print_sampling(stream, total / images)
    print(", ".join(f"{part} {100 * seconds / total:.1f} %" for part, seconds in spent.items()))


def print_sampling(stream: BatchStream, seconds: float) -> None:
    """Print the time of sampling an example, relative to its time in training."""
    before = time.process_time()
    for index in range(0, len(stream.sampler), max(1, len(stream.sampler) // 300)):
        stream.sampler.sample(index, np.random.default_rng(index))
    count = len(range(0, len(stream.sampler), max(1, len(stream.sampler) // 300)))
    sampling = (time.process_time() - before) / count
    print(f"sampling: {1000 * sampling:.2f} ms per image, {100 * sampling / seconds:.1f} % more")


def print_shares(stream: BatchStream, count: int) -> None:
    """Print the share of the batches of an epoch that is not padding."""
    sizes = np.zeros((count, 3), np.int64)
    batches = []
    for samples, members in stream._plan():
        for index in members.tolist():
            sample = samples[index]
            sizes[index] = sample.height, sample.width, len(sample.tokens) + 1
        batches.append(members)
    print(
        f"{len(batches)} batches per epoch; not padding: {100 * valid_share(sizes, batches):.1f} % "
        f"of the pixels, {100 * step_share(sizes, batches):.1f} % of the (step, cell) pairs"
    )


if __name__ == "__main__":
    main()
