"""The OpenAPI document says what the service does, and only ever grows."""

import copy
import json
from typing import Any

import pytest

from headrace.service.openapi import problems_of, removals
from headrace.service.problems import PROBLEMS
from headrace.service.table import OPERATIONS
from tests.service.support import Running
from tools.openapi import PAGE, current


def test_the_committed_document_is_that_of_the_operations() -> None:
    assert PAGE.read_text("utf-8") == current(), "run python -m tools.openapi --write"


def test_the_document_lacks_nothing_that_it_had() -> None:
    assert removals(json.loads(PAGE.read_text("utf-8")), json.loads(current())) == []


def _change(document: dict[str, Any], what: str) -> None:
    paths, schemas = document["paths"], document["components"]["schemas"]
    match what:
        case "an operation":
            del paths["/v1/claims"]["post"]
        case "a path":
            del paths["/v1/leases/turn"]
        case "a member":
            del schemas["NewJob"]["properties"]["tag"]
        case "a type":
            schemas["NewJob"]["properties"]["kind"]["type"] = "integer"
        case "a duty":
            schemas["NewJob"]["required"] = ["kind", "tag"]
        case "an answer":
            del paths["/v1/jobs"]["post"]["responses"]["202"]


@pytest.mark.parametrize("what", ["an operation", "a path", "a member", "a type", "a duty", "an answer"])
def test_a_change_that_breaks_clients_is_noticed(what: str) -> None:
    document = json.loads(current())
    changed = copy.deepcopy(document)
    _change(changed, what)

    assert removals(document, changed)


def test_additions_and_other_words_are_no_breaks() -> None:
    document = json.loads(current())
    changed = copy.deepcopy(document)
    changed["paths"]["/v1/more"] = {}
    changed["components"]["schemas"]["NewJob"]["properties"]["more"] = {"type": "string"}
    changed["paths"]["/v1/jobs"]["post"]["summary"] = "Other words."

    assert removals(document, changed) == []


def test_every_operation_has_a_name_and_a_path_of_its_own() -> None:
    assert len({each.name for each in OPERATIONS}) == len(OPERATIONS)
    assert len({(each.method, each.route) for each in OPERATIONS}) == len(OPERATIONS)


def test_every_problem_of_an_operation_is_in_the_catalogue() -> None:
    assert {name for each in OPERATIONS for name in problems_of(each)} <= PROBLEMS.keys()


async def test_the_service_shows_its_document_without_a_token(service: Running) -> None:
    async with service.client("") as client:
        answer = await client.get("/v1/openapi.json")

    assert answer.status_code == 200
    assert answer.json() == json.loads(current())
    assert all(
        "tenant" not in str(each.get("parameters"))
        for path in answer.json()["paths"].values()
        for each in path.values()
    )
