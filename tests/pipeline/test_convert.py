"""Promises of the conversion: entries become the columns that are written down, value for value."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.model.event import LINE_COLUMNS, Entry
from headrace.model.names import Queue, Shard
from headrace.pipeline.source.journal.pages import Converter, JournalPage
from headrace.pipeline.source.schema import ARROW_SCHEMA, JOURNAL, LINE, SPARK_SCHEMA

SHARD = Shard(Queue("mail", "acme", 3).fail_queue, 2)
LINES = (
    b'{"event":"claimed","id":"a\\"b","fence":9007199254740993}\n'
    b'{"event":"retried","id":"\xf0\x9f\x98\x80","kind":"k","tag":"t","priority":5,"attempts":1,"stalls":0,"fence":8,'
    b'"worker":"own","run_at_ms":1700000000123,"enqueued_at_ms":0,"wait_ms":4,"run_ms":5,"reason":"r","dead_letter":6,'
    b'"error_class":"E","error_message":"x\\ny","payload_bytes":7,"version":3}\n'
)


def entry(
    last_seq: int, count: int, lines: bytes, worker: str | None = "w", at_ms: int = 1_001, epoch: int = 1
) -> Entry:
    return Entry(epoch=epoch, last_seq=last_seq, count=count, at_ms=at_ms, worker=worker, lines=lines)


def record_batch(shard: Shard, entries: list[Entry]) -> pa.RecordBatch:
    return Converter().record_batch([JournalPage(shard, entries)])


def test_spark_and_arrow_agree_on_every_column() -> None:
    assert to_arrow_schema(SPARK_SCHEMA, timezone="UTC").equals(ARROW_SCHEMA)


def test_the_columns_follow_the_journal_line_in_order() -> None:
    written = tuple(name.removesuffix("_ms") if name.endswith("_at_ms") else name for name in LINE_COLUMNS)

    assert tuple(column.name for column in LINE) == written
    assert SPARK_SCHEMA.names[:6] == ["tenant", "queue", "shard", "epoch", "seq", "happened_at"]


def test_an_entry_becomes_rows_value_for_value() -> None:
    batch = record_batch(SHARD, [entry(12, 2, LINES)])

    assert batch.schema.equals(ARROW_SCHEMA)
    empty = dict.fromkeys(ARROW_SCHEMA.names)
    place = {
        "tenant": "acme",
        "queue": "mail.fail",
        "shard": 2,
        "epoch": 1,
        "happened_at": datetime(1970, 1, 1, 0, 0, 1, 1000, UTC),
    }
    assert batch.to_pylist() == [
        {**empty, **place, "seq": 11, "event": "claimed", "id": 'a"b', "fence": 9007199254740993, "worker": "w"},
        {
            **place,
            "seq": 12,
            "event": "retried",
            "id": "😀",
            "kind": "k",
            "tag": "t",
            "priority": 5,
            "attempts": 1,
            "stalls": 0,
            "fence": 8,
            "worker": "own",
            "run_at": datetime(2023, 11, 14, 22, 13, 20, 123000, UTC),
            "enqueued_at": datetime(1970, 1, 1, tzinfo=UTC),
            "wait_ms": 4,
            "run_ms": 5,
            "reason": "r",
            "dead_letter": 6,
            "error_class": "E",
            "error_message": "x\ny",
            "payload_bytes": 7,
            "version": 3,
        },
    ]


def test_each_row_has_the_place_of_its_own_entry() -> None:
    line = b'{"event":"claimed","id":"a","fence":1}\n'

    batch = record_batch(SHARD, [entry(3, 3, line * 3), entry(4, 1, line, None, 2_000, 2), entry(6, 2, line * 2, "v")])

    assert batch["seq"].to_pylist() == [1, 2, 3, 4, 5, 6]
    assert batch["epoch"].to_pylist() == [1, 1, 1, 2, 1, 1]
    assert batch["worker"].to_pylist() == ["w", "w", "w", None, "v", "v"]
    assert [at.second for at in batch["happened_at"].to_pylist()] == [1, 1, 1, 2, 1, 1]


def test_each_row_has_the_shard_of_its_own_page() -> None:
    line, first = b'{"event":"removed","id":"a"}\n', Shard(Queue("alone"))
    pages = [JournalPage(first, [entry(3, 3, line * 3)]), JournalPage(SHARD, [entry(8, 1, line), entry(9, 1, line)])]

    batch = Converter().record_batch(pages)

    assert batch.schema.equals(ARROW_SCHEMA)
    assert batch["tenant"].to_pylist() == ["default"] * 3 + ["acme"] * 2
    assert batch["queue"].to_pylist() == ["alone"] * 3 + ["mail.fail"] * 2
    assert batch["shard"].to_pylist() == [0, 0, 0, 2, 2]
    assert batch["seq"].to_pylist() == [1, 2, 3, 8, 9]


@pytest.mark.parametrize(
    "names",
    [["seq"], ["worker"], ["kind", "happened_at", "tenant"], ["fence", "worker", "id"], ["run_at", "enqueued_at"]],
)
def test_columns_that_are_picked_are_as_they_are_among_all(names: list[str]) -> None:
    pages = [JournalPage(SHARD, [entry(12, 2, LINES)])]

    batch = Converter(JOURNAL.pick(names)).record_batch(pages)

    whole = Converter().record_batch(pages)
    assert batch.schema.equals(JOURNAL.pick(names).arrow)
    assert batch.equals(whole.select(names))


def test_an_event_that_is_not_about_a_delivery_has_no_worker() -> None:
    batch = record_batch(SHARD, [entry(1, 1, b'{"event":"enqueued","id":"a"}\n', "w")])

    assert batch["worker"].to_pylist() == [None]


def test_a_field_from_the_future_is_left_out() -> None:
    batch = record_batch(SHARD, [entry(1, 1, b'{"event":"enqueued","id":"a","colour":{"deep":[1]}}\n')])

    assert batch.schema.equals(ARROW_SCHEMA)


def test_a_page_of_megabytes_is_read_whole() -> None:
    lines = b"".join(b'{"event":"dead","id":"%d","error_message":"%s"}\n' % (n, b"m" * 1_000) for n in range(5_000))

    batch = record_batch(SHARD, [entry(5_000, 5_000, lines)])

    assert batch["id"].to_pylist() == [str(number) for number in range(5_000)]


def test_an_entry_that_lacks_lines_is_not_passed_off_as_whole() -> None:
    batch = record_batch(SHARD, [entry(12, 3, LINES), entry(13, 1, b'{"event":"done"}\n')])

    assert batch["seq"].to_pylist() == [10, 11, 12, 13]
    assert batch["event"].to_pylist() == ["claimed", "retried", "unreadable", "done"]


@pytest.mark.parametrize(
    "line",
    [
        b'{"event":"done","id":"a","run_ms":"x"}',
        b'{"event":"done","id":"a","run_ms":[1]}',
        b'{"event":"done","id":"a","run_ms":9223372036854775808}',
        b'{"event":"done","id":"a","run_at_ms":9223372036854775807}',
        b'{"event":"done","id":"a","payload_bytes":3000000000}',
        b'{"event":"done","id":"a","tag":"\xff"}',
    ],
)
def test_of_a_line_that_cannot_be_read_the_columns_are_kept_that_can(line: bytes) -> None:
    batch = record_batch(SHARD, [entry(3, 3, b'{"event":"enqueued"}\n' + line + b'\n{"event":"dead","run_ms":7}\n')])

    assert batch["event"].to_pylist() == ["enqueued", "done", "dead"]
    assert batch["id"].to_pylist() == [None, "a", None]
    assert batch["run_ms"].to_pylist() == [None, None, 7]
    assert [batch[name].to_pylist()[1] for name in ("run_at", "payload_bytes", "tag")] == [None, None, None]


@pytest.mark.parametrize("line", [b"", b"[1]", b"{", b'{"id":"a"}', b'{"event":7}', b'{"event":"\xff"}', b"\xff"])
def test_a_line_without_a_name_of_its_event_is_an_unreadable_event(line: bytes) -> None:
    batch = record_batch(SHARD, [entry(2, 2, line + b'\n{"event":"done"}\n')])

    assert batch["event"].to_pylist() == ["unreadable", "done"]
    assert batch["seq"].to_pylist() == [1, 2]


def test_the_types_are_those_that_spark_checks_a_batch_against() -> None:
    assert ARROW_SCHEMA.field("happened_at").type == pa.timestamp("us", tz="UTC")
    assert ARROW_SCHEMA.field("id").type == pa.string()
