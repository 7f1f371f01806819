"""A grown encoder computes the same function and learns with its new layers."""

import pytest
import torch

from posformer.latex import Vocabulary
from posformer.models.checkpoint import take_weights
from posformer.models.growing import can_grow
from posformer.models.model_config import ModelConfig
from posformer.models.registry import create_model


def _model(layers, growth=4):
    torch.manual_seed(sum(layers))
    encoder = {"growth": growth, "layers": layers, "dropout": 0.0}
    config = ModelConfig.from_dict({"encoder": encoder, "decoder": {"width": 16, "heads": 2}})
    model = create_model(config, Vocabulary(["x", "2", "^", "{", "}"]))
    for part in model.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.uniform_(-0.5, 0.5)
            part.running_var.uniform_(0.5, 2.0)
            torch.nn.init.uniform_(part.weight, 0.5, 1.5)
            torch.nn.init.uniform_(part.bias, -0.3, 0.3)
    return model.eval()


@pytest.mark.parametrize("layers", [(1, 2, 3), (3, 2, 3), (1, 4, 3), (2, 3, 5)])
def test_growing_keeps_the_outputs(layers):
    old, new = _model((1, 2, 3)), _model(layers)
    missing = take_weights(new, old)
    images = torch.rand(2, 1, 48, 80)
    padding = torch.zeros(2, 48, 80, dtype=torch.bool)
    padding[1, :, 64:] = True
    assert not missing
    expected, found = (model.encoder(images, padding) for model in (old, new))
    torch.testing.assert_close(found.cells, expected.cells)


def test_new_layers_learn_from_the_second_step_on():
    old, new = _model((1, 1, 1)), _model((2, 2, 2))
    take_weights(new, old)
    optimizer = torch.optim.SGD(new.encoder.parameters(), 0.1)
    images, padding = torch.rand(1, 1, 32, 32), torch.zeros(1, 32, 32, dtype=torch.bool)
    weights = torch.rand(16)
    for _ in range(2):
        optimizer.zero_grad()
        (new.encoder(images, padding).cells @ weights).sum().backward()
        optimizer.step()
    assert all(block[-1].look.weight.grad.abs().max() > 0 for block in new.encoder.net.blocks)


def test_other_shapes_do_not_grow():
    old = _model((2, 2, 2)).encoder
    assert not can_grow(_model((1, 2, 2)).encoder, old)
    assert not can_grow(_model((2, 2, 2), growth=8).encoder, old)
    assert not can_grow(_model((2, 2)).encoder, old)
