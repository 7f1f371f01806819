"""The loss is L_rec + λ (L_level + L_relative), each a mean over its valid targets."""

import math
from dataclasses import replace

import pytest
import torch

from posformer.models.base import SummedLoss, TrainingOutput
from posformer.models.encoder import Features
from posformer.models.position_head import PositionLogits
from posformer.training.collate import IGNORE, Batch
from posformer.training.losses import all_losses, total_loss
from posformer.training.training_config import LossConfig


def output(**parts: object) -> TrainingOutput:
    features = Features(torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 2, dtype=torch.bool))
    base = TrainingOutput(torch.zeros(1, 1, 3, 5), None, None, [], features)
    return base._replace(**parts)  # type: ignore[arg-type]


def batch(**parts: object) -> Batch:
    targets = torch.tensor([[[1, 2, IGNORE]]])
    base = Batch(["e"], torch.zeros(1), torch.zeros(1), torch.zeros(1), targets)
    return replace(base, **parts)  # type: ignore[arg-type]


def test_recognition_is_the_mean_over_tokens() -> None:
    losses = all_losses(output(), batch(), LossConfig())
    assert set(losses) == {"recognition"}
    assert losses["recognition"].item() == pytest.approx(math.log(5))


def test_the_end_token_has_no_position_loss() -> None:
    levels = torch.zeros(1, 1, 3, 2)
    levels[0, 0, 1:] = torch.tensor([9.0, -9.0])
    position = PositionLogits(levels, torch.zeros(1, 1, 3, 6))
    targets = torch.tensor([[[0, IGNORE, IGNORE]]])
    losses = all_losses(
        output(position=position),
        batch(nested_levels=targets, relative_positions=targets + 0),
        LossConfig(),
    )
    assert losses["level"].item() == pytest.approx(math.log(2))
    assert losses["relative"].item() == pytest.approx(math.log(6))


def test_the_total_weighs_the_position_losses() -> None:
    parts = {
        name: torch.tensor(value)
        for name, value in {"recognition": 1.0, "level": 10.0, "relative": 100.0}.items()
    }
    assert total_loss(parts, LossConfig()).item() == 111.0
    assert total_loss(parts, LossConfig(level=0.5, relative=0.5)).item() == 56.0


def test_the_config_weighs_the_losses_of_a_model() -> None:
    losses = {
        "counting": SummedLoss(torch.tensor(6.0), torch.tensor(2.0)),
        "mutual": SummedLoss(torch.tensor(1.0), torch.tensor(1.0)),
    }
    parts = all_losses(output(losses=losses), batch(), LossConfig())
    assert parts["counting"].item() == 3.0
    rest = parts["recognition"].item()
    assert total_loss(parts, LossConfig()).item() == pytest.approx(rest + 3.0 + 1.0)
    weighed = LossConfig(own={"mutual": 0.5})
    assert total_loss(parts, weighed).item() == pytest.approx(rest + 3.0 + 0.5)


def test_ink_losses_fade() -> None:
    parts = {"recognition": torch.tensor(0.0), "attention": torch.tensor(1.0)}
    config = LossConfig(attention=0.5, fade=10)
    assert [total_loss(parts, config, epoch).item() for epoch in (0, 5, 10, 20)] == [
        0.5,
        0.25,
        0.0,
        0.0,
    ]


def test_attention_loss_is_the_negative_log_of_attention_on_the_ink() -> None:
    weights = torch.tensor([[0.75, 0.25], [0.5, 0.5]]).view(1, 1, 1, 2, 2)  # two heads, two cells
    mask = torch.tensor([True, False]).view(1, 1, 1, 2)
    losses = all_losses(
        output(logits=torch.zeros(1, 1, 1, 5), attention=[torch.rand(1, 1, 1, 2, 2), weights]),
        batch(target_ids=torch.tensor([[[1]]]), attention_targets=mask),
        LossConfig(),
    )
    assert losses["attention"].item() == pytest.approx(-math.log(0.625))


def test_tokens_without_ink_have_no_attention_loss() -> None:
    mask = torch.zeros(1, 1, 1, 2, dtype=torch.bool)
    losses = all_losses(
        output(logits=torch.zeros(1, 1, 1, 5), attention=[torch.rand(1, 1, 1, 2, 2)] * 2),
        batch(target_ids=torch.tensor([[[1]]]), attention_targets=mask),
        LossConfig(),
    )
    assert losses["attention"].item() == 0.0


def test_the_background_has_its_own_weight_in_the_symbol_map() -> None:
    scores = torch.zeros(1, 1, 2, 4)
    scores[0, 0, 0, 1] = 50.0  # the cell with ink is right, the other one undecided
    cells = torch.tensor([[[1, 0]]])
    losses = all_losses(
        output(symbol_map=scores), batch(symbol_targets=cells), LossConfig(background=0.25)
    )
    assert losses["symbol_map"].item() == pytest.approx(0.25 * math.log(4) / 1.25)


def test_the_distribution_loss_is_zero_for_a_perfect_map() -> None:
    targets = torch.tensor([[[0.2, 0.9, -1.0]]])  # the last cell is padding
    perfect = torch.logit(targets.clamp(min=0.01))
    losses = [
        all_losses(output(distribution=logits), batch(symbol_distribution=targets), LossConfig())
        for logits in (perfect, perfect + torch.tensor([0.0, 0.0, 7.0]), perfect + 1.0)
    ]
    values = [loss["distribution"].item() for loss in losses]
    assert values[:2] == pytest.approx([0.0, 0.0], abs=1e-6) and values[2] > 0.05
    assert "distribution" not in all_losses(output(), batch(), LossConfig())
