"""Agreement with the authors' program, number by number."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from posformer.errors import ModelError
from posformer.latex import Vocabulary
from posformer.models.posformer import PosFormer
from posformer.models.public_checkpoint import load_public_checkpoint
from posformer.runtime.pytorch_runtime import PyTorchStepModel
from posformer.search import DecodingOptions, Hypothesis, search

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def vocabulary(reference: Path) -> Vocabulary:
    return Vocabulary.load(reference / "crohme_dictionary.txt")


@pytest.fixture(scope="module")
def model(reference: Path, vocabulary: Vocabulary) -> PosFormer:
    return load_public_checkpoint(reference / "posformer_reference_small.ckpt", vocabulary)


@pytest.fixture(scope="module")
def answers(reference: Path) -> dict[str, torch.Tensor]:
    with np.load(reference / "posformer_reference_small.npz") as stored:
        return {name: torch.from_numpy(stored[name]) for name in stored.files}


def by_direction(values: torch.Tensor) -> torch.Tensor:
    """Return (batch, directions, …); their batch holds all of one direction, then the other."""
    forward, backward = values.chunk(2)
    return torch.stack((forward, backward), dim=1)


def test_encoder_features(model: PosFormer, answers: dict[str, torch.Tensor]) -> None:
    with torch.inference_mode():
        features = model.encoder(answers["img"], answers["mask"])
    assert torch.equal(features.padding, answers["feature_mask"])
    inside = ~features.padding
    torch.testing.assert_close(
        features.cells[inside], answers["feature"][inside], atol=TOLERANCE, rtol=0
    )


def test_logits_of_the_three_heads_in_both_directions(
    model: PosFormer, answers: dict[str, torch.Tensor]
) -> None:
    tokens = by_direction(answers["tgt"])
    identifiers = by_direction(answers["position_input"]).float()
    with torch.inference_mode():
        output = model(answers["img"], answers["mask"], tokens, identifiers)
    given = tokens != 0
    assert output.position is not None
    for ours, theirs in (
        (output.logits, "symbol_logits"),
        (output.position.nested_levels, "level_logits"),
        (output.position.relative_positions, "position_logits"),
    ):
        expected = by_direction(answers[theirs])
        torch.testing.assert_close(ours[given], expected[given], atol=TOLERANCE, rtol=0)


def find(model: PosFormer, images: torch.Tensor, mask: torch.Tensor, beam: int) -> list[Hypothesis]:
    with torch.inference_mode():
        step_model = PyTorchStepModel(model, images, mask)
    options = DecodingOptions(beam=beam, finished=beam, scales=1, max_length=40)
    return [best[0] for best in search(step_model, options, 1, 2, len(images))]


def agrees(found: Hypothesis, expected: dict[str, object]) -> bool:
    return list(found.tokens) == expected["seq"] and found.score == pytest.approx(
        expected["score"], abs=TOLERANCE
    )


def test_beam_search_over_a_batch(
    model: PosFormer, answers: dict[str, torch.Tensor], reference: Path
) -> None:
    expected = json.loads((reference / "posformer_reference_small.json").read_text())
    found = find(model, answers["img"], answers["mask"], beam=5)
    assert len(found) == 8
    assert all(map(agrees, found, expected["beam_batch_size5"]))


def test_beam_search_image_by_image(
    model: PosFormer, answers: dict[str, torch.Tensor], reference: Path
) -> None:
    expected = json.loads((reference / "posformer_reference_small.json").read_text())
    for number, answer in enumerate(expected["beam_single_size10"]):
        inside = ~answers["mask"][number]
        height, width = int(inside.any(1).sum()), int(inside.any(0).sum())
        image = answers["img"][number : number + 1, :, :height, :width]
        mask = answers["mask"][number : number + 1, :height, :width]
        assert agrees(find(model, image, mask, beam=10)[0], answer)


def test_names_and_shapes_of_the_full_size_checkpoint_fit(
    reference: Path, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    lines = (reference / "posformer_reference_parameters.txt").read_text().splitlines()
    shapes = {name: json.loads(shape) for name, shape in (line.split("\t") for line in lines)}
    settings = {
        "d_model": 256,
        "growth_rate": 24,
        "num_layers": 16,
        "nhead": 8,
        "num_decoder_layers": 3,
        "dim_feedforward": 1024,
        "dropout": 0.3,
        "dc": 32,
    }
    weights = {
        name: torch.zeros(shape, dtype=torch.long if "tracked" in name else torch.float32)
        for name, shape in shapes.items()
    }
    file = tmp_path / "full.ckpt"
    torch.save({"state_dict": weights, "hyper_parameters": settings}, file)
    full = load_public_checkpoint(file, vocabulary)
    assert full.position is not None and full.config.encoder.layers == (16, 16, 16)


def test_states_of_callbacks_are_ignored(
    reference: Path, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    from lightning.pytorch.callbacks import EarlyStopping

    content = torch.load(reference / "posformer_reference_small.ckpt", weights_only=True)
    content["callbacks"] = {EarlyStopping: EarlyStopping("val_ExpRate")}
    file = tmp_path / "with_callback.ckpt"
    torch.save(content, file)
    model = load_public_checkpoint(file, vocabulary)
    assert len(model.vocabulary) == 113


def test_comer_checkpoints_have_no_position_part(
    reference: Path, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    content = torch.load(reference / "posformer_reference_small.ckpt", weights_only=True)
    content["state_dict"] = {
        name: value for name, value in content["state_dict"].items() if "posdecoder" not in name
    }
    file = tmp_path / "comer.ckpt"
    torch.save(content, file)
    model = load_public_checkpoint(file, vocabulary)
    assert model.position is None
    assert model.config.decoder.refinement is not None
    assert model.config.decoder.refinement.structure == ()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not a checkpoint"),
        (b"hello", "not a checkpoint"),
        (pickle.dumps([1, 2]), "not a"),
    ],
)
def test_other_files_are_refused_in_words(tmp_path: Path, content: bytes, complaint: str) -> None:
    file = tmp_path / "some.ckpt"
    file.write_bytes(content)
    with pytest.raises(ModelError, match=complaint):
        load_public_checkpoint(file, Vocabulary(["x"]))


def test_another_vocabulary_is_an_error(reference: Path) -> None:
    with pytest.raises(ModelError, match="113 tokens"):
        load_public_checkpoint(reference / "posformer_reference_small.ckpt", Vocabulary(["x"]))
