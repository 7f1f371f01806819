"""TSDNet: its targets, its attention along the tree, its pointer."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from torch import Tensor

from expressions import captions
from posformer.data import open_images
from posformer.errors import ConfigError, LatexError, ModelError, UnknownTokenError
from posformer.latex import Vocabulary, split_caption
from posformer.latex.layout_tree import RIGHT, SUB, SUP, layout_tree
from posformer.models import ModelConfig
from posformer.models.onnx_export import export_onnx
from posformer.models.padding import pad_images
from posformer.models.registry import create_model
from posformer.models.tsdnet import Tsdnet, tree_distances
from posformer.models.tsdnet_targets import MAX_NODES, TsdnetTargets
from tiny import VOCABULARY, random_images, tiny_transformer

TARGETS = TsdnetTargets(VOCABULARY)
FRACTION = split_caption(r"\frac { a + 1 } { x } ^ { 2 } - \sqrt { a }")


def pair(token: str, relation: int) -> int:
    return TARGETS.first_pair + VOCABULARY.index(token) * 7 + relation


def pointer(node: int) -> int:
    return TARGETS.first_pointer + node


class TestTargets:
    def test_a_node_is_a_symbol_with_its_relation_and_a_pointer(self) -> None:
        ids = [pair("x", RIGHT), pointer(0), pair("2", SUP), pointer(1)]
        ids += [pair("+", RIGHT), pointer(1), VOCABULARY.eos]
        steps = TARGETS.encode(split_caption("x ^ { 2 } +"))
        assert steps.target_ids == ids
        assert steps.input_ids == [VOCABULARY.sos, *ids[:-1]]
        assert steps.sources == [0, -1, 3, -1, 5, -1, -1]

    @given(captions(max_leaves=8))
    def test_any_expression_is_restored(self, tokens: list[str]) -> None:
        targets = TsdnetTargets(Vocabulary.from_captions([tokens]))
        ids = targets.encode(tokens).target_ids
        assert targets.decode(ids[:-1]) == tokens
        assert len(ids) - 1 <= targets.max_steps(len(tokens))

    def test_all_captions_of_crohme_are_restored(self, crohme_zip: Path) -> None:
        found = [list(one.tokens) for one in open_images(crohme_zip, "train")]
        targets = TsdnetTargets(Vocabulary.from_captions(found))
        lost = [one for one in found if targets.decode(targets.encode(one).target_ids[:-1]) != one]
        assert (len(found), len(lost)) == (8834, 0)

    def test_captions_that_are_too_long_or_unknown(self) -> None:
        with pytest.raises(LatexError, match=r"600 symbols; TSDNet reads 511"):
            TARGETS.encode(["x"] * 600)
        with pytest.raises(UnknownTokenError):
            TARGETS.encode(["Q"])

    def test_steps_in_the_wrong_order_end_the_caption(self) -> None:
        assert TARGETS.decode([pair("x", RIGHT), pointer(0), pointer(0), pair("x", SUB)]) == ["x"]
        assert TARGETS.decode([pair("x", RIGHT), pointer(7)]) == []


def test_distances_are_hops_in_the_tree() -> None:
    """A chain 0-1-2-3 with a second child 4 of node 1."""
    expected = [[0, 1, 2, 3, 2], [1, 0, 1, 2, 1], [2, 1, 0, 1, 2], [3, 2, 1, 0, 3], [2, 1, 2, 3, 0]]
    assert tree_distances(torch.tensor([0, 0, 1, 2, 1]), hops=2).tolist() == expected


def tiny_tsdnet() -> Tsdnet:
    model = tiny_transformer("tsdnet")
    assert isinstance(model, Tsdnet)
    return model


def encoded(model: Tsdnet):
    batch, padding = (torch.from_numpy(part) for part in pad_images(random_images(0, [(40, 60)])))
    return model.encoder(batch, padding)


def log_probs(model: Tsdnet, ids: list[int]) -> Tensor:
    with torch.inference_mode():
        memory = model.prepare_memory(encoded(model))
        return model.step(torch.tensor([[ids]]), memory, model.initial_cache(memory)).log_probs[
            0, 0
        ]


class TestDecoder:
    def test_both_decoders_take_turns(self) -> None:
        found = log_probs(tiny_tsdnet(), TARGETS.encode(FRACTION).input_ids).exp()
        torch.testing.assert_close(found.sum(-1), torch.ones(len(found)))
        pointers = found[:, TARGETS.first_pointer :]
        torch.testing.assert_close(pointers[1::2].sum(-1), torch.ones(len(found) // 2))
        assert not pointers[::2].any()
        for row, node in zip(pointers[1::2], range(1, MAX_NODES), strict=False):
            assert row[:node].all() and not row[node:].any()  # earlier nodes only

    def test_teacher_forcing_equals_decoding(self) -> None:
        model = tiny_tsdnet()
        ids = TARGETS.encode(FRACTION).input_ids
        with torch.inference_mode():
            logits = model.forward_decoder(encoded(model), torch.tensor([[ids]])).logits[0, 0]
        found = log_probs(model, ids)
        kept = found > -100
        torch.testing.assert_close(logits[kept], found[kept], atol=1e-5, rtol=1e-4)

    def test_attention_is_restricted_to_near_nodes(self) -> None:
        """With one layer, a symbol four hops away changes nothing, one two hops away does.

        A node also reads its parent's symbol, so that three hops are within reach.
        """
        model = tiny_tsdnet()
        for stack in (model.child, model.parent):
            del stack.layers[1:]
        row = [VOCABULARY.sos]
        for node, token in enumerate("x1x2x"):
            row += [pair(token, RIGHT), pointer(node)]
        far, near = list(row), list(row)
        far[1], near[5] = pair("a", RIGHT), pair("a", RIGHT)  # nodes 1 and 3 of 5
        usual, changed, near_changed = (log_probs(model, ids)[-1] for ids in (row, far, near))
        torch.testing.assert_close(changed, usual)
        assert not torch.allclose(near_changed, usual)

    def test_distances_have_a_learned_bias(self) -> None:
        model = tiny_tsdnet()
        ids = TARGETS.encode(FRACTION).input_ids
        before = log_probs(model, ids)
        with torch.no_grad():
            model.child_bias.weight[1, 0] += 2.0
        assert not torch.allclose(log_probs(model, ids)[-1], before[-1])

    def test_the_chosen_parent_is_read(self) -> None:
        model = tiny_tsdnet()
        start = [VOCABULARY.sos, pair("x", RIGHT), pointer(0), pair("2", SUP), pointer(1)]
        one, other = (
            log_probs(model, [*start, pair("+", RIGHT), pointer(node)])[-1] for node in (1, 2)
        )
        assert not torch.allclose(one, other)


class TestTraining:
    def test_the_parent_loss_counts_nodes(self) -> None:
        model = tiny_tsdnet()
        steps = TARGETS.encode(FRACTION)
        inputs = torch.tensor([[[*steps.input_ids, 0, 0]]])
        targets = torch.tensor([[[*steps.target_ids, -100, -100]]])
        output = model.forward_decoder(encoded(model), inputs, None, targets)
        loss = output.losses["parent"]
        assert loss.terms.item() == len(layout_tree(FRACTION))
        loss.total.backward()
        assert model.parent.layers[0].expand.weight.grad.abs().max() > 0  # type: ignore[union-attr]
        assert output.attention[0].shape[:3] == inputs.shape

    def test_an_empty_caption(self) -> None:
        model = tiny_tsdnet()
        output = model.forward_decoder(encoded(model), torch.tensor([[[VOCABULARY.sos]]]))
        assert output.logits.shape == (1, 1, 1, TARGETS.size)


def test_it_runs_on_pytorch_only(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="runs on PyTorch only"):
        export_onnx(tiny_tsdnet(), tmp_path, tmp_path / "weights")


@pytest.mark.parametrize("changes", [{"position": "heads"}, {"decoder": {"directions": "both"}}])
def test_settings_of_sequence_models_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="decodes a tree"):
        create_model(ModelConfig.from_dict({"name": "tsdnet", **changes}), VOCABULARY)


def test_layers_and_width_are_those_of_the_publication() -> None:
    model = create_model(ModelConfig.from_dict({"name": "tsdnet"}), VOCABULARY)
    assert isinstance(model, Tsdnet)
    assert (len(model.child.layers), len(model.parent.layers)) == (3, 3)
    assert model.settings.width == 256 and model.settings.hops == 2
