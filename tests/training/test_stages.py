"""Training in stages: settings, schedule, optimizer state, and resuming."""

import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from lightning import Callback
from processes import examples_seen, run_to_end, stop_run

from posformer.errors import ConfigError
from posformer.models.checkpoint import load_model
from posformer.training import trainer as training
from posformer.training.trainer import train
from posformer.training.training_config import TrainingConfig, load_config

EXAMPLES = 64
FIRST = {"name": "first", "epochs": 1}
SECOND = {
    "name": "second",
    "epochs": 2,
    "model": {"image": {"scale": 0.4}, "decoder": {"dropout": 0.1}},
    "data": {"scale_range": [0.8, 1.2], "limit": 48},
    "batch": {"max_images": 4},
    "optimizer": {
        "learning_rate": 0.001,
        "min_learning_rate": 0.0002,
        "warmup": 0.5,
        "weight_decay": 0.01,
        "freeze_norms": 0,
        "frozen_blocks": 1,
    },
}
COMMON = ["progress_images=0", "validate_every=1", "optimizer.averaging=0.9"]


@pytest.fixture
def staged_config(tiny_config: Path) -> Path:
    """The tiny config with two stages."""
    return with_stages(tiny_config, FIRST, SECOND)


def with_stages(path: Path, *stages: dict[str, Any]) -> Path:
    values = yaml.safe_load(path.read_text())
    staged = path.with_name(f"staged-{len(stages)}.yaml")
    staged.write_text(yaml.safe_dump({**values, "name": "staged", "stages": list(stages)}))
    return staged


def checkpoint(run: Path) -> dict[str, Any]:
    return dict(torch.load(run / "last.ckpt", weights_only=True))


def assert_equal_weights(run: Path, expected: Path) -> None:
    one, other = checkpoint(run), checkpoint(expected)
    for state in ("state_dict", "current_model_state"):
        assert one[state].keys() == other[state].keys()
        for name, value in one[state].items():
            assert torch.equal(value, other[state][name]), name


# Settings


def test_a_stage_changes_only_its_own_settings(staged_config: Path) -> None:
    config = load_config(staged_config)
    first, second = config.split_stages()
    assert first.stages is None and first.epochs == 1 and second.epochs == 2
    assert (first.model.image.scale, second.model.image.scale) == (0.5, 0.4)
    assert second.model.image.margin == first.model.image.margin == 4
    assert (first.batch.max_images, second.batch.max_images) == (8, 4)
    assert second.batch.max_pixels == first.batch.max_pixels
    assert (first.optimizer.learning_rate, second.optimizer.learning_rate) == (0.003, 0.001)
    assert first.data.scale_range is None and second.data.scale_range == (0.8, 1.2)
    assert first.seed == second.seed and first.name == second.name == "staged"


def test_a_config_without_stages_is_one_stage(tiny_config: Path) -> None:
    config = load_config(tiny_config)
    assert config.split_stages() == [config]


def test_stages_survive_a_round_trip(staged_config: Path, tmp_path: Path) -> None:
    config = load_config(staged_config)
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(config.to_dict()))
    assert load_config(tmp_path / "again.yaml") == config


def test_stages_can_be_overridden_by_name(staged_config: Path) -> None:
    overrides = ["stages.second.epochs=5", "stages.second.optimizer.clip=1.0", "batch.chunk=9"]
    first, second = load_config(staged_config, overrides).split_stages()
    assert (first.epochs, second.epochs, second.optimizer.clip) == (1, 5, 1.0)
    assert first.batch.chunk == second.batch.chunk == 9
    assert load_config(staged_config, ["stages=null", "epochs=7"]).split_stages()[0].epochs == 7


def test_old_names_work_in_stages(tiny_config: Path) -> None:
    old = {"name": "old", "epochs": 1, "batch": {"max_pictures": 3}, "data": {"warp": 0.5}}
    (stage,) = load_config(with_stages(tiny_config, old)).split_stages()
    assert (stage.batch.max_images, stage.data.distortion) == (3, 0.5)


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ({"name": "x"}, r"stages\.x: set either epochs or minutes"),
        ({"name": "x", "epochs": 1, "minutes": 2}, r"stages\.x: set either epochs or minutes"),
        ({"name": "x", "epochs": 0}, r"stages\.x\.epochs: 0"),
        ({"name": "x", "minutes": 0}, r"stages\.x: .*minutes: 0"),
        ({"epochs": 1}, "name"),
        ({"name": "a.b", "epochs": 1}, "'a.b' is not a name"),
        ({"name": "first", "epochs": 1}, "not unique"),
        ({"name": "x", "epochs": 1, "seed": 3}, "seed"),
        ({"name": "x", "epochs": 1, "optimizer": {"rate": 1}}, r"stages\.x: .*rate"),
        ({"name": "x", "epochs": 1, "data": {"train": 3}}, r"stages\.x: .*train"),
        (
            {"name": "x", "epochs": 1, "model": {"encoder": {"growth": 9}}},
            r"stages\.x\.model\.encoder\.growth=9: changes the weights",
        ),
        ({"name": "x", "epochs": 1, "model": {"position": None}}, r"model\.position.*weights"),
        ({"name": "x", "epochs": 1, "model": {"symbol_map": True}}, r"model\.symbol_map=True"),
        ({"name": "x", "epochs": 1, "data": {"vocabulary": "v.txt"}}, r"x\.data\.vocabulary"),
        ({"name": "x", "epochs": 1, "optimizer": {"kind": "sgd"}}, "needs reset_optimizer"),
        ({"name": "x", "epochs": 1, "optimizer": {"averaging": 0.9}}, "averaging: all stages"),
    ],
)
def test_wrong_stages_are_named(tiny_config: Path, stage: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(with_stages(tiny_config, FIRST, stage))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("epochs=3", r"has stages; use stages\.NAME\.epochs"),
        ("minutes=3", r"has stages; use stages\.NAME\.minutes"),
        ("stages.third.epochs=3", "its stages are first, second"),
        ("stages.second=3", "stages.second"),
    ],
)
def test_wrong_overrides_of_stages_are_named(
    staged_config: Path, override: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(staged_config, [override])


# Runs


class Recorder(Callback):
    """Notes the settings of every step."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, batch_idx: int) -> None:
        optimizer = trainer.optimizers[0]
        state = [value for value in optimizer.state.values() if "step" in value]
        self.steps.append(
            {
                "stage": module.stage.name,
                "epoch": trainer.current_epoch,
                "rate": optimizer.param_groups[0]["lr"],
                "decay": optimizer.param_groups[0]["weight_decay"],
                "updates": int(max((value["step"] for value in state), default=0)),
                "images": len(batch.names),
                "frozen": not module.model.encoder.net.stem.weight.requires_grad,
            }
        )

    def of(self, stage: str, key: str) -> list[Any]:
        return [step[key] for step in self.steps if step["stage"] == stage]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    found = Recorder()
    usual = training.make_callbacks
    monkeypatch.setattr(training, "make_callbacks", lambda *given: [*usual(*given), found])
    return found


def test_stages_run_one_after_the_other_with_their_own_schedule(
    staged_config: Path, recorder: Recorder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = train(load_config(staged_config, COMMON), tmp_path / "run")
    assert module.seen == EXAMPLES + 2 * 48
    assert sorted(set(recorder.of("first", "epoch"))) == [0]
    assert sorted(set(recorder.of("second", "epoch"))) == [1, 2]
    assert max(recorder.of("first", "images")) > 4 >= max(recorder.of("second", "images"))
    assert set(recorder.of("first", "frozen")) == {False}
    assert set(recorder.of("second", "frozen")) == {True}
    assert set(recorder.of("second", "decay")) == {0.01}

    rates = recorder.of("second", "rate")
    assert rates[0] == pytest.approx(0.001 * 0.01)  # warm-up starts again
    highest = rates.index(max(rates))
    assert rates[highest] == pytest.approx(0.001, rel=0.2)
    assert rates[:highest] == sorted(rates[:highest])
    assert rates[highest:] == sorted(rates[highest:], reverse=True)
    assert rates[-1] == pytest.approx(0.0002, rel=0.1)

    # The optimizer's state is carried over.
    first_updates = len(recorder.of("first", "rate"))
    assert recorder.of("second", "updates")[0] == first_updates

    assert load_model(tmp_path / "run" / "last.ckpt").config.image.scale == 0.4
    saved = checkpoint(tmp_path / "run")["posformer"]
    assert saved["stage"]["name"] == "second" and saved["stage"]["epochs"] == 1
    printed = capsys.readouterr().out
    assert "stage first (1 of 2): 1 epoch\n" in printed
    assert "stage second (2 of 2): 2 epochs\n" in printed
    assert load_config(tmp_path / "run" / "config.yaml") == load_config(staged_config, COMMON)


def test_the_optimizer_can_be_reset_and_changed(
    tiny_config: Path, recorder: Recorder, tmp_path: Path
) -> None:
    reset = {"name": "reset", "epochs": 1, "reset_optimizer": True}
    sgd = {**reset, "name": "sgd", "optimizer": {"kind": "sgd", "decay": "plateau"}}
    train(load_config(with_stages(tiny_config, FIRST, reset, sgd)), tmp_path / "run")
    assert recorder.of("first", "updates")[-1] > 3
    assert recorder.of("reset", "updates")[0] == 0
    assert set(recorder.of("sgd", "rate")) == {0.003}  # no warm-up


def test_a_stage_can_have_a_cpu_budget(
    tiny_config: Path, recorder: Recorder, tmp_path: Path
) -> None:
    stages = [
        {"name": "budget", "minutes": 0.01, "optimizer": {"warmup": 0}},
        {"name": "epoch", "epochs": 1},
        {"name": "again", "minutes": 0.01, "optimizer": {"warmup": 0}},
    ]
    module = train(
        load_config(with_stages(tiny_config, *stages), ["data.limit=16"]), tmp_path / "run"
    )
    assert len(set(recorder.of("epoch", "epoch"))) == 1
    for name in ("budget", "again"):
        rates = recorder.of(name, "rate")
        assert rates[0] == pytest.approx(0.003) and rates == sorted(rates, reverse=True)
    assert module.spent >= 2 * 0.6 and 0.01 <= module.minutes < 0.04


def test_a_run_interrupted_after_every_batch_ends_with_the_same_weights(
    staged_config: Path, recorder: Recorder, tmp_path: Path
) -> None:
    """`max_minutes` interrupts each start; ends of epochs and stages are among the batches."""
    few = [*COMMON, "data.limit=16", "stages.second.data.limit=8"]
    config = load_config(staged_config, few)
    train(config, tmp_path / "whole")
    steps, recorder.steps = recorder.steps, []
    limited = load_config(staged_config, [*few, "max_minutes=0.00001"])
    starts = 0
    while len(recorder.steps) < len(steps):
        train(limited, tmp_path / "run", resume=starts > 0)
        starts += 1
        assert starts <= 2 * len(recorder.steps)
    assert [step["rate"] for step in recorder.steps] == [step["rate"] for step in steps]
    train(config, tmp_path / "run", resume=True)
    assert_equal_weights(tmp_path / "run", tmp_path / "whole")


def test_tokens_of_later_stages_are_in_the_vocabulary(
    tiny_config: Path, own_set: Path, tmp_path: Path
) -> None:
    few = {**FIRST, "data": {"limit": 1}}
    (tmp_path / "other" / "train" / "img").mkdir(parents=True)
    from PIL import Image

    Image.new("L", (40, 30), 255).save(tmp_path / "other" / "train" / "img" / "a.png")
    (tmp_path / "other" / "train" / "caption.txt").write_text("a\t\\aleph\n")
    other = {"name": "other", "epochs": 1, "data": {"images": str(tmp_path / "other")}}
    module = train(load_config(with_stages(tiny_config, few, other)), tmp_path / "run")
    assert module.vocabulary.tokens[-1] == "\\aleph" and len(module.vocabulary.tokens) > 5
    assert module.seen == 2


# Resuming

RESUMED = (
    *COMMON,
    "batch.corruption=0.1",
    "batch.max_images=4",
    "checkpoint_minutes=0.0001",  # after every step
)


def test_a_run_killed_in_its_second_stage_ends_with_the_same_weights(
    staged_config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = load_config(staged_config, RESUMED)
    train(config, tmp_path / "whole")
    assert "stage second (2 of 2)" in capsys.readouterr().out
    for how, after in ((signal.SIGKILL, EXAMPLES + 8), (signal.SIGINT, EXAMPLES + 48 + 8)):
        run = tmp_path / how.name
        stop_run(how, after, staged_config, run, *RESUMED)
        assert after < examples_seen(run / "last.ckpt") < EXAMPLES + 2 * 48
        train(config, run, resume=True)
        printed = capsys.readouterr().out
        assert "stage second (2 of 2)" in printed and "stage first" not in printed
        assert_equal_weights(run, tmp_path / "whole")


def test_a_run_stopped_between_stages_ends_with_the_same_weights(
    tiny_config: Path, staged_config: Path, tmp_path: Path
) -> None:
    config = load_config(staged_config, COMMON)
    train(config, tmp_path / "whole")
    train(load_config(with_stages(tiny_config, FIRST), COMMON), tmp_path / "run")
    train(config, tmp_path / "run", resume=True)
    assert_equal_weights(tmp_path / "run", tmp_path / "whole")
    before = checkpoint(tmp_path / "run")["posformer"]
    train(config, tmp_path / "run", resume=True)  # it is finished
    assert checkpoint(tmp_path / "run")["posformer"] == before


def test_two_processes_train_in_stages(staged_config: Path, tmp_path: Path) -> None:
    # Five images per batch are not shared evenly; every example still counts once per epoch.
    overrides = (*RESUMED, "devices=2", "batch.max_images=5", "stages.second.epochs=5")
    printed = run_to_end(staged_config, tmp_path / "whole", *overrides)
    saved = checkpoint(tmp_path / "whole")["posformer"]
    assert saved["seen"] == EXAMPLES + 5 * 48
    assert saved["stage"]["name"] == "second" and saved["epochs_done"] == 6
    assert printed.count("stage second (2 of 2)") == 1
    # A signal to the first process stops both after the same batch.
    run = tmp_path / "run"
    stopped = stop_run(signal.SIGTERM, EXAMPLES + 8, staged_config, run, *overrides, group=False)
    assert stopped.returncode == 1
    assert EXAMPLES < examples_seen(run / "last.ckpt") < saved["seen"]
    run_to_end(staged_config, run, *overrides, "--resume")
    assert_equal_weights(run, tmp_path / "whole")


def test_a_run_is_resumed_in_a_stage_that_the_config_has(
    tiny_config: Path, staged_config: Path, tmp_path: Path
) -> None:
    def resume(config: TrainingConfig) -> None:
        train(config, tmp_path / "run", resume=True)

    plain = load_config(tiny_config, ["epochs=1", "progress_images=0"])
    train(plain, tmp_path / "run")
    with pytest.raises(ConfigError, match=r"without stages, but .* stages first, second"):
        resume(load_config(staged_config))
    (tmp_path / "run" / "last.ckpt").unlink()
    train(load_config(with_stages(tiny_config, FIRST), ["progress_images=0"]), tmp_path / "run")
    with pytest.raises(ConfigError, match="in stage 'first', but the config has no stages"):
        resume(plain)


def test_a_checkpoint_of_version_0_1_can_be_resumed(tiny_config: Path, tmp_path: Path) -> None:
    for run, lengths in (("whole", [2]), ("halves", [1, 2])):
        for epochs in lengths:
            config = load_config(tiny_config, [*COMMON, f"epochs={epochs}", "optimizer.decay=none"])
            train(config, tmp_path / run, resume=epochs == 2 and run == "halves")
            if epochs == 1:
                rewrite_as_version_0_1(tmp_path / run / "last.ckpt")
    assert_equal_weights(tmp_path / "halves", tmp_path / "whole")


def rewrite_as_version_0_1(path: Path) -> None:
    saved = torch.load(path, weights_only=True)
    own = saved["posformer"]
    for name in ("stage", "epochs_done"):
        del own[name]
    own["words"], own["recipe"] = own.pop("tokens"), own.pop("config")
    recipe = own["recipe"]
    for name in ("stages", "progress_images"):
        del recipe[name]
    recipe["model"]["picture"] = recipe["model"].pop("image")
    recipe["data"]["pictures"] = recipe["data"].pop("images")
    recipe["batch"]["max_pictures"] = recipe["batch"].pop("max_images")
    del recipe["optimizer"]["min_learning_rate"]
    torch.save(saved, path)
