"""Makes SQL views of stores and data folders, whose payloads and results are structs of annotated or inferred types."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec
from msgspec import Struct
from pyarrow.fs import FileType
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)
from pyspark.sql.types import DataType, NullType, StringType, StructField, StructType

from headrace.app.discovery import load_app, url_of
from headrace.model.clock import SystemClock
from headrace.model.errors import BadConfig
from headrace.model.redact import redact
from headrace.model.times import instant_text
from headrace.model.validate import bounded_repr, nearest
from headrace.pipeline.data_dir import TABLES, DataDir
from headrace.pipeline.files import locked, write_whole
from headrace.pipeline.history.table import read_history, read_state
from headrace.pipeline.payload_types import (
    TEXT,
    PayloadTypes,
    TypeChange,
    ddl,
    merge_types,
    storable,
    types_of,
    variant_type,
)
from headrace.pipeline.source.options import ALL, SourceOptions
from headrace.pipeline.sql import quoted
from headrace.pipeline.storage.location import Location, storage_errors
from headrace.pipeline.storage.table import open_log
from headrace.pipeline.tables.write import read_table
from headrace.stores.open import with_whole_path

if TYPE_CHECKING:
    from headrace.app.app import App

FILE = "payload_types.jsonl"
"""One line for each version of a type, the latest last; other engines read it as JSON lines."""
SAMPLES = 1_000
"""The latest payloads of a kind to sample: rarer fields may be found by a later call."""
SAMPLE_CHARS_MAX = 100_000
"""Larger payloads are not sampled: a thousand of them would be 100 MB."""
KINDS_MAX = 500
"""Kinds to sample, those with most jobs first."""
COLUMNS = ("payload", "result")

PayloadOrigin = Literal["jobs", "dead", "results", "journal", "history"]
"""Sources of payloads: present jobs, dead letters, results, the journal, and the history."""

SOURCES = {
    "jobs": {"what": "jobs"},
    "dead_letters": {"what": "dead"},
    "results": {"what": "results"},
    "journal": {"what": "journal"},
    "journal_payloads": {"what": "journal", "payloads": "true"},
}
"""The views of what the store holds, with the options of each."""
TYPED = {"jobs": "jobs", "dead_letters": "dead_letters", "journal_payloads": "journal"}
"""Views from which one is made for each kind, and how the names of those begin."""
_CORRUPT = "corrupt"
_OPTIONS = f"map('columnNameOfCorruptRecord', '{_CORRUPT}', 'timeZone', 'UTC')"


def payloads(
    spark: SparkSession,
    app: "App | str",
    kind: str,
    *,
    origin: PayloadOrigin = "jobs",
    url: str | None = None,
    tenant: str = ALL,
    queue: str = ALL,
    data_dir: DataDir | None = None,
) -> DataFrame:
    """The jobs (or events) of a kind with `payload` and `result` as structs, by the annotations of its function.

    `app` is an app or its name, as in "shop.jobs:app"; `url` is that of the store, the app's own by default. `origin`
    is `jobs` (as they are now), `dead`, `results`, `journal`, or `history`, which reads the history of `data_dir`.
    Columns are those of the origin, `payload_json` and `result_json` (the texts), and `fits`: whether both match the
    annotations. A field that does not match is null, and no row is left out."""
    if origin not in get_args(PayloadOrigin):
        raise BadConfig(f"origin is {bounded_repr(origin)}; give {', '.join(get_args(PayloadOrigin))}")
    if isinstance(app, str):
        app = load_app(app)
    types = _app_types(app, kind)
    if origin == "history":
        if data_dir is None:
            raise BadConfig("origin is history and data_dir is missing; give the folder that holds the history")
        frame = read_history(spark, data_dir.history)
        for name, wanted in (("tenant", tenant), ("queue", queue)):
            frame = frame if wanted == ALL else frame.where(frame[name].isin(*wanted.split(",")))
        if not set(COLUMNS) & set(frame.columns):
            raise BadConfig(
                f"the history in {data_dir.history} has no payloads; write one with:"
                " headrace pipeline history --payloads"
            )
    else:
        options = {"what": origin, "url": with_whole_path(url or url_of(app.url)), "tenant": tenant, "queue": queue}
        if origin == "journal":
            options["payloads"] = "true"
        SourceOptions.parse(options)  # Spark would wrap the same errors in a traceback
        frame = spark.read.format("headrace").options(**options).load()
    return with_structs(frame.where(frame.kind == kind), types)


def with_structs(frame: DataFrame, types: PayloadTypes) -> DataFrame:
    """The rows of one kind with `payload` and `result` in these types; pure, for a frame with one of them or both.

    Adds `payload_json` and `result_json`, the original texts, and `fits`.
    """
    parsed, typed = _expressions(frame.columns, types)
    return frame.selectExpr("*", *parsed).selectExpr(*typed)


def views(
    spark: SparkSession,
    url: str,
    app: "App | str | None" = None,
    *,
    tenant: str = ALL,
    queue: str = ALL,
    data_dir: DataDir | None = None,
) -> list[str]:
    """Make temporary views of a store and of a data folder, and return their names.

    `jobs`, `dead_letters`, `results`, `journal` and `journal_payloads` are what `format("headrace")` reads. For each
    kind of job there are `jobs_KIND`, `dead_letters_KIND` and `journal_KIND`, whose payloads and results are structs
    (see `payloads`). With `data_dir` there are `history`, `history_KIND` if it has payloads, and each table as
    `table_NAME`.

    Types come from the annotations of `app`; without one, from the JSON of the latest jobs of each kind: then
    `data_dir` keeps them with their changes, and they only grow.
    """
    options = {"url": with_whole_path(url), "tenant": tenant, "queue": queue}
    SourceOptions.parse(options)
    names = _folder_views(spark, data_dir)
    if app is None:
        jobs = spark.read.format("headrace").options(**options, what="jobs").load()
        kinds = infer_types(jobs.select("kind", "enqueued_at", *COLUMNS))
        if data_dir is not None:
            kinds = keep_types(Location.parse(data_dir.folder), kinds, SystemClock().now_ms())
    else:
        kinds = app_types(app)
    columns = {name: spark.table(name).columns for name in names if name == "history"}
    for name, statement in view_statements(options, kinds, columns):
        spark.sql(statement)
        names.append(name)
    return names


def app_types(app: "App | str") -> dict[str, PayloadTypes]:
    """The types of all kinds of an app."""
    found = load_app(app) if isinstance(app, str) else app
    return {kind: _app_types(found, kind) for kind in found.registry.kinds}


def view_statements(
    options: Mapping[str, str], kinds: Mapping[str, PayloadTypes], others: Mapping[str, list[str]] | None = None
) -> Iterator[tuple[str, str]]:
    """The names of views and the SQL that creates them, in order.

    `options` are those of `format("headrace")`; `others` are existing views with events or jobs, such as a history,
    with their columns."""
    sources: dict[str, tuple[str, list[str]]] = {}
    for name, own in SOURCES.items():
        settings = {**options, **own}
        text = ", ".join(f"{key} {_literal(value)}" for key, value in settings.items())
        yield name, f"CREATE OR REPLACE TEMPORARY VIEW {name} USING headrace OPTIONS ({text})"
        if name in TYPED:
            has_result = name != "dead_letters"
            sources[name] = TYPED[name], ["payload", "result"] if has_result else ["payload"]
    for name, columns in (others or {}).items():
        if set(COLUMNS) & set(columns):
            sources[name] = name, columns
    for suffix, kind in _suffixes(kinds).items():
        for source, (prefix, columns) in sources.items():
            parsed, typed = _expressions(columns, kinds[kind])
            name = f"{prefix}_{suffix}"
            inner = f"SELECT {', '.join(['*', *parsed])} FROM {source} WHERE kind = {_literal(kind)}"  # noqa: S608 - quoted
            query = f"SELECT {', '.join(typed)} FROM ({inner})"  # noqa: S608 - names of ours
            yield name, f"CREATE OR REPLACE TEMPORARY VIEW {quoted(name)} AS {query}"


def shown_options(url: str, tenant: str, queue: str) -> dict[str, str]:
    """Options for printed SQL: a URL with a secret is replaced by HEADRACE_URL."""
    whole = with_whole_path(url)
    return {"url": whole if redact(whole) == whole else "${env:HEADRACE_URL}", "tenant": tenant, "queue": queue}


def _app_types(app: "App", kind: str) -> PayloadTypes:
    job = app.registry.find(kind)
    if job is None:
        near = nearest(kind, app.registry.kinds)
        hint = f"; did you mean {near!r}?" if near else f"; it has {', '.join(app.registry.kinds) or 'none'}"
        raise BadConfig(f"the app has no job of kind {bounded_repr(kind)}{hint}")
    return types_of(job.handler)


def _expressions(columns: list[str], types: PayloadTypes) -> tuple[list[str], list[str]]:
    """The expressions that parse the texts, then the selected columns."""
    parsed, replaced, problems = [], [], []
    there = [name for name in COLUMNS if name in columns]
    for name in there:
        kind = storable(getattr(types, name))
        if kind == TEXT:
            replaced += [f"{name} AS {name}_json", name]
            continue
        # Wrapped in an object: Spark parses no bare number or text.
        schema = _literal(f"value {ddl(kind)}, {_CORRUPT} STRING")
        parsed.append(f"""from_json(concat('{{"value":', {name}, '}}'), {schema}, {_OPTIONS}) AS {name}_parsed""")
        replaced += [f"{name} AS {name}_json", f"{name}_parsed.value AS {name}"]
        problems.append(f"{name}_parsed.{_CORRUPT} IS NULL")
    dropped = [*there, *(f"{name}_parsed" for name in there if any(f" AS {name}_parsed" in each for each in parsed))]
    fits = " AND ".join(problems) or "true"
    return parsed, [f"* EXCEPT ({', '.join(dropped)})", *replaced, f"{fits} AS fits"]


def _suffixes(kinds: Mapping[str, PayloadTypes]) -> dict[str, str]:
    """Kinds by the suffixes of their views' names, which are numbered for kinds that differ in punctuation only."""
    found: dict[str, str] = {}
    for kind in kinds:
        plain = suffix = re.sub(r"\W+", "_", kind).strip("_").lower() or "kind"
        number = 1
        while suffix in found:
            number += 1
            suffix = f"{plain}_{number}"
        found[suffix] = kind
    return found


def _folder_views(spark: SparkSession, data_dir: DataDir | None) -> list[str]:
    """Create the views of a data folder."""
    if data_dir is None:
        return []
    names = []
    if read_state(data_dir.history) is not None:
        read_history(spark, data_dir.history).createOrReplaceTempView("history")
        names.append("history")
    for name in TABLES:
        if open_log(data_dir.location(name)).load() is not None:
            read_table(spark, data_dir, name).createOrReplaceTempView(f"table_{name}")
            names.append(f"table_{name}")
    return names


def _literal(text: str) -> str:
    """A text as a SQL literal; a dollar would begin a variable."""
    if text == "${env:HEADRACE_URL}":
        return f"'{text}'"
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
    return f"'{escaped}'"


class TypeVersion(Struct, frozen=True):
    """A line of the file: the type of a kind's payload or result from then on."""

    kind: str
    column: str
    version: int
    noted_at: str
    type: str
    """In SQL."""
    schema: dict[str, Any]
    """In Spark's JSON, for the next merge."""
    changes: tuple[TypeChange, ...] = ()


def infer_types(jobs: DataFrame, samples: int = SAMPLES) -> dict[str, PayloadTypes]:
    """The types of each kind by the JSON of its latest `samples` payloads and results.

    Reads `kind enqueued_at payload result`. Integers are BIGINT, other numbers DOUBLE, objects structs; values of
    several types are strings, and so are all texts: only an annotation makes a date."""
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
    """The type of the samples; `NullType` without any."""
    return NullType() if described is None else variant_type(described)


def keep_types(
    folder: Path | Location, inferred: Mapping[str, PayloadTypes], noted_at_ms: int
) -> dict[str, PayloadTypes]:
    """Merge inferred types into those that the folder keeps, note what changed, and return the types to read by.

    Types only grow: fields stay, and a string after a conflict stays a string. Kinds without new samples are returned,
    too.
    """
    location = Location.parse(folder)
    if location.is_local:
        location.path.mkdir(parents=True, exist_ok=True)
    # Object storage has no locks: of two runs at once, the notes of the last one stay.
    with locked(location.path / f".{FILE}.lock") if location.is_local else nullcontext():
        versions = read_versions(location)
        latest = {(each.kind, each.column): each for each in versions}
        fresh: list[TypeVersion] = []
        for kind, types in inferred.items():
            for column in COLUMNS:
                version = _next_version(latest.get((kind, column)), kind, column, getattr(types, column), noted_at_ms)
                if version is not None:
                    latest[kind, column] = version
                    fresh.append(version)
        if fresh:
            _write_versions(location, [*versions, *fresh])
    kinds = sorted({kind for kind, _ in latest})
    return {
        kind: PayloadTypes(
            *(storable(_type(latest[kind, column])) if (kind, column) in latest else StringType() for column in COLUMNS)
        )
        for kind in kinds
    }


def read_versions(folder: Path | Location) -> list[TypeVersion]:
    """All versions that the folder keeps, the oldest first; none where it keeps none."""
    location = Location.parse(folder)
    with storage_errors(location):
        files, path = location.filesystem()
        if files.get_file_info(f"{path}/{FILE}").type is not FileType.File:
            return []
        with files.open_input_stream(f"{path}/{FILE}") as stream:
            lines = [line for line in stream.read().split(b"\n") if line]
    try:
        return [msgspec.json.decode(line, type=TypeVersion) for line in lines]
    except msgspec.MsgspecError as error:
        where = location.child(FILE)
        raise BadConfig(f"{where} holds a line that is not a payload type ({error}); remove the line") from error


def _write_versions(location: Location, versions: Sequence[TypeVersion]) -> None:
    content = b"".join(msgspec.json.encode(each) + b"\n" for each in versions)
    if location.is_local:
        write_whole(location.path / FILE, content)
        return
    with storage_errors(location):
        files, path = location.filesystem()
        with files.open_output_stream(f"{path}/{FILE}") as stream:
            stream.write(content)


def _next_version(
    known: TypeVersion | None, kind: str, column: str, seen: DataType, noted_at_ms: int
) -> TypeVersion | None:
    """The version to record; None if the known one covers the samples."""
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
