"""What the model promises: sizes of the paper, one decoder function, honest padding, coverage."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from posformer.errors import ConfigError
from posformer.latex import Vocabulary
from posformer.models import DecoderConfig, ModelConfig, PositionConfig, RefinementConfig
from posformer.models.attention import MaskedBatchNorm, Refinement
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

    def test_the_paper_s_model_has_6_4_million_parameters_at_inference(self) -> None:
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

    def test_comer_counts_every_symbol_as_coverage(self) -> None:
        decoder = replace(tiny_config().decoder, refinement=RefinementConfig(6, structure=()))
        comer = tiny_model(config=tiny_config(decoder=decoder, position=None))
        assert comer.entity.min() == 1

    def test_posformer_leaves_structure_symbols_out(self) -> None:
        model = tiny_model()
        left_out = {word for word in VOCABULARY.tokens if not model.entity[VOCABULARY.index(word)]}
        assert left_out == {"^", "_", "{", "}"}

    def test_bttr_has_no_refinement(self) -> None:
        decoder = replace(tiny_config().decoder, refinement=None)
        bttr = tiny_model(config=tiny_config(decoder=decoder, position=None))
        assert bttr.decoder.stack.refinement is None
        assert count(bttr) < count(tiny_model())


def run(model: PosFormer, images: list[np.ndarray], tokens: torch.Tensor) -> torch.Tensor:
    batch, padding = (torch.from_numpy(part) for part in pad_images(images))
    with torch.inference_mode():
        return model.step(tokens, model.encode(batch, padding), None)[0]


class TestDecoding:
    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("masked_by", ["decoded", "fed"])
    @pytest.mark.parametrize("cut", [1, 3])
    def test_steps_with_caches_give_what_the_whole_sequence_gives(
        self, seed: int, masked_by: str, cut: int
    ) -> None:
        refinement = RefinementConfig(6, masked_by=masked_by)  # type: ignore[arg-type]
        decoder = replace(tiny_config().decoder, refinement=refinement)
        model = tiny_model(seed, tiny_config(decoder=decoder))
        images = random_images(seed, [(40, 60), (33, 90), (64, 20)])
        tokens = torch.randint(3, len(VOCABULARY), (3, 2, 9))
        batch, padding = (torch.from_numpy(part) for part in pad_images(images))
        with torch.inference_mode():
            memory = model.encode(batch, padding)
            whole, _ = model.step(tokens, memory, None)
            kept, parts = None, []
            for piece in tokens.split(cut, dim=2):
                scores, kept = model.step(piece, memory, kept)
                parts.append(scores)
        torch.testing.assert_close(torch.cat(parts, dim=2), whole, atol=1e-5, rtol=1e-4)

    def test_a_image_alone_and_in_a_padded_batch_gives_the_same(self) -> None:
        model = tiny_model(1)
        images = random_images(1, [(40, 60), (100, 30), (20, 150)])
        tokens = torch.randint(3, len(VOCABULARY), (3, 2, 7))
        together = run(model, images, tokens)
        for number, image in enumerate(images):
            alone = run(model, [image], tokens[number : number + 1])
            torch.testing.assert_close(alone[0], together[number], atol=1e-5, rtol=1e-4)

    def test_without_masking_padding_leaks_into_the_features(self) -> None:
        encoder = replace(tiny_config().encoder, mask_padding=False)
        model = tiny_model(1, tiny_config(encoder=encoder))
        images = random_images(1, [(40, 60), (100, 150)])
        tokens = torch.randint(3, len(VOCABULARY), (2, 1, 7))
        together = run(model, images, tokens)
        alone = run(model, images[:1], tokens[:1])
        assert (alone[0] - together[0]).abs().max() > 1e-3

    def test_rows_of_a_image_do_not_see_each_other(self) -> None:
        model = tiny_model(2)
        images = random_images(2, [(40, 60)])
        tokens = torch.randint(3, len(VOCABULARY), (1, 3, 6))
        together = run(model, images, tokens)
        for row in range(3):
            alone = run(model, images, tokens[:, row : row + 1])
            torch.testing.assert_close(alone[:, 0], together[:, row], atol=1e-5, rtol=1e-4)

    def test_no_step_sees_a_later_token(self) -> None:
        model = tiny_model(3)
        images = random_images(3, [(40, 60)])
        tokens = torch.randint(3, len(VOCABULARY), (1, 1, 6))
        changed = tokens.clone()
        changed[..., 4] = 3 + (changed[..., 4] - 2) % (len(VOCABULARY) - 3)
        first, second = run(model, images, tokens), run(model, images, changed)
        assert torch.equal(first[:, :, :4], second[:, :, :4])
        assert not torch.equal(first[:, :, 4:], second[:, :, 4:])


class TestImplicitAttentionCorrection:
    """The sum of past attention counts entity symbols alone."""

    def accumulate(self, masked_by: str, keep: list[float]) -> list[list[float]]:
        refinement = Refinement(1, RefinementConfig(2, masked_by=masked_by))  # type: ignore[arg-type]
        # One image, one row, four steps, two maps, one cell; step i has attention 10 ** i.
        maps = torch.tensor([1.0, 10.0, 100.0, 1000.0]).view(1, 1, 4, 1, 1).expand(1, 1, 4, 2, 1)
        total, _ = refinement.accumulate(maps, torch.tensor([[keep]]), None)
        return total[0, 0, :, 0, 0].tolist()

    def test_a_step_that_decoded_a_structure_symbol_is_not_counted(self) -> None:
        # Fed in: start, x, ^, {  — so step 0 decoded x, step 1 decoded ^, step 2 decoded {.
        assert self.accumulate("decoded", [1, 1, 0, 0]) == [0, 1, 1, 1]

    def test_the_authors_program_leaves_out_steps_fed_with_one(self) -> None:
        assert self.accumulate("fed", [1, 1, 0, 0]) == [0, 1, 11, 11]

    def test_with_no_structure_symbols_it_is_comer_s_coverage(self) -> None:
        assert self.accumulate("decoded", [1, 1, 1, 1]) == [0, 1, 11, 111]

    def test_attention_of_structure_steps_changes_nothing_later(self) -> None:
        refinement = Refinement(2, RefinementConfig(2))
        maps = torch.rand(1, 1, 4, 4, 6)
        changed = maps.clone()
        changed[:, :, 1] = torch.rand(1, 1, 4, 6)  # step 1 decodes the structure symbol
        keep = torch.tensor([[[1.0, 1.0, 0.0, 1.0]]])
        first, second = (refinement.accumulate(m, keep, None)[0] for m in (maps, changed))
        assert torch.equal(first, second)


def test_masked_batch_norm_is_batch_norm_over_the_cells_inside() -> None:
    torch.manual_seed(0)
    ours, plain = MaskedBatchNorm(3), nn.BatchNorm1d(3)
    maps = torch.randn(4, 3, 5)
    inside = (torch.rand(4, 1, 5) < 0.6).float()
    result = ours(maps, inside)
    chosen = inside[:, 0].bool()
    expected = plain(maps.permute(0, 2, 1)[chosen])
    torch.testing.assert_close(result.permute(0, 2, 1)[chosen], expected)
    torch.testing.assert_close(ours.running_mean, plain.running_mean)
    torch.testing.assert_close(ours.running_var, plain.running_var)


@pytest.mark.parametrize("form", ["heads", "shared", "separate"])
def test_every_form_of_the_position_forest_trains_all_its_weights(form: str) -> None:
    model = tiny_model(config=with_position(tiny_config(), form)).train()
    batch, padding = (torch.from_numpy(p) for p in pad_images(random_images(0, [(40, 60)] * 2)))
    tokens = torch.randint(3, len(VOCABULARY), (2, 2, 5))
    output = model(batch, padding, tokens, torch.rand(2, 2, 5, 5))
    assert output.position is not None
    (output.position.levels.sum() + output.position.letters.square().sum()).backward()
    assert model.position is not None
    assert all(weight.grad is not None for weight in model.position.parameters())


def test_widths_that_do_not_divide_are_refused() -> None:

    with pytest.raises(ConfigError, match="multiple"):
        PosFormer(ModelConfig(decoder=DecoderConfig(width=30, heads=4)), VOCABULARY)
