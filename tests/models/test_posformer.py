"""PosFormer: sizes of the paper, baselines, implicit attention correction."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from posformer.errors import ConfigError
from posformer.latex import Vocabulary
from posformer.models import DecoderConfig, ModelConfig, PositionConfig, RefinementConfig
from posformer.models.attention_refinement import ImplicitAttentionCorrection, MaskedBatchNorm
from posformer.models.padding import pad_images
from posformer.models.posformer import PosFormer
from posformer.training.training_config import load_config
from tiny import VOCABULARY, random_images, tiny_config, tiny_model

CONFIGS = Path(__file__).parents[2] / "configs"


def count(module: nn.Module | None) -> int:
    return sum(weight.numel() for weight in module.parameters()) if module is not None else 0


def with_position(config: ModelConfig, form: str) -> ModelConfig:
    return replace(config, position=PositionConfig(form=form))  # type: ignore[arg-type]


class TestSizes:
    tokens = Vocabulary([f"w{number}" for number in range(110)])

    def test_the_model_of_the_paper_has_6_4_million_parameters_at_inference(self) -> None:
        model = PosFormer(load_config(CONFIGS / "posformer.yaml").model, self.tokens)
        inference = model.for_inference()
        assert count(inference) == pytest.approx(6.4e6, rel=0.01)
        assert not any("position" in name for name in inference.state_dict())

    def test_a_shared_position_decoder_adds_69_thousand(self) -> None:
        config = load_config(CONFIGS / "posformer.yaml").model
        shared = PosFormer(with_position(config, "shared"), self.tokens)
        assert round(count(shared.position) / 1000) == 69

    def test_heads_alone_cost_least_and_a_separate_decoder_most(self) -> None:
        config = load_config(CONFIGS / "posformer.yaml").model
        heads, shared, separate = (
            count(PosFormer(with_position(config, form), self.tokens).position)
            for form in ("heads", "shared", "separate")
        )
        assert heads < shared < separate

    def test_the_small_model_has_at_most_7_million(self) -> None:
        model = PosFormer(load_config(CONFIGS / "default.yaml").model, self.tokens)
        assert count(model) < 7e6


class TestBaselines:
    """CoMER, BTTR and the vanilla Transformer are settings."""

    def test_comer_counts_every_token_as_coverage(self) -> None:
        decoder = replace(tiny_config().decoder, refinement=RefinementConfig(6, structure=()))
        comer = tiny_model(config=tiny_config(decoder=decoder, position=None))
        assert comer.entity.min() == 1

    def test_posformer_leaves_structure_tokens_out(self) -> None:
        model = tiny_model()
        left_out = {one for one in VOCABULARY.tokens if not model.entity[VOCABULARY.index(one)]}
        assert left_out == {"^", "_", "{", "}"}

    def test_bttr_has_no_refinement(self) -> None:
        decoder = replace(tiny_config().decoder, refinement=None)
        bttr = tiny_model(config=tiny_config(decoder=decoder, position=None))
        assert bttr.decoder.stack.refinement is None
        assert count(bttr) < count(tiny_model())


def run(model: PosFormer, images: list[np.ndarray], tokens: torch.Tensor) -> torch.Tensor:
    batch, padding = (torch.from_numpy(part) for part in pad_images(images))
    with torch.inference_mode():
        memory = model.encode(batch, padding)
        cache = model.initial_cache(memory, tokens.shape[1])
        return model.step(tokens, memory, cache).log_probs


def test_without_masking_padding_leaks_into_the_features() -> None:
    encoder = replace(tiny_config().encoder, mask_padding=False)
    model = tiny_model(1, tiny_config(encoder=encoder))
    images = random_images(1, [(40, 60), (100, 150)])
    tokens = torch.randint(3, len(VOCABULARY), (2, 1, 7))
    together = run(model, images, tokens)
    alone = run(model, images[:1], tokens[:1])
    assert (alone[0] - together[0]).abs().max() > 1e-3


class TestImplicitAttentionCorrection:
    """Coverage counts the attention of entity tokens only."""

    def coverage(self, masked_by: str, mask: list[float]) -> list[list[float]]:
        correction = ImplicitAttentionCorrection(masked_by)  # type: ignore[arg-type]
        # One image, one beam, four steps, two maps, one cell; step i has attention 10 ** i.
        maps = torch.tensor([1.0, 10.0, 100.0, 1000.0]).view(1, 1, 4, 1, 1).expand(1, 1, 4, 2, 1)
        total, _ = correction(maps, torch.tensor([[mask]], dtype=torch.float32), None)
        return total[0, 0, :, 0, 0].tolist()

    def test_the_step_that_decodes_a_structure_token_is_not_counted(self) -> None:
        # Input: <sos>, x, ^, {; so step 0 decodes x, step 1 decodes ^, step 2 decodes {.
        assert self.coverage("decoded", [1, 1, 0, 0]) == [0, 1, 1, 1]

    def test_the_authors_program_skips_the_step_with_a_structure_token_as_input(self) -> None:
        assert self.coverage("input", [1, 1, 0, 0]) == [0, 1, 11, 11]

    def test_without_structure_tokens_it_is_the_coverage_of_comer(self) -> None:
        assert self.coverage("decoded", [1, 1, 1, 1]) == [0, 1, 11, 111]

    def test_attention_of_structure_tokens_has_no_effect_on_later_steps(self) -> None:
        correction = ImplicitAttentionCorrection("decoded")
        maps = torch.rand(1, 1, 4, 4, 6)
        changed = maps.clone()
        changed[:, :, 1] = torch.rand(1, 1, 4, 6)  # step 1 decodes the structure token
        mask = torch.tensor([[[1.0, 1.0, 0.0, 1.0]]])
        first, second = (correction(m, mask, None)[0] for m in (maps, changed))
        assert torch.equal(first, second)


def test_masked_batch_norm_ignores_padding() -> None:
    torch.manual_seed(0)
    ours, plain = MaskedBatchNorm(3), nn.BatchNorm1d(3)
    maps = torch.randn(4, 3, 2, 5)
    inside = (torch.rand(4, 1, 2, 5) < 0.6).float()
    result = ours(maps, inside)
    chosen = inside[:, 0].bool()
    expected = plain(maps.permute(0, 2, 3, 1)[chosen])
    torch.testing.assert_close(result.permute(0, 2, 3, 1)[chosen], expected)
    torch.testing.assert_close(ours.running_mean, plain.running_mean)
    torch.testing.assert_close(ours.running_var, plain.running_var)


def test_widths_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ConfigError, match="multiple"):
        PosFormer(ModelConfig(decoder=DecoderConfig(width=30, heads=4)), VOCABULARY)
