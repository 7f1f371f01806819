"""DWAP, ABM and CAN: sizes of the paper, position forest, losses of the models themselves."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from posformer.errors import ConfigError
from posformer.latex import Vocabulary
from posformer.models import ModelConfig, PositionConfig
from posformer.models.abm import Abm, mutual_loss
from posformer.models.base import RecognitionModel, TrainingOutput
from posformer.models.can import Can
from posformer.models.checkpoint import load_model, save_model, take_weights
from posformer.models.padding import pad_images
from posformer.models.recurrent import drop_attention
from posformer.models.registry import create_model
from tiny import VOCABULARY, random_images, scrambled, tiny_recurrent

NAMES = ("dwap", "abm", "can", "robust_scanner", "rlfn")
SIZES = [(40, 60), (100, 30), (20, 150)]


def parameters(module: nn.Module | None) -> int:
    return sum(weight.numel() for weight in module.parameters()) if module is not None else 0


def encoded(model: RecognitionModel, sizes: list[tuple[int, int]], seed: int = 0) -> object:
    batch, padding = (torch.from_numpy(part) for part in pad_images(random_images(seed, sizes)))
    return model.encode(batch, padding)


def some_tokens(*shape: int) -> Tensor:
    return torch.randint(3, len(VOCABULARY), shape, generator=torch.Generator().manual_seed(1))


def in_training(model: RecognitionModel, directions: int, position: bool = False) -> TrainingOutput:
    """A training output for two images and sequences of four and two tokens."""
    batch, padding = (torch.from_numpy(part) for part in pad_images(random_images(0, SIZES[:2])))
    tokens = some_tokens(2, directions, 5)
    tokens[:, directions - 1, 0] = VOCABULARY.eos
    tokens[:, 0, 0] = VOCABULARY.sos
    targets = some_tokens(2, directions, 5)
    targets[:, :, 4] = VOCABULARY.eos
    targets[1, :, 2], targets[1, :, 3:] = VOCABULARY.eos, -100
    identifiers = torch.rand(2, directions, 5, 5) if position else None
    return model(batch, padding, tokens, identifiers, targets)


class TestSizes:
    """What the paper's cost table states, with its vocabulary."""

    tokens = Vocabulary([f"w{number}" for number in range(110)])

    @pytest.mark.parametrize(("name", "size"), [("dwap", 4.7e6), ("can", 17.0e6)])
    def test_parameters_at_inference(self, name: str, size: float) -> None:
        model = create_model(ModelConfig.from_dict({"name": name}), self.tokens)
        assert parameters(model.for_inference()) == pytest.approx(size, rel=0.05)

    def test_two_directions_cost_one_more_decoder_in_training_alone(self) -> None:
        model = create_model(ModelConfig.from_dict({"name": "abm"}), self.tokens)
        assert isinstance(model, Abm)
        decoder, trained = parameters(model.decoder), parameters(model)
        assert parameters(model.backward_decoder) == decoder
        assert parameters(model.for_inference()) == trained - decoder

    @pytest.mark.parametrize("name", NAMES)
    def test_the_position_forest_adds_no_parameters_at_inference(self, name: str) -> None:
        sizes = [
            parameters(tiny_recurrent(name, position=form).for_inference())
            for form in (None, "heads", "separate")
        ]
        assert len(set(sizes)) == 1

    @pytest.mark.parametrize("name", NAMES)
    def test_a_separate_position_decoder_has_the_shape_of_the_decoder(self, name: str) -> None:
        model = tiny_recurrent(name, position="separate")
        own, stack = model.position.stack, model.decoder.stack  # type: ignore[union-attr]
        shapes = [
            {name: value.shape for name, value in part.state_dict().items()}
            for part in (own, stack)
        ]
        assert shapes[0] == shapes[1]


@pytest.mark.parametrize("name", NAMES)
@torch.inference_mode()
def test_attention_depends_on_coverage(name: str) -> None:
    model = tiny_recurrent(name)
    memory = encoded(model, SIZES[:1])
    tokens = torch.full((1, 1, 3), 5)
    *_, (weights, _, _) = model.attention_maps(tokens, memory)
    assert weights.shape == (1, 1, 3, 1, 3 * 4)
    for convolution in model.decoder.stack.attention.cover:  # type: ignore[union-attr]
        convolution.weight.zero_()
    *_, (without, _, _) = model.attention_maps(tokens, memory)
    assert torch.equal(without[:, :, 0], weights[:, :, 0])
    assert not torch.allclose(without[:, :, 1], weights[:, :, 1])


@pytest.mark.parametrize("name", NAMES)
def test_training_and_inference_compute_the_same_coverage_features(name: str) -> None:
    """Training uses a matrix product for the convolution."""
    attention = tiny_recurrent(name).decoder.stack.attention  # type: ignore[union-attr]
    maps = torch.rand(2, 1, 4, 7)
    for convolution in attention.cover:
        results = [attention.train(mode)._cover(convolution, maps) for mode in (True, False)]
        torch.testing.assert_close(*results)


@pytest.mark.parametrize("name", NAMES)
class TestPositionForest:
    @pytest.mark.parametrize("form", ["heads", "shared", "separate"])
    def test_one_setting_adds_it(self, name: str, form: str) -> None:
        model = tiny_recurrent(name, position=form)
        assert model.config.position == PositionConfig(form=form)  # type: ignore[arg-type]
        directions = 2 if name == "abm" else 1
        output = in_training(model, directions, position=True)
        assert output.position.nested_levels.shape == (2, directions, 5, 5)
        assert output.position.relative_positions.shape == (2, directions, 5, 6)

    def test_it_is_not_saved(self, name: str, tmp_path: Path) -> None:
        model = tiny_recurrent(name, position="separate", symbol_map=True)
        save_model(model, tmp_path / "model")
        again = load_model(tmp_path / "model")
        saved = set(again.for_inference().state_dict())
        assert saved == set(model.for_inference().state_dict())
        assert not any(key.startswith(("position", "symbol_map", "backward")) for key in saved)


@pytest.mark.parametrize("name", NAMES)
def test_outputs_of_the_ink_losses(name: str) -> None:
    directions = 2 if name == "abm" else 1
    output = in_training(tiny_recurrent(name, symbol_map=True), directions)
    height, width = output.features.padding.shape[1:]
    assert output.symbol_map.shape == (2, height, width, len(VOCABULARY))
    *_, attention = output.attention
    assert attention.shape == (2, directions, 5, 1, height * width)
    outside = output.features.padding.flatten(1)[:, None, None, None].expand_as(attention)
    assert outside.any() and not attention[outside].any()


@pytest.mark.parametrize("name", NAMES)
def test_feature_maps_replace_images(name: str) -> None:
    model, tokens = tiny_recurrent(name), some_tokens(3, 1, 4)
    tokens[..., 0] = VOCABULARY.sos
    batch, padding = (torch.from_numpy(part) for part in pad_images(random_images(0, SIZES)))
    with torch.inference_mode():
        features = model.encoder(batch, padding)
        maps = features.cells.permute(0, 3, 1, 2)
        again = model(maps, features.padding, tokens)
        torch.testing.assert_close(again.logits, model(batch, padding, tokens).logits)


class TestAbm:
    def test_both_directions_get_gradients_of_the_mutual_loss(self) -> None:
        model = tiny_recurrent("abm")
        output = in_training(model, 2)
        assert output.logits.shape == (2, 2, 5, len(VOCABULARY))
        assert set(output.losses) == {"mutual"}
        output.losses["mutual"].total.backward()
        for decoder in (model.decoder, model.backward_decoder):
            assert decoder.classify.weight.grad.abs().max() > 0  # type: ignore[union-attr]

    def test_the_mutual_loss_is_zero_if_the_directions_agree(self) -> None:
        targets = torch.tensor([[[3, 4, 5, 2, -100], [5, 4, 3, 1, -100]]])
        logits = torch.randn(1, 2, 5, 8)
        logits[0, 1, :3] = logits[0, 0, :3].flip(0)
        loss = mutual_loss(logits, targets, 2.0)
        assert loss.total.item() == pytest.approx(0, abs=1e-5)
        assert loss.terms.item() == 3  # without the end and what follows
        logits[0, 1, 0] += torch.randn(8)
        assert mutual_loss(logits, targets, 2.0).total.item() > 0.1

    def test_it_needs_both_directions_to_train(self) -> None:
        model = tiny_recurrent("abm").train()
        with pytest.raises(ConfigError, match="both directions"):
            in_training(model, 1)


def log_probs(model: RecognitionModel) -> Tensor:
    memory = encoded(model, SIZES[:1])
    return model.step(some_tokens(1, 1, 1), memory, model.initial_cache(memory)).log_probs


class TestCan:
    def test_the_decoder_reads_the_counts(self) -> None:
        model = tiny_recurrent("can")
        assert isinstance(model, Can)
        with torch.inference_mode():
            before = log_probs(model)
            model.counting.branches[0].predict.bias += 3  # type: ignore[union-attr]
            after = log_probs(model)
        assert not torch.allclose(before, after)

    def test_symbols_with_ink_are_counted(self) -> None:
        model = tiny_recurrent("can")
        assert isinstance(model, Can)
        token_ids = VOCABULARY.encode(["x", "^", "{", "x", "}", "+"])
        targets = torch.tensor([[[*token_ids, VOCABULARY.eos, -100]]])
        truth = torch.zeros(1, len(VOCABULARY))
        truth[0, VOCABULARY.index("x")], truth[0, VOCABULARY.index("+")] = 2, 1
        exact = truth.expand(2, -1, -1)
        assert model._losses(None, exact, targets)["counting"].total.item() == 0
        off = exact.clone()
        off[0, 0, VOCABULARY.index("1")] += 3.0  # 2.5 in this branch, 1 in the mean of the two
        loss = model._losses(None, off, targets)["counting"]
        assert loss.total.item() * len(VOCABULARY) == pytest.approx(2.5 + 1.0)
        assert loss.terms.item() == 1

    def test_an_untrained_model_counts_little(self) -> None:
        torch.manual_seed(0)
        config = tiny_recurrent("can").config
        model = create_model(config, VOCABULARY).eval()
        assert isinstance(model, Can)
        batch, padding = (torch.from_numpy(part) for part in pad_images(random_images(0, SIZES)))
        with torch.inference_mode():
            counts = model.counting(model.encoder(batch, padding))
        assert counts.shape == (2, 3, len(VOCABULARY))
        assert counts.max() < 2


class TestRobustScanner:
    def test_the_branch_knows_the_step_and_no_token(self) -> None:
        model = tiny_recurrent("robust_scanner")
        memory = encoded(model, SIZES[:1])
        with torch.inference_mode():
            (first, _, _), _ = model.attention_maps(some_tokens(1, 1, 4), memory)
            (second, _, _), _ = model.attention_maps(some_tokens(1, 1, 4).flip(2), memory)
        assert torch.equal(first, second)
        assert not torch.allclose(first[:, :, 0], first[:, :, 1])

    def test_the_gate_fuses_both_branches(self) -> None:
        model = tiny_recurrent("robust_scanner")
        gate = model.decoder.fusion.gate  # type: ignore[union-attr]
        with torch.inference_mode():
            before = log_probs(model)
            gate.weight.zero_()
            for bias, is_equal in ((100.0, True), (-100.0, False)):
                gate.bias.fill_(bias)
                assert not torch.allclose(log_probs(model), before)
                # With the branch shut off, only the tokens and the recurrence matter.
                closed = log_probs(model)
                kept = model.decoder.branch.values.weight.clone()  # type: ignore[union-attr]
                model.decoder.branch.values.weight.zero_()  # type: ignore[union-attr]
                assert torch.allclose(log_probs(model), closed) == is_equal
                model.decoder.branch.values.weight.copy_(kept)  # type: ignore[union-attr]


class TestRlfn:
    def test_the_language_model_takes_part(self) -> None:
        model = tiny_recurrent("rlfn")
        with torch.inference_mode():
            before = log_probs(model)
            model.language.head.weight.zero_()  # type: ignore[union-attr]
            assert torch.equal(log_probs(model), before)  # states are fused, not logits
            model.language.layers[-1].contract.weight.zero_()  # type: ignore[union-attr]
            changed = log_probs(model)
            assert not torch.allclose(changed, before)
            model.decoder.fusion.gate.weight.zero_()  # type: ignore[union-attr]
            model.decoder.fusion.gate.bias.fill_(100.0)  # type: ignore[union-attr]
            shut = log_probs(model)
            model.language.embed.weight.zero_()  # type: ignore[union-attr]
            assert torch.equal(log_probs(model), shut)

    def test_it_reads_the_distribution_and_the_token(self) -> None:
        model = tiny_recurrent("rlfn")
        memory, tokens = encoded(model, SIZES[:1]), some_tokens(1, 1, 1)
        with torch.inference_mode():
            cache = model.initial_cache(memory)
            assert cache.distribution[0, 0].argmax() == VOCABULARY.sos
            before = model.step(tokens, memory, cache).log_probs
            even = torch.full_like(cache.distribution, 1 / len(VOCABULARY))
            after = model.step(tokens, memory, cache._replace(distribution=even)).log_probs
        assert not torch.allclose(before, after)

    def test_three_cross_entropies_and_no_gradient_from_language_to_recognizer(self) -> None:
        model = tiny_recurrent("rlfn")
        losses = in_training(model, 1).losses
        assert set(losses) == {"recognizer", "language"}
        losses["language"].total.backward()
        assert model.decoder.classify.weight.grad is None  # type: ignore[union-attr]
        assert model.language.embed.weight.grad.abs().max() > 0  # type: ignore[union-attr]


class TestSsan:
    def test_the_encoder_learns_the_distribution_and_inference_does_without(self) -> None:
        model = tiny_recurrent("ssan")
        output = in_training(model, 1)
        assert output.distribution.shape == output.features.padding.shape
        output.distribution.sum().backward()
        assert model.encoder.net.stem.weight.grad.abs().max() > 0  # type: ignore[union-attr]
        assert parameters(model.for_inference()) == parameters(tiny_recurrent("dwap"))
        assert in_training(model, 1).distribution is None


class TestDropAttention:
    """Li et al."""

    def test_the_most_attended_cells_are_dropped(self) -> None:
        weights = torch.tensor([[0.5, 0.3, 0.1, 0.1], [0.0, 0.2, 0.7, 0.1]])
        dropped = drop_attention(weights, 1.0)
        assert dropped.tolist() == pytest.approx(
            [pytest.approx([0, 0, 0.1, 0.1]), pytest.approx([0, 0.2, 0, 0.1])]
        )
        assert torch.equal(drop_attention(weights, 0.0), weights)
        torch.manual_seed(0)
        many = drop_attention(weights[:1].expand(1000, -1), 0.3)
        assert 0.25 < (many[:, 0] == 0).float().mean() < 0.35

    def test_only_training_drops(self) -> None:
        plain, model = (tiny_recurrent("dwap", {"drop_attention": rate}) for rate in (0.0, 1.0))
        with torch.no_grad():
            assert torch.equal(in_training(model, 1).logits, in_training(plain, 1).logits)
            model.encoder.eval(), plain.encoder.eval()
            model.decoder.train(), plain.decoder.train()
            trained, expected = in_training(model, 1), in_training(plain, 1)
        assert torch.equal(trained.attention[0][:, :, 0], expected.attention[0][:, :, 0])
        assert not torch.allclose(trained.logits[:, :, 0], expected.logits[:, :, 0])


class TestStackedHeads:
    """Ding et al."""

    def test_every_head_has_its_own_attention_and_coverage(self) -> None:
        model = tiny_recurrent("dwap", {"heads": 4})
        memory, tokens = encoded(model, SIZES[:1]), some_tokens(1, 1, 3)
        with torch.inference_mode():
            output = model.step(tokens, memory, model.initial_cache(memory))
            ((weights, _, _),) = output.attention
            assert weights.shape == (1, 1, 3, 4, 12)
            assert not torch.allclose(weights[..., 0, :], weights[..., 1, :])
            torch.testing.assert_close(output.cache[0].coverage, weights.sum(2))
            (cover,) = model.decoder.stack.attention.cover  # type: ignore[union-attr]
            cover.weight[:4] = 0  # of the first head
            ((without, _, _),) = model.attention_maps(tokens, memory)
        assert torch.equal(without[:, :, 0], weights[:, :, 0])  # no coverage yet
        assert not torch.allclose(without[:, :, 1, 0], weights[:, :, 1, 0])

    def test_upper_layers_read_the_lower_ones(self) -> None:
        model = tiny_recurrent("dwap", {"layers": 3})
        memory = encoded(model, SIZES[:1])
        with torch.inference_mode():
            assert len(model.attention_maps(some_tokens(1, 1, 2), memory)) == 3
            before = log_probs(model)
            for layer in (*model.decoder.stack.upper, model.decoder.stack):  # type: ignore[union-attr]
                layer.look.weight_ih.zero_()
                after = log_probs(model)
                assert not torch.allclose(after, before)
                before = after

    def test_heads_must_divide_the_widths(self) -> None:
        with pytest.raises(ConfigError, match="heads does not divide"):
            tiny_recurrent("dwap", {"heads": 5})


class TestSymbolClassifier:
    """WS-WAP."""

    def test_it_learns_the_set_of_symbols_with_ink(self) -> None:
        model = tiny_recurrent("dwap", {"symbol_classifier": True})
        classifier = model.classifier
        batch, padding = (torch.from_numpy(part) for part in pad_images(random_images(0, SIZES)))
        features = model.encoder(batch, padding)
        targets = torch.tensor([[[*VOCABULARY.encode(["x", "^", "{", "x", "}"]), 2]]] * 3)
        scores = torch.full((3, len(VOCABULARY)), -30.0)
        scores[:, VOCABULARY.index("x")] = 30.0
        classifier.forward = lambda features: scores  # type: ignore[method-assign, union-attr]
        loss = classifier.loss(features, targets)  # type: ignore[union-attr]
        assert loss.total.item() == pytest.approx(0, abs=1e-6) and loss.terms.item() == 3
        scores[:, VOCABULARY.index("{")] = 30.0  # no ink: does not count
        assert classifier.loss(features, targets).total.item() == pytest.approx(0, abs=1e-6)  # type: ignore[union-attr]
        scores[0, VOCABULARY.index("x")] = -30.0
        assert classifier.loss(features, targets).total.item() > 1  # type: ignore[union-attr]

    def test_the_encoder_learns_from_it_and_inference_does_without(self) -> None:
        assert not in_training(tiny_recurrent("dwap"), 1).losses
        model = tiny_recurrent("dwap", {"symbol_classifier": True})
        in_training(model, 1).losses["symbols"].total.backward()
        assert model.encoder.net.stem.weight.grad.abs().max() > 0  # type: ignore[union-attr]
        assert parameters(model.for_inference()) == parameters(tiny_recurrent("dwap"))


@pytest.mark.parametrize("name", [*NAMES, "ws_wap"])
def test_init_with_a_larger_vocabulary(name: str) -> None:
    if name == "ws_wap":
        old = tiny_recurrent("dwap", {"symbol_classifier": True})
    else:
        old = tiny_recurrent(name)
    new = scrambled(create_model(old.config, VOCABULARY.extended(["D"])))
    assert take_weights(new, old) == []
    wide = {key: axis for key, axis in new.vocabulary_axes.items() if key in new.state_dict()}
    shapes = {key: value.shape for key, value in old.state_dict().items()}
    grown = {key for key, value in new.state_dict().items() if value.shape != shapes[key]}
    assert set(wide) == grown
    for key, axis in wide.items():
        copied = new.state_dict()[key].transpose(0, axis)[: len(VOCABULARY)]
        assert torch.equal(copied, old.state_dict()[key].transpose(0, axis)), key


def test_init_from_another_architecture_copies_the_encoder_only() -> None:
    from tiny import tiny_config, tiny_model

    posformer = tiny_model(config=replace(tiny_config(), symbol_map=False))
    model = tiny_recurrent("dwap")
    missing = take_weights(model, posformer)
    assert missing and not any(name.startswith("encoder.net") for name in missing)
    assert all(name.startswith("decoder.") for name in missing)
    assert torch.equal(model.encoder.net.stem.weight, posformer.encoder.net.stem.weight)  # type: ignore[union-attr]
