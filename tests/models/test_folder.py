"""Model folders: complete, checked, refused by name when something is wrong."""

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


def test_a_saved_model_comes_back(folder: Path) -> None:
    model, original = load_model(folder), tiny_model().for_inference()
    for name, value in original.state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name
    assert model.vocabulary == VOCABULARY and model.config == tiny_config()
    assert open_folder(folder).info == {"trained_on": "nothing"}


def test_position_parts_are_not_saved(folder: Path) -> None:
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


def test_a_newer_format_is_refused(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["format"] = 99
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="format 99 is newer"):
        open_folder(folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": 1, "files": 3}'])
def test_a_broken_config_is_told_in_words(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(ModelError, match=r"config\.json"):
        open_folder(folder)


def test_what_is_no_model_is_told_in_words(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such model"):
        load_model(tmp_path / "nowhere")
    (tmp_path / "text.ckpt").write_text("hello")
    with pytest.raises(ModelError, match="not a checkpoint"):
        load_model(tmp_path / "text.ckpt")


def test_a_folder_of_other_things_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ModelError, match="not empty"):
        save_model(tiny_model(), tmp_path)
    assert (tmp_path / "thesis.tex").exists()


def test_a_vocabulary_can_grow(tmp_path: Path) -> None:
    old = tiny_model()
    new = PosFormer(tiny_config(), VOCABULARY.extended(["D", r"\psi"]))
    fresh = new.decoder.embed.weight[new.vocabulary.index("D")].clone()
    assert take_weights(new, old) == []
    for word in VOCABULARY.tokens:
        old_row = old.decoder.embed.weight[VOCABULARY.index(word)]
        assert torch.equal(new.decoder.embed.weight[new.vocabulary.index(word)], old_row)
    assert torch.equal(new.decoder.embed.weight[new.vocabulary.index("D")], fresh)


def test_words_find_their_rows_in_another_order() -> None:
    old = tiny_model()
    new = PosFormer(tiny_config(), Vocabulary(reversed(VOCABULARY.tokens)))
    take_weights(new, old)
    for word in VOCABULARY.tokens:
        assert torch.equal(
            new.decoder.head.weight[new.vocabulary.index(word)],
            old.decoder.head.weight[VOCABULARY.index(word)],
        )
