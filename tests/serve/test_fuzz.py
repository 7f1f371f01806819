"""The interface against its own description: whatever comes in, it never breaks."""

import pytest
from hypothesis import HealthCheck, given, settings
from running import running

from posformer.serve import Settings, create_app

schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis")

ADDRESSES = ["/api/recognize", "/api/strokes", "/api/latex"]


@pytest.fixture(scope="module")
def described(tiny_recognizer):
    with running(create_app(tiny_recognizer, Settings(beam=1, workers=1))) as (address, _):
        yield schemathesis.openapi.from_url(f"{address}api/openapi.json")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["POSITIVE", "NEGATIVE"])
@pytest.mark.parametrize("address", ADDRESSES)
def test_nothing_breaks_it(described, address, kind):
    mode = getattr(schemathesis.GenerationMode, kind)

    @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
    @given(described[address]["POST"].as_strategy(generation_mode=mode))
    def nothing_breaks_it(case):
        answer = case.call()
        checks = schemathesis.checks
        case.validate_response(
            answer,
            checks=[
                checks.not_a_server_error,
                checks.status_code_conformance,
                checks.content_type_conformance,
                checks.response_schema_conformance,
            ],
        )

    nothing_breaks_it()
