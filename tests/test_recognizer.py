"""`Recognizer`: accepted sources, results, and clear errors for everything else."""

import io
import subprocess
import sys
import threading
import tracemalloc
import warnings
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

import posformer
from posformer import DecodingOptions, PosformerError, Recognition, Recognizer
from posformer.errors import ConfigError, ModelError, NoInkError
from posformer.image.loading import ImageWarning
from posformer.ink import render, strokes_in_pixels
from posformer.latex import is_structure, is_valid, tokenize
from posformer.recognizer import Formula, _join_lines, prepare
from posformer.runtime import Calibration, engine
from posformer.runtime.decoding import working_image
from posformer.runtime.symbol_confidence import score_symbols
from posformer.search import Hypothesis

# A plus, a one and a seven.
STROKES = [
    [[0, 20], [40, 20]],
    [[20, 0], [20, 40]],
    [[60, 0], [60, 40]],
    [[80, 0], [105, 0], [90, 40]],
]
INKML = (
    '<ink xmlns="http://www.w3.org/2003/InkML">'
    + "".join(
        f'<trace id="{number}">{", ".join(f"{x} {y}" for x, y in stroke)}</trace>'
        for number, stroke in enumerate(STROKES)
    )
    + "</ink>"
).encode()


@pytest.fixture(scope="module")
def recognizer(tiny_folder: Path) -> Recognizer:
    return Recognizer.load(tiny_folder)


@pytest.fixture(scope="module")
def image() -> np.ndarray:
    return render(strokes_in_pixels([np.array(stroke, float) for stroke in STROKES]))


def encoded(image: np.ndarray, format: str = "PNG", mode: str = "L") -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).convert(mode).save(file, format)
    return file.getvalue()


# Sources


def test_all_source_types_give_the_same_result(recognizer, image, tmp_path):
    content = encoded(image)
    (tmp_path / "a.png").write_bytes(content)
    (tmp_path / "a.inkml").write_bytes(INKML)
    sources = [
        str(tmp_path / "a.png"),
        tmp_path / "a.png",
        content,
        bytearray(content),
        io.BytesIO(content),
        (tmp_path / "a.png").open("rb"),
        Image.fromarray(image),
        image,
        image > 0,
        255 - image,
        np.stack([image] * 3, axis=-1),
        tmp_path / "a.inkml",
        str(tmp_path / "a.inkml"),
        INKML,
        b"\xef\xbb\xbf" + INKML,
        io.BytesIO(INKML),
        STROKES,
        [np.array(stroke, float) for stroke in STROKES],
        tuple(map(tuple, STROKES)),
        [[[10.0 * x + 7, 10.0 * y, 0.5] for x, y in stroke] for stroke in STROKES],
    ]
    results = list(recognizer.recognize_many(sources))
    assert len(results) == len(sources)
    assert results[0].latex
    assert all(result == results[0] for result in results)
    assert recognizer.recognize_strokes(STROKES) == results[0]


def test_crohme_images_are_unchanged_by_cleanup(crohme_zip):
    from posformer.data import open_images

    source = open_images(crohme_zip, "2014")
    for number in range(0, 200, 20):
        (prepared,) = prepare(source.image(number), split=False)
        np.testing.assert_array_equal(prepared, source.image(number))


@pytest.mark.parametrize(
    ("format", "mode"),
    [("JPEG", "CMYK"), ("PNG", "1"), ("PNG", "P"), ("TIFF", "I;16"), ("WEBP", "RGB"), ("GIF", "P")],
)
def test_image_formats_and_modes(recognizer, image, format, mode):
    if mode == "I;16":
        file = io.BytesIO()
        Image.fromarray(image.astype(np.uint16) * 257).save(file, format)
        content = file.getvalue()
    else:
        content = encoded(255 - image, format, mode)
    assert recognizer.recognize(content).latex


def test_animated_gif_warns(recognizer, image, tmp_path):
    path = tmp_path / "moving.gif"
    frames = [Image.fromarray(image), Image.fromarray(255 - image)]
    frames[0].save(path, save_all=True, append_images=frames[1:])
    with pytest.warns(ImageWarning, match=r"moving\.gif: has several frames"):
        assert recognizer.recognize(path).latex


def test_lines_are_recognized_separately(recognizer, image):
    page = np.zeros((300, image.shape[1] + 200), np.uint8)
    wide = np.concatenate([image, image], axis=1)
    page[10 : 10 + wide.shape[0], : wide.shape[1]] = wide
    page[210 : 210 + wide.shape[0], : wide.shape[1]] = wide
    result = recognizer.recognize(page)
    assert len(result.lines) == 2
    first, second = (line.latex for line in result.lines)
    assert result.latex == rf"\begin{{array}}{{l}}{first}\\{second}\end{{array}}"
    assert result.tokens == (*result.lines[0].tokens, r"\\", *result.lines[1].tokens)
    assert result.confidence <= min(line.confidence for line in result.lines)


# Results


def test_top_k_alternatives_are_sorted(recognizer, image):
    result = recognizer.recognize(image, top_k=3)
    assert len(result.alternatives) == 2
    readings = [reading.latex for reading in result.readings]
    assert len(set(readings)) == 3
    assert result.latex == readings[0]
    assert recognizer.recognize(image).alternatives == ()
    assert result.to_dict()["alternatives"][0]["latex"] == readings[1]


def test_options_and_keywords_are_equivalent(recognizer, image):
    greedy = recognizer.recognize(image, greedy=True)
    assert greedy.latex and not greedy.alternatives
    assert greedy == recognizer.recognize(image, DecodingOptions(greedy=True))
    options = DecodingOptions(beam=2, scales=1)
    expected = recognizer.recognize(image, beam=2, scales=1, top_k=2)
    assert len(expected.readings) == 2
    assert recognizer.recognize(image, options, top_k=2) == expected
    assert next(recognizer.recognize_many([image], options, top_k=2)) == expected
    assert recognizer.recognize_strokes(STROKES, options, top_k=2) == expected
    with pytest.warns(DeprecationWarning, match="scales"):
        assert recognizer.recognize(image, beam=2, views=1, top_k=2) == expected


@pytest.mark.parametrize(
    "invalid", [{"beam": 0}, {"scales": 4}, {"top_k": 0}, {"greedy": True, "top_k": 2}]
)
def test_invalid_options_raise_posformer_errors(recognizer, image, invalid):
    for call in (recognizer.recognize, lambda *a, **k: list(recognizer.attempt_many([a[0]], **k))):
        with pytest.raises(ConfigError, match=list(invalid)[-1]):
            call(image, **invalid)
    with pytest.raises(PosformerError, match="DecodingOptions"):
        recognizer.recognize(image, 3)


def test_markdown_and_mathml():
    latex = r"\frac{a}{b}<1"
    result = Recognition(latex, 0.9, tuple(tokenize(latex)))
    assert result.markdown == r"$\frac{a}{b}<1$"
    assert result.mathml.startswith("<math") and "<mfrac>" in result.mathml
    lines = Recognition(r"\begin{array}{l}a\\b\end{array}", 0.9, ("a", r"\\", "b"))
    assert lines.markdown.startswith("$$") and "<mtable" in lines.mathml
    broken = Recognition("a<_+_", 0.1, tuple("a<_+_"))
    assert "<merror>" in broken.mathml and "a&lt;" in broken.mathml


@pytest.mark.parametrize(
    ("latex", "cells"),
    [
        (r"\begin{aligned}x&=1\\&=2\end{aligned}", 4),
        (r"\begin{gathered}x=1\\y\end{gathered}", 2),
        (r"\begin{cases}x=1\\y=2\end{cases}", 2),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", 4),
        (r"\begin{array}{l}x\\y\end{array}", 2),
    ],
)
def test_lines_become_table_rows(latex, cells):
    result = Recognition(latex, 0.9, tuple(tokenize(latex)))
    table = ElementTree.fromstring(result.mathml)
    assert table.get("display") == "block" and result.markdown == f"$${latex}$$"
    rows = list(table.iter("{http://www.w3.org/1998/Math/MathML}mtr"))
    assert len(rows) == 2 and sum(len(row) for row in rows) == cells
    assert "&amp;" not in result.mathml


def test_low_confidence_is_unsure():
    assert Recognition("x", 0.4, ("x",), calibrated=True).is_unsure
    assert not Recognition("x", 0.6, ("x",), calibrated=True).is_unsure
    assert Recognition("x", 0.6, ("x",), calibrated=False).is_unsure


def test_calibrated_confidence(tiny_folder, image):
    runtime = engine.load_runtime(tiny_folder)
    calibration = Calibration(bias=-1.0, total=0.1, mean=0.0, length=0.0)
    runtime.info = {"calibration": calibration.to_dict()}
    result = Recognizer(runtime).recognize(image, top_k=2)
    assert result.calibrated
    assert 0 < result.alternatives[0].confidence <= result.confidence < 0.27


@pytest.fixture
def strict_recognizer(tiny_folder):
    """A recognizer that finds nothing readable."""
    runtime = engine.load_runtime(tiny_folder)
    runtime.info = {"thresholds": {"readable": 1.0}}
    return Recognizer(runtime)


def test_results_below_the_threshold_are_not_readable(strict_recognizer, recognizer, image):
    result = strict_recognizer.recognize(image, top_k=2)
    expected = recognizer.recognize(image, top_k=2)
    assert (result.readable, result.error) == (False, "not readable")
    assert (expected.readable, expected.error) == (True, None)
    assert (result.latex, result.readings) == (expected.latex, expected.readings)
    best = {"latex": expected.latex, "confidence": round(expected.confidence, 6)}
    failure = result.to_failure()
    assert failure["error"] == "not readable"
    assert failure["alternatives"] == [best, *expected.to_dict()["alternatives"]]


def test_lines_are_readable_if_most_of_their_tokens_are():
    good = Recognition("x+1", 0.9, ("x", "+", "1"))
    bad = Recognition("--", 0.1, ("-", "-"), readable=False)
    assert _join_lines([good, bad, good]).readable
    assert not _join_lines([good, bad, bad]).readable


def test_empty_hypothesis_is_a_result(recognizer, image):
    result = recognizer._recognition([Hypothesis((), -0.1, -0.1, None)], Formula(image))
    assert (result.latex, result.tokens) == ("", ())
    assert result.mathml.startswith("<math")


# Invalid input


def bad_sources(folder: Path) -> dict[str, object]:
    """Sources that cannot be recognized, by a pattern of the error message."""
    (folder / "empty.png").touch()
    (folder / "text.png").write_text("This is no image.")
    photo = np.random.default_rng(0).integers(0, 255, (200, 300), np.uint8)
    (folder / "cut.jpg").write_bytes(encoded(photo, "JPEG")[:3000])
    Image.new("L", (1, 1), 255).save(folder / "dot.png")
    Image.new("RGB", (400, 300), "white").save(folder / "blank.png")
    Image.new("1", (100_000, 20)).save(folder / "wide.png")
    Image.new("1", (20_000, 10_000)).save(folder / "bomb.png")
    (folder / "text.inkml").write_text("hello")
    (folder / "page.inkml").write_text("<html/>")
    (folder / "none.inkml").write_text('<ink xmlns="http://www.w3.org/2003/InkML"/>')
    (folder / "folder.png").mkdir()
    bomb = b'<!DOCTYPE a [<!ENTITY b "c">]><ink>&b;</ink>'
    return {
        r"empty\.png: the file is empty": folder / "empty.png",
        r"text\.png: not an image": folder / "text.png",
        r"cut\.jpg: damaged or cut off": folder / "cut.jpg",
        r"dot\.png: there is no ink": folder / "dot.png",
        r"blank\.png: there is no ink": folder / "blank.png",
        r"wide\.png: 100000 × 20 pixels": folder / "wide.png",
        r"bomb\.png: too large to read": folder / "bomb.png",
        r"text\.inkml: not XML": folder / "text.inkml",
        r"page\.inkml: <html> is none of": folder / "page.inkml",
        r"none\.inkml: no <trace>": folder / "none.inkml",
        r"absent\.png: no such file": folder / "absent.png",
        r"absent\.inkml": folder / "absent.inkml",
        r"folder\.png: a folder": folder / "folder.png",
        "the file is empty": b"",
        "not an image": b"hello",
        "entities are refused": bomb,
        "open it in binary mode": io.StringIO("hello"),
        "cannot read an image from int": 5,
        "there is no ink$": [],
        "^strokes: there is no ink": [[], []],
        "stroke 1 is not a list of points": [[1, 2]],
        "stroke 2 is not a list of points": [[[1, 2]], [["a", "b"]]],
        "stroke 1 has a coordinate": [[[0, float("nan")]]],
        "stroke 1 has": [[[0, 1e30]]],
        "too large": [[[0, 0], [1, 1]], [[1e8, 1e8], [1e8 + 1, 1e8]]],
        "height, width": np.zeros((3, 4, 5, 6)),
        "no ink": np.zeros((50, 50), np.uint8),
    }


def test_invalid_sources_give_errors_and_the_rest_is_recognized(recognizer, image, tmp_path):
    bad = bad_sources(tmp_path)
    sources = [image, *bad.values(), image]
    first, *failures, last = recognizer.attempt_many(sources, greedy=True)
    assert first == last
    for pattern, failure in zip(bad, failures, strict=True):
        assert isinstance(failure, PosformerError), pattern
        assert "\n" not in str(failure)
        with pytest.raises(PosformerError, match=pattern):
            raise failure


def test_unreadable_file(recognizer, image, tmp_path):
    path = tmp_path / "secret.png"
    path.write_bytes(encoded(image))
    path.chmod(0)
    if _can_read(path):
        pytest.skip("this user may read everything")
    with pytest.raises(PosformerError, match=r"secret\.png: no permission"):
        recognizer.recognize(path)


def _can_read(path: Path) -> bool:
    try:
        return bool(path.read_bytes())
    except PermissionError:
        return False


def test_recognize_many_raises_in_order(recognizer, image):
    results = recognizer.recognize_many([image, np.zeros((9, 9), np.uint8), image])
    assert next(results).latex
    with pytest.raises(NoInkError):
        next(results)


def test_missing_bundled_model(monkeypatch, tmp_path):
    monkeypatch.setattr(engine, "DEFAULT_MODEL", tmp_path / "absent")
    with pytest.raises(ModelError, match="has no bundled model; specify a model folder"):
        Recognizer.load()


def test_newer_model_format_is_refused(tiny_folder, tmp_path):
    text = (tiny_folder / "config.json").read_text()
    (tmp_path / "config.json").write_text(text.replace('"format": 2', '"format": 99'))
    with pytest.raises(ModelError, match="format 99 is newer"):
        Recognizer.load(tmp_path)


# Streaming, threads and imports


def test_results_stream_with_bounded_memory(recognizer, image):
    produced = 0

    def endless():
        nonlocal produced
        while True:
            produced += 1
            yield image.copy()

    results = recognizer.recognize_many(endless(), greedy=True)
    for _ in range(40):
        next(results)
    assert produced <= 40 + 32
    tracemalloc.start()
    for _ in range(32):
        next(results)
    early = tracemalloc.get_traced_memory()[0]
    for _ in range(64):
        next(results)
    late = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert late < early + 1_000_000


def test_order_is_kept_for_mixed_sizes(recognizer, image):
    wide = np.concatenate([image] * 3, axis=1)
    sources = [wide, image, wide, image, image]
    together = [result.latex for result in recognizer.recognize_many(sources)]
    assert together == [recognizer.recognize(source).latex for source in sources]


def test_recognizer_is_thread_safe(recognizer, image):
    sources = [image, np.concatenate([image] * 2, axis=1), STROKES]
    expected = [recognizer.recognize(source, top_k=2) for source in sources]
    found: list[list[Recognition]] = []

    def work() -> None:
        found.append([recognizer.recognize(source, top_k=2) for source in sources * 3])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for results in found:
        for result, wanted in zip(results, expected * 3, strict=True):
            assert result.tokens == wanted.tokens
            assert result.confidence == pytest.approx(wanted.confidence, abs=1e-4)


def test_recognition_does_not_import_pytorch(tiny_folder, tmp_path, image):
    path = tmp_path / "a.png"
    path.write_bytes(encoded(image))
    program = (
        "import sys; from posformer import Recognizer; "
        f"r = Recognizer.load({str(tiny_folder)!r}).recognize({str(path)!r}); "
        "assert r.mathml; print(*sorted({'torch', 'onnx', 'lightning'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_package_import_is_lazy():
    heavy = "{'numpy', 'cv2', 'onnxruntime', 'PIL'}"
    program = f"import sys, posformer; print(*({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == ""
    for name in posformer.__all__:
        assert getattr(posformer, name) is not None
    assert set(posformer.__all__) <= set(dir(posformer))
    with pytest.raises(AttributeError):
        _ = posformer.Recogniser


# Mutated files


def mutations(content: bytes, count: int, seed: int):
    """Yield copies of a file with bytes changed, repeated, removed or truncated."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        changed = bytearray(content)
        for _ in range(int(random.integers(1, 8))):
            offset = int(random.integers(len(changed)))
            kind = random.integers(5)
            if kind == 0:
                changed[offset] ^= 1 << int(random.integers(8))
            elif kind == 1:
                changed[offset] = int(random.choice([0, 1, 127, 128, 255]))
            elif kind == 2:
                del changed[offset : offset + int(random.integers(1, 20))]
            elif kind == 3:
                changed[offset:offset] = changed[offset : offset + int(random.integers(1, 40))]
            else:
                del changed[max(offset, 8) :]
            if not changed:
                break
        yield bytes(changed)


def valid_files(image: np.ndarray) -> list[bytes]:
    formats = ("PNG", "JPEG", "BMP", "TIFF", "GIF", "WEBP", "PPM")
    return [INKML, *(encoded(255 - image, format) for format in formats)]


def count_recognized(recognizer: Recognizer, contents) -> int:
    """Recognize everything; every failure must be a one-line `PosformerError`."""
    recognized = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for result in recognizer.attempt_many(contents, greedy=True):
            if isinstance(result, PosformerError):
                assert str(result) and "\n" not in str(result)
            else:
                recognized += 1
    return recognized


def test_mutated_files_are_recognized_or_refused(recognizer, image):
    for number, content in enumerate(valid_files(image)):
        count_recognized(recognizer, mutations(content, 12, number))


@pytest.mark.slow
def test_many_mutated_files_are_recognized_or_refused(recognizer, image):
    import resource

    contents = valid_files(image)
    count_recognized(
        recognizer, (each for content in contents for each in mutations(content, 20, 99))
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    recognized = sum(
        count_recognized(recognizer, mutations(content, 400, 100 + number))
        for number, content in enumerate(contents)
    )
    assert 0 < recognized < 400 * len(contents)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 600_000, "kilobytes"


def test_symbols_are_scored_in_both_directions(recognizer, image):
    plain = recognizer.recognize(image)
    found = recognizer.recognize(image, symbols=True)
    assert plain.symbols == ()
    assert "symbols" not in plain.to_dict()
    assert (found.latex, found.tokens) == (plain.latex, plain.tokens)
    ink = [index for index, token in enumerate(found.tokens) if not is_structure(token)]
    assert [one.index for one in found.symbols] == ink
    for one in found.symbols:
        shares = [one.confidence, *(share for _, share in one.alternatives)]
        assert one.token == found.tokens[one.index]
        assert all(0 <= share <= 1 for share in shares)
        assert sum(shares) <= 1 + 1e-6
        assert shares[1:] == sorted(shares[1:], reverse=True)
        for token, _ in one.alternatives:
            assert is_valid([*found.tokens[: one.index], token, *found.tokens[one.index + 1 :]])
    records = found.to_dict()
    assert records["tokens"] == list(found.tokens)
    assert [one["token"] for one in records["symbols"]] == [one.token for one in found.symbols]


def test_symbol_confidence_is_the_mean_of_the_search_scores(recognizer, image):
    """With one place to fill, the two directions see what the search sees."""
    runtime = recognizer.runtime
    image = recognizer.prepare(image)[0]
    (symbol,) = score_symbols(runtime, image, ["x"])
    model = runtime.encode([working_image(image, runtime.config.image)])
    vocabulary = runtime.vocabulary
    starts = np.array([[[vocabulary.sos], [vocabulary.eos]]])
    scores = model.step(starts, model.start())[0][0, :, 0].astype(float)
    shares = np.exp(scores.mean(axis=0))
    (x,) = vocabulary.encode(["x"])
    assert symbol.confidence == pytest.approx(shares[x] / shares.sum())


def test_symbols_of_lines_are_joined(recognizer, image):
    paper = np.zeros((300, 2 * image.shape[1]), np.uint8)
    wide = np.concatenate([image, image], axis=1)
    paper[10 : 10 + image.shape[0]] = paper[210 : 210 + image.shape[0]] = wide
    found = recognizer.recognize(paper, symbols=True)
    assert len(found.lines) == 2
    assert len(found.symbols) == sum(len(line.symbols) for line in found.lines)
    assert all(symbol.token == found.tokens[symbol.index] for symbol in found.symbols)
