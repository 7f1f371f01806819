"""The HTTP API."""

import asyncio
import base64
import gzip
import io
import json
import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import cv2
import defusedxml.ElementTree as SafeXml
import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from hostile import nested_pdf
from posformer import DecodingOptions, Recognizer
from posformer.errors import ConfigError
from posformer.models.model_folder import open_folder, store_info
from posformer.runtime import Thresholds
from posformer.serve import Settings, allowed_hosts, create_app

CROSS = [[[10, 10], [40, 50]], [[40, 10], [10, 50]]]


def png(image: np.ndarray) -> bytes:
    return cv2.imencode(".png", image)[1].tobytes()


@pytest.fixture
def photo() -> bytes:
    """A cross in black on white."""
    paper = np.full((120, 160), 255, np.uint8)
    cv2.line(paper, (50, 30), (100, 90), 0, 3)
    cv2.line(paper, (100, 30), (50, 90), 0, 3)
    return png(paper)


def inkml(strokes) -> bytes:
    traces = [", ".join(f"{x} {y}" for x, y in stroke) for stroke in strokes]
    body = "".join(f"<trace>{points}</trace>" for points in traces)
    return f'<ink xmlns="http://www.w3.org/2003/InkML">{body}</ink>'.encode()


def ink(strokes, **query):
    return {"url": "/api/strokes", "json": {"strokes": strokes}, "params": query}


def upload(content: bytes, name: str = "note.png", **query):
    return {"url": "/api/recognize", "files": {"file": (name, content)}, "params": query}


def test_strokes(client, tiny_recognizer):
    answer = client.post(**ink(CROSS))
    assert answer.status_code == 200
    found = answer.json()
    expected = tiny_recognizer.recognize_strokes(CROSS)
    assert found["latex"] == expected.latex
    assert found["confidence"] == pytest.approx(expected.confidence, abs=1e-5)
    assert found["mathml"] == expected.mathml
    assert found["alternatives"] == []
    assert found["milliseconds"] > 0
    assert found["unsure"] is expected.is_unsure
    assert "explanation" not in found


def test_top_k(client):
    found = client.post(**ink(CROSS, top_k=3)).json()
    assert len(found["alternatives"]) == 2
    assert all(set(other) == {"latex", "confidence"} for other in found["alternatives"])


def test_symbols_on_request(client, tiny_recognizer):
    assert {"symbols", "tokens"}.isdisjoint(client.post(**ink(CROSS)).json())
    found = client.post(**ink(CROSS, symbols=True)).json()
    expected = tiny_recognizer.recognize_strokes(CROSS, symbols=True).to_dict()
    assert found["tokens"] == expected["tokens"]
    assert [one["index"] for one in found["symbols"]] == [
        one["index"] for one in expected["symbols"]
    ]
    for one, other in zip(found["symbols"], expected["symbols"], strict=True):
        assert one["token"] == other["token"] == found["tokens"][one["index"]]
        assert one["confidence"] == pytest.approx(other["confidence"], abs=1e-5)
        assert set(one) == {"index", "token", "confidence", "alternatives"}


def test_unreadable_input_is_an_error_with_alternatives(client, tiny_folder, tmp_path):
    best = client.post(**ink(CROSS)).json()
    folder = shutil.copytree(tiny_folder, tmp_path / "strict")
    store_info(open_folder(folder), {"thresholds": Thresholds(readable=1.0).to_dict()})
    with TestClient(create_app(Recognizer.load(folder, threads=1), Settings())) as strict:
        answer = strict.post(**ink(CROSS))
    assert answer.status_code == 422
    reading = {"latex": best["latex"], "confidence": best["confidence"]}
    assert answer.json() == {"error": "not readable", "alternatives": [reading]}


def test_image(client, tiny_recognizer, photo):
    found = client.post(**upload(photo)).json()
    assert found["latex"] == tiny_recognizer.recognize(photo).latex
    assert found["path"] == "note.png"


XOPP = b"""<xournal><page><layer><stroke tool="pen">10 10 40 50</stroke></layer></page>
<page><layer><stroke tool="pen">10 10 40 50</stroke><stroke tool="pen">10 900 40 950</stroke>
</layer></page></xournal>"""


def test_documents_have_one_result_per_formula(client):
    found = client.post(**upload(gzip.compress(XOPP), "notes.xopp", explain=True)).json()
    places = [(one["page"], one["box"]) for one in found["formulas"]]
    assert places == [(1, [10, 10, 40, 50]), (2, [10, 10, 40, 50]), (2, [10, 900, 40, 950])]
    assert all(one["latex"] and one["alternatives"] == [] for one in found["formulas"])
    assert len(found["explanation"]) == 3
    assert "box" not in found and found["mathml"].startswith("<math")


def test_format(client, tiny_recognizer):
    expected = tiny_recognizer.recognize_strokes(CROSS)
    assert client.post(**ink(CROSS, format="unicode")).json()["text"] == expected.to("unicode")
    assert "text" not in client.post(**ink(CROSS)).json()
    refused = client.post(**ink(CROSS, format="word"))
    assert refused.status_code == 422 and "format" in refused.json()["error"]


@pytest.mark.parametrize(
    ("latex", "format", "text", "problem"),
    [
        (r"\frac12", "typst", "frac(1, 2)", None),
        (r"\frac12", None, None, None),
        (r"x\pm1", "sympy", None, r"\pm (token 2) has no meaning there in SymPy"),
        ("x^{", "typst", None, "{ (token 3, column 3) is never closed"),
    ],
)
def test_latex_in_other_formats(client, latex, format, text, problem):
    found = client.post("/api/latex", json={"latex": latex, "format": format}).json()
    assert (found["text"], found["problem"]) == (text, problem)


def test_inkml_equals_its_strokes(client):
    found = client.post(**upload(inkml(CROSS), "note.inkml")).json()
    assert found["path"] == "note.inkml"
    assert found["latex"] == client.post(**ink(CROSS)).json()["latex"]


def test_strokes_on_two_lines(client, tiny_recognizer):
    lines = CROSS + [[[x, y + 150] for x, y in stroke] for stroke in CROSS]
    assert len(tiny_recognizer.recognize_strokes(lines).lines) == 2
    found = client.post(**ink(lines, explain=True)).json()
    assert found["latex"] == tiny_recognizer.recognize_strokes(lines).latex
    assert len(found["explanation"]) == 2


def test_pressure_and_time_are_ignored(client):
    with_pressure = [[[*point, 0.5, 17] for point in stroke] for stroke in CROSS]
    both = [client.post(**ink(strokes)).json()["latex"] for strokes in (CROSS, with_pressure)]
    assert both[0] == both[1]


def test_explanation_matches_the_image(client, tiny_recognizer):
    found = client.post(**ink(CROSS, explain=True)).json()
    (line,) = found["explanation"]
    image = Image.open(io.BytesIO(base64.b64decode(line["picture"])))
    assert image.size == (16 * line["columns"], 16 * line["rows"])
    tokens = tiny_recognizer.recognize_strokes(CROSS).tokens
    assert tuple(symbol["token"] for symbol in line["symbols"]) == tokens
    for symbol in line["symbols"]:
        assert len(symbol["map"]) == line["rows"] * line["columns"]
        assert max(symbol["map"]) == 255


def test_latex_to_mathml_and_forest(client):
    found = client.post("/api/latex", json={"latex": "x^{2}"}).json()
    assert "<msup>" in found["mathml"]
    assert [entry["identifier"] for entry in found["forest"]] == ["M", "ML", "ML", "ML", "ML"]
    assert found["trees"] == "M  x\n└─ L  ^ 2"
    assert "problem" not in found or found["problem"] is None


def test_malformed_latex_has_a_problem(client):
    found = client.post("/api/latex", json={"latex": "x^{2"}).json()
    assert "{" in found["problem"]
    assert found["trees"] == "M  x\n└─ L  ^ 2"


@pytest.mark.parametrize(
    "latex",
    [
        r"<script>\text{<img src=x onerror=alert(1)>}",
        r"\text{</mtext></math><img>}",
        r"\href{javascript:alert(1)}{x}",
        r"\class{a}{x}\style{color:red}{x}",
        "\\text{\x00<b>}",
        r"\mathrm{<b>&amp;}",
    ],
)
def test_markup_in_latex_is_escaped(client, latex):
    mathml = client.post("/api/latex", json={"latex": latex}).json()["mathml"]
    for element in SafeXml.fromstring(mathml).iter():
        assert element.tag.rpartition("}")[2] in ("math", "merror") or element.tag.startswith(
            "{http://www.w3.org/1998/Math/MathML}m"
        )
        assert not {"href", "style", "onerror", "class"} & set(element.keys())


def test_a_lone_surrogate_is_refused(client):
    """JSON can express it, but a response in UTF-8 cannot."""
    headers = {"Content-Type": "application/json"}
    answer = client.post("/api/latex", content=rb'{"latex": "\ud800"}', headers=headers)
    assert answer.status_code == 422
    assert "lone surrogate" in answer.json()["error"]


def test_comparison_signs_in_text_are_kept(client):
    mathml = client.post("/api/latex", json={"latex": r"\text{a<b}"}).json()["mathml"]
    assert "".join(SafeXml.fromstring(mathml).itertext()) == "a<b"


def test_health_and_model(client, tiny_recognizer):
    assert client.get("/api/health").json()["status"] == "ok"
    model = client.get("/api/model").json()
    assert model["words"] == list(tiny_recognizer.runtime.vocabulary.tokens)


@pytest.mark.parametrize(
    ("request_", "status", "message"),
    [
        (ink([]), 422, "no ink"),
        (ink([[]]), 422, "no ink"),
        (ink([[[1]]]), 422, "strokes 0 0"),
        (ink([[["1", 2]]]), 422, "valid number"),
        (ink(CROSS, top_k=0), 422, "top_k"),
        (ink(CROSS, top_k=1000), 422, "top_k"),
        (ink([[[1, 1e12]]]), 422, "out of range"),
        (ink([[[1, 2]]] * 21), 413, "20 strokes"),
        (ink([[[1, 2]] * 501]), 413, "500 points"),
        (upload(b""), 422, "empty"),
        (upload(b"no image"), 422, "not an image"),
        (upload(b"<ink/>"), 422, "trace"),
        (upload(inkml([[[1, 2]]] * 21)), 413, "20 strokes"),
        (upload(inkml([[[1, 2]] * 501])), 413, "500 points"),
        (upload(png(np.full((50, 50), 255, np.uint8))), 422, "no ink"),
        (upload(bytes(300_000)), 413, "200000 bytes"),
        ({"url": "/api/recognize", "files": {"other": b"x"}}, 422, "file"),
        ({"url": "/api/recognize", "content": b"x"}, 415, "multipart/form-data"),
        ({"url": "/api/strokes", "data": {"strokes": "x"}}, 415, "application/json"),
        ({"url": "/api/latex", "json": {"latex": "x" * 301}}, 413, "300 characters"),
        ({"url": "/api/latex", "json": {"latex": "^" * 300}}, 413, "100 levels"),
        ({"url": "/api/nothing"}, 404, "Not Found"),
        ({"url": "/api/health"}, 405, "Not Allowed"),
    ],
)
def test_invalid_requests_are_refused(client, request_, status, message):
    answer = client.post(**request_)
    assert (answer.status_code, set(answer.json())) == (status, {"error"})
    assert message in answer.json()["error"]
    assert "\n" not in answer.json()["error"]
    assert "/src/" not in answer.text


@pytest.mark.parametrize(
    "latex",
    ["^" * 4000, "_" * 4000, "{" * 4000, r"\frac" * 800, r"\sqrt" * 800, "x^{" * 99 + "y" * 3600],
    ids=["hats", "subscripts", "braces", "fractions", "roots", "deepest allowed"],
)  # fmt: skip
def test_short_latex_has_no_long_answer(tiny_recognizer, latex):
    # Of nested expressions, MathML and forest grew with the square of the length, to 32 MB.
    app = create_app(tiny_recognizer, Settings())
    with TestClient(app, raise_server_exceptions=False) as client:
        answer = client.post("/api/latex", json={"latex": latex})
    assert answer.status_code in (200, 413, 422)
    assert len(answer.content) < 2_000_000


def test_greedy_server_refuses_several_results(tiny_recognizer):
    app = create_app(tiny_recognizer, Settings(options=DecodingOptions(greedy=True)))
    with TestClient(app) as client:
        assert client.post(**ink(CROSS)).status_code == 200
        answer = client.post(**ink(CROSS, top_k=2))
    assert answer.status_code == 422
    assert "greedy" in answer.json()["error"]


@pytest.mark.parametrize("limit", ["workers", "seconds", "job_seconds", "connections"])
def test_limits_must_be_positive(limit):
    with pytest.raises(ConfigError, match=limit):
        Settings(**{limit: 0})


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"strokes": NaN}', b'{"strokes": [[[NaN,1]]]}']
)
def test_invalid_json_is_refused(client, body):
    answer = client.post("/api/strokes", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["error"]


def test_image_with_too_many_pixels_is_refused(client):
    file = io.BytesIO()
    Image.new("1", (9000, 9000)).save(file, "PNG")
    answer = client.post(**upload(file.getvalue()))
    assert answer.status_code == 422
    assert "at most 64 million" in answer.json()["error"]


def test_chunked_body_is_limited(client):
    def endless():
        for _ in range(100):
            yield b" " * 10_000

    answer = client.post(
        "/api/strokes", content=endless(), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 413


def test_slow_request_times_out(tiny_recognizer):
    app = create_app(tiny_recognizer, Settings(seconds=0.05, workers=1))
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/strokes",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        await asyncio.sleep(60)

    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 408
    assert b"did not arrive" in sent[1]["body"]


def test_waiting_too_long_times_out(tiny_recognizer):
    app = create_app(tiny_recognizer, Settings(seconds=1e-3))
    with TestClient(app) as client:
        answer = client.post(**ink(CROSS))
    assert answer.status_code == 408
    assert "seconds" in answer.json()["error"]


def test_hard_input_costs_its_budget_only(tiny_recognizer):
    pytest.importorskip("pypdfium2")
    app = create_app(tiny_recognizer, Settings(seconds=300, job_seconds=1.5))
    with TestClient(app) as client, ThreadPoolExecutor(2) as clients:
        hard = clients.submit(client.post, **upload(nested_pdf(), "hard.pdf"))
        easy = clients.submit(client.post, **ink(CROSS))
        assert hard.result().status_code == 408
        assert hard.result().json() == {"error": "takes longer than 1.5 seconds"}
        assert easy.result().status_code == 200


def test_input_that_takes_too_much_memory_is_refused(tiny_recognizer):
    file = io.BytesIO()
    Image.new("RGB", (7500, 7500)).save(file, "PNG")
    with TestClient(create_app(tiny_recognizer, Settings(megabytes=100, seconds=300))) as client:
        answer = client.post(**upload(file.getvalue()))
        assert (answer.status_code, answer.json()["error"]) == (
            413,
            "needs more than 100 MB of memory",
        )
        assert client.post(**ink(CROSS)).status_code == 200


@pytest.mark.skipif(os.name == "nt", reason="stops a process")
def test_stuck_worker_makes_the_server_not_ready(tiny_recognizer):
    app = create_app(tiny_recognizer, Settings(seconds=300, job_seconds=4))
    with TestClient(app) as client, ThreadPoolExecutor(1) as clients:
        assert client.get("/api/ready").json() == {"ready": True}
        (process,) = app.state.pool.process_ids
        os.kill(process, signal.SIGSTOP)
        stuck = clients.submit(client.post, **ink(CROSS))
        while client.get("/api/ready").status_code == 200:
            time.sleep(0.05)
        assert client.get("/api/ready").json() == {"ready": False}
        assert client.get("/api/health").json()["status"] == "ok"
        assert stuck.result().status_code == 408
        while client.get("/api/ready").status_code == 503:
            time.sleep(0.05)
        assert client.post(**ink(CROSS)).status_code == 200


@pytest.mark.parametrize("path", ["/", "/docs", "/style.css", "/api/health", "/nothing"])
def test_every_response_has_security_headers(client, path):
    headers = client.get(path).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    # The page compiles WebAssembly; this does not allow `eval` or inline scripts.
    assert "unsafe" not in policy.replace("'wasm-unsafe-eval'", "")
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.fixture(scope="module")
def guarded(tiny_recognizer):
    """A client of a server on loopback that allows one more host and one more origin."""
    settings = Settings(
        hosts=allowed_hosts("127.0.0.1", ["Formulas.example"]), origins=("https://notes.example",)
    )
    with TestClient(create_app(tiny_recognizer, settings)) as client:
        yield client


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8000", 200),
        ("localhost", 200),
        ("LOCALHOST:80", 200),
        ("[::1]:8000", 200),
        ("192.168.1.5:8000", 200),  # no name server can point an address elsewhere
        ("formulas.example:443", 200),
        ("attacker.example:8000", 421),
        ("127.0.0.1.attacker.example", 421),
        ("[::1", 421),
        ("", 421),
    ],
)
def test_host_is_checked(guarded, host, status):
    for path in ("/", "/api/health"):
        answer = guarded.get(path, headers={"Host": host})
        assert answer.status_code == status
        assert "nosniff" in answer.headers.values()


def test_allowed_hosts():
    """Names of a server that listens on all addresses, as in the container, are not all allowed."""
    assert "attacker.example" not in allowed_hosts("0.0.0.0")
    assert set(allowed_hosts("127.0.0.5")) == {"127.0.0.1", "::1", "localhost", "127.0.0.5"}
    assert "formulas.example" in allowed_hosts("0.0.0.0", ["Formulas.example"])
    assert allowed_hosts("0.0.0.0", ["*"]) == ()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),  # not a browser
        ({"Origin": "http://localhost"}, 200),
        ({"Origin": "https://LOCALHOST"}, 200),  # behind a proxy with TLS
        ({"Origin": "https://notes.example"}, 200),
        ({"Origin": "https://notes.example", "Sec-Fetch-Site": "cross-site"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "https://attacker.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_pages_of_other_origins_are_refused(guarded, headers, status):
    headers = {"Host": "localhost", **headers}
    answer = guarded.post("/api/latex", json={"latex": "x"}, headers=headers)
    assert answer.status_code == status
    assert guarded.get("/api/health", headers=headers).status_code == status
    assert guarded.get("/", headers=headers).status_code == 200


def test_links_to_the_api_are_followed(guarded):
    headers = {"Host": "localhost", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert guarded.get("/api/openapi.json", headers=headers).status_code == 200


def test_cors(client, guarded):
    headers = {"Origin": "https://notes.example", "Host": "localhost"}
    name = "Access-Control-Allow-Origin"
    assert name not in client.get("/api/health", headers=headers).headers
    assert guarded.get("/api/health", headers=headers).headers[name] == "https://notes.example"


def test_openapi_document(client):
    document = client.get("/api/openapi.json").json()
    assert {"/api/recognize", "/api/strokes", "/api/latex"} <= set(document["paths"])
    statuses = document["paths"]["/api/strokes"]["post"]["responses"]
    assert {"200", "403", "408", "413", "415", "421", "422", "503"} <= set(statuses)
    assert "HTTPValidationError" not in json.dumps(document)


def test_page_caching(client):
    first = client.get("/")
    again = client.get("/", headers={"If-None-Match": first.headers["ETag"]})
    assert (first.status_code, again.status_code) == (200, 304)
