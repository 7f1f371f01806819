"""CPU budgets: length of the run, learning rate, resuming."""

from pathlib import Path

import pytest
import torch

from posformer.errors import ConfigError
from posformer.latex import Vocabulary
from posformer.training.lightning_module import TrainingModule
from posformer.training.trainer import train
from posformer.training.training_config import TrainingConfig, load_config

MINUTES = 0.03


def budgeted(tiny_config: Path, *changes: str) -> TrainingConfig:
    budget = [f"minutes={MINUTES}", "epochs=1", "validate_every=1000", "data.limit=16"]
    return load_config(tiny_config, [*budget, "optimizer.warmup=0", *changes])


def state(run: Path) -> dict[str, float]:
    return torch.load(run / "last.ckpt", weights_only=True)["posformer"]


def test_a_run_ends_with_its_budget_even_if_interrupted(tiny_config: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    # Wall-clock time ends the first start; the CPU budget, which replaces epochs, the second.
    module = train(budgeted(tiny_config, "max_minutes=0.001"), run)
    early = state(run)
    assert 0 < early["spent"] < 60 * MINUTES
    assert module.spent == early["spent"]
    config = budgeted(tiny_config)
    module = train(config, run, resume=True)
    late = state(run)
    assert 60 * MINUTES <= late["spent"] < 60 * MINUTES + 2
    assert late["seen"] > max(early["seen"], 16)
    assert module.trainer.optimizers[0].param_groups[0]["lr"] < 0.1 * config.optimizer.learning_rate


def test_the_learning_rate_depends_on_the_used_budget(tiny_config: Path) -> None:
    module = TrainingModule(budgeted(tiny_config), Vocabulary(["x"]), 16)
    rates = []
    for share in (0, 0.25, 0.5, 0.75, 1, 1.1):
        module.spent = share * 60 * MINUTES
        rates.append(module._rate())
    assert rates == pytest.approx([1, 0.854, 0.5, 0.146, 0, 0], abs=1e-3)
    module.seen = 10**6  # epochs have no effect
    assert module._rate() == pytest.approx(0, abs=1e-6)


def test_a_finished_run_does_not_train(tiny_config: Path, tmp_path: Path) -> None:
    train(budgeted(tiny_config, "minutes=0.001"), tmp_path / "run")
    before = state(tmp_path / "run")
    module = train(budgeted(tiny_config, "minutes=0.001"), tmp_path / "run", resume=True)
    assert (module.seen, module.spent) == (before["seen"], before["spent"])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("minutes=0", "not positive"),
        ("optimizer.decay_from=3", "decay_from"),
        ("frozen={variants: -1}", "variants"),
    ],
)
def test_invalid_budgets_are_named(tiny_config: Path, change: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=rf"tiny\.yaml.*{complaint}"):
        budgeted(tiny_config, change)
