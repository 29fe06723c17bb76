"""Any request that the document allows, and many that it does not, get an answer that the document describes."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.service.test_commands import serving
from tools.openapi import PAGE

WAIT_MS_MAX = 5
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@schemathesis.serializer("application/msgpack")
def packed(_: Any, value: Any) -> bytes:
    """The body in MessagePack; of a number that it cannot hold, bytes that are none."""
    try:
        return msgspec.msgpack.encode(value)
    except OverflowError:
        return b"\xc1"


SCHEMA = schemathesis.openapi.from_dict(json.loads(PAGE.read_text("utf-8")))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The URL of a service in a process of its own, and a token that may do everything in its tenant."""
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    with serving("--url", "memory://", folder=tmp_path_factory.mktemp("fuzz")) as (url, printed):
        yield url, printed.rpartition("HEADRACE_TOKEN=")[2].strip()


@SCHEMA.parametrize()
@settings(max_examples=28, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_every_answer_is_one_that_the_document_describes(case: Any, place: tuple[str, str]) -> None:
    url, token = place
    for part in (case.body, case.query):
        if isinstance(part, dict):
            for name in ("wait_ms", "timeout_ms"):
                if isinstance(part.get(name), int) and not isinstance(part[name], bool) and part[name] > WAIT_MS_MAX:
                    part[name] = WAIT_MS_MAX
    response = case.call(base_url=url, headers={"authorization": f"Bearer {token}"})
    case.validate_response(response, checks=CHECKS)
