"""Infers the types of payloads and results from samples, and keeps them with their changes in the data folder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)
from pyspark.sql.types import DataType, NullType, StringType, StructField, StructType

from headrace.model.errors import BadConfig
from headrace.model.times import instant_text
from headrace.pipeline.files import locked, sync_file
from headrace.pipeline.payload_types import (
    PayloadTypes,
    TypeChange,
    ddl,
    merge_types,
    storable,
    variant_type,
)

FILE = "payload_types.jsonl"
"""One line for each version of a type, the latest last; other engines read it as JSON lines."""
SAMPLES = 1_000
"""Payloads of a kind that are looked at, the latest ones: a field that is rarer may come with a later look."""
SAMPLE_CHARS_MAX = 100_000
"""Larger payloads are not looked at: a thousand of them would be a tenth of a gigabyte."""
KINDS_MAX = 500
"""Kinds that are looked at, those with most jobs first."""
COLUMNS = ("payload", "result")


class TypeVersion(Struct, frozen=True):
    """A line of the file: the type of a kind's payload or result from then on."""

    kind: str
    column: str
    version: int
    noted_at: str
    type: str
    """As SQL writes it."""
    schema: dict[str, Any]
    """As Spark's JSON has it, for the next merge."""
    changes: tuple[TypeChange, ...] = ()


def infer_types(jobs: DataFrame, samples: int = SAMPLES) -> dict[str, PayloadTypes]:
    """The types of each kind by the JSON of its latest `samples` payloads and results.

    Reads `kind enqueued_at payload result`. Whole numbers are BIGINT, others DOUBLE, objects structs; a place where
    values are of several types is a string, and so is text, whatever it holds: a date is recognized by an annotation
    only.
    """
    latest = Window.partitionBy("kind").orderBy(F.desc("enqueued_at"))
    sample = (
        jobs.where("kind IS NOT NULL AND (payload IS NOT NULL OR result IS NOT NULL)")
        .select(
            "kind",
            "enqueued_at",
            *(F.when(F.length(name) <= SAMPLE_CHARS_MAX, F.col(name)).alias(name) for name in COLUMNS),
        )
        .select("*", F.row_number().over(latest).alias("rank"))
        .where(F.col("rank") <= samples)
    )
    found = (
        sample.groupBy("kind")
        .agg(
            *(F.schema_of_variant_agg(F.try_parse_json(name)).alias(name) for name in COLUMNS),
            F.count("*").alias("jobs"),
        )
        .orderBy(F.desc("jobs"), "kind")
        .limit(KINDS_MAX)
    )
    return {row.kind: PayloadTypes(*(_seen(row[name]) for name in COLUMNS)) for row in found.collect()}


def _seen(described: str | None) -> DataType:
    """The type of what was seen; `NullType` where nothing was, which the first value decides."""
    return NullType() if described is None else variant_type(described)


def keep_types(folder: Path, inferred: Mapping[str, PayloadTypes], noted_at_ms: int) -> dict[str, PayloadTypes]:
    """Merge inferred types into those that the folder keeps, note what changed, and return the types to read by.

    A type only grows: a field that no longer comes stays, and one that is read as a string since a conflict is never
    narrowed again. Kinds that were not seen this time are returned as well.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    with locked(folder / f".{FILE}.lock"):
        latest = {(each.kind, each.column): each for each in read_versions(folder)}
        fresh: list[TypeVersion] = []
        for kind, types in inferred.items():
            for column in COLUMNS:
                version = _next_version(latest.get((kind, column)), kind, column, getattr(types, column), noted_at_ms)
                if version is not None:
                    latest[kind, column] = version
                    fresh.append(version)
        if fresh:
            with path.open("ab") as file:
                file.write(b"".join(msgspec.json.encode(each) + b"\n" for each in fresh))
            sync_file(path)
    kinds = sorted({kind for kind, _ in latest})
    return {
        kind: PayloadTypes(
            *(storable(_type(latest[kind, column])) if (kind, column) in latest else StringType() for column in COLUMNS)
        )
        for kind in kinds
    }


def read_versions(folder: Path) -> list[TypeVersion]:
    """All versions that the folder keeps, the oldest first; none where it keeps none."""
    path = folder / FILE
    if not path.is_file():
        return []
    try:
        lines = [line for line in path.read_bytes().split(b"\n") if line]
        return [msgspec.json.decode(line, type=TypeVersion) for line in lines]
    except msgspec.MsgspecError as error:
        raise BadConfig(f"{path} holds a line that is not a payload type ({error}); remove the line") from error


def _next_version(
    known: TypeVersion | None, kind: str, column: str, seen: DataType, noted_at_ms: int
) -> TypeVersion | None:
    """The version to note; None when the known one holds what was seen."""
    if isinstance(seen, NullType):
        return None
    changes: list[TypeChange] = []
    merged = seen if known is None else merge_types(_type(known), seen, on_change=changes.append)
    if known is not None and not changes:
        return None
    return TypeVersion(
        kind,
        column,
        1 if known is None else known.version + 1,
        instant_text(noted_at_ms),
        ddl(merged),
        json.loads(StructType([StructField("value", merged)]).json()),
        tuple(changes),
    )


def _type(version: TypeVersion) -> DataType:
    return StructType.fromJson(version.schema).fields[0].dataType
