"""A server with a small random model."""

from collections.abc import Iterator

import pytest
from browsing import BROWSER, FLAGS
from fastapi.testclient import TestClient

from posformer import Recognizer
from posformer.serve import Settings, create_app


@pytest.fixture(scope="session")
def tiny_recognizer(tiny_folder) -> Recognizer:
    return Recognizer.load(tiny_folder, threads=1)


@pytest.fixture(scope="session")
def client(tiny_recognizer) -> Iterator[TestClient]:
    """A client of a server with small limits."""
    settings = Settings(body_bytes=200_000, strokes=20, points=500, latex_characters=300)
    app = create_app(tiny_recognizer, settings)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")  # the loop of an open Playwright is in the way of other tests
def browser():
    """Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield browser
        browser.close()
