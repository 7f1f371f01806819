"""SAN: its targets, its stack of branches, its losses; and DWAP with SAN as a second task."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from torch import Tensor

from expressions import captions
from posformer.data import open_images
from posformer.errors import ConfigError, UnknownTokenError
from posformer.latex import Vocabulary
from posformer.latex.layout_tree import RELATIONS, layout_tree
from posformer.models import ModelConfig
from posformer.models.dwap_san import DwapSan
from posformer.models.padding import pad_images
from posformer.models.registry import create_model
from posformer.models.san import San, parent_steps
from posformer.models.san_targets import SanTargets
from posformer.models.target_coding import open_target_coding
from tiny import VOCABULARY, random_images, tiny_recurrent

TARGETS = SanTargets(VOCABULARY)
FRACTION = [
    r"\frac",
    r"{",
    r"a",
    r"+",
    r"1",
    r"}",
    r"{",
    r"x",
    r"}",
    r"^",
    r"{",
    r"2",
    r"}",
    r"-",
    r"\sqrt",
    r"{",
    r"a",
    r"}",
]


def sets(*names: str) -> int:
    """Return the id of a set of relations."""
    return TARGETS.first_set - 1 + sum(1 << RELATIONS.index(name) for name in names)


class TestTargets:
    def test_branches_are_decoded_depth_first(self) -> None:
        index, end = VOCABULARY.index, TARGETS.end
        ids = [index(r"\frac"), sets("above", "below", "right"), index("a"), end, index("x"), end]
        ids += [index("+"), index("1"), VOCABULARY.eos]
        steps = TARGETS.encode([r"\frac", r"{", r"a", r"}", r"{", r"x", r"}", r"+", r"1"])
        assert steps.target_ids == ids
        assert steps.input_ids == [VOCABULARY.sos, *ids[:-1]]
        assert steps.sources == [0, -1, 2, -1, 5, -1, 7, 8, -1]
        assert TARGETS.decode(ids[:-1]) == [
            r"\frac",
            r"{",
            r"a",
            r"}",
            r"{",
            r"x",
            r"}",
            r"+",
            r"1",
        ]

    @pytest.mark.parametrize("caption", ["", "^ { 1 2 } x _ { 2 }", r"\sqrt { }", "x ^ { }"])
    def test_missing_symbols_are_represented(self, caption: str) -> None:
        steps = TARGETS.encode(caption.split())
        assert TARGETS.decode(steps.target_ids[:-1]) == caption.split()

    @given(captions(max_leaves=8))
    def test_any_expression_is_restored(self, tokens: list[str]) -> None:
        targets = SanTargets(Vocabulary.from_captions([tokens]))
        ids = targets.encode(tokens).target_ids
        assert targets.decode(ids[:-1]) == tokens
        assert len(ids) - 1 <= targets.max_steps(len(tokens))
        assert max(ids) < targets.size

    def test_all_captions_of_crohme_are_restored(self, crohme_zip: Path) -> None:
        found = [list(one.tokens) for one in open_images(crohme_zip, "train")]
        targets = SanTargets(Vocabulary.from_captions(found))
        lost = [one for one in found if targets.decode(targets.encode(one).target_ids) != one]
        assert (len(found), len(lost)) == (8834, 0)

    def test_unknown_tokens(self) -> None:
        with pytest.raises(UnknownTokenError):
            TARGETS.encode(["Q"])
        assert TARGETS.encode(["Q"], allow_unknown=True).target_ids[0] == VOCABULARY.pad

    def test_incomplete_steps_have_a_caption(self) -> None:
        assert TARGETS.decode([sets("sup"), VOCABULARY.index("2")]) == ["^", "{", "2", "}"]
        fraction = [VOCABULARY.index(r"\frac"), sets("above", "below"), VOCABULARY.index("1")]
        assert TARGETS.decode(fraction) == [r"\frac", r"{", r"1", r"}", r"{", r"}"]


def tiny_san() -> San:
    model = tiny_recurrent("san")
    assert isinstance(model, San)
    return model


def encoded(model: San) -> tuple[object, object]:
    batch, padding = (torch.from_numpy(part) for part in pad_images(random_images(0, [(40, 60)])))
    features = model.encoder(batch, padding)
    return features, model.prepare_memory(features)


def log_probs(model: San, ids: list[int]) -> Tensor:
    """Return the log-probabilities after each id, (steps, ids)."""
    _, memory = encoded(model)
    cache = model.initial_cache(memory)
    with torch.inference_mode():
        return model.step(torch.tensor([[ids]]), memory, cache).log_probs[0, 0]


class TestDecoder:
    def test_a_branch_continues_from_the_state_that_opened_it(self) -> None:
        """What the numerator says does not change the denominator: state and coverage return."""
        model, index = tiny_san(), VOCABULARY.index
        start = [VOCABULARY.sos, index(r"\frac"), sets("above", "below")]
        results = [
            log_probs(model, [*start, *map(index, above), TARGETS.end, index("x")])
            for above in ("1", "a+2")
        ]
        torch.testing.assert_close(results[0][-2:], results[1][-2:])
        assert not torch.allclose(results[0][3], results[1][3])

    def test_relations_of_a_branch_are_read(self) -> None:
        model, x = tiny_san(), VOCABULARY.index("x")
        sup, sub = (log_probs(model, [VOCABULARY.sos, x, sets(one)])[-1] for one in ("sup", "sub"))
        assert not torch.allclose(sup, sub)

    def test_the_end_of_the_expression_needs_all_branches_closed(self) -> None:
        model, index, eos = tiny_san(), VOCABULARY.index, VOCABULARY.eos
        ids = [VOCABULARY.sos, index("x"), sets("sub", "sup"), index("1"), TARGETS.end, index("2")]
        found = log_probs(model, ids)
        may_end = [True, True, False, False, True, True]
        assert (found[:, eos] > -100).tolist() == may_end
        assert (found[:, TARGETS.end] > -100).tolist() == [not one for one in may_end]

    def test_decisions_are_a_distribution(self) -> None:
        ids = TARGETS.encode(FRACTION).input_ids
        found = log_probs(tiny_san(), ids)
        torch.testing.assert_close(found.exp().sum(-1), torch.ones(len(ids)))

    def test_sets_of_relations_multiply_sigmoids(self) -> None:
        model = tiny_san()
        with torch.no_grad():
            model.decoder.head.relate.weight.zero_()
            model.decoder.head.relate.bias.copy_(torch.tensor([5.0, 5.0, -5, -5, -5, -5, 0]))
        found = log_probs(model, [VOCABULARY.sos])[0]
        fraction, longer = found[sets("above", "below")], found[sets("above", "below", "right")]
        torch.testing.assert_close(fraction, longer)
        torch.testing.assert_close(found[sets("above")] - fraction, torch.tensor(-5.0))

    def test_steps_one_by_one_equal_all_at_once(self) -> None:
        model = tiny_san()
        ids = torch.tensor([[TARGETS.encode(FRACTION).input_ids]])
        _, memory = encoded(model)
        with torch.inference_mode():
            whole = model.step(ids, memory, model.initial_cache(memory)).log_probs
            cache, parts = model.initial_cache(memory), []
            for one in ids.split(1, -1):
                output = model.step(one, memory, cache)
                cache = output.cache
                parts.append(output.log_probs)
        torch.testing.assert_close(torch.cat(parts, 2), whole)


class TestTraining:
    def test_the_parent_of_every_symbol_is_known(self) -> None:
        model = tiny_san()
        steps = TARGETS.encode(FRACTION)
        _, memory = encoded(model)
        output = model.decoder(torch.tensor([[steps.input_ids]]), memory)
        parents = parent_steps(output, TARGETS.blank + 1)[0, 0].tolist()
        symbols = [one for one, source in enumerate(steps.sources) if source >= 0]
        expected = [one.parent for one in layout_tree(FRACTION)]
        found = [symbols.index(parents[one]) if parents[one] >= 0 else -1 for one in symbols]
        assert found == expected

    def losses(self, model: San) -> dict[str, Tensor]:
        steps = TARGETS.encode(FRACTION)
        features, _ = encoded(model)
        inputs, targets = (torch.tensor([[part]]) for part in steps[:2])
        output = model.forward_decoder(features, inputs, None, targets)  # type: ignore[arg-type]
        assert {loss.terms.item() for loss in output.losses.values()} == {8.0}
        return {name: loss.total for name, loss in output.losses.items()}

    def test_both_decoders_learn_from_the_agreement_of_their_attention(self) -> None:
        model = tiny_san()
        found = self.losses(model)
        assert set(found) == {"parent", "attention_agreement"}
        found["attention_agreement"].backward()
        assert model.child_to_parent is not None
        for stack in (model.decoder.stack, model.child_to_parent.stack):
            assert stack.attention.score.weight.grad.abs().max() > 0

    def test_losses_do_not_depend_on_padding(self) -> None:
        model = tiny_san()
        steps = TARGETS.encode(FRACTION)
        features, _ = encoded(model)
        alone = self.losses(model)
        inputs = torch.tensor([[[*steps.input_ids, 0, 0]]])
        targets = torch.tensor([[[*steps.target_ids, -100, -100]]])
        output = model.forward_decoder(features, inputs, None, targets)  # type: ignore[arg-type]
        for name, loss in output.losses.items():
            torch.testing.assert_close(loss.total, alone[name])

    def test_the_second_decoder_is_absent_at_inference(self) -> None:
        model = tiny_san().for_inference()
        assert not any(name.startswith("child_to_parent") for name in model.state_dict())

    def test_the_position_forest_needs_a_sequence(self) -> None:
        with pytest.raises(ConfigError, match="decodes a tree"):
            tiny_recurrent("san", position="heads")


def test_parameters_are_those_of_dwap() -> None:
    """The publication states none; encoder and decoder are those of DWAP, which has 4.7 million."""
    tokens = Vocabulary([f"w{number}" for number in range(110)])
    for name in ("san", "dwap_san"):
        model = create_model(ModelConfig.from_dict({"name": name}), tokens).for_inference()
        size = sum(weight.numel() for weight in model.parameters())
        assert size == pytest.approx(4.7e6, rel=0.05)


class TestDwapWithSan:
    def test_the_tree_is_learned_and_not_used_at_inference(self) -> None:
        model = tiny_recurrent("dwap_san")
        assert isinstance(model, DwapSan) and open_target_coding(model.config, VOCABULARY) is None
        batch, padding = (torch.from_numpy(p) for p in pad_images(random_images(0, [(40, 60)] * 2)))
        rows = [VOCABULARY.encode(one.split()) for one in ("x ^ { 2 }", "a")]
        targets = torch.full((2, 1, 6), -100)
        for row, ids in zip(targets[:, 0], rows, strict=True):
            row[: len(ids) + 1] = torch.tensor([*ids, VOCABULARY.eos])
        inputs = targets.clamp(min=0).roll(1, -1)
        output = model.train()(batch, padding, inputs, None, targets)
        assert output.losses["tree"].terms.item() == 4 + 2  # x, struct, 2, end; a, end
        output.losses["tree"].total.backward()
        assert model.encoder.net.stem.weight.grad.abs().max() > 0  # type: ignore[union-attr]
        assert "tree" not in model.eval()(batch, padding, inputs, None, targets).losses
        assert model.for_inference().tree_decoder is None
