"""Corpora of isolated symbols."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from posformer.errors import DataError
from posformer.synthesis import SymbolBank, lay_out, own_bank
from posformer.synthesis.corpora import canonical_name, find_faults, load_corpus, read_symbols

ZIGZAG = [[0, 0], [200, 400], [400, 0], [600, 400], [800, 0]]


def entry(token: str, writer: str, *strokes: list) -> dict:
    return {"token": token, "writer": writer, "strokes": list(strokes)}


def jittered(points: list, rng: np.random.Generator, amount: float = 15.0) -> list:
    return (np.array(points) + rng.normal(0, amount, (len(points), 2))).round().tolist()


def circle(rng: np.random.Generator) -> list:
    angles = np.linspace(0, 2 * np.pi, 25)
    return jittered(np.stack([np.cos(angles), np.sin(angles)], axis=1) * 400, rng, 8)


def bar(rng: np.random.Generator) -> list:
    return jittered([[0, y] for y in range(0, 900, 60)], rng, 8)


def write(path: Path, entries: list[dict]) -> Path:
    text = "".join(json.dumps(one) + "\n" for one in entries)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Circles labeled o and bars labeled l, by four writers."""
    rng = np.random.default_rng(0)
    entries = [
        entry(token, f"unipen-{number % 4}", shape(rng))
        for token, shape in (("o", circle), ("l", bar))
        for number in range(40)
    ]
    return write(tmp_path / "unipen.jsonl.gz", entries)


def test_symbols_are_scaled_to_a_box_of_1000(tmp_path):
    path = write(tmp_path / "a.jsonl", [entry("x", "ann", [[5, 7], [10, 17], [15, 7]])])
    (symbol,) = read_symbols(path)
    points = np.concatenate(symbol.strokes)
    assert points.min(axis=0).tolist() == [0, 0]
    assert points.max() == 1000


def test_usual_extent_determines_x_height_and_baseline(corpus):
    bank = load_corpus(corpus, cache=None)
    letter, tall = bank.samples("o")[0], bank.samples("l")[0]
    assert letter.relative_height == pytest.approx(1.0, abs=0.01)
    assert letter.baseline == pytest.approx(letter.height, rel=0.01)
    assert tall.relative_height == pytest.approx(1.7, abs=0.01)


def test_flat_symbols_are_scaled_by_width(tmp_path):
    path = write(tmp_path / "a.jsonl", [entry("-", "ann", [[0, 0], [50, 1], [100, 0]])])
    (minus,) = load_corpus(path, cache=None).samples("-")
    assert minus.width / minus.unit == pytest.approx(1.1)
    assert (minus.baseline - minus.height / 2) / minus.unit == pytest.approx(0.55, abs=0.01)


def test_provenance_and_writers(corpus):
    bank = load_corpus(corpus, cache=None)
    assert bank.writers == ("unipen-0", "unipen-1", "unipen-2", "unipen-3")
    assert {(s.corpus, s.license) for s in bank.sources.values()} == {("unipen", "CC BY 4.0")}
    assert bank.lead_writers == bank.writers  # nobody has enough tokens


def test_badly_segmented_symbols_are_dropped(corpus):
    rng = np.random.default_rng(1)
    lines = gzip.decompress(corpus.read_bytes()).decode().splitlines()
    entries = [json.loads(line) for line in lines]
    bad = [
        entry("o", "unipen-0", bar(rng)),
        entry("l", "unipen-1", circle(rng)),
        entry("o", "unipen-2", *(bar(rng) for _ in range(6))),
    ]
    write(corpus, entries + bad)
    faults = find_faults(read_symbols(corpus))
    assert all(faults[-3:])
    assert not any(faults[:-3])
    assert len(load_corpus(corpus, cache=None)) == len(entries)


def test_slashed_zeros_are_dropped(tmp_path):
    rng = np.random.default_rng(0)
    slash = [[-400, 400], [400, -400]]
    entries = [entry("0", "ann", circle(rng)) for _ in range(10)]
    entries += [entry("0", "bob", circle(rng), slash), entry("0", "bob", circle(rng) + slash)]
    faults = find_faults(read_symbols(write(tmp_path / "a.jsonl", entries)))
    assert faults == [""] * 10 + ["slashed zero"] * 2


def test_structure_tokens_are_dropped(tmp_path):
    entries = [entry("\\\\", "ann", ZIGZAG), entry("x", "ann", ZIGZAG)]
    path = write(tmp_path / "a.jsonl", entries)
    assert find_faults(read_symbols(path)) == ["structure token", ""]
    assert load_corpus(path, cache=None).tokens == {"x"}


def test_rare_tokens_are_not_filtered(tmp_path):
    entries = [entry("a", "ann", ZIGZAG), entry("a", "bob", [[0, 0], [0, 500]])]
    assert find_faults(read_symbols(write(tmp_path / "a.jsonl", entries))) == ["", ""]


def test_coarse_strokes_become_smooth_and_keep_corners(tmp_path):
    angles = np.linspace(0, 1.6 * np.pi, 9)
    arc = (np.stack([np.cos(angles), np.sin(angles)], axis=1) * 500).tolist()
    path = write(tmp_path / "a.jsonl", [entry("c", "ann", arc), entry("w", "ann", ZIGZAG)])
    smooth, zigzag = (symbol.strokes[0] for symbol in read_symbols(path))
    assert len(smooth) > 60
    turns = np.abs(np.diff(np.unwrap(np.arctan2(*np.diff(smooth, axis=0).T))))
    assert turns.max() < 0.5
    corner = zigzag[:, 1].argmax()
    assert zigzag[corner] == pytest.approx((250, 500), abs=1)


def test_staircases_become_slopes(tmp_path):
    stairs = [[40 * ((n + 1) // 2), 40 * (n // 2)] for n in range(40)]
    (symbol,) = read_symbols(write(tmp_path / "a.jsonl", [entry("/", "ann", stairs)]))
    x, y = symbol.strokes[0][2:-2].T
    assert np.abs(x - y).max() < 30


def test_cache_returns_the_same_bank(corpus, tmp_path):
    first = load_corpus(corpus, cache=tmp_path / "cache")
    (file,) = (tmp_path / "cache").iterdir()
    written = file.stat().st_mtime_ns
    again = load_corpus(corpus, cache=tmp_path / "cache")
    assert file.stat().st_mtime_ns == written
    assert again.writers == first.writers
    assert all(np.array_equal(again[i].points, first[i].points) for i in range(len(first)))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not a symbol"),
        ("[" * 100_000, "line 2: not a symbol"),
        (
            '{"token": "x", "writer": "ann", "strokes": [[[1, 1' + "0" * 400 + "]]]}",
            "line 2: not a symbol",
        ),
        ('{"token": "x", "writer": "ann"}', "line 2: not a symbol: 'strokes'"),
        (
            '{"token": "x", "writer": "ann", "strokes": [[1, 2]]}',
            "line 2: not a symbol: no strokes",
        ),
        ('{"token": "x", "writer": "ann", "strokes": []}', "line 2: not a symbol: no strokes"),
    ],
)
def test_errors_name_the_line(tmp_path, line, message):
    path = write(tmp_path / "a.jsonl", [entry("x", "ann", ZIGZAG)])
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(DataError, match=message):
        load_corpus(path, cache=None)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.jsonl"):
        load_corpus(tmp_path / "nothing.jsonl")


def test_merged_bank_lends_symbols_to_lead_writers(corpus):
    own = own_bank()
    bank = SymbolBank.merge([own, load_corpus(corpus, cache=None)])
    assert len(bank) == len(own) + 80
    assert bank.lead_writers == own.writers
    ink = lay_out(["x", "^", "{", "2", "}", "+", "o"], bank, np.random.default_rng(0))
    assert ink.writer in own.writers


def test_borrowed_symbols_come_from_writers_of_similar_slant(tmp_path):
    rng = np.random.default_rng(0)

    def slanted(slant: float) -> list:
        return [[x + slant * (900 - y), y] for x, y in bar(rng)]

    entries = [entry("l", "upright", slanted(0.0)), entry("l", "slanted", slanted(0.6))]
    entries += [
        entry("t", f"lender-{n}", slanted(slant)) for n, slant in enumerate((0.0, 0.1, 0.5, 0.6))
    ]
    bank = load_corpus(write(tmp_path / "a.jsonl", entries), cache=None)
    assert bank._similar("t", "upright", nearest=2) == bank._indices(
        "t", "lender-0"
    ) + bank._indices("t", "lender-1")
    assert set(bank._similar("t", "slanted", nearest=2)) == {
        *bank._indices("t", "lender-2"),
        *bank._indices("t", "lender-3"),
    }


def test_omniglot(crohme_zip):
    path = crohme_zip.parent / "symbols/omniglot.jsonl.gz"
    if not path.exists():
        pytest.skip("needs data/symbols/omniglot.jsonl.gz of the shared data")
    bank = load_corpus(path, cache=None)
    assert 0.95 * 980 < len(bank) <= 980
    assert len(bank.tokens) == 49
    assert all(len(bank.written_by(writer)) >= 20 for writer in bank.lead_writers)


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("\\Upgamma", "\\Gamma"),
        ("\\upvarphi", "\\varphi"),
        ("\\uparrow", "\\uparrow"),
        ("\\mathds{R}", "\\mathbb{R}"),
        ("\\mathscr{A}", "\\mathcal{A}"),
        ("\\varnothing", "\\emptyset"),
        ("x", "x"),
    ],
)
def test_names_of_the_same_shape_become_one_token(name, token):
    assert canonical_name(name) == token


def test_flagged_ones_and_crossed_sevens_are_kept(tmp_path):
    rng = np.random.default_rng(0)
    flagged, slanted = [[0, 500], [400, 0], [420, 1000]], [[0, 1000], [700, 0]]
    seven, cross = [[0, 0], [700, 0], [300, 1000]], [[50, 450], [900, 350]]
    entries = [entry("1", "ann", bar(rng)) for _ in range(60)]
    entries += [entry("7", "ann", jittered(seven, rng)) for _ in range(60)]
    entries += [entry("l", "ann", bar(rng)) for _ in range(60)]
    entries += [entry("/", "ann", jittered(slanted, rng)) for _ in range(60)]
    entries += [entry("A", "ann", jittered(flagged, rng), cross) for _ in range(60)]
    entries += [entry("\\Lambda", "ann", jittered(flagged, rng)) for _ in range(60)]
    odd = [entry("1", "bob", flagged), entry("7", "bob", seven, cross), entry("1", "bob", slanted)]
    faults = find_faults(read_symbols(write(tmp_path / "a.jsonl", entries + odd)))
    assert faults[-3:-1] == ["", ""] and faults[-1]


def test_straight_lines_are_dropped_where_they_are_rare(tmp_path):
    rng = np.random.default_rng(0)
    first, second = [[0, 0], [700, 1000]], [[700, 0], [0, 1000]]
    entries = [entry("x", "ann", jittered(first, rng), jittered(second, rng)) for _ in range(30)]
    entries += [entry("l", "ann", bar(rng)) for _ in range(30)]
    entries += [entry("x", "bob", first)]
    faults = find_faults(read_symbols(write(tmp_path / "a.jsonl", entries)))
    assert faults == [""] * 60 + ["straight line"]
