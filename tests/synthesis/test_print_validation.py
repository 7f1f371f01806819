"""The script that makes the validation set of printed formulas."""

import runpy
import shutil
from pathlib import Path

import matplotlib
import numpy as np
import pytest

from posformer.data import open_images
from posformer.synthesis.texts import canonical_tokens, is_validation_text, with_limits

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_print_validation.py"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Texts of which about six are for validation, and one validation family."""
    monkeypatch.chdir(tmp_path)
    texts = [f"\\sum _ {{ i }} x + {' '.join(str(number))}" for number in range(3000)]
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    tokens = ["\\sum", "\\limits", *"_{}ix+0123456789"]
    (tmp_path / "vocabulary.txt").write_text("\n".join(tokens))
    family = tmp_path / "fonts" / "math" / "noto-sans-math"
    family.mkdir(parents=True)
    font = Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"
    shutil.copy(font, family / "noto-sans-math.ttf")
    return tmp_path


def test_unseen_texts_in_unseen_fonts_and_by_another_program(folder, monkeypatch):
    options = "--texts texts.txt --fonts fonts --vocabulary vocabulary.txt --count 2"
    monkeypatch.setattr("sys.argv", ["make", *options.split(), "--output", "print.zip"])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    images = open_images("print.zip", "print")
    assert [one.kind for one in images] == 2 * ["print-font"] + 2 * ["print-mathtext"]
    assert images[0].source == "noto-sans-math" and images[2].source.startswith("mathtext-")
    for index, one in enumerate(images):
        assert is_validation_text(canonical_tokens(with_limits(one.tokens)))
        assert 30 < images.image(index).shape[0] < 150  # the size of CROHME's images


def test_mathtext_sets_scripts_small():
    script = runpy.run_path(str(SCRIPT))
    typeset = script["mathtext"](script["UnknownGlyphs"]())
    scripted, plain = (
        typeset(tuple(text.split()), 40.0, np.random.default_rng(0))[0]
        for text in ("x _ { n }", "x n")
    )
    assert scripted.shape[1] < plain.shape[1] - 5
