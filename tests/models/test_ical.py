"""ICAL: implicit characters next to CoMER's decoder."""

from dataclasses import replace

import torch

from posformer.latex import Vocabulary
from posformer.models import ModelConfig
from posformer.models.base import TrainingOutput
from posformer.models.ical import Ical
from posformer.models.padding import pad_images
from posformer.models.registry import create_model
from tiny import VOCABULARY, random_images, tiny_config, tiny_model

TOKENS = ["x", "^", "{", "2", "}"]


def ical() -> Ical:
    model = tiny_model(0, replace(tiny_config(), name="ical"))
    assert isinstance(model, Ical)
    return model


def in_training(model: Ical) -> TrainingOutput:
    batch = (torch.from_numpy(part) for part in pad_images(random_images(0, [(40, 60)])))
    token_ids = VOCABULARY.encode(TOKENS)
    inputs = torch.tensor([[[VOCABULARY.sos, *token_ids]]])
    return model(*batch, inputs, None, torch.tensor([[[*token_ids, VOCABULARY.eos]]]))


def test_the_result_depends_on_the_implicit_characters() -> None:
    model = ical()
    with torch.no_grad():
        before = in_training(model).logits
        model.implicit.contract.weight.zero_()
        assert not torch.allclose(in_training(model).logits, before)


def test_the_gate_can_shut_the_module_off() -> None:
    model = ical()
    with torch.no_grad():
        model.fusion.gate.weight.zero_()
        model.fusion.gate.bias.fill_(-100.0)
        before = in_training(model).logits
        model.implicit.contract.weight.zero_()
        assert torch.equal(in_training(model).logits, before)


def test_symbols_with_ink_are_one_class() -> None:
    model = ical()
    expected = [VOCABULARY.pad, *VOCABULARY.encode(["^", "{"]), VOCABULARY.pad]
    expected += [VOCABULARY.index("}"), VOCABULARY.eos]

    class Perfect(torch.nn.Module):
        def forward(self, states: torch.Tensor) -> torch.Tensor:
            logits = torch.full((*states.shape[:3], len(VOCABULARY)), -50.0)
            return logits.scatter(3, torch.tensor(expected).view(1, 1, -1, 1), 50.0)

    model.implicit_head = Perfect()  # type: ignore[assignment]
    losses = in_training(model).losses
    assert set(losses) == {"explicit", "implicit"}
    assert losses["implicit"].total.item() < 1e-4 and losses["implicit"].terms.item() == 6
    assert losses["explicit"].total.item() > 1


def test_the_size_is_the_published_one() -> None:
    vocabulary = Vocabulary([f"w{number}" for number in range(110)])
    values = {"name": "ical", "decoder": {"refinement": {"structure": []}}}
    model = create_model(ModelConfig.from_dict(values), vocabulary).for_inference()
    assert abs(sum(weight.numel() for weight in model.parameters()) / 7.37e6 - 1) < 0.02
