"""Fuzzing the API against its OpenAPI document."""

import pytest
from hypothesis import HealthCheck, given, settings
from running import running

from posformer import DecodingOptions
from posformer.serve import Settings, create_app

schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis")

PATHS = ["/api/recognize", "/api/strokes", "/api/latex"]


@pytest.fixture(scope="module")
def schema(tiny_recognizer):
    with running(create_app(tiny_recognizer, Settings(options=DecodingOptions(beam=1)))) as (
        address,
        _,
    ):
        yield schemathesis.openapi.from_url(f"{address}api/openapi.json")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["POSITIVE", "NEGATIVE"])
@pytest.mark.parametrize("path", PATHS)
def test_random_requests_conform_to_the_schema(schema, path, kind):
    mode = getattr(schemathesis.GenerationMode, kind)

    @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
    @given(schema[path]["POST"].as_strategy(generation_mode=mode))
    def check(case):
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

    check()
