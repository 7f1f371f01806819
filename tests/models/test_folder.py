"""Model folders: round trip, checks, error messages."""

import json
import re
from pathlib import Path

import pytest
import torch

from posformer.errors import ModelError
from posformer.latex import Vocabulary
from posformer.models.checkpoint import load_model, save_model, take_weights
from posformer.models.model_folder import CARD, WEIGHTS, open_folder, write_folder
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


@pytest.mark.parametrize("model", [True, 0.5, None, [], "posformer", {"name": "a" * 5000}])
def test_a_config_without_a_model_is_one_short_line(folder: Path, model: object) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "model": model}))
    with pytest.raises(ModelError, match="model") as caught:
        open_folder(folder)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


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


@pytest.mark.parametrize("config", ["{}", '{"format": 2}', '{"model_type": "bert"}', "no JSON"])
def test_the_config_of_another_program_does_not_make_a_model(tmp_path: Path, config: str) -> None:
    (tmp_path / "config.json").write_text(config)
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ModelError, match="not an unchanged model folder"):
        save_model(tiny_model(), tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["config.json", "thesis.tex"]


@pytest.mark.parametrize("name", ["thesis.tex", ".git", "README.md"])
def test_a_model_with_further_files_is_not_overwritten(folder: Path, name: str) -> None:
    (folder / name).write_text("years of work")
    with pytest.raises(ModelError, match=rf"contains '{re.escape(name)}'"):
        save_model(tiny_model(1), folder)
    assert (folder / name).read_text() == "years of work"
    load_model(folder)


def test_an_edited_model_card_is_not_overwritten(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "card.md").write_text("card")
    model = open_folder(folder)
    files = {WEIGHTS: folder / WEIGHTS, CARD: tmp_path / "card.md"}
    for _ in range(2):
        write_folder(tmp_path / "with card", model.config, model.vocabulary, files, {})
    (tmp_path / "with card" / "README.md").write_text("years of work")
    with pytest.raises(ModelError, match="not an unchanged model folder"):
        save_model(tiny_model(), tmp_path / "with card")
    assert (tmp_path / "with card" / "README.md").read_text() == "years of work"


def test_a_folder_in_the_place_of_a_file_is_not_deleted(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").mkdir()
    (folder / "model.safetensors" / "thesis.tex").touch()
    with pytest.raises(ModelError, match=r"contains 'model\.safetensors'"):
        save_model(tiny_model(), folder)
    assert (folder / "model.safetensors" / "thesis.tex").exists()


def test_a_file_or_a_link_is_not_replaced(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("years of work")
    (tmp_path / "link").symlink_to(folder)
    for name in ("file", "link"):
        with pytest.raises(ModelError, match="exists and is not a folder"):
            save_model(tiny_model(), tmp_path / name)
    assert (tmp_path / "file").read_text() == "years of work"
    load_model(folder)


def test_a_model_and_an_empty_folder_are_replaced(folder: Path, tmp_path: Path) -> None:
    save_model(tiny_model(1), folder, {"trained_on": "something"})
    assert open_folder(folder).info == {"trained_on": "something"}
    (tmp_path / "empty").mkdir()
    save_model(tiny_model(), tmp_path / "empty")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "model"]


def test_a_folder_lists_only_files_of_a_model(folder: Path, tmp_path: Path) -> None:
    """A copy of the folder would otherwise write them anywhere."""
    config = json.loads((folder / "config.json").read_text())
    config["files"]["../outside"] = "0" * 64
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"lists '\.\./outside'"):
        open_folder(folder)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("image", "scale", 0),
        ("image", "scale", float("nan")),
        ("image", "max_pixels", 0),
        ("image", "margin", -1),
        ("encoder", "growth", 0),
        ("encoder", "layers", [1, -1, 1]),
        ("decoder", "heads", 0),
        ("decoder", "dropout", 2.0),
    ],
)
def test_settings_out_of_range_are_named(folder: Path, part: str, name: str, value: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["model"][part][name] = value
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=rf"model: model\.{part}\.{name}: "):
        open_folder(folder)


def test_a_vocabulary_that_does_not_fit_is_named(folder: Path, tmp_path: Path) -> None:
    model = open_folder(folder)
    longer = Vocabulary([*VOCABULARY.tokens, "z"])
    files = {WEIGHTS: folder / WEIGHTS}
    write_folder(tmp_path / "longer", model.config, longer, files, {})
    with pytest.raises(ModelError, match="longer: the weights do not fit its settings"):
        load_model(tmp_path / "longer")


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
