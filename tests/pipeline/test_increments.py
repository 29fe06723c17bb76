"""Promises of increments: tables that were brought forward batch by batch are those that all events at once give."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from headrace.model.names import uuid7
from headrace.pipeline.data_dir import DataDir
from headrace.pipeline.event_source import Events
from headrace.pipeline.source.schema import JOURNAL
from headrace.pipeline.storage import table as steps
from headrace.pipeline.tables.attempts import attempts
from headrace.pipeline.tables.errors import error_groups, errors
from headrace.pipeline.tables.jobs import jobs
from headrace.pipeline.tables.usage import tenant_usage, usage
from headrace.pipeline.tables.write import read_table, write_errors, write_jobs, write_usage

Row = dict[str, Any]
SCHEMA = StructType([*JOURNAL.spark.fields, StructField("batch", LongType())])
START = datetime(2026, 3, 1, 22, tzinfo=UTC)
KINDS = (
    *(["enqueued", "claimed", "done"] * 4),
    *("retried", "dead", "replayed", "cancelled", "purged", "removed", "blocked", "unblocked", "stalled", "updated"),
    *("released", "merged"),
)
REASONS = {"purged": (None,), "removed": (None, "waiting", "active", "lost"), "cancelled": (None, "blocked")}


class Story:
    """Random events of several shards: ids used again, replayed, purged, and generations whose beginning nobody saw."""

    def __init__(self, seed: int, events: int) -> None:
        self._random = random.Random(seed)
        self._seqs: dict[tuple[str, str, int], int] = {}
        born = int(START.timestamp() * 1_000)
        self._ids = [
            *("a", "b", "key-1"),
            *(uuid7(born + 3_600_000 * n, bytes([n] * 10)) for n in range(9)),
            uuid7(born - 90 * 86_400_000, b"old-old-ol"),
        ]
        self.rows = [self._row(number, events) for number in range(events)]

    def _row(self, number: int, events: int) -> Row:
        pick = self._random.choice
        shard = (pick(["acme", "birch"]), pick(["mail", "web", "web"]), pick([0, 1]))
        self._seqs[shard] = self._seqs.get(shard, 0) + 1
        event = pick(KINDS)
        # Shards run at clocks of their own: what comes late belongs to days that are over.
        late = timedelta(hours=20 if shard[2] and shard[1] == "mail" else 0)
        row: Row = {
            **dict(zip(("tenant", "queue", "shard"), shard, strict=True)),
            "epoch": 1,
            "seq": self._seqs[shard],
            "happened_at": START + timedelta(hours=72) * number / events - late,
            "event": event,
            "id": pick(self._ids),
            "kind": pick(["send", "print", None]),
            "reason": pick(REASONS.get(event, (None,))),
        }
        if event in ("enqueued", "unblocked", "replayed", "updated"):
            row |= {"priority": pick([1, 5]), "tag": pick(["x", None]), "payload_bytes": pick([10, 200])}
        if event == "claimed":
            row |= {"fence": number, "worker": "w"}
        if event in ("done", "retried", "dead", "released", "cancelled") and pick([True, True, False]):
            row |= {
                "fence": number - pick([0, 1, 5]),
                "wait_ms": pick([1, 50]),
                "run_ms": pick([5, 700]),
                "attempts": 1,
            }
        if event in ("retried", "dead"):
            row |= {"error_class": pick(["E", "F"]), "error_message": f"no {number} in {pick(['x', 'y'])}"}
        if event == "purged" and pick([True, False]):
            row["dead_letter"] = 7
        return row

    def cut(self, batches: int) -> list[list[Row]]:
        """The rows in batches as a history has them: each shard in order, some far behind the others."""
        found: list[list[Row]] = [[] for _ in range(batches)]
        at: dict[tuple[str, str, int], int] = {}
        for row in self.rows:
            shard = (row["tenant"], row["queue"], row["shard"])
            behind = self._random.random() < 0.02
            at[shard] = min(max(at.get(shard, 0), len(found) * row["seq"] // 60) + behind, batches - 1)
            found[at[shard]].append({**row, "batch": at[shard]})
        return found


def frame(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    return spark.createDataFrame([tuple(row.get(name) for name in SCHEMA.names) for row in rows], SCHEMA)


def history(spark: SparkSession, batches: Sequence[Sequence[Row]], upto: int) -> Events:
    rows = [row for batch in batches[: upto + 1] for row in batch]
    return Events(frame(spark, rows), "history", "by hand", source="one", head=upto)


def rows_of(found: DataFrame) -> list[str]:
    names = sorted(set(found.columns) - {"day"})
    return sorted(str([row[name] for name in names]) for row in found.select(*names).collect())


def expected(spark: SparkSession, events: Events, *names: str) -> dict[str, list[str]]:
    frame = events.frame.drop("batch")
    pure = {"jobs": jobs, "attempts": attempts, "errors": errors, "usage": usage}
    return {name: rows_of(pure[name](frame)) for name in names or pure}


def written(spark: SparkSession, data_dir: DataDir) -> dict[str, list[str]]:
    tables = {name: read_table(spark, data_dir, name) for name in ("jobs", "attempts", "errors", "usage")}
    shown = {**tables, "errors": error_groups(tables["errors"]), "usage": tenant_usage(tables["usage"])}
    return {name: rows_of(found) for name, found in shown.items()}


def write(spark: SparkSession, events: Events, data_dir: DataDir, **options: bool) -> None:
    write_jobs(spark, events, data_dir, **options)
    write_errors(spark, events, data_dir, **options)
    write_usage(spark, events, data_dir, **options)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.proof) for seed in range(2, 12))])
def test_tables_brought_forward_batch_by_batch_are_those_of_all_events(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    data_dir, batches = DataDir(tmp_path), Story(seed, 400).cut(8)

    for upto in (0, 1, 4, 7):
        write(spark, history(spark, batches, upto), data_dir)

    assert written(spark, data_dir) == expected(spark, history(spark, batches, 7))


def test_a_rebuild_gives_the_same_rows_and_the_next_batch_is_added_to_them(spark: SparkSession, tmp_path: Path) -> None:
    data_dir, batches = DataDir(tmp_path), Story(7, 240).cut(4)
    write(spark, history(spark, batches, 1), data_dir)
    write(spark, history(spark, batches, 2), data_dir)
    before = written(spark, data_dir)

    write(spark, history(spark, batches, 2), data_dir, rebuild=True)
    rebuilt = written(spark, data_dir)
    write(spark, history(spark, batches, 3), data_dir)

    assert rebuilt == before
    assert written(spark, data_dir) == expected(spark, history(spark, batches, 3))


class Killed(Exception):
    """Stands for a kill: what was committed stays, and nothing else happens."""


def test_a_run_that_was_killed_between_two_commits_is_made_up_for_by_the_next(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run, which makes the tables, and later ones, which add to them."""
    data_dir, batches = DataDir(tmp_path), Story(11, 240).cut(6)

    for upto, table in enumerate(("jobs", "attempts", "generations", "jobs", "attempts")):

        def kill(step: str, _number: int, table: str = table) -> None:
            if step == f"{table} committed":
                raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(steps, "crash_point", kill)
            with pytest.raises(Killed):
                write_jobs(spark, history(spark, batches, upto), data_dir)
    write_jobs(spark, history(spark, batches, 5), data_dir)

    wanted = expected(spark, history(spark, batches, 5), "jobs", "attempts")
    assert rows_of(read_table(spark, data_dir, "jobs")) == wanted["jobs"]
    assert rows_of(read_table(spark, data_dir, "attempts")) == wanted["attempts"]


def test_a_run_with_nothing_new_reads_no_event_and_commits_nothing(spark: SparkSession, tmp_path: Path) -> None:
    data_dir, batches = DataDir(tmp_path), Story(5, 60).cut(1)
    write(spark, history(spark, batches, 0), data_dir)
    logs = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    broken = Events(spark.createDataFrame([(1,)], "n int"), "history", "broken", source="one", head=0)

    write(spark, broken, data_dir)

    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == logs


def test_events_of_another_source_replace_a_table_instead_of_being_added(spark: SparkSession, tmp_path: Path) -> None:
    data_dir, batches = DataDir(tmp_path), Story(5, 120).cut(2)
    write(spark, history(spark, batches, 1), data_dir)
    acme = history(spark, batches, 1)
    part = Events(acme.frame.where("tenant = 'acme'"), "history", "by hand", source="acme", head=1)

    write(spark, part, data_dir)

    assert written(spark, data_dir) == expected(spark, part)
