"""Builds the OpenAPI document out of the list of operations, so that it says what the service does."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from headrace.service.operation import Call, Operation, Reply
from headrace.service.problems import PROBLEMS, ProblemAnswer

_PARAMETER = re.compile(r"\{(\w+)\}")
_COMMON = ("unauthorized", "missing_scope", "bad_header", "not_acceptable", "rate_limited", "fault", "busy")
_STORE = ("store_unavailable", "outcome_unknown")
_BODY = ("malformed", "too_deep", "body_too_large", "unsupported_media_type", "invalid", "unknown_field")
_PATHS = {"queue": "bad_queue", "feed": "bad_feed", "id": "bad_id", "shard": "bad_shard", "key": "bad_dead_letter"}
_QUERY = {"limit": "bad_limit", "cursor": "bad_cursor"}


async def openapi(_: Call) -> Reply:
    """The document; it needs no token."""
    return Reply(200, _current())


@cache
def _current() -> dict[str, Any]:
    from headrace.service.table import OPERATIONS

    return build_document(OPERATIONS)


def build_document(operations: Iterable[Operation]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of some operations."""
    operations = tuple(operations)
    kinds = [kind for each in operations for kind in (each.body, *each.answers.values()) if kind is not None]
    kinds = [*dict.fromkeys(kinds), ProblemAnswer]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        paths.setdefault(each.route, {})[each.method.lower()] = _operation(each, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headrace", "version": "1", "description": "Jobs, queues and feeds over HTTP."},
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
    }


def _operation(operation: Operation, schema_of: Mapping[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [*_path_parameters(operation), *_query_parameters(operation)],
        "responses": _responses(operation, schema_of),
        "security": [] if operation.is_public else [{"bearer": []}],
        "x-headrace-scopes": sorted(operation.scopes),
        "x-headrace-rate": operation.rate,
    }
    if operation.body is not None:
        content = {
            media: {"schema": schema_of[operation.body]} for media in ("application/json", "application/msgpack")
        }
        found["requestBody"] = {"required": not operation.is_body_optional, "content": content}
    return found


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(operation.path)
    ]


def _query_parameters(operation: Operation) -> list[dict[str, Any]]:
    [schema], components = msgspec.json.schema_components([operation.query], ref_template="#/{name}")
    own = components[schema["$ref"].removeprefix("#/")]
    required = own.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _inlined(field, components)}
        for name, field in own.get("properties", {}).items()
    ]


def _inlined(schema: Any, components: Mapping[str, Any]) -> Any:
    """The schema with what it refers to in its place."""
    if isinstance(schema, dict) and "$ref" in schema:
        return components[schema["$ref"].removeprefix("#/")]
    return schema


def _responses(operation: Operation, schema_of: Mapping[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status, kind in operation.answers.items():
        found[str(status)] = {"description": "The answer."}
        if kind is not None:
            media = ["text/event-stream"] if operation.is_stream else ["application/json", "application/msgpack"]
            found[str(status)]["content"] = {each: {"schema": schema_of[kind]} for each in media}
    by_status: dict[int, list[str]] = {}
    for name in problems_of(operation):
        by_status.setdefault(PROBLEMS[name].status, []).append(name)
    for status, names in sorted(by_status.items()):
        content = {"application/problem+json": {"schema": schema_of[ProblemAnswer]}}
        found[str(status)] = {"description": f"Problems: {', '.join(sorted(names))}.", "content": content}
    return found


def problems_of(operation: Operation) -> list[str]:
    """The problems that an operation may answer, by name."""
    names = [*operation.problems]
    if not operation.is_public:
        names += [*_COMMON, *_STORE]
        names += ["foreign_queue"] if "{queue}" in operation.path or operation.body is not None else []
        names += ["foreign_queue", "reserved_name", "unknown_feed"] if "{feed}" in operation.path else []
    else:
        names += ["fault", "busy", "bad_header"]
    names += _BODY if operation.body is not None else []
    names += [_PATHS[name] for name in _PARAMETER.findall(operation.path) if name in _PATHS]
    names += [_QUERY.get(field, "invalid") for field in operation.query.__struct_fields__]
    names += ["bad_query", "bad_path"]
    return sorted(set(names))


def removals(old: Any, new: Any, at: str = "") -> list[str]:
    """What a document no longer says that an older one said: clients may rely on it. Additions are fine."""
    if isinstance(old, dict) and isinstance(new, dict):
        gone = [f"{at}/{name}" for name in old if name not in new]
        kept = [each for name in old if name in new for each in removals(old[name], new[name], f"{at}/{name}")]
        demanded = set(new.get("required", [])) - set(old.get("required", [])) if _is_object(new) else set()
        return gone + kept + [f"{at}: {name} has become required" for name in sorted(demanded)]
    if isinstance(old, list) and isinstance(new, list):
        return [f"{at}: {each!r}" for each in old if each not in new and not isinstance(each, dict)]
    if at.rpartition("/")[2] in ("description", "summary", "title"):
        return []
    return [] if old == new else [f"{at}: {old!r} has become {new!r}"]


def _is_object(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object" and isinstance(schema.get("required", []), list)


OPERATIONS = (
    Operation(
        name="openapi",
        method="GET",
        path="/openapi.json",
        summary="Describe all operations.",
        scopes=frozenset(),
        handler=openapi,
        answers={200: dict[str, Any]},
        is_public=True,
    ),
)
