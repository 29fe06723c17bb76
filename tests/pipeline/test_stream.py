"""Promises of a stream over journals, on every store; Spark is played, and asked itself in test_streaming.py."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from headrace.model.clock import ManualClock, monotonic_ms
from headrace.model.errors import BadConfig, Refused
from headrace.model.names import Queue, Shard
from headrace.pipeline.source.journal.follow import LOOK_EVERY_MS, Follower
from headrace.pipeline.source.journal.known import FIND_EVERY_MS
from headrace.pipeline.source.options import Options
from tests.pipeline.filling import T0, delete, fill, keep, tell
from tests.pipeline.playing import Checkpoint, Row, playing
from tests.pipeline.served import SERVED, fresh_url
from tests.support.redis_servers import RedisServer
from tests.support.stores import STORES, sqlite_url

FAST, SLOW, LATE = Queue("fast"), Queue("slow"), Queue("late", shards=2)


def places(rows: list[Row]) -> list[tuple[str, int]]:
    return [(row["queue"], row["seq"]) for row in rows]


def ids(batches: list[list[Row]]) -> list[str]:
    return [row["id"] for batch in batches for row in batch]


@pytest.fixture(params=SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """An empty store in a file: for promises that have nothing to do with the kind of store."""
    tell(sqlite_url(tmp_path))
    return sqlite_url(tmp_path)


def test_a_limited_stream_reaches_the_head_in_batches_of_exactly_so_many_in_the_order_of_time(url: str) -> None:
    tell(url, fill(FAST, 12, every_ms=10), fill(SLOW, 20, every_ms=60_000))

    with playing(url=url, maxEventsPerTrigger="5") as run:
        batches = run.rest()

    assert [len(batch) for batch in batches] == [5, 5, 5, 5, 5, 5, 2]
    seen = [row for batch in batches for row in batch]
    assert sorted(places(seen)) == [("fast", n + 1) for n in range(12)] + [("slow", n + 1) for n in range(20)]
    ends = [max(row["at"] for row in batch) for batch in batches]
    begins = [min(row["at"] for row in batch) for batch in batches]
    assert all(end <= begin for end, begin in zip(ends, begins[1:], strict=False))


def test_a_stream_without_a_limit_takes_all_that_is_there_and_then_what_is_new(url: str) -> None:
    tell(url, fill(FAST, 7), fill(SLOW, 3))

    with playing(url=url) as run:
        first = run.batch()
        idle = run.batch()
        tell(url, fill(SLOW, 2, since=3))
        second = run.batch()

    assert first is not None
    assert second is not None
    assert len(first) == 10
    assert idle is None
    assert places(second) == [("slow", 4), ("slow", 5)]


def test_available_now_reaches_the_head_seen_at_start_and_not_beyond(url: str) -> None:
    checkpoint = Checkpoint()
    tell(url, fill(FAST, 5))

    with playing(checkpoint, available_now=True, url=url, maxEventsPerTrigger="2") as run:
        tell(url, fill(FAST, 1, since=5))
        first = run.batch()
        tell(url, fill(FAST, 2, since=6), fill(LATE, 4))
        run.a_second_later()
        batches = [first or [], *run.rest()]
    reached = list(checkpoint.last["shards"])
    with playing(checkpoint, available_now=True, url=url) as run:
        later = run.rest()

    assert [len(batch) for batch in batches] == [2, 2, 1]
    assert reached == ["default/fast/0"]
    assert ids(batches) == [f"job-{n}" for n in range(5)]
    assert sorted(places(later[0]))[:3] == [("fast", 6), ("fast", 7), ("fast", 8)]
    assert [len(batch) for batch in later] == [7]


def test_a_checkpoint_goes_on_exactly_with_other_limits_and_partitions_twice(url: str) -> None:
    checkpoint, seen = Checkpoint(), list[Row]()
    tell(url, fill(FAST, 10), fill(LATE, 10))

    for limit, partitions in (("3", "1"), ("8", "5"), ("100", "2")):
        with playing(checkpoint, url=url, maxEventsPerTrigger=limit, minPartitions=partitions) as run:
            seen += run.batch() or []
            assert run.partitions == int(partitions)

    assert len(seen) == 20
    assert {row["id"] for row in seen if row["queue"] == "fast"} == {f"job-{n}" for n in range(10)}
    assert len({(row["queue"], row["shard"], row["seq"]) for row in seen}) == 20


def test_a_first_batch_that_failed_reads_the_same_again_though_the_beginning_has_moved(file: str) -> None:
    checkpoint = Checkpoint()
    tell(file, fill(FAST, 3))
    with playing(checkpoint, url=file, startingOffsets="latest") as run:
        assert run.batch() == []
        tell(file, fill(FAST, 2, since=3), fill(LATE, 1))
        run.a_second_later()
        first = run.batch()

    checkpoint.run = 0
    del checkpoint.ends[0]
    tell(file, fill(FAST, 2, since=5))
    with playing(checkpoint, url=file, startingOffsets="latest") as run:
        again = run.batch()
        rest = run.rest()

    assert first is not None
    assert again == first
    assert sorted(places(first)) == [("fast", 4), ("fast", 5), ("late", 1)]
    assert ids(rest) == ["job-5", "job-6"]


@pytest.mark.parametrize(
    ("starting", "expected"),
    [
        ("earliest", [1, 2, 3, 4, 5]),
        ("latest", []),
        (str(T0 + 2_000), [3, 4, 5]),
        ('{"default/fast/0": 4}', [4, 5]),
        ('{"default/fast/0": -1}', []),
    ],
)
def test_a_stream_begins_where_it_is_told_to(file: str, starting: str, expected: list[int]) -> None:
    tell(file, fill(FAST, 5))

    with playing(url=file, startingOffsets=starting) as run:
        begin = run.rest()
        tell(file, fill(FAST, 1, since=5))
        then = run.rest()

    assert [seq for batch in begin for _, seq in places(batch)] == expected
    assert [seq for batch in then for _, seq in places(batch)] == [6]


def test_a_beginning_that_is_not_kept_or_of_an_unknown_shard_is_refused(file: str) -> None:
    tell(file, fill(FAST, 5))

    with (
        playing(url=file, startingOffsets='{"default/fast/0": 9}') as run,
        pytest.raises(Exception, match="says seq 9"),
    ):
        run.batch()
    with playing(url=file, startingOffsets='{"default/fsat/0": 1}') as run, pytest.raises(BadConfig, match="fsat"):
        run.batch()


def test_queues_that_appear_while_a_stream_runs_join_it_from_the_oldest_event_that_is_kept(url: str) -> None:
    theirs = Queue("late", "acme")
    tell(url, fill(FAST, 2))

    with playing(url=url, tenant="*", startingOffsets="latest") as run:
        before = run.rest()
        tell(url, fill(FAST, 1, since=2))
        joined = run.rest()
        tell(url, fill(LATE, 6), fill(theirs, 9), keep(Shard(theirs), 3))
        run.a_second_later()
        after = run.rest()

    assert before == [[]]
    assert ids(joined) == ["job-2"]
    assert sorted((row["tenant"], row["queue"], str(row["id"])) for row in after[0]) == [
        *[("acme", "late", id) for id in ("None", "job-7", "job-8")],
        *[("default", "late", f"job-{n}") for n in range(6)],
    ]
    assert run.checkpoint.last["skipped"] == 0


def test_events_that_retention_dropped_unread_are_refused_or_skipped_with_their_number(url: str) -> None:
    checkpoint = Checkpoint()
    tell(url, fill(FAST, 10))
    with playing(checkpoint, url=url, maxEventsPerTrigger="4") as run:
        run.batch()
    tell(url, keep(Shard(FAST), 3))

    with (
        playing(checkpoint, url=url) as run,
        pytest.raises(Refused, match=r"default/fast/0 up to seq 4, and retention has dropped what follows up to 8;"),
    ):
        run.batch()
    with playing(checkpoint, url=url, failOnDataLoss="false") as run:
        batches = run.rest()

    assert [places(batch) for batch in batches] == [[("fast", 9), ("fast", 10), ("fast", 11)]]
    assert (checkpoint.last["skipped"], checkpoint.last["lost"]) == (4, 0)


def test_a_batch_that_failed_and_was_dropped_since_is_refused_or_read_as_far_as_it_is_kept(file: str) -> None:
    checkpoint = Checkpoint()
    tell(file, fill(FAST, 10))
    with playing(checkpoint, url=file, maxEventsPerTrigger="8") as run:
        run.batch()
    checkpoint.run = 0
    tell(file, keep(Shard(FAST), 5))

    with playing(checkpoint, url=file) as run, pytest.raises(Refused, match="has dropped what follows up to 6"):
        run.batch()
    with playing(checkpoint, url=file, failOnDataLoss="false") as run:
        batches = run.rest()

    assert [places(batch) for batch in batches] == [
        [("fast", 7), ("fast", 8)],
        [("fast", 9), ("fast", 10), ("fast", 11)],
    ]


def test_a_checkpoint_of_another_store_is_refused_or_begins_anew(url: str, tmp_path: Path) -> None:
    checkpoint, other = Checkpoint(), f"sqlite:///{tmp_path / 'other.db'}"
    tell(other, fill(FAST, 5, prefix="theirs"))
    tell(url, fill(FAST, 7, prefix="ours"))
    with playing(checkpoint, url=other) as run:
        run.batch()

    with (
        playing(checkpoint, url=url) as run,
        pytest.raises(
            Refused, match=r"up to seq 5, and its journal holds another event there: .* use a new checkpoint"
        ),
    ):
        run.batch()
    with playing(checkpoint, url=url, failOnDataLoss="false") as run:
        batches = run.rest()

    assert ids(batches) == [f"ours-{n}" for n in range(7)]
    assert (checkpoint.last["skipped"], checkpoint.last["lost"]) == (0, 5)


def test_a_queue_that_is_gone_is_refused_or_left_out_while_the_stream_runs(url: str) -> None:
    checkpoint = Checkpoint()
    tell(url, fill(FAST, 3), fill(SLOW, 3))

    with playing(checkpoint, url=url, queue="fast,slow") as run:
        run.batch()
        tell(url, delete(SLOW))
        with pytest.raises(Refused, match=r"default/slow/0 up to seq 3, and there is no such queue any more"):
            run.batch()
    tell(url, fill(FAST, 1, since=3))
    with playing(checkpoint, url=url, queue="fast,slow", failOnDataLoss="false") as run:
        batches = run.rest()

    assert [places(batch) for batch in batches] == [[("fast", 4)]]
    assert list(checkpoint.last["shards"]) == ["default/fast/0"]


@pytest.mark.parametrize("count", [2, 3, 9], ids=["shorter", "as long", "longer"])
def test_a_queue_that_was_made_anew_under_its_name_is_refused_or_read_from_its_beginning(url: str, count: int) -> None:
    checkpoint = Checkpoint()
    tell(url, fill(FAST, 3))

    with playing(checkpoint, url=url) as run:
        run.batch()
        tell(url, delete(FAST), fill(FAST, count, since=10, prefix="new"))
        with pytest.raises(Refused, match="the queue was made anew"):
            run.batch()
    with playing(checkpoint, url=url, failOnDataLoss="false") as run:
        batches = run.rest()

    assert ids(batches) == [f"new-{n}" for n in range(10, 10 + count)]
    assert checkpoint.last["lost"] == 3


def test_a_queue_that_was_made_anew_with_other_shards_is_read_from_its_beginning(url: str) -> None:
    checkpoint, wide = Checkpoint(), Queue("fast", shards=3)
    tell(url, fill(FAST, 3))

    with playing(checkpoint, url=url, failOnDataLoss="false") as run:
        run.batch()
        tell(url, delete(FAST), fill(wide, 9, since=10, prefix="new"))
        batches = run.rest()

    assert sorted(ids(batches)) == sorted(f"new-{n}" for n in range(10, 19))
    assert list(checkpoint.last["shards"]) == [f"default/fast/{n}" for n in range(3)]


def put_back(folder: Path, *, is_noticed: bool) -> None:
    """An older copy of the file, as after a restore, or (noticed) after a start of the machine that lost the tail."""
    for end in ("-wal", "-shm"):
        (folder / f"headrace.db{end}").unlink(missing_ok=True)
    shutil.copy(folder / "copy.db", folder / "headrace.db")
    if is_noticed:
        with closing(sqlite3.connect(folder / "headrace.db")) as file:
            file.execute("UPDATE store SET boot_id = 'another'")
            file.commit()


@pytest.mark.parametrize("is_noticed", [True, False], ids=["with a new epoch", "unnoticed by the store"])
@pytest.mark.parametrize("fresh", [0, 1, 6], ids=["before anything is new", "shorter", "longer"])
def test_a_tail_that_was_lost_is_refused_or_gone_on_from_with_what_is_new(
    file: str, tmp_path: Path, fresh: int, is_noticed: bool
) -> None:
    checkpoint = Checkpoint()
    tell(file, fill(FAST, 4))
    with (
        closing(sqlite3.connect(tmp_path / "headrace.db")) as now,
        closing(sqlite3.connect(tmp_path / "copy.db")) as copy,
    ):
        now.backup(copy)
    tell(file, fill(FAST, 3, since=4))
    with playing(checkpoint, url=file) as run:
        run.batch()
    put_back(tmp_path, is_noticed=is_noticed)
    tell(file, fill(FAST, fresh, since=20, prefix="new"))

    with playing(checkpoint, url=file) as run, pytest.raises(Refused, match="the store has lost its tail"):
        run.batch()
    with playing(checkpoint, available_now=True, url=file, failOnDataLoss="false") as run:
        batches = run.rest()
    tell(file, fill(FAST, 2, since=40, prefix="newer"))
    with playing(checkpoint, url=file) as run:
        later = run.rest()

    assert ids(batches) == [f"new-{n}" for n in range(20, 20 + fresh)]
    assert ids(later) == ["newer-40", "newer-41"]
    assert (checkpoint.last["skipped"], checkpoint.last["lost"]) == (0, 3)


def test_a_redis_that_lost_its_tail_is_gone_on_from_with_what_is_new() -> None:
    checkpoint = Checkpoint()
    with RedisServer().launch() as server:
        tell(server.url, fill(FAST, 4))
        server.ask("SAVE")
        tell(server.url, fill(FAST, 3, since=4))
        with playing(checkpoint, url=server.url) as run:
            run.batch()
        server.kill()
        server.start()

        with playing(checkpoint, url=server.url) as run, pytest.raises(Refused, match="ends at seq 4: the store has"):
            run.batch()
        with playing(checkpoint, url=server.url, failOnDataLoss="false") as run:
            before = run.rest()
            tell(server.url, fill(FAST, 5, since=20, prefix="new"))
            after = run.rest()

    assert ids(before) == []
    assert [(row["id"], row["epoch"]) for row in after[0]] == [(f"new-{n}", 2) for n in range(20, 25)]
    assert checkpoint.last["lost"] == 3


def test_a_new_epoch_of_a_store_that_lost_nothing_is_no_loss(file: str, tmp_path: Path) -> None:
    checkpoint = Checkpoint()
    tell(file, fill(FAST, 4))
    with playing(checkpoint, url=file) as run:
        run.batch()
    with closing(sqlite3.connect(tmp_path / "headrace.db")) as connection:
        connection.execute("UPDATE store SET boot_id = 'another'")
        connection.commit()
    tell(file, fill(FAST, 2, since=4))

    with playing(checkpoint, url=file) as run:
        batches = run.rest()

    assert [(row["seq"], row["epoch"]) for row in batches[0]] == [(5, 2), (6, 2)]


def test_available_now_ends_though_the_tail_is_lost_meanwhile(file: str, tmp_path: Path) -> None:
    checkpoint = Checkpoint()
    tell(file, fill(FAST, 4))
    with (
        closing(sqlite3.connect(tmp_path / "headrace.db")) as now,
        closing(sqlite3.connect(tmp_path / "copy.db")) as copy,
    ):
        now.backup(copy)
    tell(file, fill(FAST, 4, since=4))
    with playing(checkpoint, available_now=True, url=file, maxEventsPerTrigger="3", failOnDataLoss="false") as run:
        first = run.batch()
        run.reader._open.close()
        put_back(tmp_path, is_noticed=True)
        tell(file, fill(FAST, 9, since=20, prefix="new"))
        aims = run.reader._follow()._aims
        run.reader.stop()
        run.reader._follow()._aims = aims
        batches = run.rest()

    assert first is not None
    assert ids([first, *batches]) == [f"job-{n}" for n in range(4)]


def test_a_queue_that_is_no_longer_asked_for_is_left_out_in_silence(file: str) -> None:
    checkpoint = Checkpoint()
    tell(file, fill(FAST, 3), fill(SLOW, 3))
    with playing(checkpoint, url=file) as run:
        run.batch()
    tell(file, fill(FAST, 1, since=3), fill(SLOW, 1, since=3))

    with playing(checkpoint, url=file, queue="slow") as run:
        batches = run.rest()

    assert [places(batch) for batch in batches] == [[("slow", 4)]]
    assert list(checkpoint.last["shards"]) == ["default/slow/0"]


def test_a_queue_that_never_was_is_refused_at_the_start_and_after_a_restart(file: str) -> None:
    checkpoint = Checkpoint()
    tell(file, fill(FAST, 3))
    with playing(checkpoint, url=file) as run:
        run.batch()

    with playing(url=file, queue="fsat") as run, pytest.raises(BadConfig, match="no queue 'fsat'"):
        run.batch()
    with playing(checkpoint, url=file, queue="fast,slwo") as run, pytest.raises(BadConfig, match="no queue 'slwo'"):
        run.batch()


def test_a_stream_says_how_far_the_journals_are_and_how_many_events_it_is_behind(file: str) -> None:
    tell(file, fill(FAST, 10), fill(SLOW, 2))

    with playing(url=file, maxEventsPerTrigger="5") as run:
        before = run.reader.reportLatestOffset()
        run.batch()
        behind = run.reader.reportLatestOffset()
        run.rest()
        reached = run.reader.reportLatestOffset()

    assert before is None
    assert behind == {"v": 1, "shards": {"default/fast/0": [1, 10], "default/slow/0": [1, 2]}, "lag": 7}
    assert reached["lag"] == 0


def test_a_stream_can_be_sent_to_a_task_while_its_store_is_open(file: str) -> None:
    tell(file, fill(FAST, 1))

    with playing(url=file) as run:
        run.reader.initialOffset()

        assert len(run.batch() or []) == 1


def test_a_store_of_no_queues_is_followed_until_there_are_some(file: str) -> None:
    with playing(url=file) as run:
        assert run.rest() == [[]]
        tell(file, fill(FAST, 2))
        run.a_second_later()

        assert ids(run.rest()) == ["job-0", "job-1"]


async def test_new_queues_are_looked_for_once_a_second(tmp_path: Path) -> None:
    clock = ManualClock(1)
    async with STORES["memory"](tmp_path) as store:
        await fill(FAST, 2)(store)
        follower = Follower(store, Options(url="memory://"), clock.now_ms)
        start = await follower.latest(None, None)
        await fill(SLOW, 2)(store)

        clock.advance(FIND_EVERY_MS - 1)
        before = await follower.latest(start, None)
        clock.advance(1)
        after = await follower.latest(before, None)

    assert before is start
    assert list(after.shards) == ["default/fast/0", "default/slow/0"]


async def test_a_stream_that_is_behind_does_not_wait_and_an_idle_one_does_not_hurry(tmp_path: Path) -> None:
    async with STORES["memory"](tmp_path) as store:
        await fill(FAST, 20)(store)
        follower = Follower(store, Options(url="memory://"), ManualClock(1).now_ms)
        offset = await follower.latest(None, 1)
        begun_at_ms = monotonic_ms()

        for _ in range(19):
            offset = await follower.latest(offset, 1)
        read_ms = monotonic_ms() - begun_at_ms
        for _ in range(3):
            assert await follower.latest(offset, 1) is offset
        idle_ms = monotonic_ms() - begun_at_ms - read_ms

    assert offset.shards["default/fast/0"].seq == 20
    assert read_ms < 19 * LOOK_EVERY_MS
    assert idle_ms >= 2 * LOOK_EVERY_MS
