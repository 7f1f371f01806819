"""Model folders: round trip, checks, error messages."""

import json
from pathlib import Path

import pytest
import torch

from posformer.errors import ModelError
from posformer.latex import Vocabulary
from posformer.models.checkpoint import load_model, save_model, take_weights
from posformer.models.model_folder import open_folder
from posformer.models.posformer import PosFormer
from tiny import VOCABULARY, tiny_config, tiny_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_model(tiny_model(), tmp_path / "model", {"trained_on": "nothing"})
    return tmp_path / "model"


def test_round_trip(folder: Path) -> None:
    model, original = load_model(folder), tiny_model().for_inference()
    for name, value in original.state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name
    assert model.vocabulary == VOCABULARY and model.config == tiny_config()
    assert open_folder(folder).info == {"trained_on": "nothing"}


def test_training_only_parts_are_not_saved(folder: Path) -> None:
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", "pt") as file:
        assert not [name for name in file.keys() if name.startswith(("position", "symbol_map"))]  # noqa: SIM118


def test_half_precision_halves_the_file(folder: Path, tmp_path: Path) -> None:
    save_model(tiny_model(), tmp_path / "half", half=True)
    whole, half = (
        (path / "model.safetensors").stat().st_size for path in (folder, tmp_path / "half")
    )
    assert half < 0.65 * whole
    load_model(tmp_path / "half")


def test_a_damaged_file_is_named(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(ModelError, match=r"model\.safetensors: damaged"):
        load_model(folder)


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "vocabulary.txt").unlink()
    with pytest.raises(ModelError, match=r"vocabulary\.txt"):
        open_folder(folder)


def test_a_newer_format_is_an_error(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["format"] = 99
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="format 99 is newer"):
        open_folder(folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": 1, "files": 3}'])
def test_a_broken_config_has_a_clear_message(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(ModelError, match=r"config\.json"):
        open_folder(folder)


def test_a_path_without_a_model_has_a_clear_message(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such model"):
        load_model(tmp_path / "nowhere")
    (tmp_path / "text.ckpt").write_text("hello")
    with pytest.raises(ModelError, match="not a checkpoint"):
        load_model(tmp_path / "text.ckpt")


def test_a_folder_with_other_files_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ModelError, match="not empty"):
        save_model(tiny_model(), tmp_path)
    assert (tmp_path / "thesis.tex").exists()


def test_init_with_a_larger_vocabulary() -> None:
    old = tiny_model()
    new = PosFormer(tiny_config(), VOCABULARY.extended(["D", r"\psi"]))
    fresh = new.decoder.embed.weight[new.vocabulary.index("D")].clone()
    assert take_weights(new, old) == []
    for token in VOCABULARY.tokens:
        entry = old.decoder.embed.weight[VOCABULARY.index(token)]
        assert torch.equal(new.decoder.embed.weight[new.vocabulary.index(token)], entry)
    assert torch.equal(new.decoder.embed.weight[new.vocabulary.index("D")], fresh)


def test_init_with_another_order_of_tokens() -> None:
    old = tiny_model()
    new = PosFormer(tiny_config(), Vocabulary(reversed(VOCABULARY.tokens)))
    take_weights(new, old)
    for token in VOCABULARY.tokens:
        assert torch.equal(
            new.decoder.head.weight[new.vocabulary.index(token)],
            old.decoder.head.weight[VOCABULARY.index(token)],
        )
