"""Checks that the handler of a map accepts its rows, before any is written: else every row would be a dead letter."""

import inspect
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StructType, VariantType

from headrace.app.app import App
from headrace.app.discovery import load_app
from headrace.app.job_function import JobFunction, JobTemplate
from headrace.client.codec import JSON
from headrace.client.options import Options
from headrace.model.errors import BadConfig, Refused
from headrace.model.job import Job
from headrace.model.validate import cut
from headrace.pipeline.sql import quoted, selected

PAYLOAD = "payload"


class MapFunction(Struct, frozen=True):
    """The job function that rows are mapped with, and the options of its jobs."""

    app: App
    function: JobFunction[..., Any]
    options: Options

    @property
    def kind(self) -> str:
        """The kind of its jobs."""
        return self.function.kind

    def job(self) -> Job:
        """A job with the function's own options, for the fields that rows do not have."""
        return self.app.maker.job_of(self.kind, b"null", self.options)


def find_function(app: App | str, kind: str | JobTemplate[..., Any]) -> MapFunction:
    """The function of an app for a kind; `kind` may be the job function itself, with other options."""
    loaded = load_app(app) if isinstance(app, str) else app
    name = kind if isinstance(kind, str) else kind.function.kind
    function = loaded.registry.find(name)
    if function is None:
        raise BadConfig(loaded.handlers.describe_unknown(name))
    if function.handler.codec is not JSON:
        raise BadConfig(
            f"jobs of kind {name!r} use the codec {function.handler.codec.name!r}, and rows are written as JSON; map"
            " them with a function that takes JSON"
        )
    return MapFunction(loaded, function, function.job_options if isinstance(kind, str) else kind.job_options)


def payload_sql(function: MapFunction, frame: DataFrame, payload: str | None) -> str:
    """The SQL of a job's payload: as given, else the columns that the function takes, by name.

    Raises `BadConfig` when the function cannot be called with it.
    """
    if payload is None:
        return _columns_by_name(function, frame)
    [field] = selected(frame, {PAYLOAD: payload}, "the map's").schema.fields
    if isinstance(field.dataType, (BinaryType, VariantType)):
        raise BadConfig(
            f"payload {cut(payload)!r} is {field.dataType.simpleString()}, which has no JSON form; give struct(…), or"
            " a text of JSON"
        )
    if isinstance(field.dataType, StructType) and function.function.handler.arguments.style == "named":
        _check_names(function, field.dataType.fieldNames(), f"payload {cut(payload)!r} has")
    return payload


def check_samples(function: MapFunction, payloads: Sequence[str]) -> None:
    """Refuse rows if none of the first ones fits the function."""
    first: Refused | None = None
    for payload in payloads:
        try:
            function.function.handler.arguments.decode(payload.encode())
        except Refused as refused:
            first = first or refused
        else:
            return
    if first is not None:
        raise BadConfig(
            f"none of the first {len(payloads)} rows fits the handler of {function.kind!r}: {first}; give the payload"
            " that it takes"
        )


def _columns_by_name(function: MapFunction, frame: DataFrame) -> str:
    if function.function.handler.arguments.style != "named":
        return "struct(*)"
    _check_names(function, frame.columns, "the rows have columns", others=True)
    parameters, takes_all = _parameters(function)
    names = [name for name in frame.columns if takes_all or name in parameters]
    if not names:
        return "'{}'"  # the function has no parameters, and Spark has no empty struct
    return f"struct({', '.join(map(quoted, names))})"


def _check_names(function: MapFunction, names: Sequence[str], has: str, *, others: bool = False) -> None:
    parameters, takes_all = _parameters(function)
    available = f"{has} {', '.join(names) or 'none'}"
    signature = function.function.handler.arguments
    missing = [name for name, is_required in parameters.items() if is_required and name not in names]
    if missing:
        raise BadConfig(
            f"the handler of {function.kind!r}, {signature}, needs {', '.join(map(repr, missing))}, and {available};"
            " name the columns as its arguments, or give a payload"
        )
    unknown = [name for name in names if name not in parameters]
    if unknown and not takes_all and not others:
        raise BadConfig(
            f"the handler of {function.kind!r}, {signature}, does not take {', '.join(map(repr, unknown))}, and"
            f" {available}; leave out what it does not take"
        )


def _parameters(function: MapFunction) -> tuple[dict[str, bool], bool]:
    """The parameters, whether each is required, and whether any others are accepted as well."""
    parameters = inspect.signature(function.function.handler.function).parameters.values()
    named = [each for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD]
    return {each.name: each.default is inspect.Parameter.empty for each in named}, len(named) < len(parameters)
