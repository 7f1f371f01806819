"""Chromium for tests of the page: pages that fail on errors, writing, dropping files."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

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
TIMEOUT = 60_000  # milliseconds
RECOGNIZED = "#formula[aria-busy=false] math"


@contextmanager
def open_page(browser, address: str, allowed: str = "status of 4", **options) -> Iterator:
    """Yield the page at an address, ready for use.

    An error on its console fails the test, except for those with the allowed text.
    """
    context = browser.new_context(
        viewport=options.pop("viewport", {"width": 1280, "height": 900}),
        permissions=["clipboard-read", "clipboard-write"],
        **options,
    )
    page = context.new_page()
    page.set_default_timeout(TIMEOUT)
    console_errors = []
    page.on("pageerror", lambda error: console_errors.append(str(error)))
    page.on(
        "console",
        lambda message: (
            console_errors.append(message.text)
            if message.type == "error" and allowed not in message.text
            else None
        ),
    )
    page.goto(address)
    page.wait_for_selector("html[data-ready]")
    yield page
    context.close()
    assert not console_errors, console_errors


def arc(x, y, across, down, start, end, steps=14):
    angles = np.radians(np.linspace(start, end, steps))
    return [(x + across * np.cos(angle), y + down * np.sin(angle)) for angle in angles]


X = [[(0, 22), (18, 40), (36, 60)], [(36, 22), (18, 42), (0, 62)]]
TWO = [[*arc(58, -16, 11, 10, 190, 370), (62, 2), (47, 12), (72, 12)]]
PLUS = [[(95, 32), (135, 32)], [(115, 12), (115, 52)]]
ONE = [[(178, -30), (186, -38), (186, 12)]]
BAR = [[(160, 30), (214, 30)]]
THREE = [[*arc(184, 54, 13, 10, 200, 430), *arc(184, 75, 14, 11, 290, 510)]]
FORMULA = [*X, *TWO, *PLUS, *ONE, *BAR, *THREE]


def write(page, strokes, x=150, y=200, scale=2.0):
    """Draw with the mouse; x and y are relative to the writing area."""
    area = page.locator("#ink").bounding_box()
    for stroke in strokes:
        points = [(area["x"] + x + scale * a, area["y"] + y + scale * b) for a, b in stroke]
        page.mouse.move(*points[0])
        page.mouse.down()
        for point in points[1:]:
            page.mouse.move(*point, steps=3)
        page.mouse.up()


def drop(page, content: bytes, name: str, media_type: str):
    """Drop a file on the page."""
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
    """Click a copy button and return the clipboard."""
    page.click(f"[data-copy={kind}]")
    page.wait_for_selector(f"#toast:has-text('{name} copied')")
    return page.evaluate("navigator.clipboard.readText()")


def has_ink(page) -> bool:
    return page.evaluate(
        """() => { const ink = document.getElementById("ink");
        const { data } = ink.getContext("2d").getImageData(0, 0, ink.width, ink.height);
        return data.some(Boolean) }"""
    )
