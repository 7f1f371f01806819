"""Run by test_parallel: the gradients of the first two batches, in one process or in two."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from posformer.training.batch import Collator, Rendered
from posformer.training.losses import all_losses, total_loss
from posformer.training.module import TrainingModule
from posformer.training.recipe import load_recipe
from posformer.training.sources import open_examples
from posformer.training.stream import BatchStream


def first_examples(stream: BatchStream) -> list[Rendered]:
    drawings, members = next(iter(stream._plan()))
    return [stream._rendered(drawings[index], index) for index in members.tolist()]


def main() -> None:
    recipe_path, folder = Path(sys.argv[1]), Path(sys.argv[2])
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    recipe = load_recipe(recipe_path, ["batch.max_pictures=5", "model.decoder.dropout=0.0"])
    examples = open_examples(recipe.data, recipe.model.picture)
    collator = Collator(examples.vocabulary, recipe.model.position)
    torch.manual_seed(0)
    module = TrainingModule(recipe, examples.vocabulary, 64).eval()  # batch norm in eval mode
    model: torch.nn.Module = module.model
    if world > 1:
        dist.init_process_group("gloo", rank=rank, world_size=world)
        model = DistributedDataParallel(model)
    ranks = [rank] if world > 1 else [0, 1]
    mine = [
        example
        for which in ranks
        for example in first_examples(
            BatchStream(examples.train, collator, recipe.batch, 0, rank=which, world=2)
        )
    ]
    import numpy as np

    batch = collator(mine, np.random.default_rng(0))
    output = model(batch.pictures, batch.padding, batch.tokens, batch.identifiers)
    total_loss(all_losses(output, batch, recipe.loss), recipe.loss).backward()
    gradients = {name: weight.grad for name, weight in module.model.named_parameters()}
    if rank == 0:
        torch.save(gradients, folder / f"gradients-{world}.pt")


if __name__ == "__main__":
    main()
