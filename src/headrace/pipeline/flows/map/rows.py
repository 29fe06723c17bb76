"""The rows of a map as they are sent: their keys, ids and payloads, and what is wrong with those that cannot be."""

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
from headrace.pipeline.flows.map.keys import Key, id_of, quoted
from headrace.pipeline.flows.map.taking import MapWork
from headrace.pipeline.source.sink.columns import json_texts
from headrace.pipeline.sql import at_run_time

NO_KEY = "the key is null; fill it, or leave the row out"
_POLICY = ("priority", "timeout_ms", "max_attempts", "max_stalls", "backoff_ms", "backoff_ms_max")
_UNREADABLE = re.compile(r"\[(?:FAILED_READ_FILE|MALFORMED_RECORD)[A-Z_.]*\] ([^\n]+?) *(?:SQLSTATE:|\n|$)")
_WRITTEN = "text string, reason string, sentence string"


class MapRows(Struct, frozen=True):
    """The rows of one map, read once and held until it is over.

    Columns: those of the key; `_key` (its text), `_id`, `_payload` (JSON), `_tag` (what the row says, in short),
    `_reason` and `_sentence` (of a row that cannot be sent).
    """

    frame: DataFrame
    key: Key
    count: int
    bad: int
    """Rows that cannot be sent."""
    samples: tuple[str, ...]
    """The first payloads."""


@contextmanager
def held(frame: DataFrame, key: Key, payload: str, work: MapWork, name: str) -> Iterator[MapRows]:
    """The rows, read once for this block: what is wrong with their SQL shows here, before anything is written."""
    rows = prepared(frame, key, payload, work.kind, name)
    try:
        with at_run_time({"key": ", ".join(key.expressions), "payload": payload}), _readable():
            [found] = rows.persist().agg(F.count(F.lit(1)).alias("rows"), F.count("_reason").alias("bad")).collect()
            good = rows.where(F.col("_reason").isNull()).limit(MAP_SAMPLES)
            samples = tuple(row._payload for row in good.select("_payload").collect())
        yield MapRows(rows, key, found.rows, found.bad, samples)
    finally:
        rows.unpersist()


def prepared(frame: DataFrame, key: Key, payload: str, kind: str, name: str) -> DataFrame:
    """The columns of `MapRows`, from those of the frame."""
    told = frame.select(*key.columns(), F.expr(payload).alias("_given"))
    told = told.withColumn("_key", key.text()).withColumn("_written", _written(F.col("_given")))
    reason = F.when(key.missing(), F.lit("bad_key")).otherwise(F.col("_written.reason"))
    sentence = F.when(key.missing(), F.lit(NO_KEY)).otherwise(F.col("_written.sentence"))
    return told.select(
        *(F.col(quoted(each)) for each in key.names),
        "_key",
        F.when(~key.missing(), id_of(name, F.col("_key"))).alias("_id"),
        F.col("_written.text").alias("_payload"),
        tag_of(kind, F.col("_written.text")).alias("_tag"),
        reason.alias("_reason"),
        sentence.alias("_sentence"),
    )


def tag_of(kind: str, payload: Column) -> Column:
    """What a job is about, in short: it stays with the job to its end, and tells a row that was changed since."""
    return F.concat(F.lit("row-"), F.substring(F.sha2(F.concat(F.lit(f"{kind}\n"), payload), 256), 1, 24))


def jobs_of(rows: MapRows, sample: Job, keep_ms: int) -> DataFrame:
    """The rows as what=jobs takes them; what they do not say is as in `sample`."""
    columns = [
        F.col("_id").alias("id"),
        F.col("_id").alias("key"),
        F.lit(sample.kind).alias("kind"),
        F.col("_payload").alias("payload"),
        F.col("_tag").alias("tag"),
        F.lit(keep_ms).cast("bigint").alias("result_ttl_ms"),
    ]
    said = {name: getattr(sample.policy, name) for name in _POLICY} | {"delay_ms": sample.delay_ms}
    columns += [F.lit(value).cast("bigint").alias(name) for name, value in said.items() if value is not None]
    if sample.headers:
        columns.append(
            F.create_map(*map(F.lit, (each for pair in sample.headers.items() for each in pair))).alias("headers")
        )
    return rows.frame.where(F.col("_reason").isNull()).select(*columns)


def write_payloads(given: pa.Array) -> pa.Array:
    """The JSON of each cell as a write makes it, or why it has none."""
    found = [_checked(cell) for cell in json_texts("payload", given)]
    columns = zip(*found, strict=True) if found else ((), (), ())
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


def _written(given: Column) -> Column:
    vectorised: Any = arrow_udf  # its types want what it warns of: to be told the type that the hints tell
    made: Column = vectorised(write_payloads, _WRITTEN)(given)
    return made


@contextmanager
def _readable() -> Iterator[None]:
    """Within this block, a row that Spark cannot read at its source is one sentence."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        found = _UNREADABLE.search(str(error))
        if found is None:
            raise
        raise BadConfig(
            f"the rows cannot be read: {cut(found[1].rstrip('. '), 300)}; mend the source, or leave out such rows"
        ) from None
