"""Does a handler take the rows? Found out before anything is written: else every row would be a dead letter."""

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
from headrace.pipeline.flows.map.keys import quoted
from headrace.pipeline.sql import selected

PAYLOAD = "payload"


class MapWork(Struct, frozen=True):
    """The function that does the rows, and what its jobs are like."""

    app: App
    function: JobFunction[..., Any]
    options: Options

    @property
    def kind(self) -> str:
        """What its jobs are called."""
        return self.function.kind

    def job(self) -> Job:
        """A job as the function's own options make it: what rows do not say."""
        return self.app.maker.job_of(self.kind, b"null", self.options)


def work_of(app: App | str, kind: str | JobTemplate[..., Any]) -> MapWork:
    """The function of an app that does jobs of a kind; `kind` may be the job function itself, with other options."""
    found = load_app(app) if isinstance(app, str) else app
    wanted = kind if isinstance(kind, str) else kind.function.kind
    function = found.registry.find(wanted)
    if function is None:
        raise BadConfig(found.handlers.describe_unknown(wanted))
    if function.handler.codec is not JSON:
        raise BadConfig(
            f"jobs of kind {wanted!r} are read with the codec {function.handler.codec.name!r}, and rows are written as"
            " JSON; map them with a function that takes JSON"
        )
    return MapWork(found, function, function.job_options if isinstance(kind, str) else kind.job_options)


def payload_of(work: MapWork, frame: DataFrame, payload: str | None) -> str:
    """The SQL of what a row's job is given: as said, else the columns that the function takes, by name.

    `BadConfig` when the function cannot be called with it.
    """
    if payload is None:
        return _by_name(work, frame)
    [field] = selected(frame, {PAYLOAD: payload}, "the map's").schema.fields
    if isinstance(field.dataType, (BinaryType, VariantType)):
        raise BadConfig(
            f"payload {cut(payload)!r} is {field.dataType.simpleString()}, which is no JSON; give struct(…), or text"
            " with JSON in it"
        )
    if isinstance(field.dataType, StructType) and work.function.handler.arguments.style == "named":
        _check_names(work, field.dataType.fieldNames(), f"payload {cut(payload)!r} has")
    return payload


def check_samples(work: MapWork, payloads: Sequence[str]) -> None:
    """Refuse rows of which none could be done: not one of the first ones fits the function."""
    first: Refused | None = None
    for payload in payloads:
        try:
            work.function.handler.arguments.decode(payload.encode())
        except Refused as refused:
            first = first or refused
        else:
            return
    if first is not None:
        raise BadConfig(
            f"none of the first {len(payloads)} rows can be given to the handler of {work.kind!r}: {first}; say with"
            " payload what it is given"
        )


def _by_name(work: MapWork, frame: DataFrame) -> str:
    if work.function.handler.arguments.style != "named":
        return "struct(*)"
    _check_names(work, frame.columns, "the rows have columns", others=True)
    taken, takes_all = _parameters(work)
    names = [name for name in frame.columns if takes_all or name in taken]
    if not names:
        return "'{}'"  # the function takes nothing; an empty struct is none that Spark knows
    return f"struct({', '.join(map(quoted, names))})"


def _check_names(work: MapWork, names: Sequence[str], has: str, *, others: bool = False) -> None:
    taken, takes_all = _parameters(work)
    shown = f"{has} {', '.join(names) or 'none'}"
    told = work.function.handler.arguments
    missing = [name for name, is_needed in taken.items() if is_needed and name not in names]
    if missing:
        raise BadConfig(
            f"the handler of {work.kind!r}, {told}, wants {', '.join(map(repr, missing))}, and {shown}; name the"
            " columns as its arguments, or say with payload what it is given"
        )
    unknown = [name for name in names if name not in taken]
    if unknown and not takes_all and not others:
        raise BadConfig(
            f"the handler of {work.kind!r}, {told}, does not take {', '.join(map(repr, unknown))}, and {shown}; leave"
            " out what it does not take"
        )


def _parameters(work: MapWork) -> tuple[dict[str, bool], bool]:
    """The arguments by name, whether each must be given, and whether any others are taken as well."""
    found = inspect.signature(work.function.handler.function).parameters.values()
    plain = [each for each in found if each.kind is not inspect.Parameter.VAR_KEYWORD]
    return {each.name: each.default is inspect.Parameter.empty for each in plain}, len(plain) < len(found)
