"""The examples that come with the project."""

from pathlib import Path

import pytest

from posformer.data.image_codec import decode_image
from posformer.ink.captions import caption_of
from posformer.ink.inkml import read_inkml
from posformer.latex import encode_forest

EXAMPLES = Path(__file__).parents[2] / "examples"
TRUTH = dict(
    line.split("\t") for line in (EXAMPLES / "truth.tsv").read_text(encoding="utf-8").splitlines()
)


def test_every_example_has_its_truth():
    files = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".png", ".inkml")}
    assert files == set(TRUTH)


@pytest.mark.parametrize("name", sorted(TRUTH))
def test_an_example_can_be_read(name):
    tokens = TRUTH[name].split()
    encode_forest(tokens)
    if name.endswith(".inkml"):
        assert list(caption_of(read_inkml(EXAMPLES / name))) == tokens
    else:
        image = decode_image((EXAMPLES / name).read_bytes())
        assert 0 < (image > 127).mean() < 0.3
