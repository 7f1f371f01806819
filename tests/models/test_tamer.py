"""TAMER: parents of tokens, the structure loss, and the score of finished hypotheses."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from posformer.latex import split_caption
from posformer.latex.layout_tree import symbol_parents
from posformer.models.padding import pad_images
from posformer.models.tamer import Tamer
from posformer.runtime.caption_search import search_captions
from posformer.runtime.pytorch_runtime import PyTorchRuntime
from posformer.search import DecodingOptions
from tiny import VOCABULARY, random_images, tiny_transformer

SOS, EOS = VOCABULARY.sos, VOCABULARY.eos
CAPTION = split_caption(r"\frac { a } { x ^ { 2 } } + 1")
IDS = tuple(VOCABULARY.encode(CAPTION))


def tiny_tamer(directions: str = "both") -> Tamer:
    decoder = {"width": 32, "heads": 4, "layers": 2, "feedforward": 48, "dropout": 0.0}
    decoder |= {"attention_dropout": 0.0, "directions": directions}  # type: ignore[dict-item]
    model = tiny_transformer("tamer", decoder=decoder)
    assert isinstance(model, Tamer)
    return model


def batch_of(count: int) -> tuple[Tensor, Tensor]:
    images = random_images(0, [(40, 60), (64, 80)][:count])
    return tuple(torch.from_numpy(part) for part in pad_images(images))  # type: ignore[return-value]


def both_directions(ids: tuple[int, ...]) -> Tensor:
    return torch.tensor([[[*ids, EOS], [*ids[::-1], SOS]]])


def test_parents_of_tokens() -> None:
    #           \frac { a } { x ^ { 2 } } + 1
    expected = [-1, None, 0, None, None, 0, None, None, 5, None, None, 0, 11]
    assert symbol_parents(CAPTION) == expected
    assert symbol_parents(split_caption("^ { 2 } x")) == [None, None, -1, None, -1]


class TestTargets:
    def test_tokens_point_at_the_step_of_their_parent(self) -> None:
        model, end = tiny_tamer(), len(IDS)
        found = model._targets([*IDS, EOS, -100])
        parents = symbol_parents(CAPTION)
        expected = [-100 if one is None else end if one < 0 else one for one in parents]
        assert found == [*expected, -100, -100]

    def test_right_to_left_is_mirrored(self) -> None:
        model, last = tiny_tamer(), len(IDS) - 1
        forward, backward = model._targets([*IDS, EOS]), model._targets([*IDS[::-1], SOS])
        assert [
            one if one in (-100, last + 1) else last - one for one in backward[:-1][::-1]
        ] == forward[:-1]

    def test_unknown_tokens_have_no_parents(self) -> None:
        assert set(tiny_tamer()._targets([VOCABULARY.pad, IDS[0], EOS])) == {-100}


class TestTraining:
    def loss(self, model: Tamer, targets: Tensor):
        inputs = targets.clamp(min=0).roll(1, -1)
        return model(*batch_of(1), inputs, None, targets).losses["structure"]

    def test_the_structure_loss_trains_the_decoder(self) -> None:
        model = tiny_tamer()
        loss = self.loss(model, both_directions(IDS))
        assert loss.terms.item() == 2 * 6  # six symbols
        loss.total.backward()
        for module in model.tree:
            assert module.query.weight.grad.abs().max() > 0  # type: ignore[union-attr]
        assert model.decoder.embed.weight.grad.abs().max() > 0  # type: ignore[union-attr]

    def test_it_does_not_depend_on_padding(self) -> None:
        model, targets = tiny_tamer(), both_directions(IDS)
        padded = torch.nn.functional.pad(targets, (0, 3), value=-100)
        inputs = torch.nn.functional.pad(targets.roll(1, -1), (0, 3))
        with torch.no_grad():
            alone = self.loss(model, targets).total
            together = model(*batch_of(1), inputs, None, padded).losses["structure"].total
        torch.testing.assert_close(alone, together)


class TestTreeScore:
    @torch.no_grad()
    def test_it_is_the_mean_log_probability_of_the_parents(self) -> None:
        model = tiny_tamer()
        batch, padding = batch_of(1)
        targets = both_directions(IDS)
        inputs = torch.tensor([[[SOS, *IDS], [EOS, *IDS[::-1]]]])
        loss = model(batch, padding, inputs, None, targets).losses["structure"]
        ((score,),) = model.tree_scores([[IDS]], model.encode(batch, padding))
        assert score == pytest.approx(-(loss.total / loss.terms).item(), abs=1e-5)

    @torch.no_grad()
    def test_it_does_not_depend_on_other_hypotheses(self) -> None:
        model = tiny_tamer()
        memory = model.encode(*batch_of(2))
        together = model.tree_scores([[IDS, IDS[-2:]], [IDS[-1:]]], memory)
        assert [len(one) for one in together] == [2, 1]
        alone = model.tree_scores([[IDS[-2:]], []], memory)
        assert alone[0][0] == pytest.approx(together[0][1], abs=1e-5) and alone[1] == []

    @pytest.mark.parametrize("directions", ["both", "forward"])
    def test_finished_hypotheses_are_ranked_by_it(self, directions: str) -> None:
        runtime = PyTorchRuntime(tiny_tamer(directions))
        images = random_images(0, [(40, 60), (64, 80)])
        options = DecodingOptions(beam=6, scales=2, top_k=3, max_length=5, finished=6)
        options = options.resolve(runtime.config.decoder.directions)  # type: ignore[arg-type]
        changed = 0
        for image in images:
            pair = [image, image[:, ::-1].copy()]  # two scales of one expression
            plain, usual, heavy = (
                self.found(runtime, pair, replace(options, tree_weight=weight))
                for weight in (0.0, 1.0, 100.0)
            )
            trees = runtime.encode(pair).tree_scores([[one.tokens for one in usual]] * 2)
            scores = {one.tokens: one.score for one in self.found(runtime, pair, options, top_k=6)}
            assert [one.score for one in usual] == sorted(one.score for one in usual)[::-1]
            for one, tree in zip(usual, np.mean(trees, axis=0), strict=True):
                assert one.score == pytest.approx(scores[one.tokens] + tree, abs=1e-4)
            changed += [one.tokens for one in plain] != [one.tokens for one in heavy]
        assert changed

    def found(
        self, runtime: PyTorchRuntime, images: list, options: DecodingOptions, top_k: int = 0
    ):
        if top_k:
            options = replace(options, top_k=top_k, tree_weight=0.0)
        model = runtime.encode(images)
        ((*best,),) = search_captions(
            model, runtime.config, VOCABULARY, options, [99] * len(images)
        )
        return best

    def test_greedy_search_has_nothing_to_rank(self) -> None:
        runtime = PyTorchRuntime(tiny_tamer())
        options = DecodingOptions(greedy=True, max_length=5)
        images = random_images(0, [(40, 60)])
        results = [
            search_captions(
                runtime.encode(images),
                runtime.config,
                VOCABULARY,
                replace(options, tree_weight=one).resolve(),
                [99],
            )
            for one in (0.0, 1.0)
        ]
        assert results[0] == results[1]
