"""Models are found by name: the package's own, and those of others."""

import sys
from pathlib import Path

import pytest

from posformer.errors import ConfigError
from posformer.models import DecoderConfig, ModelConfig, OwnDecoderConfig
from posformer.models.abm import Abm
from posformer.models.can import Can
from posformer.models.checkpoint import load_model, save_model
from posformer.models.dwap import Dwap
from posformer.models.model_config import _DECODERS
from posformer.models.posformer import PosFormer
from posformer.models.registry import _OWN, create_model, model_class
from tiny import VOCABULARY

OTHERS = """
from posformer.models.dwap import Dwap

number = 3

class Thin(Dwap):
    pass
"""


@pytest.fixture
def others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "others.py").write_text(OTHERS)
    (tmp_path / "broken.py").write_text("import a_library_that_is_not_there")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("others", None)


def test_the_package_s_own_models_have_names() -> None:
    found = {name: model_class(name) for name in _OWN}
    assert found == {"posformer": PosFormer, "dwap": Dwap, "abm": Abm, "can": Can}
    assert set(_DECODERS) == set(_OWN), "each has settings"


def test_a_model_of_another_package_builds_on_one_of_ours(others: None, tmp_path: Path) -> None:
    settings = {"width": 12, "embedding": 12, "attention": 8, "coverage": [3]}
    encoder = {"growth": 4, "layers": [1, 1, 1]}
    values = {"name": "others:Thin", "encoder": encoder, "decoder": {"settings": settings}}
    model = create_model(ModelConfig.from_dict(values), VOCABULARY)
    assert isinstance(model, Dwap) and type(model) is not Dwap
    assert model.settings.width == 12 and model.settings.coverage == (3,)
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert type(again) is type(model) and again.config == model.config


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("nothing_here:Model", "cannot import 'nothing_here'"),
        ("others:Fat", "no RecognitionModel called 'Fat'"),
        ("others:number", "no RecognitionModel called 'number'"),
        (":Model", "package.module:Class"),
    ],
)
def test_what_is_no_model_is_named(others: None, name: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        model_class(name)


def test_a_library_that_a_model_lacks_is_not_hidden(others: None) -> None:
    with pytest.raises(ModuleNotFoundError, match="a_library_that_is_not_there"):
        model_class("broken:Model")


def test_settings_of_the_decoder_depend_on_the_model() -> None:
    assert isinstance(ModelConfig.from_dict({}).decoder, DecoderConfig)
    own = ModelConfig.from_dict({"name": "a:B", "decoder": {"settings": {"depth": 2}}})
    assert own.decoder == OwnDecoderConfig("forward", {"depth": 2})
    with pytest.raises(ConfigError, match=r"DecoderConfig.*heads"):
        ModelConfig.from_dict({"name": "dwap", "decoder": {"heads": 8}})
    with pytest.raises(ConfigError, match="there is no 'dwab'; there are posformer, dwap"):
        ModelConfig.from_dict({"name": "dwab"})


def test_the_position_forest_is_one_word_and_only_posformer_s_by_default() -> None:
    assert ModelConfig.from_dict({}).position is not None
    assert ModelConfig.from_dict({"name": "can"}).position is None
    worded = ModelConfig.from_dict({"name": "can", "position": "heads"})
    assert worded == ModelConfig.from_dict({"name": "can", "position": {"form": "heads"}})
    assert ModelConfig.from_dict(worded.to_dict()) == worded


def test_the_settings_of_a_wrong_kind_are_refused() -> None:
    with pytest.raises(ConfigError, match="dwap reads a RecurrentDecoderConfig"):
        create_model(ModelConfig(name="dwap"), VOCABULARY)
