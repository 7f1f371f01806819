"""Frozen encoders: cached features, training on them, and frozen blocks."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from posformer.errors import ConfigError
from posformer.models import ModelConfig
from posformer.models.checkpoint import load_model, save_model
from posformer.models.padding import pad_images
from posformer.training.batch_stream import BatchStream
from posformer.training.collate import Batch, Collator, RenderedSample
from posformer.training.datasets import Examples, open_examples
from posformer.training.feature_cache import FeatureSampler, cache_features
from posformer.training.frozen_encoder import FrozenEncoder, dense_net
from posformer.training.lightning_module import TrainingModule
from posformer.training.losses import all_losses
from posformer.training.trainer import train
from posformer.training.training_config import TrainingConfig, load_config
from tiny import tiny_config, tiny_model

CHANNELS = 11  # of the tiny encoder's features


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with another image size, as the source of an encoder."""
    image = replace(tiny_config().image, scale=0.5, margin=4)
    folder = tmp_path_factory.mktemp("encoders") / "given"
    save_model(tiny_model(1, tiny_config(image=image)), folder)
    return folder


@pytest.fixture
def frozen_config(tiny_config: Path, encoder_folder: Path, tmp_path: Path) -> TrainingConfig:
    return load_config(
        tiny_config,
        [
            "model.image.scale=0.9",  # the encoder's scale replaces it
            f"frozen.encoder={encoder_folder}",
            f"frozen.cache={tmp_path / 'cache'}",
            "frozen.variants=1",
            "data.scale_range=[0.7,1.4]",
            "data.limit=12",
            "data.validation_limit=5",
            "epochs=2",
            "validate_every=2",
            "progress_images=0",
        ],
    )


def opened(config: TrainingConfig) -> tuple[TrainingConfig, FrozenEncoder, Examples]:
    assert config.frozen is not None
    encoder = FrozenEncoder.load(config.frozen)
    config = encoder.adapt_config(config)
    return config, encoder, open_examples(config.data, config.model.image)


def test_the_config_gets_the_settings_of_the_encoder(
    frozen_config: TrainingConfig,
) -> None:
    config, encoder, _ = opened(frozen_config)
    assert config.model.encoder == tiny_config().encoder
    assert config.model.image.scale == 0.5
    assert encoder.net.channels == CHANNELS


def test_cached_features_are_those_of_the_encoder(frozen_config: TrainingConfig) -> None:
    config, encoder, examples = opened(frozen_config)
    cached = cache_features(config, examples, encoder)
    assert len(cached.train) == 12 and len(cached.validation) == 5
    rng = np.random.default_rng(0)
    for index in range(12):
        sample, encoded = (
            examples.unaugmented.sample(index, rng),
            cached.unaugmented.sample(index, rng),
        )
        assert (encoded.name, encoded.tokens) == (sample.name, sample.tokens)
        assert (encoded.height, encoded.width) == (sample.height, sample.width)
        with torch.inference_mode():
            features, _ = encoder.net(*map(torch.from_numpy, pad_images([sample.render()[0]])))
        expected = features[0].permute(1, 2, 0).numpy()
        np.testing.assert_allclose(encoded.render()[0], expected, atol=0.02, rtol=2e-3)


def test_an_example_has_its_original_and_its_variants(
    frozen_config: TrainingConfig,
) -> None:
    config, encoder, examples = opened(frozen_config)
    cached = cache_features(config, examples, encoder).train
    sizes = {
        (one.height, one.width)
        for seed in range(20)
        for one in [cached.sample(3, np.random.default_rng(seed))]
    }
    assert len(sizes) == 2


def test_features_are_computed_once_per_setting(
    frozen_config: TrainingConfig, tmp_path: Path
) -> None:
    config, encoder, examples = opened(frozen_config)

    def stores() -> set[str]:
        return {path.name for path in (tmp_path / "cache").iterdir()}

    cache_features(config, examples, encoder)
    first = stores()
    assert len(first) == 3  # original, one variant, validation
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*")}
    cache_features(config, examples, encoder)
    assert {path: path.stat().st_mtime_ns for path in times} == times
    other = replace(config, data=replace(config.data, scale_range=(0.5, 0.6)))
    cache_features(other, open_examples(other.data, other.model.image), encoder)
    assert len(stores() - first) == 1  # only variants depend on augmentation
    cache_features(config, examples, replace(encoder, digest="another"))
    assert len(stores()) == 7


def test_a_damaged_store_is_replaced(frozen_config: TrainingConfig, tmp_path: Path) -> None:
    config, encoder, examples = opened(frozen_config)
    before = cache_features(config, examples, encoder).unaugmented.sample(
        0, np.random.default_rng(0)
    )
    expected = before.render()[0]
    for file in (tmp_path / "cache").rglob("features.f16"):
        os.truncate(file, 100)
    again = cache_features(config, examples, encoder).unaugmented.sample(
        0, np.random.default_rng(0)
    )
    np.testing.assert_array_equal(again.render()[0], expected)
    assert not list((tmp_path / "cache").glob(".*"))  # no temporary files


def batches(config: TrainingConfig, examples: Examples) -> list[Batch]:
    collator = Collator(examples.vocabulary, config.model.position, examples.with_ink)
    return list(BatchStream(examples.unaugmented, collator, config.batch, 0, shuffle=False))


TRANSFORMER = {"width": 32, "heads": 4, "layers": 2, "feedforward": 48}
RECURRENT = {"width": 32, "embedding": 16, "attention": 32}


@pytest.mark.parametrize(
    ("name", "decoder"),
    [("posformer", TRANSFORMER), ("dwap", RECURRENT), ("abm", RECURRENT), ("can", RECURRENT)],
)
def test_losses_on_features_match_those_on_images(
    frozen_config: TrainingConfig, name: str, decoder: dict[str, int]
) -> None:
    """Including the ink losses: boxes are those of the encoded image."""
    config, encoder, examples = opened(frozen_config)
    settings = {"name": name, "decoder": decoder, "position": "separate", "symbol_map": True}
    config = encoder.adapt_config(replace(config, model=ModelConfig.from_dict(settings)))
    examples = replace(examples, unaugmented=Boxed(examples.unaugmented), with_ink=True)
    torch.manual_seed(0)
    module = TrainingModule(config, examples.vocabulary, 12).eval()
    encoder.copy_to(module.model)
    cached = cache_features(config, examples, encoder)
    for images, features in zip(batches(config, examples), batches(config, cached), strict=True):
        assert images.names == features.names and features.images.shape[1] == CHANNELS
        assert features.symbol_targets is not None and features.attention_targets is not None
        torch.testing.assert_close(features.symbol_targets, images.symbol_targets)
        torch.testing.assert_close(features.attention_targets, images.attention_targets)
        with torch.inference_mode():
            one, other = (
                all_losses(module._run(batch), batch, config.loss) for batch in (images, features)
            )
        assert {"recognition", "level", "relative", "symbol_map", "attention"} <= set(one)
        for part, loss in one.items():
            assert other[part].item() == pytest.approx(loss.item(), rel=2e-3), part


class Boxed:
    """A sampler that adds boxes: a strip of the image for every token."""

    def __init__(self, sampler: FeatureSampler) -> None:
        self.sampler = sampler

    def __len__(self) -> int:
        return len(self.sampler)

    def sample(self, index: int, rng: np.random.Generator) -> "BoxedSample":
        return BoxedSample(self.sampler.sample(index, rng))


class BoxedSample:
    def __init__(self, inner: RenderedSample) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def render(self) -> tuple[np.ndarray, np.ndarray]:
        image, _ = self.inner.render()
        edges = np.linspace(0, image.shape[1], len(self.tokens) + 1, dtype=np.float32)
        top, bottom = np.zeros_like(edges[1:]), np.full_like(edges[1:], image.shape[0])
        return image, np.stack([edges[:-1], top, edges[1:], bottom], axis=1)


def test_training_changes_all_but_the_encoder(
    frozen_config: TrainingConfig, encoder_folder: Path, tmp_path: Path
) -> None:
    config = replace(frozen_config, optimizer=replace(frozen_config.optimizer, averaging=0.9))
    train(config, tmp_path / "run")
    given, trained = load_model(encoder_folder), load_model(tmp_path / "run" / "last.ckpt")
    for name, value in dense_net(trained).state_dict().items():
        assert torch.equal(value, dense_net(given).state_dict()[name]), name
    assert trained.config.image == given.config.image
    torch.manual_seed(config.seed)
    fresh = TrainingModule(config, trained.vocabulary, 12).model
    assert not torch.equal(trained.decoder.head.weight, fresh.decoder.head.weight)


def test_a_resumed_run_keeps_its_encoder(
    frozen_config: TrainingConfig, encoder_folder: Path, tmp_path: Path
) -> None:
    named = tmp_path / "named"
    shutil.copytree(encoder_folder, named)
    assert frozen_config.frozen is not None
    config = replace(frozen_config, frozen=replace(frozen_config.frozen, encoder=str(named)))
    train(replace(config, epochs=1), tmp_path / "run")
    save_model(tiny_model(2, load_model(named).config), named)  # replace it
    train(config, tmp_path / "run", resume=True)
    began, ended = load_model(encoder_folder), load_model(tmp_path / "run" / "last.ckpt")
    assert torch.equal(dense_net(ended).stem.weight, dense_net(began).stem.weight)


def test_missing_encoders_are_named(frozen_config: TrainingConfig, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="0 encoders; freezing needs exactly one"):
        dense_net(torch.nn.Linear(1, 1))
    assert frozen_config.frozen is not None
    missing = replace(frozen_config.frozen, encoder=str(tmp_path / "nowhere"))
    with pytest.raises(Exception, match="nowhere"):
        train(replace(frozen_config, frozen=missing), tmp_path / "run")


def test_the_first_blocks_can_be_frozen(tiny_config: Path, tmp_path: Path) -> None:
    config = load_config(tiny_config, ["optimizer.frozen_blocks=2", "optimizer.freeze_norms=0"])
    examples = open_examples(config.data, config.model.image)
    torch.manual_seed(config.seed)
    before = TrainingModule(config, examples.vocabulary, len(examples.train)).model.state_dict()
    after = train(replace(config, epochs=1), tmp_path / "run").model.state_dict()
    moved = {name for name in after if not torch.equal(before[name], after[name])}
    frozen = (
        "encoder.net.stem",
        "encoder.net.blocks.0",
        "encoder.net.blocks.1",
        "encoder.net.trans",
    )
    assert not [name for name in moved if name.startswith(frozen)]
    assert [name for name in moved if name.startswith("encoder.net.blocks.2")]


def test_too_many_frozen_blocks_are_an_error(tiny_config: Path, tmp_path: Path) -> None:
    config = load_config(tiny_config, ["optimizer.frozen_blocks=4"])
    with pytest.raises(ConfigError, match="frozen_blocks: 4, but the encoder has 3 blocks"):
        train(config, tmp_path / "run")
