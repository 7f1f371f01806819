"""LAST: all lines of an expression at once."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from posformer.errors import ConfigError
from posformer.latex import Vocabulary
from posformer.models import LineDecoderConfig, ModelConfig
from posformer.models.base import TrainingOutput
from posformer.models.last import Last
from posformer.models.padding import pad_images
from posformer.runtime.caption_search import search_captions
from posformer.runtime.pytorch_runtime import PyTorchStepModel
from posformer.search import DecodingOptions
from posformer.training.collate import Collator, RenderedSample
from tiny import VOCABULARY as ONE_LINE
from tiny import random_images, scrambled, tiny_config

BREAK = "\\\\"
VOCABULARY = ONE_LINE.extended([BREAK])
SOS, EOS = VOCABULARY.sos, VOCABULARY.eos
SETTINGS = LineDecoderConfig(
    width=32, heads=4, layers=2, feedforward=48, dropout=0.0, attention_dropout=0.0, lines=5
)
CAPTIONS = [f"x + 1 {BREAK} a {BREAK} 2 = x", "x = 2 + 1", f"a {BREAK} {BREAK} x {BREAK}"]


def config(**changes: object) -> ModelConfig:
    return tiny_config(name="last", decoder=SETTINGS, **changes)


@pytest.fixture
def model() -> Last:
    torch.manual_seed(0)
    made = scrambled(Last(config(position=None), VOCABULARY))
    with torch.no_grad():
        made.line.weight.mul_(3)
    return made


def images() -> tuple[Tensor, Tensor]:
    batch = pad_images(random_images(0, [(40, 60)]))
    return torch.from_numpy(batch[0]), torch.from_numpy(batch[1])


def collated(caption: str) -> dict[str, Tensor]:
    sample = RenderedSample("e", tuple(caption.split()), np.zeros((40, 60), np.uint8), None)
    batch = Collator(VOCABULARY, None)([sample], np.random.default_rng(0))
    return {"input_ids": batch.input_ids, "target_ids": batch.target_ids}


def run(model: Last, caption: str) -> TrainingOutput:
    with torch.no_grad():
        return model(*images(), **collated(caption))


def stepwise(model: Last, caption: str, direction: int) -> list[Tensor]:
    """Return the log-probabilities of each line, decoded step by step with forced tokens."""
    rows = [line.split() for line in caption.split(BREAK)]
    contents = [VOCABULARY.encode(row if direction == 0 else row[::-1]) for row in rows]
    contents += [[]] * (SETTINGS.lines - len(rows))
    found: list[list[Tensor]] = [[] for _ in contents]
    with torch.no_grad():
        memory = model.encode(*images())
        cache = model.initial_cache(memory)
        for step in range(1 + max(map(len, contents))):
            start = (SOS, EOS)[direction]
            inputs = [
                start if step == 0 else row[step - 1] if step <= len(row) else VOCABULARY.pad
                for row in contents
            ]
            output = model.step(torch.tensor([[inputs]]), memory, cache)
            cache = output.cache
            for number, row in enumerate(contents):
                if step <= len(row):
                    found[number].append(output.log_probs[0, 0, number])
    return [torch.stack(steps) for steps in found]


@pytest.mark.parametrize("caption", CAPTIONS)
def test_steps_of_all_lines_equal_teacher_forcing(model: Last, caption: str) -> None:
    forced = run(model, caption).logits.log_softmax(-1)[0]
    lines = caption.count(BREAK) + 1
    for direction in (0, 1):
        stepped = stepwise(model, caption, direction)[:lines]
        ordered = torch.cat(stepped if direction == 0 else stepped[::-1])
        torch.testing.assert_close(ordered, forced[direction], atol=1e-5, rtol=1e-4)


def test_lines_see_each_other_up_to_the_same_step(model: Last) -> None:
    before = run(model, f"x + 1 {BREAK} a = 2").logits[0, 0]
    first = run(model, f"1 + 1 {BREAK} a = 2").logits[0, 0]  # first token of the first line
    last = run(model, f"x + 2 {BREAK} a = 2").logits[0, 0]  # its last token
    # The second line: steps 0 to 3 are 4 to 7 of the caption.
    assert torch.equal(first[4], before[4])
    assert not torch.allclose(first[5], before[5])
    assert torch.equal(last[4:7], before[4:7])
    assert not torch.allclose(last[7], before[7])


def test_a_line_knows_its_number_and_its_direction(model: Last) -> None:
    with torch.no_grad():
        memory = model.encode(*images())
        cache = model.initial_cache(memory, 2)
        start = torch.tensor([[[SOS] * 3, [EOS] * 3]])
        log_probs = model.step(start, memory, cache).log_probs[0]
        assert not torch.allclose(log_probs[0, 0], log_probs[0, 1])
        model.line.weight.copy_(model.line.weight[:1].expand_as(model.line.weight).clone())
        same = model.step(start, memory, cache).log_probs[0]
        torch.testing.assert_close(same[0, 0], same[0, 1])
        positions = model._positions(
            torch.zeros(1, 2, 4, dtype=torch.int64),
            torch.arange(4).expand(1, 2, 4),
            torch.tensor([[False, True]]),
        )
        within = positions[0] - model.line.weight[0]
        torch.testing.assert_close(within[0, :, ::2], within[1, :, 1::2])
        assert not torch.allclose(within[0], within[1])


def test_missing_lines_are_learned(model: Last) -> None:
    loss = run(model, CAPTIONS[0]).losses["lines"]
    assert loss.terms.item() == 2 * (SETTINGS.lines - 3)
    padded = collated(CAPTIONS[0])
    shorter = collated("x")
    for name, fill in (("input_ids", 0), ("target_ids", -100)):
        rest = torch.full_like(padded[name], fill)
        rest[..., :2] = shorter[name]
        shorter[name] = rest
    with torch.no_grad():
        padded_logits = model(*images(), **shorter).logits[0, :, :2]
    torch.testing.assert_close(padded_logits, run(model, "x").logits[0])


@pytest.mark.parametrize("form", ["heads", "shared", "separate"])
def test_the_position_forest_plugs_in(form: str) -> None:
    values = replace(config(), position=form).to_dict()
    model = Last(ModelConfig.from_dict(values), VOCABULARY)
    sequences = collated(CAPTIONS[0])
    identifiers = torch.rand(*sequences["input_ids"].shape, 5)
    output = model(*images(), sequences["input_ids"], identifiers, sequences["target_ids"])
    assert output.position is not None
    assert output.position.nested_levels.shape[:3] == sequences["input_ids"].shape
    output.position.relative_positions.sum().backward()
    assert model.encoder.net.stem.weight.grad is not None


class Forced:
    """A step model that decodes given captions, and counts its steps."""

    def __init__(self, captions: list[str], wrong: int = -1) -> None:
        self.captions, self.steps, self.wrong = captions, 0, wrong

    def start(self) -> int:
        return 0

    def step(self, tokens: np.ndarray, state: int) -> tuple[np.ndarray, int]:
        self.steps += 1
        output = np.full((*tokens.shape, len(VOCABULARY)), -9.0, np.float32)
        for image, caption in enumerate(self.captions):
            rows = [VOCABULARY.encode(line.split()) for line in caption.split(BREAK)]
            broken = VOCABULARY.index(BREAK)
            for direction, end in ((0, EOS), (1, SOS))[: tokens.shape[1]]:
                final = len(rows) - 1 if direction == 0 else 0
                for line in range(tokens.shape[2]):
                    row = rows[line] if line < len(rows) else []
                    ends = broken if line < len(rows) and line != final else end
                    row = [*(row if direction == 0 else row[::-1]), ends]
                    if state < len(row):
                        output[image, direction, line, row[state]] = -0.1
                    if direction == self.wrong:
                        output[image, direction, line] *= 2
        return output, state + 1

    def select(self, state: int, images: np.ndarray, beams: np.ndarray) -> int:
        raise AssertionError("nothing is selected")


@pytest.mark.parametrize("directions", ["both", "forward"])
def test_the_search_joins_the_lines(directions: str) -> None:
    model = Forced(CAPTIONS)
    options = DecodingOptions(scales=1, directions=directions, top_k=2)  # type: ignore[arg-type]
    found = search_captions(model, config(), VOCABULARY, options, [200] * len(CAPTIONS))
    captions = [" ".join(VOCABULARY.decode(best[0].tokens)) for best in found]
    assert captions == CAPTIONS
    assert all(len(hypotheses) == 1 for hypotheses in found), "both directions agree"
    assert model.steps == 1 + max(
        len(line.split()) for one in CAPTIONS for line in one.split(BREAK)
    )


def test_greedy_decoding_runs_from_left_to_right() -> None:
    options = DecodingOptions(greedy=True).resolve()
    ((best,),) = search_captions(Forced(CAPTIONS[:1]), config(), VOCABULARY, options, [200])
    assert " ".join(VOCABULARY.decode(best.tokens)) == CAPTIONS[0] and best.backward is None


def test_the_better_direction_wins() -> None:
    for wrong, known in ((0, "backward"), (1, "forward")):
        options = DecodingOptions(scales=1, directions="both")
        ((best,),) = search_captions(
            Forced(CAPTIONS[:1], wrong), config(), VOCABULARY, options, [200]
        )
        assert getattr(best, known) == best.score


def test_a_trained_network_in_the_search(model: Last) -> None:
    options = DecodingOptions(scales=1, max_length=4, top_k=2).resolve()
    step_model = PyTorchStepModel(model, *images())
    (found,) = search_captions(step_model, config(), VOCABULARY, options, [200])
    assert 1 <= len(found) <= 2
    for hypothesis in found:
        assert max(len(line) for line in _lines(hypothesis.tokens)) <= 4


def _lines(tokens: tuple[int, ...]) -> list[list[str]]:
    return [line.split() for line in " ".join(VOCABULARY.decode(tokens)).split(BREAK)]


def test_a_vocabulary_without_line_breaks_has_one_line() -> None:
    model = Last(config(position=None), Vocabulary(ONE_LINE.tokens)).eval()
    tokens = torch.tensor([[[SOS, 3, 4]]])
    with torch.no_grad():
        assert model(*images(), tokens).logits.shape[2] == 3
        assert len(model.attention_maps(tokens, model.encode(*images()))) == SETTINGS.layers


def test_refinement_is_refused() -> None:
    with pytest.raises(ConfigError, match="refinement"):
        changed = replace(SETTINGS, refinement=tiny_config().decoder.refinement)
        Last(replace(config(), decoder=changed), VOCABULARY)
