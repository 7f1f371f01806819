"""The page in a real browser: written on with the mouse, looked at with eyes where asked for."""

import os
import shutil
from collections.abc import Iterator

import cv2
import numpy as np
import pytest
from running import running

from posformer import Recognizer
from posformer.serve import Settings, create_app

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")

BROWSER = os.environ.get("POSFORMER_BROWSER") or shutil.which("chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SCREENSHOT = os.environ.get("POSFORMER_SCREENSHOT")  # where to write an image of the page

pytestmark = pytest.mark.skipif(not BROWSER, reason="needs Chromium (apt-get install chromium)")


def arc(x, y, across, down, start, end, steps=14):
    angles = np.radians(np.linspace(start, end, steps))
    return [(x + across * np.cos(angle), y + down * np.sin(angle)) for angle in angles]


X = [[(0, 22), (18, 40), (36, 60)], [(36, 22), (18, 42), (0, 62)]]
TWO = [[*arc(58, -16, 11, 10, 190, 370), (62, 2), (47, 12), (72, 12)]]
PLUS = [[(95, 32), (135, 32)], [(115, 12), (115, 52)]]
ONE = [[(178, -30), (186, -38), (186, 12)]]
BAR = [[(160, 30), (214, 30)]]
THREE = [[*arc(184, 54, 13, 10, 200, 430), *arc(184, 75, 14, 11, 290, 510)]]
READ = "#formula[aria-busy=false] math"
FORMULA = [*X, *TWO, *PLUS, *ONE, *BAR, *THREE]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server on loopback, with the model that comes along."""
    with running(create_app(Recognizer.load(threads=1), Settings(workers=1))) as (address, _):
        yield address


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser, address):
    """The page, just opened; what it complains about on its console fails the test."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 900},
        permissions=["clipboard-read", "clipboard-write"],
    )
    page = context.new_page()
    page.set_default_timeout(20_000)
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda message: (
            complaints.append(message.text)
            if message.type == "error" and "status of 4" not in message.text
            else None
        ),
    )
    page.goto(address)
    yield page
    context.close()
    assert complaints == []


def write(page, strokes, x=150, y=200, scale=2.0):
    """Draw with the mouse; x and y from the corner of the writing area."""
    area = page.locator("#ink").bounding_box()
    for stroke in strokes:
        points = [(area["x"] + x + scale * a, area["y"] + y + scale * b) for a, b in stroke]
        page.mouse.move(*points[0])
        page.mouse.down()
        for point in points[1:]:
            page.mouse.move(*point, steps=3)
        page.mouse.up()


def drop(page, content: bytes, name: str, media_type: str):
    """Drop a file on the page, as a desktop would."""
    transfer = page.evaluate_handle(
        """([bytes, name, type]) => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([new Uint8Array(bytes)], name, { type }));
            return transfer;
        }""",
        [list(content), name, media_type],
    )
    page.dispatch_event("#surface", "drop", {"dataTransfer": transfer})


def copied(page, kind: str, name: str) -> str:
    """What the clipboard holds after a click on a button."""
    page.click(f"[data-copy={kind}]")
    page.wait_for_selector(f"#toast:has-text('{name} copied')")
    return page.evaluate("navigator.clipboard.readText()")


def ink_is_there(page) -> bool:
    return page.evaluate(
        """() => { const ink = document.getElementById("ink");
        const { data } = ink.getContext("2d").getImageData(0, 0, ink.width, ink.height);
        return data.some(Boolean) }"""
    )


def test_what_is_written_appears_as_a_formula(page):
    write(page, [*X, *TWO])
    page.wait_for_selector(f"{READ} msup")
    assert page.input_value("#latex") == "x^{2}"
    assert page.inner_text("#confidence").startswith(("Sure", "Likely", "Unsure"))
    assert ink_is_there(page)


def test_undo_redo_eraser_and_clear(page):
    write(page, X)
    page.wait_for_selector(READ)
    page.click("#undo")
    page.click("#undo")
    page.wait_for_selector("#formula.empty")
    assert not ink_is_there(page)
    page.keyboard.press("Control+y")
    page.wait_for_selector(READ)
    page.click("#eraser")
    write(page, [[(-10, 24), (40, 36)]])
    page.wait_for_selector("#formula.empty")
    assert not ink_is_there(page)
    page.keyboard.press("Control+z")
    assert ink_is_there(page)
    page.click("#clear")
    assert not ink_is_there(page)


def test_latex_can_be_edited_and_copied(page):
    page.fill("#latex", r"\frac{1}{2}")
    page.wait_for_selector("#formula mfrac")
    assert copied(page, "latex", "LaTeX") == r"\frac{1}{2}"
    assert copied(page, "markdown", "Markdown") == r"$\frac{1}{2}$"
    assert "<mfrac>" in copied(page, "mathml", "MathML")
    page.click("[data-copy=png]")
    page.wait_for_selector("#toast:has-text('Image copied')")
    kinds = page.evaluate("navigator.clipboard.read().then(([item]) => item.types)")
    assert "image/png" in kinds


def test_large_sums_have_their_limits_above_and_below(page):
    page.fill("#latex", r"\sum_{k=0}^{n}k^2")
    page.wait_for_selector("#formula munderover")
    page.wait_for_selector("#formula msup")


def test_latex_that_makes_no_sense_is_explained_in_words(page):
    page.fill("#latex", "x^{2")
    page.wait_for_selector("#problem:visible")
    assert "{" in page.inner_text("#problem")
    page.fill("#latex", "x^{2}")
    page.wait_for_selector("#problem", state="hidden")


def test_another_reading_can_be_chosen(page):
    write(page, X)
    page.wait_for_selector(READ)
    second = page.locator("#alternatives button").nth(1)
    second.click()
    playwright.expect(page.locator("#latex")).to_have_value(second.get_attribute("title"))
    assert second.get_attribute("aria-pressed") == "true"


def test_a_dropped_image_is_read_after_asking_for_the_part(page):
    paper = np.full((120, 200), 255, np.uint8)
    cv2.line(paper, (50, 30), (100, 90), 0, 3)
    cv2.line(paper, (100, 30), (50, 90), 0, 3)
    drop(page, cv2.imencode(".png", paper)[1].tobytes(), "note.png", "image/png")
    page.wait_for_selector("#crop[open]")
    page.click("#crop-read")
    page.wait_for_selector(READ)
    assert page.is_visible("#image")
    page.click("#remove")
    page.wait_for_selector("#formula.empty")


def test_what_cannot_be_read_is_told_in_words(page):
    drop(page, b"no image at all", "note.txt", "text/plain")
    page.wait_for_selector("#problem:visible")
    assert "image" in page.inner_text("#problem")


def test_how_it_was_read_is_shown(page):
    write(page, X)
    page.wait_for_selector(READ)
    page.click("#how summary")
    page.wait_for_selector("#forest svg g.M")
    chips = page.locator("#looks .chips button")
    chips.first.focus()
    assert chips.first.get_attribute("aria-pressed") == "true"


def test_history_outlives_the_visit(page):
    write(page, X)
    page.wait_for_selector(READ)
    latex = page.input_value("#latex")
    page.reload()
    page.click("#history button")
    assert page.input_value("#latex") == latex
    assert ink_is_there(page)


def test_symbols_and_interface_can_be_looked_up(page, address):
    page.click("#show-symbols")
    page.wait_for_selector("#symbols[open]")
    assert page.locator("#words li").count() > 5
    page.click("#symbols-close")
    page.goto(f"{address}docs")
    page.wait_for_selector("article h2")
    assert "/api/strokes" in page.inner_text("main")


def test_a_phone_has_all_of_it_within_its_width(page):
    page.set_viewport_size({"width": 375, "height": 720})
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    write(page, X, x=40, y=60)
    page.wait_for_selector(READ)


def test_ink_stays_in_sight_when_the_area_shrinks(page):
    write(page, X, x=500, y=60)
    page.set_viewport_size({"width": 375, "height": 720})
    page.wait_for_timeout(100)
    assert ink_is_there(page)


@pytest.mark.skipif(not SCREENSHOT, reason="POSFORMER_SCREENSHOT names no file to write")
def test_a_image_of_the_page(page):
    write(page, FORMULA, x=130, y=190, scale=2.2)
    page.wait_for_selector(READ)
    page.click("#how summary")
    page.wait_for_selector("#forest svg g.M")
    page.locator("#looks .chips button").nth(3).focus()
    page.wait_for_timeout(600)
    page.screenshot(path=SCREENSHOT, full_page=True)
