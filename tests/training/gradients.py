"""Run by test_parallel: the gradients of the first two batches, in one process or two."""

import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from posformer.training.batch_stream import BatchStream
from posformer.training.collate import Collator, RenderedSample
from posformer.training.datasets import open_examples
from posformer.training.lightning_module import TrainingModule
from posformer.training.losses import all_losses, total_loss
from posformer.training.training_config import load_config


def first_examples(stream: BatchStream) -> list[RenderedSample]:
    samples, members = next(iter(stream._plan()))
    return [stream._rendered(samples[index], index) for index in members.tolist()]


def save_gradients(config_path: Path, folder: Path, rank: int, world: int) -> None:
    torch.set_num_threads(1)
    config = load_config(config_path, ["batch.max_images=5", "model.decoder.dropout=0.0"])
    examples = open_examples(config.data, config.model.image)
    collator = Collator(examples.vocabulary, config.model.position)
    torch.manual_seed(0)
    module = TrainingModule(config, examples.vocabulary, 64).eval()  # batch norm in eval mode
    model: torch.nn.Module = module.model
    if world > 1:
        store = f"file://{folder / 'store'}"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=world)
        model = DistributedDataParallel(model)
    ranks = [rank] if world > 1 else [0, 1]
    mine = [
        example
        for which in ranks
        for example in first_examples(
            BatchStream(examples.train, collator, config.batch, 0, rank=which, world=2)
        )
    ]
    batch = collator(mine, np.random.default_rng(0))
    output = model(batch.images, batch.padding, batch.input_ids, batch.position_identifiers)
    total_loss(all_losses(output, batch, config.loss), config.loss).backward()
    gradients = {name: weight.grad for name, weight in module.model.named_parameters()}
    if rank == 0:
        torch.save(gradients, folder / f"gradients-{world}.pt")


if __name__ == "__main__":
    save_gradients(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
