"""Properties that hold for every recognition model."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from posformer.models import ModelConfig, RefinementConfig
from posformer.models.base import RecognitionModel, StepOutput
from posformer.models.padding import pad_images
from posformer.models.posformer import PosFormer
from posformer.models.pytree import map_tensors, tensors
from tiny import VOCABULARY, random_images, tiny_config, tiny_model, tiny_recurrent

SIZES = [(40, 60), (100, 30), (20, 150)]
STRUCTURE = {"^", "_", "{", "}"}


def with_refinement(refinement: RefinementConfig | None) -> ModelConfig:
    config = tiny_config()
    return replace(config, decoder=replace(config.decoder, refinement=refinement))


MODELS: dict[str, Callable[[], RecognitionModel]] = {
    "posformer": lambda: tiny_model(1),
    "posformer, masked by input": lambda: tiny_model(
        2, with_refinement(RefinementConfig(6, masked_by="input"))
    ),
    "comer": lambda: tiny_model(3, with_refinement(RefinementConfig(6, structure=()))),
    "bttr": lambda: tiny_model(4, with_refinement(None)),
    "ical": lambda: tiny_model(5, replace(tiny_config(), name="ical")),
    "dwap": lambda: tiny_recurrent("dwap"),
    "abm": lambda: tiny_recurrent("abm"),
    "can": lambda: tiny_recurrent("can"),
    "robust_scanner": lambda: tiny_recurrent("robust_scanner"),
    "rlfn": lambda: tiny_recurrent("rlfn"),
    "ding": lambda: tiny_recurrent("dwap", {"heads": 2, "layers": 2}),
    "san": lambda: tiny_recurrent("san"),
}


@pytest.fixture(params=MODELS.values(), ids=MODELS)
def model(request: pytest.FixtureRequest) -> RecognitionModel:
    made: RecognitionModel = request.param()
    return made


@pytest.fixture(autouse=True)
def without_gradients(request: pytest.FixtureRequest):
    with torch.set_grad_enabled("gradient" in request.node.name):
        yield


def batch_of(sizes: list[tuple[int, int]], seed: int = 0) -> tuple[Tensor, Tensor]:
    images, padding = pad_images(random_images(seed, sizes))
    return torch.from_numpy(images), torch.from_numpy(padding)


def random_tokens(*shape: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(3, len(VOCABULARY), shape, generator=generator)
    tokens[..., 0] = VOCABULARY.sos
    return tokens


def decode(model: RecognitionModel, tokens: Tensor, memory: object) -> StepOutput:
    return model.step(tokens, memory, model.initial_cache(memory, tokens.shape[1]))


def assert_close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_log_probabilities_are_normalized(model):
    log_probs = decode(model, random_tokens(3, 2, 6), model.encode(*batch_of(SIZES))).log_probs
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(3, 2, 6))


def test_padding_does_not_change_the_result(model):
    tokens = random_tokens(3, 2, 7)
    together = decode(model, tokens, model.encode(*batch_of(SIZES))).log_probs
    for number, image in enumerate(random_images(0, SIZES)):
        padded = (torch.from_numpy(part) for part in pad_images([image]))
        alone = decode(model, tokens[number : number + 1], model.encode(*padded)).log_probs
        assert_close(alone[0], together[number])


@pytest.mark.parametrize("length", [1, 3])
def test_cached_steps_equal_teacher_forcing(model, length):
    images, padding = batch_of(SIZES)
    tokens = random_tokens(3, 1, 7)
    expected = model(images, padding, tokens).logits.log_softmax(-1)
    memory = model.encode(images, padding)
    cache, parts = model.initial_cache(memory), []
    for piece in tokens.split(length, dim=2):
        output = model.step(piece, memory, cache)
        cache = output.cache
        parts.append(output.log_probs)
    assert_close(torch.cat(parts, dim=2), expected)


def test_batch_permutation_permutes_the_result(model):
    images, padding = batch_of(SIZES)
    tokens, order = random_tokens(3, 2, 5), torch.tensor([2, 0, 1])
    expected = decode(model, tokens, model.encode(images, padding)).log_probs[order]
    permuted = model.encode(images[order], padding[order])
    assert_close(decode(model, tokens[order], permuted).log_probs, expected)


def test_memory_and_cache_can_be_indexed_by_image_and_beam(model):
    """The search selects images and beams through the first two axes."""
    memory = model.encode(*batch_of(SIZES))
    tokens, last = random_tokens(3, 3, 5), random_tokens(3, 3, 1)
    cache = decode(model, tokens, memory).cache
    assert all(values.shape[:1] == (3,) for values in tensors(memory))
    assert all(values.shape[:2] == (3, 3) for values in tensors(cache))
    images, beams = torch.tensor([2, 0]), torch.tensor([[1, 1], [2, 0]])
    chosen = model.step(
        last[images[:, None], beams],
        map_tensors(lambda values: values[images], memory),
        map_tensors(lambda values: values[images[:, None], beams], cache),
    )
    expected = model.step(last, memory, cache).log_probs[images[:, None], beams]
    assert_close(chosen.log_probs, expected)


def test_beams_do_not_affect_each_other(model):
    memory = model.encode(*batch_of(SIZES[:1]))
    tokens = random_tokens(1, 3, 6)
    together = decode(model, tokens, memory).log_probs
    for beam in range(3):
        alone = decode(model, tokens[:, beam : beam + 1], memory).log_probs
        assert_close(alone[:, 0], together[:, beam])


def test_no_step_depends_on_later_tokens(model):
    memory = model.encode(*batch_of(SIZES[:1]))
    tokens = random_tokens(1, 1, 6)
    changed = tokens.clone()
    changed[..., 4] = 3 + (changed[..., 4] - 2) % (len(VOCABULARY) - 3)
    first, second = (decode(model, each, memory).log_probs for each in (tokens, changed))
    assert torch.equal(first[:, :, :4], second[:, :, :4])
    assert not torch.allclose(first[:, :, 4:], second[:, :, 4:])


def test_every_cell_inside_the_image_affects_the_result(model):
    images, padding = batch_of([(48, 64)])
    tokens = random_tokens(1, 1, 3)
    expected = decode(model, tokens, model.encode(images, padding)).log_probs
    for top, left in ((0, 0), (32, 48), (16, 32)):
        changed = images.clone()
        changed[..., top : top + 16, left : left + 16] = (
            1 - changed[..., top : top + 16, left : left + 16]
        )
        result = decode(model, tokens, model.encode(changed, padding)).log_probs
        assert not torch.allclose(result, expected)


def test_attention_is_a_distribution_over_the_image(model):
    images, padding = batch_of(SIZES)
    layers = model.attention_maps(random_tokens(3, 2, 5), model.encode(images, padding))
    outside = padding[:, ::16, ::16].flatten(1)[:, None, None, None]
    for weights, raw_weights, refinement in layers:
        for values in (weights, raw_weights):
            torch.testing.assert_close(values.sum(-1), torch.ones(values.shape[:-1]))
            assert not values[outside.expand_as(values)].any()
        if refinement is None:
            assert torch.equal(weights, raw_weights)
        else:
            refined = (raw_weights.log() - refinement).softmax(-1)
            torch.testing.assert_close(weights, refined, atol=1e-5, rtol=1e-3)
            assert not torch.allclose(weights, raw_weights)


def test_coverage_is_the_attention_of_all_but_structure_tokens(model):
    if not isinstance(model, PosFormer) or model.settings.refinement is None:
        pytest.skip("needs attention refinement")
    memory = model.encode(*batch_of(SIZES[:1]))
    caption = ["x", "^", "{", "2", "}", "+"]
    tokens = torch.tensor([[[VOCABULARY.sos, *VOCABULARY.encode(caption)]]])
    output = decode(model, tokens, memory)
    cache = getattr(output.cache, "decoder", output.cache)
    refinement = model.settings.refinement
    left_out = set() if refinement.structure == () else STRUCTURE
    # Step i receives the i-th token and decodes the one after it.
    decoded, received = caption, ["<sos>", *caption[:-1]]
    by_step = decoded if refinement.masked_by == "decoded" else received
    counted = torch.tensor([float(token not in left_out) for token in by_step])
    for layer in (1, 2):
        below, (_, raw_weights, _) = output.attention[layer - 1][0], output.attention[layer]
        maps = torch.cat((below, raw_weights), dim=3)[0, 0, :-1]
        expected = (maps * counted[:, None, None]).sum(0)
        torch.testing.assert_close(cache[layer].coverage.total[0, 0], expected)


def test_directions_differ_only_by_the_first_token(model):
    """Training batches hold both directions; swapping them swaps the result."""
    if model.config.decoder.directions == "forward":
        pytest.skip("decodes from left to right only")
    images, padding = batch_of(SIZES)
    tokens = random_tokens(3, 2, 5)
    tokens[:, 1, 0] = VOCABULARY.eos
    logits = model(images, padding, tokens).logits
    assert_close(model(images, padding, tokens.flip(1)).logits, logits.flip(1))
    same = tokens[:, :1].expand(-1, 2, -1).clone()
    same[:, 1, 0] = VOCABULARY.eos
    assert not torch.allclose(*model(images, padding, same).logits.unbind(1))


def test_abm_directions_are_symmetric():
    """Swapping the two decoders and the two directions swaps the logits and keeps the loss."""
    model = tiny_recurrent("abm")
    images, padding = batch_of(SIZES)
    tokens, targets = random_tokens(3, 2, 5), random_tokens(3, 2, 5, seed=2)
    before = model(images, padding, tokens, None, targets)
    model.decoder, model.backward_decoder = model.backward_decoder, model.decoder
    after = model(images, padding, tokens.flip(1), None, targets.flip(1))
    assert_close(after.logits, before.logits.flip(1))
    assert_close(after.losses["mutual"].total, before.losses["mutual"].total)


@pytest.mark.parametrize("form", ["heads", "shared", "separate"])
@pytest.mark.parametrize(
    "name", ["posformer", "dwap", "abm", "can", "robust_scanner", "rlfn", "ssan", "ding"]
)
def test_gradient_reaches_every_parameter(name, form):
    if name in ("posformer", "ical"):
        config = replace(tiny_config(symbol_map=True, name=name), position=form)
        model = tiny_model(0, ModelConfig.from_dict(config.to_dict()))
    elif name == "ding":
        settings = {"heads": 2, "layers": 2, "symbol_classifier": True}
        model = tiny_recurrent("dwap", settings, position=form, symbol_map=True)
    else:
        model = tiny_recurrent(name, position=form, symbol_map=True)
    model.train()
    images, padding = batch_of(SIZES)
    directions = 2 if name in ("posformer", "ical", "abm") else 1
    tokens, targets = random_tokens(3, directions, 6), random_tokens(3, directions, 6, seed=2)
    output = model(images, padding, tokens, torch.rand(3, directions, 6, 5), targets)
    parts = [
        output.logits,
        output.position.nested_levels,
        output.position.relative_positions,
        output.symbol_map,
    ]
    if output.distribution is not None:
        parts.append(torch.stack((output.distribution, -output.distribution), dim=-1))
    loss = sum(part.log_softmax(-1)[..., 0].sum() for part in parts)
    (loss + sum(each.total for each in output.losses.values())).backward()
    untouched = [
        name
        for name, weight in model.named_parameters()
        if weight.grad is None or not weight.grad.abs().max() > 1e-7
    ]
    # A constant added to all scores of a head does not change its attention.
    assert all(name.endswith("refinement.norm.bias") for name in untouched), untouched
