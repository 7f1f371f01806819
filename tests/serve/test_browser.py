"""The page in a real browser, used with mouse and keyboard."""

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
from browsing import (
    BROWSER,
    FORMULA,
    RECOGNIZED,
    TWO,
    X,
    copied,
    drop,
    has_ink,
    open_page,
    write,
)
from running import running

from posformer import Recognizer
from posformer.latex import convert, is_structure
from posformer.latex.symbols import SIGNATURES
from posformer.serve import Settings, create_app

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")

# The ratio of the luminances of text and ground, as in WCAG.
CONTRAST = """() => {
    const luminance = (color) => {
        const context = new OffscreenCanvas(1, 1).getContext("2d");
        context.fillStyle = color;
        context.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...context.getImageData(0, 0, 1, 1).data].map((value) => value / 255)
            .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const { color } = getComputedStyle(document.querySelector("#formula math"));
    const { backgroundColor } = getComputedStyle(document.querySelector(".result"));
    const [low, high] = [luminance(color), luminance(backgroundColor)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
}"""
SIZES = {"phone": (390, 844), "tablet": (820, 1180), "desktop": (1280, 900)}
SCREENSHOTS = os.environ.get("POSFORMER_SCREENSHOTS")  # folder for those of all sizes and themes
SCREENSHOT = os.environ.get("POSFORMER_SCREENSHOT")  # file to write a screenshot to

pytestmark = pytest.mark.skipif(not BROWSER, reason="needs Chromium (apt-get install chromium)")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server on loopback with the bundled model."""
    with running(create_app(Recognizer.load(threads=1), Settings(workers=1))) as (address, _):
        yield address


@pytest.fixture
def page(browser, address):
    """The page; an error on its console fails the test."""
    with open_page(browser, address) as page:
        yield page


def test_mathml_of_every_token_is_rendered(browser):
    tokens = (Path(__file__).parents[2] / "configs" / "vocabulary.txt").read_text("utf-8").split()
    signs = [token for token in tokens if not is_structure(token)]
    expressions = [[token, *("{x}" * len(SIGNATURES.get(token, ("",))[0]))] for token in signs]
    tab = browser.new_page()
    tab.set_content("".join(f"<p>{convert(tokens, 'mathml')}</p>" for tokens in expressions))
    widths = tab.evaluate(
        "[...document.querySelectorAll('math')].map((one) => one.getBoundingClientRect().width)"
    )
    assert len(widths) == len(signs)
    invisible = [token for token, width in zip(signs, widths, strict=True) if width < 1]
    assert invisible == []
    texts = tab.evaluate("[...document.querySelectorAll('math')].map((one) => one.textContent)")
    raw = [token for token, text in zip(signs, texts, strict=True) if "\\" in text]
    assert raw == []
    tab.close()


def test_ink_becomes_a_formula(page):
    write(page, [*X, *TWO])
    page.wait_for_selector(f"{RECOGNIZED} msup")
    assert page.input_value("#latex") == "x^{2}"
    assert page.inner_text("#confidence").startswith(("Sure", "Likely", "Unsure"))
    assert has_ink(page)


def test_undo_redo_eraser_and_clear(page):
    write(page, X)
    page.wait_for_selector(RECOGNIZED)
    page.click("#undo")
    page.click("#undo")
    page.wait_for_selector("#formula.empty")
    assert not has_ink(page)
    page.keyboard.press("Control+y")
    page.keyboard.press("Control+y")
    page.wait_for_selector(RECOGNIZED)
    page.click("#eraser")
    write(page, [[(-10, 24), (40, 36)]])
    page.wait_for_selector("#formula.empty")
    assert not has_ink(page)
    page.keyboard.press("Control+z")
    assert has_ink(page)
    page.click("#clear")
    assert not has_ink(page)


def test_latex_can_be_edited_and_copied(page):
    page.fill("#latex", r"\frac{1}{2}")
    page.wait_for_selector("#formula mfrac")
    assert copied(page, "latex", "LaTeX") == r"\frac{1}{2}"
    assert copied(page, "markdown", "Markdown") == r"$\frac{1}{2}$"
    assert "<mfrac>" in copied(page, "mathml", "MathML")
    assert copied(page, "typst", "Typst") == "frac(1, 2)"
    assert copied(page, "asciimath", "AsciiMath") == "(1)/(2)"
    assert copied(page, "sympy", "SymPy") == "Rational(1, 2)"
    assert copied(page, "unicode", "Unicode text") == "1/2"
    page.click("[data-copy=png]")
    page.wait_for_selector("#toast:has-text('Image copied')")
    kinds = page.evaluate("navigator.clipboard.read().then(([item]) => item.types)")
    assert "image/png" in kinds


def test_copied_image_has_the_font_of_the_page(page):
    """In another font the formula is wider than its image, and cut off."""
    page.fill("#latex", r"\int_0^1\sqrt{1+\alpha}dx+xyxyxyxyxyxyxyxy")
    page.wait_for_selector("#formula msqrt")
    content = page.evaluate(
        """async () => {
            const { formulaImage } = await import("/formula.js");
            const blob = await formulaImage(document.querySelector("#formula math"));
            return [...new Uint8Array(await blob.arrayBuffer())];
        }"""
    )
    image = cv2.imdecode(np.array(content, np.uint8), cv2.IMREAD_GRAYSCALE)
    columns = np.flatnonzero((image < 128).any(axis=0))
    assert image.shape[1] - 1 - columns[-1] >= 20


def test_sums_have_limits_above_and_below(page):
    page.fill("#latex", r"\sum_{k=0}^{n}k^2")
    page.wait_for_selector("#formula munderover")
    page.wait_for_selector("#formula msup")


def test_malformed_latex_shows_a_problem(page):
    page.fill("#latex", "x^{2")
    page.wait_for_selector("#problem:visible")
    assert "{" in page.inner_text("#problem")
    page.fill("#latex", "x^{2}")
    page.wait_for_selector("#problem", state="hidden")


def test_alternative_can_be_chosen(page):
    write(page, X)
    page.wait_for_selector(RECOGNIZED)
    second = page.locator("#alternatives button").nth(1)
    second.click()
    playwright.expect(page.locator("#latex")).to_have_value(second.get_attribute("title"))
    assert second.get_attribute("aria-pressed") == "true"


def test_dropped_image_is_cropped_and_recognized(page):
    paper = np.full((120, 200), 255, np.uint8)
    cv2.line(paper, (50, 30), (100, 90), 0, 3)
    cv2.line(paper, (100, 30), (50, 90), 0, 3)
    drop(page, cv2.imencode(".png", paper)[1].tobytes(), "note.png", "image/png")
    page.wait_for_selector("#crop[open]")
    page.click("#crop-read")
    page.wait_for_selector(RECOGNIZED)
    assert page.is_visible("#image")
    page.click("#remove")
    page.wait_for_selector("#formula.empty")


def test_unreadable_file_shows_a_problem(page):
    drop(page, b"no image at all", "note.txt", "text/plain")
    page.wait_for_selector("#problem:visible")
    assert "image" in page.inner_text("#problem")


def test_formulas_are_set_in_the_bundled_font(page):
    page.fill("#latex", r"\sum_{k=0}^{n}k^2")
    page.wait_for_selector("#formula munderover")
    loaded = page.evaluate(
        """async () => {
            await document.fonts.ready;
            return [...document.fonts].map((one) => [one.family.replaceAll('"', ""), one.status]);
        }"""
    )
    assert loaded == [["posformer math", "loaded"]]


def test_dropped_ink_is_recognized(page):
    strokes = "".join(
        "<stroke>" + " ".join(f"{x} {y}" for x, y in stroke) + "</stroke>" for stroke in FORMULA
    )
    content = f"<xournal><page><layer>{strokes}</layer></page></xournal>".encode()
    drop(page, gzip.compress(content), "notes.xopp", "")
    page.wait_for_selector(f"{RECOGNIZED} mfrac")
    assert page.inner_text("#file-name") == "notes.xopp"
    page.click("#remove")
    lines = "".join(
        '<polyline points="' + " ".join(f"{x},{y}" for x, y in stroke) + '"/>' for stroke in X
    )
    svg = f'<svg xmlns="http://www.w3.org/2000/svg"><g stroke="black">{lines}</g></svg>'
    drop(page, svg.encode(), "x.svg", "image/svg+xml")
    page.wait_for_selector("#formula[aria-busy=false] mi")
    assert not page.is_visible("#crop")


def test_attention_and_forest_are_shown(page):
    write(page, X)
    page.wait_for_selector(RECOGNIZED)
    page.click("#how summary")
    page.wait_for_selector("#forest svg g.M")
    chips = page.locator("#attention .chips button")
    chips.first.focus()
    assert chips.first.get_attribute("aria-pressed") == "true"


def test_history_survives_a_reload(page):
    write(page, X)
    page.wait_for_selector(RECOGNIZED)
    latex = page.input_value("#latex")
    page.reload()
    page.click("#history button")
    assert page.input_value("#latex") == latex
    assert has_ink(page)


def test_symbols_and_api_documentation(page, address):
    page.click("#show-symbols")
    page.wait_for_selector("#symbols[open]")
    assert page.locator("#vocabulary li").count() > 5
    page.click("#symbols-close")
    page.goto(f"{address}docs")
    page.wait_for_selector("article h2")
    assert "/api/strokes" in page.inner_text("main")


def test_page_fits_a_phone(page):
    page.set_viewport_size({"width": 375, "height": 720})
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    write(page, X, x=40, y=60)
    page.wait_for_selector(RECOGNIZED)


def test_ink_stays_visible_when_the_area_shrinks(page):
    write(page, X, x=500, y=60)
    page.set_viewport_size({"width": 375, "height": 720})
    page.wait_for_timeout(100)
    assert has_ink(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("size", "width", "height"),
    [("phone", 390, 844), ("tablet", 820, 1180), ("desktop", 1280, 900)],
)
def test_sizes_and_themes(browser, address, tmp_path, size, width, height, scheme):
    """Nothing is wider than the screen, and text stands out; the screenshots are for the eye."""
    viewport = {"width": width, "height": height}
    folder = Path(SCREENSHOTS or tmp_path)
    with open_page(browser, address, viewport=viewport, color_scheme=scheme) as page:
        page.evaluate("document.getElementById('mode').hidden = false")
        write(page, [*X, *TWO], x=40, y=110)
        page.wait_for_selector(RECOGNIZED)
        page.locator("#formula .symbol").first.click()
        page.wait_for_selector("#choices:visible")
        page.screenshot(path=folder / f"{size}-{scheme}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        box = page.locator("#choices").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert page.locator("#formula math").bounding_box()["height"] > 20
        assert page.evaluate(CONTRAST) > 7


@pytest.mark.skipif(not SCREENSHOT, reason="needs POSFORMER_SCREENSHOT")
def test_screenshot(page):
    write(page, FORMULA, x=130, y=190, scale=2.2)
    page.wait_for_selector(RECOGNIZED)
    page.click("#how summary")
    page.wait_for_selector("#forest svg g.M")
    page.locator("#attention .chips button").nth(3).focus()
    page.wait_for_timeout(600)
    page.screenshot(path=SCREENSHOT, full_page=True)
