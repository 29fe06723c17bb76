"""Turns the rows of a map into jobs, after a check that the handler accepts them."""

import inspect
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from msgspec import Struct
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import BinaryType, StructType, VariantType

from headrace.app.app import App
from headrace.app.discovery import load_app
from headrace.app.job_function import JobFunction, JobTemplate
from headrace.client.codec import JSON
from headrace.client.options import Options
from headrace.model.errors import BadConfig, Refused
from headrace.model.job import Job
from headrace.model.limits import MAP_SAMPLES, PAYLOAD_BYTES_MAX
from headrace.model.validate import check_bytes, cut
from headrace.pipeline.flows.map.keys import Key, id_of
from headrace.pipeline.source.sink.columns import json_texts
from headrace.pipeline.sql import at_run_time, quoted, selected

PAYLOAD = "payload"
NO_KEY = "the key is null; fill it, or leave the row out"
_POLICY = ("priority", "timeout_ms", "max_attempts", "max_stalls", "backoff_ms", "backoff_ms_max")
_READ_ERROR = re.compile(r"\[(?:FAILED_READ_FILE|MALFORMED_RECORD)[A-Z_.]*\] ([^\n]+?) *(?:SQLSTATE:|\n|$)")
_JSON_TYPE = "text string, reason string, sentence string"


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
            f" {available}; leave out the others"
        )


def _parameters(function: MapFunction) -> tuple[dict[str, bool], bool]:
    """The parameters, whether each is required, and whether any others are accepted as well."""
    parameters = inspect.signature(function.function.handler.function).parameters.values()
    named = [each for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD]
    return {each.name: each.default is inspect.Parameter.empty for each in named}, len(named) < len(parameters)


class MapRows(Struct, frozen=True):
    """The rows of one map, read once and persisted until it ends.

    Columns: those of the key; `_key` (its text), `_id`, `_payload` (JSON), `_tag` (a digest of kind and payload),
    `_reason` and `_sentence` (of a row that cannot be sent).
    """

    frame: DataFrame
    key: Key
    count: int
    refused: int
    """Rows that cannot be sent."""
    samples: tuple[str, ...]
    """The first payloads."""


@contextmanager
def persist_rows(frame: DataFrame, key: Key, payload: str, kind: str, name: str) -> Iterator[MapRows]:
    """The rows for this block; raises errors of their SQL here, before anything is written."""
    rows = prepare_rows(frame, key, payload, kind, name)
    try:
        with at_run_time({"key": ", ".join(key.expressions), "payload": payload}), _readable():
            counts = rows.persist().agg(F.count(F.lit(1)).alias("rows"), F.count("_reason").alias("refused"))
            [total] = counts.collect()
            accepted = rows.where(F.col("_reason").isNull()).limit(MAP_SAMPLES)
            samples = tuple(row._payload for row in accepted.select("_payload").collect())
        yield MapRows(rows, key, total.rows, total.refused, samples)
    finally:
        rows.unpersist()


def prepare_rows(frame: DataFrame, key: Key, payload: str, kind: str, name: str) -> DataFrame:
    """The columns of `MapRows` from those of the frame."""
    values = frame.select(*key.columns(), F.expr(payload).alias("_value"))
    encoded = values.withColumn("_key", key.text()).withColumn("_json", _to_json(F.col("_value")))
    reason = F.when(key.is_missing(), F.lit("bad_key")).otherwise(F.col("_json.reason"))
    sentence = F.when(key.is_missing(), F.lit(NO_KEY)).otherwise(F.col("_json.sentence"))
    return encoded.select(
        *(F.col(quoted(each)) for each in key.names),
        "_key",
        F.when(~key.is_missing(), id_of(name, F.col("_key"))).alias("_id"),
        F.col("_json.text").alias("_payload"),
        tag_of(kind, F.col("_json.text")).alias("_tag"),
        reason.alias("_reason"),
        sentence.alias("_sentence"),
    )


def tag_of(kind: str, payload: Column) -> Column:
    """A digest of kind and payload, kept with the job until it finishes, by which a changed row is recognised."""
    return F.concat(F.lit("row-"), F.substring(F.sha2(F.concat(F.lit(f"{kind}\n"), payload), 256), 1, 24))


def job_columns(rows: MapRows, template: Job, keep_ms: int) -> DataFrame:
    """The rows as `what=jobs` takes them, with the other fields of `template`."""
    columns = [
        F.col("_id").alias("id"),
        F.col("_id").alias("key"),
        F.lit(template.kind).alias("kind"),
        F.col("_payload").alias("payload"),
        F.col("_tag").alias("tag"),
        F.lit(keep_ms).cast("bigint").alias("result_ttl_ms"),
    ]
    fields = {name: getattr(template.policy, name) for name in _POLICY} | {"delay_ms": template.delay_ms}
    columns += [F.lit(value).cast("bigint").alias(name) for name, value in fields.items() if value is not None]
    if template.headers:
        columns.append(
            F.create_map(*map(F.lit, (each for pair in template.headers.items() for each in pair))).alias("headers")
        )
    return rows.frame.where(F.col("_reason").isNull()).select(*columns)


def encode_payloads(values: pa.Array) -> pa.Array:
    """The JSON of each cell as a write makes it, or the reason why it has none."""
    encoded = [_checked(cell) for cell in json_texts("payload", values)]
    columns = zip(*encoded, strict=True) if encoded else ((), (), ())
    arrays = [pa.array(column, pa.string()) for column in columns]
    return pa.StructArray.from_arrays(arrays, ["text", "reason", "sentence"])


def _checked(cell: bytes | Refused) -> tuple[str | None, str | None, str | None]:
    try:
        if isinstance(cell, Refused):
            raise cell
        check_bytes("payload", cell, PAYLOAD_BYTES_MAX, "send")
        return cell.decode(), None, None
    except Refused as refused:
        return None, refused.reason, str(refused)


def _to_json(value: Column) -> Column:
    vectorised: Any = arrow_udf  # its stubs accept no return type beside type hints
    column: Column = vectorised(encode_payloads, _JSON_TYPE)(value)
    return column


@contextmanager
def _readable() -> Iterator[None]:
    """Within this block, a row that Spark cannot read at its source is one sentence."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        match = _READ_ERROR.search(str(error))
        if match is None:
            raise
        raise BadConfig(
            f"the rows cannot be read: {cut(match[1].rstrip('. '), 300)}; fix the source, or leave out such rows"
        ) from None
