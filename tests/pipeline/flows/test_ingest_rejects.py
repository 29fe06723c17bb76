"""Promises of a write that keeps refused rows: each once, with what is wrong, whatever was retried."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from headrace.model.errors import BadConfig
from headrace.model.names import Queue
from headrace.pipeline.source.options import WriteOptions
from headrace.pipeline.source.sink.rejects import SCHEMA, RejectWriter, settle_refused
from headrace.pipeline.source.sink.row_to_job import COLUMNS
from headrace.pipeline.source.source import HeadraceSource
from headrace.stores.contract.store import Store
from tests.pipeline.shared_stores import SERVED, call_store, fresh_url
from tests.pipeline.writes import Batch, Row, batches, counts_of, schema_of, write

KEYED = "kind string, payload string, key string"
MAIL = Queue("mail")


@pytest.fixture(params=SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    return fresh_url("sqlite", tmp_path)


def rows(numbers: range, odd: int = 7) -> list[Row]:
    """Rows, of which one in `odd` has an invalid payload."""
    payloads = (f"{number}" if number % odd else f"text {number}" for number in numbers)
    return [
        {"kind": "k", "payload": payload, "key": str(number)} for number, payload in zip(numbers, payloads, strict=True)
    ]


def kept(folder: Path, run: str = "*") -> list[Row]:
    """The kept rows by key: most keys are numbers."""
    files = sorted(folder.glob(f"run={run}/*.parquet"))
    found = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted(found, key=lambda row: (len(row["key"]), row["key"]))


def test_rows_that_the_write_or_the_store_refuses_are_kept_with_all_their_columns(url: str, tmp_path: Path) -> None:
    """The store refuses a conflict and a full queue; the write an invalid payload and a row with a refusal."""
    folder, at = tmp_path / "refused", datetime(2040, 1, 2, tzinfo=UTC)
    columns = KEYED + ", run_at timestamp, priority int, tag string, headers map<string;string>, refusal string"
    more = {"run_at": at, "priority": 3, "tag": "t", "headers": {"h": "1"}, "refusal": None}
    write(KEYED, rows(range(1, 3)), url=url, queue="mail")

    async def fill(store: Store) -> None:
        await store.queues.configure(MAIL, {"waiting_max": 3})

    call_store(url, fill)
    odd = [
        {"kind": "k", "payload": "other", "key": "3"},
        {"kind": "k", "payload": '"other"', "key": "1"},
        {"kind": "k", "payload": "4", "key": "4"},
        {"kind": "k", "payload": "5", "key": "5"},
        {"kind": "k", "payload": "6", "key": "6"},
    ]
    rejected = [row | more for row in odd]
    rejected[-1]["refusal"] = "no_mail: the row has no mail"

    written = write(columns, rejected, url=url, queue="mail", refusals="count", refusedDir=str(folder), run="odd/1")

    wrong = {"bad_payload": 1, "conflict": 1, "full": 1, "no_mail": 1}
    assert counts_of(written) == {"created": 1, "refused": wrong}
    found = kept(folder)
    assert [(row["key"], row["reason"]) for row in found] == [
        ("1", "conflict"),
        ("3", "bad_payload"),
        ("5", "full"),
        ("6", "no_mail"),
    ]
    for row in found:
        assert (row["run_at"], row["priority"], row["tag"], row["headers"]) == (at, 3, "t", [("h", "1")])
        assert (row["tenant"], row["queue"], row["kind"], row["id"]) == ("default", "mail", "k", None)
    assert [row["payload"] for row in found] == ['"other"', "other", "5", "6"]
    assert found[3]["sentence"] == "the row has no mail"
    assert written.refused_folder == str(folder / "run=odd%2F1")


def test_a_row_without_most_columns_is_kept_as_well(file_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "refused"
    options = {"url": file_url, "queue": "mail", "refusals": "count", "refusedDir": str(folder)}

    write("kind string, key string", [{"kind": None, "key": "1"}, {"kind": "k", "key": "2"}], **options)

    [row] = kept(folder)
    assert {name: value for name, value in row.items() if value is not None} == {
        "reason": "bad_kind",
        "sentence": "the row names no kind; fill column 'kind', or give option kind",
        "key": "1",
        "queue": "mail",
        "tenant": "default",
    }


def test_a_cell_that_cannot_be_read_refuses_its_row_alone_and_its_readable_part_is_kept(
    file_url: str, tmp_path: Path
) -> None:
    """Text that is no UTF-8, as key, tag, header and inside a payload, and an instant of the year 11476."""
    folder = tmp_path / "refused"
    payload = StructType([StructField("who", StringType()), StructField("at", TimestampType())])
    keyed = schema_of("key string, tag string, headers map<string;string>, refusal string")
    names = ["0", "1", "2", "3", "4", "5", "6"]
    good = {name: [None] * 7 for name in ("tag", "refusal")} | {"key": names, "who": ["ada"] * 7, "header": ["h"] * 7}
    at = pa.array([0, 0, 0, 0, 300_000_000_000_000_000, 0, 0]).cast(pa.timestamp("us", "UTC"))
    texts = {name: pa.array(cells, pa.string()) for name, cells in good.items()}
    for name, row, cell in (("key", 1, b"1\xff"), ("tag", 2, b"t\xff"), ("who", 3, b"\xe9va"), ("header", 5, b"\xff")):
        texts[name] = odd(texts[name], row, cell)
    texts["refusal"] = odd(texts["refusal"], 6, b"bad_source: the text is \xe9va")
    offsets = pa.array(range(8), pa.int32())
    columns = [
        pa.StructArray.from_arrays([texts["who"], at], ["who", "at"]),
        *(texts[name] for name in ("key", "tag")),
        pa.MapArray.from_arrays(offsets, pa.array(["name"] * 7), texts["header"]),
        texts["refusal"],
    ]
    schema = StructType([StructField("payload", payload), *keyed.fields])
    rows = pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(schema, timezone="UTC"))
    batch = Batch(schema, url=file_url, queue="mail", kind="k", refusals="count", refusedDir=str(folder))

    batch.take(iter([rows]))
    written = batch.commit()
    text = pa.RecordBatch.from_arrays([odd(pa.array(['"1"', '"2"']), 1, b'"\xff"')], ["payload"])
    as_text = Batch("payload string", url=file_url, queue="text", kind="k", refusals="count", run="text")
    as_text.take(iter([text]))

    reasons = {"bad_key": 1, "bad_tag": 1, "bad_payload": 2, "bad_headers": 1, "bad_source": 1}
    assert counts_of(written) == {"created": 1, "refused": reasons}
    found = {row["reason"] + row["key"]: row for row in kept(folder)}
    assert (
        found["bad_key1\ufffd"]["sentence"]
        == "key '1\ufffd' holds text that is not UTF-8; decode it with its own encoding"
    )
    assert found["bad_tag2"]["tag"] == "t\ufffd"
    assert json.loads(found["bad_payload3"]["payload"])["who"] == "\ufffdva"
    assert json.loads(found["bad_payload4"]["payload"]) == {"who": "ada", "at": "11476-08-15 05:20:00.000000Z"}
    assert "is not of the years 1 to 9999" in found["bad_payload4"]["sentence"]
    assert found["bad_headers5"]["headers"] == [("name", "\ufffd")]
    assert found["bad_source6"]["sentence"] == "the text is \ufffdva"
    assert counts_of(as_text.commit()) == {"created": 1, "refused": {"bad_payload": 1}}


def odd(column: pa.Array, row: int, cell: bytes) -> pa.Array:
    """A column of text, one cell of which holds arbitrary bytes, which Spark passes on unchecked."""
    cells = column.cast(pa.binary()).to_pylist()
    cells[row] = cell
    return pa.Array.from_buffers(pa.string(), len(cells), pa.array(cells, pa.binary()).buffers())


def test_the_text_of_a_row_that_cannot_be_read_is_kept_whole_and_shown_cut(file_url: str, tmp_path: Path) -> None:
    rejected = "bad_source: the row cannot be read, its text is " + "x" * 5_000
    options = {"url": file_url, "queue": "mail", "refusals": "count", "refusedDir": str(tmp_path / "refused")}

    written = write(f"{KEYED}, refusal string", [rows(range(1, 2))[0] | {"refusal": rejected}], **options)

    assert len(written.examples["bad_source"]) == 300
    assert [row["sentence"] for row in kept(tmp_path / "refused")] == [rejected.removeprefix("bad_source: ")]


def test_refused_rows_of_attempts_that_failed_are_kept_once(file_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "refused"
    batch = Batch(KEYED, url=file_url, queue="mail", refusals="count", refusedDir=str(folder))
    batch.failed_task(rows(range(100)), part=10)
    leftover = RejectWriter(str(folder), "run")  # of a killed executor
    leftover.add(dict.fromkeys(SCHEMA.names) | {"sentence": "", "key": "1"})
    leftover.close()
    batch.task(rows(range(100)), part=30)
    batch.task(rows(range(100, 200)))

    written = batch.commit()

    assert counts_of(written) == {"created": 171, "refused": {"bad_payload": 29}}
    assert [int(row["key"]) for row in kept(folder)] == list(range(0, 200, 7))
    assert [*(folder / "_tasks").iterdir()] == []


def test_a_run_that_ends_twice_keeps_the_refused_rows_of_its_last_end(tmp_path: Path) -> None:
    """Like a batch of a stream that Spark repeats after a kill."""
    folder = str(tmp_path / "refused")

    def end(*keys: str) -> str | None:
        keeper = RejectWriter(folder, "query/3")
        for key in keys:
            keeper.add(dict.fromkeys(SCHEMA.names) | {"sentence": "", "key": key})
        name = keeper.close()
        return settle_refused(folder, "query/3", [] if name is None else [name])

    first, second = end("1", "2"), end("2")
    found = [row["key"] for row in kept(tmp_path / "refused")]
    third = end()

    assert (first, second) == (f"{folder}/run=query%2F3",) * 2
    assert (found, third, kept(tmp_path / "refused")) == (["2"], None, [])


def test_a_write_that_is_given_up_leaves_no_refused_rows(file_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "refused"
    options = {"url": file_url, "queue": "mail", "refusedDir": str(folder), "run": "run"}
    writer: Any = HeadraceSource(CaseInsensitiveDict(options)).writer(schema_of(KEYED), False)
    message = writer.write(batches(schema_of(KEYED), rows(range(10)), 10))

    before = [*(folder / "_tasks").iterdir()]
    writer.abort([message, None])

    assert len(before) == 1
    assert [*(folder / "_tasks").iterdir()] == []
    assert kept(folder) == []


def test_a_task_that_refuses_all_rows_buffers_few_of_them(file_url: str, tmp_path: Path) -> None:
    """Its buffer is one row group of the file."""
    batch = Batch(KEYED, url=file_url, queue="mail", refusals="count", refusedDir=str(tmp_path / "refused"))
    batch.task(rows(range(2_500), odd=1))
    batch.task([{"kind": "k", "payload": "x" * 2**20, "key": str(key)} for key in range(20)], part=20)

    written = batch.commit()

    assert written.refused == {"bad_payload": 2_520}
    files = [pq.read_metadata(file) for file in (tmp_path / "refused").glob("run=*/*.parquet")]
    groups = sorted([file.row_group(at).num_rows for at in range(file.num_row_groups)] for file in files)
    assert groups == [[8, 8, 4], [1_000, 1_000, 500]]


def test_files_that_the_driver_cannot_see_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"are missing; set option refusedDir to a folder that the driver and all"):
        settle_refused(str(tmp_path), "run", ["run@1.parquet"])


@pytest.mark.parametrize("folder", ["s3://bucket/refused", "refused"])
def test_the_folder_must_be_an_absolute_path(folder: str) -> None:
    with pytest.raises(BadConfig, match=r"option refusedDir is '.*'; give a folder by its whole path"):
        WriteOptions.parse({"url": "redis://host", "refusedDir": folder})


def test_every_column_of_a_job_is_kept() -> None:
    assert set(SCHEMA.names) == {*COLUMNS, "reason", "sentence"} - {"refusal"}
