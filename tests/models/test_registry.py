"""Models by name: those of the package and others."""

import sys
from pathlib import Path

import pytest

from posformer.errors import ConfigError
from posformer.models import DecoderConfig, ModelConfig, OwnDecoderConfig
from posformer.models.abm import Abm
from posformer.models.can import Can
from posformer.models.checkpoint import load_model, save_model
from posformer.models.dwap import Dwap
from posformer.models.posformer import PosFormer
from posformer.models.registry import MODELS, create_model, model_class
from posformer.models.san_targets import SanTargets
from posformer.models.target_coding import open_target_coding
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


def test_models_of_the_package_have_names() -> None:
    found = {name: model_class(name) for name in MODELS}
    known = {"posformer": PosFormer, "dwap": Dwap, "abm": Abm, "can": Can}
    assert found | known == found
    assert len(set(found.values())) == len(found)


def test_a_model_of_another_package_extends_one_of_ours(others: None, tmp_path: Path) -> None:
    settings = {"width": 12, "embedding": 12, "attention": 8, "coverage": [3]}
    encoder = {"growth": 4, "layers": [1, 1, 1]}
    values = {"name": "others:Thin", "encoder": encoder, "decoder": {"settings": settings}}
    model = create_model(ModelConfig.from_dict(values), VOCABULARY)
    assert isinstance(model, Dwap) and type(model) is not Dwap
    assert model.settings.width == 12 and model.settings.coverage == (3,)
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model", allow_code="others:Thin")
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
def test_errors_name_what_is_wrong(others: None, name: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        model_class(name)


def test_a_missing_dependency_of_a_model_is_not_hidden(others: None) -> None:
    with pytest.raises(ModuleNotFoundError, match="a_library_that_is_not_there"):
        model_class("broken:Model")


def test_the_decoder_config_depends_on_the_model() -> None:
    assert isinstance(ModelConfig.from_dict({}).decoder, DecoderConfig)
    own = ModelConfig.from_dict({"name": "a:B", "decoder": {"settings": {"depth": 2}}})
    assert own.decoder == OwnDecoderConfig("forward", {"depth": 2})
    with pytest.raises(ConfigError, match=r"DecoderConfig.*feedforward"):
        ModelConfig.from_dict({"name": "dwap", "decoder": {"feedforward": 8}})
    with pytest.raises(ConfigError, match="unknown model 'dwab'; available: posformer, dwap"):
        ModelConfig.from_dict({"name": "dwab"})


def test_only_posformer_has_a_position_forest_by_default() -> None:
    assert ModelConfig.from_dict({}).position is not None
    assert ModelConfig.from_dict({"name": "can"}).position is None
    worded = ModelConfig.from_dict({"name": "can", "position": "heads"})
    assert worded == ModelConfig.from_dict({"name": "can", "position": {"form": "heads"}})
    assert ModelConfig.from_dict(worded.to_dict()) == worded


def test_a_wrong_decoder_config_is_an_error() -> None:
    with pytest.raises(ConfigError, match="dwap needs a RecurrentDecoderConfig"):
        create_model(ModelConfig(name="dwap"), VOCABULARY)


def test_a_model_of_another_package_names_its_targets() -> None:
    path = "posformer.models.san_targets:SanTargets"
    values = {"name": "others:Thin", "decoder": {"targets": path}}
    coding = open_target_coding(ModelConfig.from_dict(values), VOCABULARY)
    assert isinstance(coding, SanTargets)
    values["decoder"] = {"targets": "posformer.models.san_targets:Nothing"}
    with pytest.raises(ConfigError, match=r"decoder.targets: cannot import"):
        open_target_coding(ModelConfig.from_dict(values), VOCABULARY)
