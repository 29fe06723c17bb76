"""Turns the rows of a map into jobs: their keys, ids and payloads, and the reason for each row that cannot be sent."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from msgspec import Struct
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)
from pyspark.sql.pandas.functions import arrow_udf

from headrace.model.errors import BadConfig, Refused
from headrace.model.job import Job
from headrace.model.limits import MAP_SAMPLES, PAYLOAD_BYTES_MAX
from headrace.model.validate import check_bytes, cut
from headrace.pipeline.flows.map.keys import Key, id_of
from headrace.pipeline.source.sink.columns import json_texts
from headrace.pipeline.sql import at_run_time, quoted

NO_KEY = "the key is null; fill it, or leave the row out"
_POLICY = ("priority", "timeout_ms", "max_attempts", "max_stalls", "backoff_ms", "backoff_ms_max")
_READ_ERROR = re.compile(r"\[(?:FAILED_READ_FILE|MALFORMED_RECORD)[A-Z_.]*\] ([^\n]+?) *(?:SQLSTATE:|\n|$)")
_JSON_TYPE = "text string, reason string, sentence string"


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
