"""Batches: decoder input, targets, and the targets of the ink losses."""

import numpy as np
import pytest
import torch

from posformer.errors import UnknownTokenError
from posformer.latex import Vocabulary
from posformer.models import PositionConfig
from posformer.models.san_targets import SanTargets
from posformer.training.collate import IGNORE, Batch, Collator, RenderedSample

VOCABULARY = Vocabulary(["1", "2", "^", "x", "{", "}"])
SOS, EOS = VOCABULARY.sos, VOCABULARY.eos
RNG = np.random.default_rng(0)


def example(text: str, boxes: np.ndarray | None = None, **options: object) -> RenderedSample:
    return RenderedSample("e", tuple(text.split()), np.zeros((20, 40), np.uint8), boxes, **options)  # type: ignore[arg-type]


def collate(*examples: RenderedSample, **options: object) -> Batch:
    return Collator(VOCABULARY, PositionConfig(form="shared"), **options)(examples, RNG)  # type: ignore[arg-type]


def test_a_batch_has_both_directions_of_an_image() -> None:
    batch = collate(example("x ^ { 2 }"))
    ids = VOCABULARY.encode(["x", "^", "{", "2", "}"])
    assert batch.input_ids[0].tolist() == [[SOS, *ids], [EOS, *ids[::-1]]]
    assert batch.target_ids[0].tolist() == [[*ids, EOS], [*ids[::-1], SOS]]


def test_a_sample_can_have_one_direction() -> None:
    batch = collate(example("1 2", reverse=True))
    assert batch.input_ids[0].tolist() == [[EOS, *VOCABULARY.encode(["2", "1"])]]


def test_a_target_coding_makes_the_steps_and_finds_their_ink() -> None:
    coding = SanTargets(VOCABULARY)
    boxes = np.full((5, 4), np.nan, np.float32)
    boxes[0], boxes[3] = (2, 8, 14, 18), (30, 2, 38, 8)  # x and 2
    collator = Collator(VOCABULARY, None, with_ink=True, coding=coding)
    batch = collator([example("x ^ { 2 }", boxes), example("1", boxes[:1])], RNG)
    steps = coding.encode(["x", "^", "{", "2", "}"])
    assert batch.input_ids[0, 0].tolist() == steps.input_ids
    assert batch.target_ids[0, 0].tolist() == steps.target_ids
    assert batch.target_ids[1, 0].tolist() == [VOCABULARY.index("1"), EOS, IGNORE, IGNORE]
    assert batch.attention_targets is not None
    touched = batch.attention_targets[0, 0]
    assert touched.any(-1).tolist() == [True, False, True, False]
    assert not (touched[0] & touched[2]).any()


def test_targets_after_the_end_are_ignored() -> None:
    batch = collate(example("1"), example("1 2 x"))
    assert batch.target_ids[0, 0].tolist() == [VOCABULARY.index("1"), EOS, IGNORE, IGNORE]
    assert batch.nested_levels is not None
    assert batch.nested_levels[0, 0].tolist() == [0, IGNORE, IGNORE, IGNORE]


def test_identifiers_belong_to_the_input_and_positions_to_the_target() -> None:
    batch = collate(example("x ^ { 2 }"))
    assert (
        batch.position_identifiers is not None
        and batch.nested_levels is not None
        and batch.relative_positions is not None
    )
    M, L = 3, 4
    expected = [[SOS, 0, 0, 0, 0], [M, 0, 0, 0, 0], *[[M, L, 0, 0, 0]] * 4]
    assert batch.position_identifiers[0, 0].tolist() == expected
    assert batch.nested_levels[0, 0].tolist() == [0, 1, 1, 1, 1, IGNORE]
    assert batch.relative_positions[0, 0].tolist() == [M, L, L, L, L, IGNORE]
    assert batch.relative_positions[0, 1].tolist() == [L, L, L, L, M, IGNORE]
    assert batch.position_identifiers[0, 1, 0].tolist() == [EOS, 0, 0, 0, 0]


def test_deeper_levels_count_as_the_last_one() -> None:
    deep = "x ^ { x ^ { x ^ { x ^ { x ^ { x ^ { 1 } } } } } }"
    batch = collate(example(deep))
    assert batch.nested_levels is not None and int(batch.nested_levels.max()) == 4


def test_identifiers_match_the_authors_program(reference: object) -> None:
    """Compare with the stored inputs and targets of their program."""
    import json
    from pathlib import Path

    folder = Path(str(reference))
    vocabulary = Vocabulary.load(folder / "crohme_dictionary.txt")
    captions = json.loads((folder / "posformer_reference_small.json").read_text())["captions"]
    with np.load(folder / "posformer_reference_small.npz") as stored:
        inputs, levels, tokens = (
            stored[name] for name in ("position_input", "level_target", "tgt")
        )
    collator = Collator(vocabulary, PositionConfig(form="separate", coding="authors"))
    batch = collator([example(caption) for caption in captions], RNG)
    assert batch.position_identifiers is not None and batch.nested_levels is not None
    for direction in (0, 1):
        part = slice(8 * direction, 8 * direction + 8)
        is_input = tokens[part] != 0
        np.testing.assert_array_equal(batch.input_ids[:, direction], tokens[part])
        np.testing.assert_array_equal(
            batch.position_identifiers[:, direction].numpy()[is_input], inputs[part][is_input]
        )
        counts = batch.nested_levels[:, direction].numpy() != IGNORE
        np.testing.assert_array_equal(
            batch.nested_levels[:, direction].numpy()[counts], levels[part][counts]
        )


def test_corruption_changes_only_symbols_in_the_input() -> None:
    examples = [example("x ^ { 2 }") for _ in range(200)]
    clean, corrupted = collate(*examples), collate(*examples, corruption=0.5)
    changed = clean.input_ids != corrupted.input_ids
    unchanged = {SOS, EOS, *map(VOCABULARY.index, "^{}")}
    assert not set(clean.input_ids[changed].tolist()) & unchanged
    assert changed.any()
    assert torch.equal(clean.target_ids, corrupted.target_ids)


def test_unknown_tokens_are_never_right_in_validation() -> None:
    batch = collate(example("1 D"), allow_unknown=True)
    assert batch.target_ids[0, 0].tolist() == [VOCABULARY.index("1"), VOCABULARY.pad, EOS]
    with pytest.raises(UnknownTokenError, match="D"):
        collate(example("1 D"))


class TestInk:
    # A 20×40 image becomes 32×48: 2 × 3 cells.
    boxes = np.array(
        [[2, 2, 12, 30], [np.nan] * 4, [np.nan] * 4, [34, 1, 38, 3], [np.nan] * 4], np.float32
    )

    @pytest.fixture
    def batch(self) -> Batch:
        return collate(example("x ^ { 2 }", self.boxes), with_ink=True)

    def test_cells_have_the_symbol_whose_box_covers_them(self, batch: Batch) -> None:
        x, two = VOCABULARY.index("x"), VOCABULARY.index("2")
        assert batch.symbol_targets is not None
        assert batch.symbol_targets[0].tolist() == [[x, 0, two], [x, 0, 0]]

    def test_a_thin_symbol_is_not_lost(self, batch: Batch) -> None:
        assert (
            batch.symbol_targets is not None
            and (batch.symbol_targets == VOCABULARY.index("2")).any()
        )

    def test_the_distribution_is_highest_at_symbols(self) -> None:
        boxes = np.array([[4, 4, 12, 12], [np.nan] * 4, [32, 0, 64, 64]], np.float32)
        image = np.zeros((64, 80), np.uint8)
        sample = RenderedSample("e", ("1", "^", "x"), image, boxes)
        wide = RenderedSample("f", ("1",), np.zeros((64, 96), np.uint8), boxes[:1])
        batch = Collator(VOCABULARY, None, with_ink=True)([sample, wide], RNG)
        assert batch.symbol_distribution is not None
        first, second = batch.symbol_distribution
        assert first[0, 0] == 1 and first[0, 1] < 0.01  # a small symbol fills one cell
        # A cell beside the center is one deviation away in x and half of one in y.
        assert first[1, 2].item() == pytest.approx(np.exp(-((8 / 8) ** 2 + (8 / 16) ** 2) / 2))
        assert first[1, 2] > first[0, 2] > first[0, 4]
        assert (first[:, 5] == -1).all() and (second >= 0).all()

    def test_attention_targets_are_the_cells_of_each_token(self, batch: Batch) -> None:
        assert batch.attention_targets is not None
        assert batch.attention_targets[0, 0, 0].tolist() == [True, False, False, True, False, False]
        assert batch.attention_targets[0, 0, 3].tolist() == [
            False,
            False,
            True,
            False,
            False,
            False,
        ]
        assert not batch.attention_targets[0, 0, 1].any()  # a structure token has no ink
        assert torch.equal(
            batch.attention_targets[0, 1, 4], batch.attention_targets[0, 0, 0]
        )  # the last one backwards

    def test_padding_has_no_targets(self) -> None:
        large = RenderedSample(
            "l", ("1",), np.zeros((60, 90), np.uint8), np.full((1, 4), 5, np.float32)
        )
        batch = collate(example("x ^ { 2 }", self.boxes), large, with_ink=True)
        assert batch.symbol_targets is not None and batch.attention_targets is not None
        assert (batch.symbol_targets[0, 2:] == IGNORE).all() and (
            batch.symbol_targets[0, :, 3:] == IGNORE
        ).all()
        assert not batch.attention_targets[0].view(2, 6, 4, 6)[:, :, 2:].any()

    def test_there_are_no_ink_targets_without_boxes(self) -> None:
        batch = collate(example("x"), with_ink=True)
        assert batch.symbol_targets is None and batch.attention_targets is None
