"""BPD: its targets, its parallel branches, its coverage along the tree."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given

from expressions import captions
from posformer.data import open_images
from posformer.errors import ConfigError, ModelError, UnknownTokenError
from posformer.latex import Vocabulary, split_caption
from posformer.latex.layout_tree import RELATIONS
from posformer.models import ModelConfig
from posformer.models.bpd import Bpd, ancestors
from posformer.models.bpd_targets import BpdTargets
from posformer.models.onnx_export import export_onnx
from posformer.models.padding import pad_images
from posformer.models.registry import create_model
from posformer.models.target_coding import ParallelCoding
from tiny import VOCABULARY, random_images, tiny_transformer

TARGETS = BpdTargets(VOCABULARY)
SOS, EOS = VOCABULARY.sos, VOCABULARY.eos
FRACTION = split_caption(r"\frac { a + 1 } { x } ^ { 2 } - \sqrt { a }")


def sets(*names: str) -> int:
    return TARGETS.first_set - 1 + sum(1 << RELATIONS.index(name) for name in names)


def start(name: str) -> int:
    return TARGETS.first_start + RELATIONS.index(name)


def steps_of(targets: BpdTargets, tokens: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the decoded steps of a caption, as a search finds them, without the last."""
    flat, (inputs, decoded, _) = [], targets.encode(tokens)
    step: tuple[int, ...] = (targets.vocabulary.sos,)
    place = 0
    while place < len(inputs):
        assert tuple(inputs[place : place + len(step)]) == step
        chosen = decoded[place : place + len(step)]
        flat.append(tuple(targets.vocabulary.eos if one < 0 else one for one in chosen))
        place, step = place + len(step), targets.next_inputs(step, flat[-1])
    assert set(flat[-1]) == {targets.vocabulary.eos}
    return flat[:-1]


class TestTargets:
    def test_branches_are_decoded_together(self) -> None:
        fraction, a, x, plus = map(VOCABULARY.index, (r"\frac", "a", "x", "+"))
        opens = sets("above", "below")
        expected = [(fraction,), (opens,), (plus, a, x), (x, EOS, EOS)]
        assert steps_of(TARGETS, split_caption(r"\frac { a } { x } + x")) == expected
        assert TARGETS.next_inputs((fraction,), (opens,)) == (opens, start("above"), start("below"))
        assert TARGETS.next_inputs((plus, a, x), (x, EOS, EOS)) == (x, EOS, EOS)
        assert TARGETS.next_inputs((x, EOS, EOS), (EOS, EOS, EOS)) == (EOS,)
        assert isinstance(TARGETS, ParallelCoding)

    @given(captions(max_leaves=8))
    def test_any_expression_is_restored(self, tokens: list[str]) -> None:
        targets = BpdTargets(Vocabulary.from_captions([tokens]))
        steps = steps_of(targets, tokens)
        assert targets.decode(steps) == tokens
        assert len(steps) <= targets.max_steps(len(tokens))

    def test_all_captions_of_crohme_are_restored(self, crohme_zip: Path) -> None:
        found = [list(one.tokens) for one in open_images(crohme_zip, "train")]
        targets = BpdTargets(Vocabulary.from_captions(found))
        lost = [one for one in found if targets.decode(steps_of(targets, one)) != one]
        assert (len(found), len(lost)) == (8834, 0)

    def test_unknown_tokens(self) -> None:
        with pytest.raises(UnknownTokenError):
            TARGETS.encode(["Q"])
        steps = TARGETS.encode(["Q", "x"], allow_unknown=True)
        assert steps.target_ids[0] == VOCABULARY.pad
        assert steps.input_ids[1] == TARGETS.blank

    def test_the_inputs_tell_which_step_continues_which(self) -> None:
        inputs = TARGETS.encode(split_caption(r"\frac { a } { x } + 1")).input_ids
        #      sos frac set  S-above S-below  + a x   1 end end
        expected = [-1, 0, 1, 2, 2, 2, 3, 4, 5, 6, 7]
        assert TARGETS.predecessors(inputs) == expected
        # Beams are padded to the largest number of branches.
        padded = [*inputs[:1], 0, *inputs[1:2], 0, 0, *inputs[2:5], 0]
        assert TARGETS.predecessors(padded) == [-1, -1, 0, -1, -1, 2, 5, 5, -1]

    def test_a_branch_without_a_symbol(self) -> None:
        assert TARGETS.decode([(sets("sup"),), (EOS, VOCABULARY.index("2"))]) == list("^{2}")


def test_ancestors() -> None:
    expected = [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0]]
    assert ancestors([-1, 0, 1, 0]).astype(int).tolist() == expected


def tiny_bpd(**changes: object) -> Bpd:
    model = tiny_transformer("bpd", **changes)
    assert isinstance(model, Bpd)
    if model.stack.refinement is not None:
        with torch.no_grad():
            model.stack.refinement.norm.weight.mul_(3)
    return model


def encoded(model: Bpd):
    batch, padding = (torch.from_numpy(part) for part in pad_images(random_images(0, [(40, 60)])))
    return model.encoder(batch, padding)


@torch.inference_mode()
def decoded(
    model: Bpd, tokens: Sequence[str], slots: int = 0
) -> dict[tuple[int, int], torch.Tensor]:
    """Return the log-probabilities of each input, by step and slot, decoded step by step."""
    memory = model.prepare_memory(encoded(model))
    cache, found = model.initial_cache(memory), {}
    inputs: tuple[int, ...] = (SOS,)
    for number, chosen in enumerate([*steps_of(TARGETS, tokens), ()]):
        padded = [*inputs, *[VOCABULARY.pad] * (slots - len(inputs))]
        output = model.step(torch.tensor([[padded]]), memory, cache)
        cache = output.cache
        found |= {(number, slot): output.log_probs[0, 0, slot] for slot in range(len(inputs))}
        inputs = TARGETS.next_inputs(inputs, chosen) if chosen else ()
    return found


class TestDecoder:
    @pytest.mark.parametrize("slots", [0, 5])
    def test_teacher_forcing_equals_decoding(self, slots: int) -> None:
        model, steps = tiny_bpd(), TARGETS.encode(FRACTION)
        with torch.inference_mode():
            output = model.forward_decoder(encoded(model), torch.tensor([[steps.input_ids]]))
        found = torch.stack(list(decoded(model, FRACTION, slots).values()))
        counts = torch.tensor(steps.target_ids) >= 0
        expected = output.logits[0, 0]
        torch.testing.assert_close(found[counts], expected[counts], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(found.exp().sum(-1), torch.ones(len(found)))

    def test_an_ended_branch_costs_nothing(self) -> None:
        found = decoded(tiny_bpd(), split_caption(r"\frac { a } { x } + x"))
        assert found[4, 1][EOS] == 0 and found[4, 1].exp().sum() == 1

    def test_parallel_branches_do_not_see_each_other(self) -> None:
        """What the numerator says changes neither the denominator nor the rest of the row."""
        model = tiny_bpd()
        one, other = (
            decoded(model, split_caption(caption))
            for caption in (r"\frac { a + 1 } { x - 2 } + 1", r"\frac { 2 1 a } { x - 2 } + 1")
        )
        for place in [(4, 0), (4, 2), (5, 2)]:  # `+ 1`, `x -`, `x - 2`
            torch.testing.assert_close(one[place], other[place])
        assert not torch.allclose(one[4, 1], other[4, 1])

    def test_a_branch_sees_where_it_was_opened(self) -> None:
        model = tiny_bpd()
        one, other = (
            decoded(model, split_caption(caption)) for caption in ("a x ^ { 2 }", "a 1 ^ { 2 }")
        )
        assert not torch.allclose(one[3, 1], other[3, 1])

    def test_branches_are_decoded_in_fewer_steps_than_a_sequence(self) -> None:
        tokens = split_caption(r"\frac { a + 1 } { x + 2 } + \frac { 1 } { 2 }")
        steps = steps_of(TARGETS, tokens)
        assert len(steps) + 1 == 7 < len(tokens)

    def test_coverage_follows_the_branch(self) -> None:
        """Refinement of a branch depends on its ancestors, and is absent without refinement."""
        model = tiny_bpd()
        steps = TARGETS.encode(FRACTION)
        inputs = torch.tensor([[steps.input_ids]])
        with torch.inference_mode():
            usual = model.forward_decoder(encoded(model), inputs).logits
            assert model.stack.refinement is not None
            model.stack.refinement.look.weight.zero_()
            without = model.forward_decoder(encoded(model), inputs).logits
        torch.testing.assert_close(without[0, 0, 0], usual[0, 0, 0])  # no coverage yet
        assert not torch.allclose(without[0, 0, 1:], usual[0, 0, 1:])
        decoder = {"refinement": None, "width": 32, "heads": 4, "layers": 1, "feedforward": 8}
        assert tiny_bpd(decoder=decoder).stack.refinement is None


def test_it_runs_on_pytorch_only(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="runs on PyTorch only"):
        export_onnx(tiny_bpd(), tmp_path, tmp_path / "weights")


@pytest.mark.parametrize("changes", [{"position": "heads"}, {"decoder": {"directions": "both"}}])
def test_settings_of_sequence_models_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="decodes a tree"):
        create_model(ModelConfig.from_dict({"name": "bpd", **changes}), VOCABULARY)


def test_parameters_are_those_of_comer() -> None:
    """The publication states none; encoder and decoder are those of CoMER: 6.4 million."""
    tokens = Vocabulary([f"w{number}" for number in range(110)])
    model = create_model(ModelConfig.from_dict({"name": "bpd"}), tokens).for_inference()
    assert sum(weight.numel() for weight in model.parameters()) == pytest.approx(6.4e6, rel=0.05)
