"""Correcting symbols by hand on the page."""

import pytest
from browsing import BROWSER, ONE, PLUS, RECOGNIZED, TWO, X, has_ink, open_page, write
from running import running

from posformer import Recognizer
from posformer.serve import Settings, create_app

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
pytestmark = pytest.mark.skipif(not BROWSER, reason="needs Chromium (apt-get install chromium)")


@pytest.fixture(scope="module")
def address():
    """A server with the bundled model."""
    with running(create_app(Recognizer.load(threads=1), Settings())) as (address, _):
        yield address


@pytest.fixture
def page(browser, address):
    with open_page(browser, address) as page:
        yield page


def symbol(token, confidence=0.9, *alternatives):
    shares = [{"token": one, "confidence": 0.1} for one in alternatives]
    return {"token": token, "confidence": confidence, "alternatives": shares}


def answer(*symbols):
    """An answer of the API with symbols and structure tokens."""
    tokens = [one if isinstance(one, str) else one["token"] for one in symbols]
    ink = [{**one, "index": index} for index, one in enumerate(symbols) if not isinstance(one, str)]
    return {"tokens": tokens, "symbols": ink}


def applied(page, first, choice, *later):
    """Choose a symbol in the first answer; return the tokens of each later one."""
    return page.evaluate(
        """async ([first, [index, token], later]) => {
            const { Corrections } = await import("/corrections.js");
            const corrections = new Corrections();
            corrections.choose(first, index, token);
            return later.map((one) => corrections.apply(one).tokens.join(" "));
        }""",
        [first, choice, list(later)],
    )


def test_a_choice_stays_where_it_was_made(page):
    first = answer(symbol("x", 0.4, "X"), "^", "{", symbol("2"), "}")
    longer = answer(symbol("1"), symbol("+"), *(first["tokens"]), symbol("-"), symbol("x"))
    longer["symbols"].append({**symbol("x", 0.9, "X"), "index": 2})
    assert applied(page, first, (0, "X"), first, longer) == [
        "X ^ { 2 }",
        "1 + X ^ { 2 } - x",
    ]


def test_a_choice_finds_its_place_when_the_model_changes_its_mind(page):
    first = answer(symbol("X", 0.4, "x"))
    second = answer(symbol("x", 0.9, "X"), symbol("+"), symbol("1"))
    assert applied(page, first, (0, "x"), second) == ["x + 1"]
    assert applied(page, second, (0, "X"), first, second) == ["X", "X + 1"]


def test_a_choice_survives_a_result_that_has_no_place_for_it(page):
    first = answer(symbol("x", 0.4, "X"), symbol("+"), symbol("y"))
    other = answer(symbol("="))
    assert applied(page, first, (0, "X"), other, first) == ["=", "X + y"]


def test_a_choice_ends_when_the_ink_becomes_something_else(page):
    first = answer(symbol("x", 0.4, "X"), symbol("+"), symbol("1"))
    replaced = answer(symbol("2"), symbol("+"), symbol("1"))
    similar = answer(symbol(r"\times", 0.4, "X"), symbol("+"), symbol("1"))
    assert applied(page, first, (0, "X"), replaced, similar) == ["2 + 1", "X + 1"]


def test_alignment(page):
    pairs = page.evaluate(
        """async () => {
            const { align } = await import("/corrections.js");
            const pair = (one, other) => align([...one], [...other]);
            return [["abc", "abc"], ["abc", "xabc"], ["abc", "ac"], ["a", ""], ["abc", "axc"],
                ["x", "x+x"]].map(([one, other]) => pair(one, other));
        }"""
    )
    assert pairs == [[0, 1, 2], [1, 2, 3], [0, -1, 1], [-1], [0, 1, 2], [0]]


def choose_other(page, element) -> str:
    """Click a symbol of the formula and choose its first alternative."""
    element.click()
    page.wait_for_selector("#choices:visible")
    other = page.locator("#choices button").nth(1)
    token = other.get_attribute("title")
    other.click()
    page.wait_for_selector("#choices", state="hidden")
    return token


def test_further_strokes_keep_the_chosen_symbol(page):
    write(page, X)
    page.wait_for_selector(RECOGNIZED)
    before = page.input_value("#latex")
    token = choose_other(page, page.locator("#formula .symbol").first)
    assert token != before
    playwright.expect(page.locator("#latex")).to_have_value(token)
    assert has_ink(page)
    write(page, [*PLUS, *ONE])
    playwright.expect(page.locator("#formula mn")).to_have_count(1)
    page.wait_for_selector(RECOGNIZED)
    assert page.input_value("#latex").startswith(token)
    assert page.locator("#formula .chosen").count() == 1
    # By now the model may be sure of the symbol and offer no other.
    page.locator("#formula .chosen").click()
    page.locator(f"#choices button[title='{token}']").click()
    assert page.input_value("#latex").startswith(token)
    page.click("#clear")
    page.wait_for_selector("#formula.empty")
    write(page, X)
    page.wait_for_selector(RECOGNIZED)
    assert page.input_value("#latex") == before


def test_doubtful_symbols_are_marked_and_reached_by_keyboard(page):
    """A scribble between two symbols is doubtful, whatever the model takes it for."""
    write(page, [*TWO, [(95, 20), (108, 34), (101, 40), (118, 22), (104, 52), (120, 48)]])
    page.wait_for_selector(RECOGNIZED)
    doubtful = page.locator("#formula .doubtful")
    assert doubtful.count() >= 1
    doubtful.first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#choices:visible")
    assert page.locator("#choices button").count() >= 2
    page.keyboard.press("Escape")
    page.wait_for_selector("#choices", state="hidden")
    doubtful.first.focus()
    page.keyboard.press("Enter")
    page.locator("#choices button").first.click()  # the symbol is right: no longer doubtful
    page.wait_for_selector("#formula .chosen")
