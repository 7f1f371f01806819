"""The example files of the repository."""

from pathlib import Path

import pytest

from posformer.image.loading import load_image
from posformer.image.normalize import prepare_photo
from posformer.ink.captions import caption_of
from posformer.ink.inkml import read_inkml
from posformer.latex import encode_forest

EXAMPLES = Path(__file__).parents[2] / "examples"
TRUTH = dict(
    line.split("\t") for line in (EXAMPLES / "truth.tsv").read_text(encoding="utf-8").splitlines()
)


def test_every_example_has_a_ground_truth():
    files = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".png", ".inkml")}
    assert files == set(TRUTH)


@pytest.mark.parametrize("name", sorted(TRUTH))
def test_example_is_readable(name):
    tokens = TRUTH[name].split()
    encode_forest(tokens)
    if name.endswith(".inkml"):
        assert list(caption_of(read_inkml(EXAMPLES / name))) == tokens
    else:
        image = prepare_photo(load_image(EXAMPLES / name))
        assert 0 < (image > 127).mean() < 0.3
