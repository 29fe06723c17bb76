"""Writes as Spark does them: planned on the driver, written by copies of the writer, committed by another copy."""

import pickle
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headrace.model.claim import ClaimRequest
from headrace.model.feed import FeedName
from headrace.model.job import Record, State
from headrace.model.names import Queue
from headrace.model.outcome import Done, Failed, JobError, Outcome
from headrace.pipeline.source.compat import HAS_4_2
from headrace.pipeline.source.sink.result import Written
from headrace.pipeline.source.source import HeadraceSource
from headrace.stores.contract.store import Store
from tests.pipeline.shared_stores import call_store

Row = dict[str, Any]
REPORT = "counts"


TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "binary": BinaryType(),
    "timestamp": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
    "array<int>": ArrayType(IntegerType()),
    "map<string;string>": MapType(StringType(), StringType()),
    "map<string;int>": MapType(StringType(), IntegerType()),
}


def schema_of(columns: str) -> StructType:
    """A schema out of a text such as `kind string, priority int`; Spark's own parser needs Java."""
    pairs = [column.split() for column in columns.split(",")]
    return StructType([StructField(name, TYPES[type]) for name, type in pairs])


class Batch:
    """A batch write; each task gets a copy of the writer, as does the commit."""

    def __init__(self, columns: str | StructType, run: str = "run", **options: str) -> None:
        self.schema = schema_of(columns) if isinstance(columns, str) else columns
        self._url, self._run = options["url"], run
        source = HeadraceSource(CaseInsensitiveDict({"report": REPORT, "run": run} | options))
        self._pickled = pickle.dumps(source.writer(self.schema, False))
        self._messages: list[Any] = []

    def task(self, rows: Sequence[Row], *, part: int = 1_000) -> None:
        """A task that comes to its end."""
        self.take(batches(self.schema, rows, part))

    def take(self, batches: Iterator[pa.RecordBatch]) -> None:
        """A task that comes to its end, by what Spark hands over to it."""
        self._messages.append(self._writer().write(batches))

    def failed_task(self, rows: Sequence[Row], *, part: int = 1_000) -> None:
        """A task that fails behind its last row."""

        def breaking() -> Iterator[pa.RecordBatch]:
            yield from batches(self.schema, rows, part)
            raise RuntimeError("the task broke")

        try:
            self._writer().write(breaking())
        except RuntimeError:
            return
        raise AssertionError("the task was to break")

    def commit(self) -> Written:
        """What the write came to."""
        self._writer().commit(pickle.loads(pickle.dumps(self._messages)))  # noqa: S301  (as Spark does)
        return self.report()

    def report(self) -> Written:
        """The counts that were published."""
        return reported(self._url, self._run)

    def _writer(self) -> Any:
        return pickle.loads(self._pickled)  # noqa: S301  (as Spark does)


def reported(url: str, run: str) -> Written:
    """The counts of a write that has ended."""
    [item] = call_store(url, lambda store: store.items.find(FeedName(REPORT), [run]))
    assert item is not None
    found = msgspec.json.decode(item.item, type=Written)
    assert found.ended_at_ms
    return found


def batches(schema: StructType, rows: Sequence[Row], part: int) -> Iterator[pa.RecordBatch]:
    """Rows as Spark hands them over."""
    # Spark 4.1 takes no time zone, and UTC for granted.
    arrow = to_arrow_schema(schema, timezone="UTC") if HAS_4_2 else to_arrow_schema(schema)
    for start in range(0, len(rows), part):
        yield pa.RecordBatch.from_pylist(rows[start : start + part], schema=arrow)


def write(columns: str | StructType, *tasks: Sequence[Row], **options: str) -> Written:
    """A batch write of some tasks that all come to their end."""
    batch = Batch(columns, **options)
    for rows in tasks:
        batch.task(rows)
    return batch.commit()


def counts_of(written: Written) -> dict[str, object]:
    """The counts that are not zero."""
    found: dict[str, object] = {name: count for name, count in written.counts().items() if count}
    assert sum(written.counts().values()) + sum(written.refused.values()) == written.rows
    return found | ({"refused": written.refused} if written.refused else {})


def waiting(url: str, queue: Queue) -> list[Record]:
    """The jobs that wait, by id."""

    async def look(store: Store) -> list[Record]:
        page = await store.reads.list(queue, State.WAITING, limit=1_000)
        rows = list(page.rows)
        while page.cursor is not None:
            page = await store.reads.list(queue, State.WAITING, cursor=page.cursor, limit=1_000)
            rows += page.rows
        return sorted((row.record for row in rows if row.record is not None), key=lambda record: record.id)

    return call_store(url, look)


def drain(url: str, queue: Queue, outcome: Outcome | None = None) -> int:
    """Let a worker take everything and end it; says how many jobs that were."""
    return call_store(url, lambda store: work(store, queue, outcome or Done()))


async def work(store: Store, queue: Queue, outcome: Outcome) -> int:
    """Take everything and end it."""
    ended = 0
    for _ in range(1_000):
        nonce = secrets.token_hex(8)
        request = ClaimRequest(queues=[queue], worker="w", nonce=nonce, limit=1_000, lease_ms=60_000)
        claims = (await store.jobs.claim(request)).items
        if not claims:
            return ended
        await store.jobs.settle([claim.settle(outcome, 1) for claim in claims])
        ended += len(claims)
    raise AssertionError("the queue never came to its end")


FAILED = Failed(JobError.of("Odd", "it failed"))


def events(url: str, queue: Queue) -> Counter[str]:
    """How often each event is in the journal."""

    async def look(store: Store) -> Counter[str]:
        found: Counter[str] = Counter()
        for shard in queue.all_shards():
            after, upto = 0, (await store.journal.bounds(shard)).last_seq
            while after < upto:
                for entry in await store.journal.read(shard, after, upto):
                    found.update(event.line.event for event in entry.events(shard))
                    after = entry.last_seq
        return found

    return call_store(url, look)
