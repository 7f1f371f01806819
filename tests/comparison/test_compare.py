"""`posformer compare`: training, evaluation, table, and resuming."""

from pathlib import Path

import pytest
import torch
from lightning import Callback, Trainer
from typer.testing import CliRunner

from posformer.cli import app
from posformer.comparison import Benchmark, Result, gather, run_all
from posformer.errors import ConfigError, PosformerError
from posformer.training import trainer as training


def compared(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["compare", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def checkpoints(output: Path) -> dict[str, int]:
    return {
        str(path.relative_to(output)): path.stat().st_mtime_ns for path in output.rglob("last.ckpt")
    }


def test_comparison_trains_all_prints_the_table_and_reuses_results(
    configs: list[Path], given_model: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    options = ("--minutes", 0.002, "--seeds", 2, "--greedy", "--limit", 6, "--output", output)
    code, table, progress = compared(*configs, given_model, *options)
    assert code == 0 and "plain-pf, seed 1" in progress
    names = [line.split(" | ")[0].strip("| ") for line in table.splitlines()[2:5]]
    assert names == ["plain", "plain-pf", "given"]
    assert "(" in table.splitlines()[3] and "2 seeds" in table
    assert (output / "train" / "table.md").read_text(encoding="utf-8").strip() == table.strip()
    made = checkpoints(output)
    assert set(made) == {
        f"runs/{name}/seed-{seed}/last.ckpt" for name in ("plain", "plain-pf") for seed in (0, 1)
    }
    spent = torch.load(output / "runs/plain/seed-1/last.ckpt", weights_only=True)["posformer"]
    assert spent["spent"] >= 0.12 and spent["config"]["seed"] == 1
    # Another number of expressions: nothing is trained again.
    code, again, _ = compared(*configs, given_model, *options, "--limit", 5)
    assert code == 0 and "5 expressions" in again
    assert checkpoints(output) == made
    # The folder of a finished run is a candidate.
    code, _, _ = compared(
        output / "runs/plain/seed-0", "--greedy", "--limit", 2, "-o", tmp_path / "other"
    )
    assert code == 0 and not (tmp_path / "other" / "runs").exists()
    # Other settings are an error.
    with pytest.raises(ConfigError, match=r"seed-0: started with other settings \(optimizer\)"):
        compared(*configs, "optimizer.clip=1.0", *options)


class InterruptInSecondEpoch(Callback):
    """Simulates Ctrl-C."""

    def on_train_batch_end(self, trainer: Trainer, *_: object) -> None:
        if trainer.current_epoch == 1:
            raise KeyboardInterrupt


def test_interrupted_comparison_resumes_from_the_checkpoint(
    configs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates = gather(configs[:1], ["batch.max_images=4"], epochs=3)
    benchmark = Benchmark.of_first(candidates, greedy=True, limit=2)
    last = tmp_path / "out" / "runs" / "plain" / "seed-0" / "last.ckpt"
    with monkeypatch.context() as patch, pytest.raises((KeyboardInterrupt, SystemExit)):
        usual = training.make_callbacks
        patch.setattr(
            training, "make_callbacks", lambda *given: [*usual(*given), InterruptInSecondEpoch()]
        )
        list(run_all(candidates, benchmark, tmp_path / "out"))
    assert 10 <= seen(last) < 20
    (result,) = run_all(candidates, benchmark, tmp_path / "out")
    assert isinstance(result, Result)
    assert seen(last) == 30


def seen(checkpoint: Path) -> int:
    return int(torch.load(checkpoint, weights_only=True)["posformer"]["seen"])


def test_other_candidates_run_after_a_failure(configs: list[Path], tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("base: plain.yaml\nname: bad\noptimizer: {learning_rate: 1.0e+30}\nepochs: 9\n")
    code, table, errors = compared(
        bad, configs[0], "--greedy", "--limit", 2, "-o", tmp_path / "out"
    )
    assert code == 1
    assert "| plain |" in table and "| bad |" not in table
    assert "posformer: bad, seed 0: the loss is" in errors


def test_data_requires_a_split(configs: list[Path], small_set: Path) -> None:
    code, _, errors = compared(*configs, "--data", small_set)
    assert code == 2 and "name both" in errors


def test_models_without_a_config_require_data(given_model: Path, tmp_path: Path) -> None:
    with pytest.raises(PosformerError, match="--data"):
        compared(given_model, "-o", tmp_path / "out")
