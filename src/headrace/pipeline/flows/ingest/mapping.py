"""Which column of a job is made of what: SQL that a person wrote, checked against the rows before any is written."""

from collections.abc import Mapping as Pairs

from msgspec import Struct
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StringType, StructField, TimestampType, VariantType

from headrace.model.errors import BadConfig
from headrace.model.validate import cut
from headrace.pipeline.flows.ingest.fitting import AS_KEY, fitted
from headrace.pipeline.flows.ingest.reading import CORRUPT
from headrace.pipeline.source.sink.row_to_job import COLUMNS
from headrace.pipeline.sql import one_sentence, selected

_AS_KEY = "map(" + ", ".join(f'"{name}", "{value}"' for name, value in AS_KEY.items()) + ")"


class Mapping(Struct, frozen=True):
    """How rows become jobs: `columns` has an expression of Spark SQL for each column of a job, as in
    `{"kind": "'welcome'", "payload": "struct(id, email)", "key": "id"}`.

    Columns of a job are `kind`, `payload`, `id`, `key`, `queue`, `tenant`, `run_at`, `delay_ms`, `priority`,
    `timeout_ms`, `max_attempts`, `max_stalls`, `backoff_ms`, `backoff_ms_max`, `result_ttl_ms`, `expires_at`, `tag`,
    `headers` and `refusal` (a text, where it is not null, that refuses the row). Without a `payload` it is the whole
    row; without a `key`, rows that are equal in every column are one job.
    """

    columns: dict[str, str] = {}

    def __post_init__(self) -> None:
        for name, expression in self.columns.items():
            if name not in COLUMNS:
                raise BadConfig(f"a job has no column {cut(name)!r} to map to; it has {', '.join(COLUMNS)}")
            if not expression.strip():
                raise BadConfig(f"the mapping of {name!r} is empty; give a column, or an expression of Spark SQL")


def mapped(frame: DataFrame, mapping: Mapping | Pairs[str, str] | None = None, what: str = "mapping") -> DataFrame:
    """The rows of a frame as columns of jobs; raises `BadConfig` for SQL that does not fit them, before any is read.

    Reads what the mapping names, and all columns where it leaves `payload` or `key` out. Returns the columns of jobs
    that are mapped, `payload` and `key`, and `refusal` where a value may turn out to be none. `what` goes before the
    name of a column in a sentence.
    """
    given = mapping if isinstance(mapping, Mapping) else Mapping(dict(mapping or {}))
    columns = dict(given.columns)
    if "payload" not in columns:
        columns["payload"] = _whole(frame)
    columns.setdefault("key", _row_hash(frame))
    if _has_corrupt(frame):
        # The whole text, which is kept with the row: there is nothing else to put it right by.
        cannot = f"'bad_source: the row cannot be read, its text is ' || `{CORRUPT}`"
        columns["refusal"] = f"coalesce({columns.get('refusal', 'null')}, {cannot})"
    with one_sentence(frame, what, ", ".join(columns)):
        return fitted(selected(frame, columns, what), what)


def _whole(frame: DataFrame) -> str:
    """The payload of a row that nobody cut to size."""
    fields = [field for field in frame.schema.fields if field.name != CORRUPT]
    for field in fields:
        if _is_variant(field):
            raise BadConfig(
                f"column {field.name!r} is {cut(field.dataType.simpleString())}, which is not taken into a payload as"
                f" it is; map the payload, for example to: to_json({field.name})"
            )
    if not fields:
        raise BadConfig("the rows have no columns, and nothing says the payload; map it, for example to: 'null'")
    return _struct([field.name for field in fields])


def _row_hash(frame: DataFrame) -> str:
    """The key of a row that nobody gave one: 128 bits, as many as the keys of other writes have."""
    parts = [
        # To write an instant as text is slow, and most tables have one.
        f"unix_micros({_quoted(field.name)}) AS {_quoted(field.name)}"
        if isinstance(field.dataType, TimestampType)
        else _quoted(field.name)
        for field in frame.schema.fields
    ]
    return f"md5(to_json(struct({', '.join(parts)}), {_AS_KEY}))"


def _struct(names: list[str]) -> str:
    return f"struct({', '.join(map(_quoted, names))})"


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _has_corrupt(frame: DataFrame) -> bool:
    return any(field.name == CORRUPT and isinstance(field.dataType, StringType) for field in frame.schema.fields)


def _is_variant(field: StructField) -> bool:
    kind: DataType = field.dataType
    return isinstance(kind, VariantType) or "variant" in kind.simpleString().lower()
