"""Promises of tables: commits whole or not at all, each batch once, read back by Spark and by other engines."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyarrow.fs import FileSelector
from pyspark.sql import SparkSession

from headrace.model.errors import BadConfig
from headrace.pipeline.storage import write
from headrace.pipeline.storage.layout import Condition, Layout
from headrace.pipeline.storage.location import Location
from headrace.pipeline.storage.table import Conflict, DataTable, Form, open_table
from headrace.pipeline.storage.write import write_files

INSTANT = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("queue", pa.string()),
        ("seq", pa.int64()),
        ("at", INSTANT),
        ("id", pa.string()),
        ("day", pa.date32()),
    ]
)
LAYOUT = Layout(
    name="events",
    schema=SCHEMA,
    partition_by=("day",),
    order=("queue", "seq"),
    stats=("queue", "seq", "at"),
    bloom=("id",),
)
FIRST, SECOND = date(2030, 1, 30), date(2030, 1, 31)


def row(queue: str, seq: int, day: date = FIRST) -> dict[str, Any]:
    return {"queue": queue, "seq": seq, "at": datetime(2030, 1, 1, tzinfo=UTC), "id": f"job-{seq}", "day": day}


def put(
    spark: SparkSession, table: DataTable, rows: Sequence[dict[str, Any]], batch: int, tasks: int = 1, **options: Any
) -> None:
    """Write rows by so many tasks and commit them as a batch."""
    frame = spark.createDataFrame(pa.Table.from_pylist(list(rows), SCHEMA)).repartition(tasks)
    table.commit(write_files(frame, table, batch=batch), batch=("app", batch), **options)


def seqs(spark: SparkSession, table: DataTable, where: Sequence[Condition] = ()) -> list[int]:
    return sorted(row.seq for row in table.read(spark, ["seq"], where).collect())


@pytest.fixture(params=["delta", "parquet"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> DataTable:
    """A new table on a local disk, in each form."""
    form: Form = request.param
    new_table = open_table(Location.parse(tmp_path / "table"), LAYOUT, form)
    new_table.prepare()
    return new_table


@pytest.fixture
def anywhere(home: Location) -> DataTable:
    """A new Delta table, on a disk and on object storage."""
    new_table = open_table(home.child("table"), LAYOUT, "delta")
    new_table.prepare()
    return new_table


def test_rows_come_back_as_they_were_from_disk_and_from_object_storage(
    spark: SparkSession, anywhere: DataTable
) -> None:
    rows = [row("mail", 1), row("mail", 2, SECOND), row("a.b-c_d", 3)]
    put(spark, anywhere, rows, 0, tasks=2)

    found = anywhere.read(spark).toArrow().sort_by("seq")

    assert found.schema == SCHEMA
    assert found.to_pylist() == rows
    assert anywhere.read(spark, ["seq", "day"]).columns == ["seq", "day"]


def test_conditions_and_later_filters_give_the_same_rows(spark: SparkSession, anywhere: DataTable) -> None:
    put(spark, anywhere, [row("mail", 1), row("mail", 2, SECOND)], 0)
    put(spark, anywhere, [row("sms", 3), row("sms", 4, SECOND)], 1)
    frame = anywhere.read(spark)

    assert seqs(spark, anywhere, [("day", "=", SECOND)]) == [2, 4]
    assert seqs(spark, anywhere, [("queue", "in", ["sms", "none"]), ("seq", ">", 3)]) == [4]
    assert seqs(spark, anywhere, [("at", "<", datetime(2030, 1, 1, tzinfo=UTC))]) == []
    assert [each.seq for each in frame.where("day = DATE'2030-01-31' AND queue = 'sms'").collect()] == [4]
    assert frame.where("seq <= 2").count() == 2


def test_only_files_that_may_match_are_opened(spark: SparkSession, table: DataTable) -> None:
    put(spark, table, [row("mail", 1), row("mail", 2, SECOND)], 0)
    put(spark, table, [row("sms", 30)], 1)
    now = table.version()
    assert now is not None

    def opened(*where: Condition) -> list[tuple[str | None, int]]:
        return sorted((file.partition["day"], file.lows["seq"]) for file in now.files(where))

    assert opened() == [("2030-01-30", 1), ("2030-01-30", 30), ("2030-01-31", 2)]
    assert opened(("day", "=", SECOND)) == [("2030-01-31", 2)]
    assert opened(("queue", ">", "mail")) == [("2030-01-30", 30)]
    assert opened(("seq", "in", [1, 31])) == [("2030-01-30", 1)]
    assert opened(("at", ">", datetime(2030, 1, 1, tzinfo=UTC))) == []
    assert len(opened(("id", "=", "unknown: no statistics"))) == 3


def test_a_batch_is_committed_once_with_its_state(spark: SparkSession, table: DataTable) -> None:
    put(spark, table, [row("mail", 1)], 0, state={"done": 1})
    put(spark, table, [row("mail", 2)], 1, state={"done": 2})

    with pytest.raises(Conflict, match=r"batch 1 of app is in .* already \(the last is 1\)"):
        put(spark, table, [row("mail", 2)], 1, state={"done": 99})

    now = table.version()
    assert now is not None
    assert (now.batch("app"), now.state("app")) == (1, {"done": 2})
    assert (now.batch("other"), now.state("other")) == (None, None)
    assert seqs(spark, table) == [1, 2]


def test_of_two_writers_that_commit_a_batch_at_once_one_wins(spark: SparkSession, anywhere: DataTable) -> None:
    frame = spark.createDataFrame(pa.Table.from_pylist([row("mail", 1)], SCHEMA))
    ours, theirs = (write_files(frame, anywhere, batch=0) for _ in range(2))
    anywhere.commit(ours, batch=("app", 0))

    with pytest.raises(Conflict, match="start again"):
        anywhere.commit(theirs, batch=("app", 0))

    assert seqs(spark, anywhere) == [1]


def test_a_large_state_lies_beside_the_log_and_old_ones_go(spark: SparkSession, anywhere: DataTable) -> None:
    for batch in range(4):
        put(spark, anywhere, [row("mail", batch)], batch, state={"shards": ["x" * 20] * 1_000, "batch": batch})

    now = anywhere.version()
    assert now is not None
    assert now.state("app")["batch"] == 3
    files, folder = anywhere.location.filesystem()
    kept = sorted(each.base_name[:13] for each in files.get_file_info(FileSelector(f"{folder}/_states")))
    assert kept == ["app-000000002", "app-000000003"]


def test_files_take_the_place_of_others_in_one_step(spark: SparkSession, table: DataTable) -> None:
    put(spark, table, [row("mail", 1), row("mail", 2, SECOND)], 0)
    now = table.version()
    assert now is not None

    put(spark, table, [row("mail", 20, SECOND)], 1, replace=now.files([("day", "=", SECOND)]))
    assert seqs(spark, table) == [1, 20]

    with pytest.raises(Conflict, match="replaced files"):
        put(spark, table, [row("mail", 21, SECOND)], 2, replace=now.files())
    assert seqs(spark, table) == [1, 20]
    latest = table.version()
    assert latest is not None
    put(spark, table, [], 2, replace=latest.files(), state={"empty": True})
    assert seqs(spark, table) == []


def test_columns_that_come_later_are_null_in_older_rows(spark: SparkSession, home: Location) -> None:
    narrow = Layout(name="events", schema=pa.schema([("seq", pa.int64())]))
    wide = Layout(name="events", schema=pa.schema([("seq", pa.int64()), ("note", pa.string())]))
    old = open_table(home.child("table"), narrow)
    old.prepare()
    old.commit(write_files(spark.createDataFrame([(1,)], "seq long"), old))

    new = open_table(home.child("table"), wide)
    new.prepare()
    new.commit(write_files(spark.createDataFrame([(2, "here")], "seq long, note string"), new))

    assert sorted(map(tuple, new.read(spark).collect())) == [(1, None), (2, "here")]


def test_small_files_become_one_that_is_sorted_again(spark: SparkSession, anywhere: DataTable) -> None:
    for batch in range(5):
        put(spark, anywhere, [row("sms", batch), row("mail", 10 + batch)], batch, state={"batch": batch})
    put(spark, anywhere, [row("mail", 50, SECOND)], 5, state={"batch": 5})

    done = anywhere.compact()

    assert (done.folders, done.files_before, done.files_after) == (1, 5, 1)
    now = anywhere.version()
    assert now is not None
    assert (now.batch("app"), now.state("app")) == (5, {"batch": 5})
    [merged] = now.files([("day", "=", FIRST)])
    files, folder = anywhere.location.filesystem()
    rows = pq.read_table(f"{folder}/{merged.path}", filesystem=files, partitioning=None)
    assert rows.column("seq").to_pylist() == [10, 11, 12, 13, 14, 0, 1, 2, 3, 4]
    assert seqs(spark, anywhere) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 50]
    assert anywhere.compact().files_before == 0
    # The state is in the newest commit: older ones go from the log.
    log = DeltaTable(str(anywhere.location), storage_options=anywhere.location.storage_options())
    assert '"state":{"batch":5}' in log.history(1)[0]["headrace"]


def test_a_compaction_gives_way_to_a_writer_that_replaced_its_files(
    spark: SparkSession, table: DataTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in range(2):
        put(spark, table, [row("mail", batch)], batch)

    def replace_all(step: str, _: int) -> None:
        monkeypatch.undo()
        now = table.version()
        assert now is not None
        assert step == "merged"
        put(spark, table, [row("mail", 9)], 2, replace=now.files())

    monkeypatch.setattr("headrace.pipeline.storage.table.crash_point", replace_all)
    with pytest.raises(Conflict, match="start again"):
        table.compact()

    assert seqs(spark, table) == [9]


def test_vacuum_removes_orphans_and_no_file_that_counts(spark: SparkSession, table: DataTable) -> None:
    put(spark, table, [row("mail", 1)], 0)
    orphan = write_files(spark.createDataFrame(pa.Table.from_pylist([row("mail", 2)], SCHEMA)), table, batch=1)
    [file] = [table.write_location.path / each.path for each in orphan]
    assert file.exists()

    assert table.vacuum(hours=0) == 1

    assert not file.exists()
    assert seqs(spark, table) == [1]


def test_engines_skip_row_groups_by_their_bounds_and_by_a_bloom_filter(
    spark: SparkSession, table: DataTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "TABLE_GROUP_ROWS", 10_000)
    rows = pa.Table.from_pylist([row("mail", seq) for seq in range(25_000)], SCHEMA)
    [written] = write.write_sorted(
        (rows.slice(start, 5_000) for start in range(0, 25_000, 5_000)), LAYOUT, table.write_location, "events-0"
    )

    file = table.write_location.path / written.path
    footer = pq.read_metadata(file)
    groups = [footer.row_group(number).column(1).statistics for number in range(footer.num_row_groups)]
    assert [(each.min, each.max) for each in groups] == [(0, 9_999), (10_000, 19_999), (20_000, 24_999)]
    assert pq.read_schema(file).field("at").type == INSTANT
    with duckdb.connect() as connection:
        probe = "SELECT bloom_filter_excludes FROM parquet_bloom_probe(?, 'id', ?)"
        assert connection.execute(probe, [str(file), "job-15000"]).fetchall()[1] == (False,)
        assert connection.execute(probe, [str(file), "job-x"]).fetchall() == [(True,)] * 3


def test_deltalake_and_polars_read_the_table(spark: SparkSession, table: DataTable) -> None:
    put(spark, table, [row("mail", 1), row("mail", 2, SECOND)], 0)
    folder = str(table.location)

    if table.form == "delta":
        assert DeltaTable(folder).to_pyarrow_table(filters=[("seq", ">", 1)]).column("seq").to_pylist() == [2]
        assert pl.scan_delta(folder).filter(pl.col("day") == FIRST).collect()["seq"].to_list() == [1]
    else:
        scan = pl.scan_parquet(f"{folder}/day=*/*.parquet", hive_partitioning=True, hive_schema={"day": pl.Date})
        assert scan.filter(pl.col("day") == FIRST).collect()["seq"].to_list() == [1]


def test_other_folders_and_forms_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").touch()
    location = Location.parse(tmp_path / "there")
    open_table(location, LAYOUT, "parquet").prepare()

    with pytest.raises(BadConfig, match=r"holds something else \('letter.txt'\)"):
        open_table(Location.parse(tmp_path / "mine"), LAYOUT).prepare()
    with pytest.raises(BadConfig, match="is kept as parquet, and delta was asked for"):
        open_table(location, LAYOUT, "delta")
    with pytest.raises(BadConfig, match="partitioned by day, and nothing was asked for"):
        open_table(location, Layout(name="events", schema=SCHEMA)).prepare()
    with pytest.raises(BadConfig, match="parquet is for local disks"):
        open_table(Location.parse("s3://bucket/table"), LAYOUT, "parquet")


def test_a_partition_value_that_is_no_name_of_a_folder_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    layout = Layout(
        name="events", schema=pa.schema([("queue", pa.string()), ("seq", pa.int64())]), partition_by=("queue",)
    )
    new_table = open_table(Location.parse(tmp_path), layout)
    new_table.prepare()

    files = write_files(spark.createDataFrame([(None, 1), ("mail", 2)], "queue string, seq long"), new_table)
    assert sorted(file.path.partition("/")[0] for file in files) == [
        "queue=__HIVE_DEFAULT_PARTITION__",
        "queue=mail",
    ]
    with pytest.raises(Exception, match="which is not a valid folder name"):
        write_files(spark.createDataFrame([("../up", 1)], "queue string, seq long"), new_table)
