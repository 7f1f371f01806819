"""The HTML report: self-contained, escaped, and with the right numbers."""

import base64
import os
import re
import shutil
from html.parser import HTMLParser

import cv2
import numpy as np
import pytest

from posformer.errors import DataError
from posformer.evaluation import (
    Prediction,
    ReportOptions,
    compare,
    read_predictions,
    report_page,
    write_report,
)

BROWSER = os.environ.get("POSFORMER_BROWSER") or shutil.which("chromium")
VOID_ELEMENTS = {"br", "img", "input", "link", "meta"}


def prediction(name: str, truth: str, guess: str, confidence: float | None = None) -> Prediction:
    return Prediction(name, tuple(truth.split()), tuple(guess.split()), confidence)


PREDICTIONS = [
    prediction("right", "x ^ { 2 }", "x ^ { 2 }", 0.9),
    prediction("symbol", "a < b", "a > b", 0.95),
    prediction("structure", "x ^ { 2 }", "x _ { 2 }", 0.4),
    prediction("few", "1 + 1", "1 1", 0.3),
    prediction("broken", "\\frac { a } { b }", "\\frac { a }", 0.2),
]


class Outline(HTMLParser):
    """Checks that elements are properly nested, and collects attributes and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID_ELEMENTS:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def of_class(self, name: str) -> list[dict[str, str]]:
        return [one for _, one in self.elements if name in one.get("class", "").split()]


def test_report_has_all_sections_with_their_numbers():
    page = Outline(report_page(PREDICTIONS, options=ReportOptions("CROHME", model="mine")))
    for heading in ("Metrics", "Levels and lengths", "Kinds of errors", "Symbols", "Confidence"):
        assert heading in page.text
    assert "mine, 5 expressions" in page.text
    assert "ExpRate 20.00 %" in page.text and "≤1 error 80.00 %" in page.text
    assert "CER 26.09 %" in page.text  # 1 + 1 + 1 + 3 edits of 23 tokens
    assert "Well-formed 80.00 %" in page.text
    assert "Symbols only the structure is right 2 (50 %)" in page.text
    assert "Too few: under-parsing missing symbols 2 (50 %)" in page.text
    assert "4 of 4 errors" in page.text


def test_report_has_no_scripts_and_no_external_resources():
    page = report_page(PREDICTIONS, lambda name: np.zeros((20, 30), np.uint8))
    outline = Outline(page)
    assert not any(tag in ("script", "link", "iframe", "object") for tag, _ in outline.elements)
    for _, attributes in outline.elements:
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("href", "#").startswith("#")
        assert attributes.get("src", "data:image/png;").startswith("data:image/png;")
    assert not re.search(r"url\((?!#)|@import|https?:", page)


def test_names_and_tokens_are_escaped():
    nasty = '<script>alert("x")</script>'
    page = report_page([prediction(nasty, "a < b &amp;", "</style> > b", 0.5)])
    assert "<script" not in page
    text = Outline(page).text
    assert nasty in text and "&amp;" in text and "</style>" in text


def test_differing_tokens_are_marked():
    page = Outline(report_page([prediction("a", "x + y", "x - y z")]))
    kinds = [one["class"] for one in page.of_class("pair")]
    assert kinds == ["pair names", "pair same", "pair replaced", "pair same", "pair extra"]


def test_errors_are_limited_and_sorted_by_confidence():
    page = Outline(report_page(PREDICTIONS, options=ReportOptions(most_errors=2)))
    cards = page.of_class("card")
    assert [card["class"].split()[1] for card in cards] == ["symbols", "structure"]
    assert "2 of 4 errors, most confident first" in page.text


def test_plots_follow_the_colors_of_the_page():
    page = report_page(PREDICTIONS, comparison=compare(PREDICTIONS, PREDICTIONS))
    plots = re.findall(r"<svg.*?</svg>", page, re.S)
    assert len(plots) == 10  # 3 + 2 bar charts, 3 stacked bars, confusion matrix, reliability
    for plot in plots:
        assert "var(--series-0)" in plot
        assert not re.search(r"#0000\d\d", plot), "a placeholder color is left"
        assert not re.search(r"\bid=\"[a-z0-9.]+_\d+\"", plot), "ids must be unique in the page"


def test_axes_of_plots_are_labeled():
    text = Outline(report_page(PREDICTIONS)).text
    for label in (
        "nested level of the ground truth", "tokens in the ground truth", "ExpRate (%)",
        "token edits", "expressions (%)", "confidence", "correct (%)",
    ):  # fmt: skip
        assert label in text


def test_images_are_embedded_as_black_ink_on_white():
    image = np.zeros((20, 30), np.uint8)
    image[5, 7] = 255
    page = Outline(report_page(PREDICTIONS, {"symbol": image}.get))
    ((_, shown_image),) = (one for one in page.elements if one[0] == "img")
    data = base64.b64decode(shown_image["src"].partition(",")[2])
    shown = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_GRAYSCALE)
    assert shown is not None
    assert np.array_equal(shown, 255 - image)


def test_benchmarks_show_the_results_of_the_paper_with_caveats():
    text = Outline(report_page(PREDICTIONS, options=ReportOptions(split="2014"))).text
    assert "PosFormer 62.68 79.01" in text
    assert "lgeval" in text and "without scale augmentation" in text


def test_comparison_of_two_models():
    others = [
        prediction(one.name, " ".join(one.truth), " ".join(one.truth if place else ()))
        for place, one in enumerate(PREDICTIONS)
    ]
    options = ReportOptions(model="ours", other="theirs")
    text = Outline(report_page(PREDICTIONS, None, compare(PREDICTIONS, others), options)).text
    assert "ours: right 0 1" in text and "ours: wrong 4 0" in text
    assert "-60.00 points" in text and "p = 0.38" in text  # 2 (1 + 5) / 32
    assert "Only ours is right: 1 expressions" in text
    assert "Only theirs is right: 4 expressions" in text


def test_empty_sections_are_omitted():
    text = Outline(report_page([prediction("a", "x", "x")])).text
    assert "Kinds of errors" not in text and "Confidence" not in text and "Comparison" not in text
    assert "There are none." in text


def test_report_is_deterministic_and_includes_its_predictions(tmp_path):
    first = write_report(tmp_path / "a" / "b", PREDICTIONS)
    second = write_report(tmp_path / "c", PREDICTIONS)
    assert first == tmp_path / "a" / "b" / "index.html"
    assert first.read_bytes() == second.read_bytes()
    assert read_predictions(first.with_name("predictions.jsonl")) == PREDICTIONS


def test_report_without_predictions_is_an_error():
    with pytest.raises(DataError, match="no expressions"):
        report_page([])


@pytest.mark.skipif(not BROWSER, reason="needs Chromium (apt-get install chromium)")
def test_error_filters_and_phone_layout_in_a_browser(tmp_path):
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    page_file = write_report(tmp_path, PREDICTIONS, lambda name: np.zeros((40, 900), np.uint8))
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 360, "height": 700})
        page.goto(page_file.as_uri())
        shown = page.locator(".cards > .card:visible")
        assert shown.count() == 4
        page.get_by_text("structure only (1)").click()
        assert shown.all_inner_texts()[0].startswith("structure") and shown.count() == 1
        page.get_by_text("all (4)").click()
        assert shown.count() == 4
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        browser.close()
