"""Promises of a stream over journals, on every store; Spark is played, and asked itself in test_streaming.py."""

from pathlib import Path

import pytest

from headrace.model.clock import ManualClock, monotonic_ms
from headrace.model.errors import BadConfig
from headrace.model.names import Queue, Shard
from headrace.pipeline.source.journal.follower import JournalFollower
from headrace.pipeline.source.options import SourceOptions
from headrace.pipeline.source.stream_reader import FIND_EVERY_MS, LOOK_EVERY_MS
from tests.pipeline.filled_journals import T0, fill, fill_store, keep
from tests.pipeline.player import Checkpoint, Row, ids, places, playing
from tests.pipeline.shared_stores import SERVED, fresh_url
from tests.support.stores import STORES, sqlite_url

FAST, SLOW, LATE = Queue("fast"), Queue("slow"), Queue("late", shards=2)


@pytest.fixture(params=SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """An empty store in a file: for promises that have nothing to do with the kind of store."""
    fill_store(sqlite_url(tmp_path))
    return sqlite_url(tmp_path)


def test_a_limited_stream_reaches_the_head_in_batches_of_exactly_so_many_in_the_order_of_time(url: str) -> None:
    fill_store(url, fill(FAST, 12, every_ms=10), fill(SLOW, 20, every_ms=60_000))

    with playing(url=url, maxEventsPerTrigger="5") as run:
        batches = run.rest()

    assert [len(batch) for batch in batches] == [5, 5, 5, 5, 5, 5, 2]
    seen = [row for batch in batches for row in batch]
    assert sorted(places(seen)) == [("fast", n + 1) for n in range(12)] + [("slow", n + 1) for n in range(20)]
    ends = [max(row["happened_at"] for row in batch) for batch in batches]
    begins = [min(row["happened_at"] for row in batch) for batch in batches]
    assert all(end <= begin for end, begin in zip(ends, begins[1:], strict=False))


def test_a_stream_without_a_limit_takes_all_that_is_there_and_then_what_is_new(url: str) -> None:
    fill_store(url, fill(FAST, 7), fill(SLOW, 3))

    with playing(url=url) as run:
        first = run.batch()
        idle = run.batch()
        fill_store(url, fill(SLOW, 2, since=3))
        second = run.batch()

    assert first is not None
    assert second is not None
    assert len(first) == 10
    assert idle is None
    assert places(second) == [("slow", 4), ("slow", 5)]


def test_available_now_reaches_the_head_seen_at_start_and_not_beyond(url: str) -> None:
    checkpoint = Checkpoint()
    fill_store(url, fill(FAST, 5))

    with playing(checkpoint, available_now=True, url=url, maxEventsPerTrigger="2") as run:
        fill_store(url, fill(FAST, 1, since=5))
        first = run.batch()
        fill_store(url, fill(FAST, 2, since=6), fill(LATE, 4))
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
    fill_store(url, fill(FAST, 10), fill(LATE, 10))

    for limit, partitions in (("3", "1"), ("8", "5"), ("100", "2")):
        with playing(checkpoint, url=url, maxEventsPerTrigger=limit, minPartitions=partitions) as run:
            seen += run.batch() or []
            assert run.partitions == int(partitions)

    assert len(seen) == 20
    assert {row["id"] for row in seen if row["queue"] == "fast"} == {f"job-{n}" for n in range(10)}
    assert len({(row["queue"], row["shard"], row["seq"]) for row in seen}) == 20


def test_a_large_batch_has_more_tasks_than_a_small_one(file: str) -> None:
    fill_store(file, fill(FAST, 10), fill(SLOW, 2))

    with playing(url=file, maxEventsPerPartition="5") as run:
        run.batch()
        large = run.partitions
        fill_store(file, fill(FAST, 5, since=10))
        run.batch()

    assert (large, run.partitions) == (3, 1)


def test_a_first_batch_that_failed_reads_the_same_again_though_the_beginning_has_moved(file: str) -> None:
    checkpoint = Checkpoint()
    fill_store(file, fill(FAST, 3))
    with playing(checkpoint, url=file, startingOffsets="latest") as run:
        assert run.batch() == []
        fill_store(file, fill(FAST, 2, since=3), fill(LATE, 1))
        run.a_second_later()
        first = run.batch()

    checkpoint.run = 0
    del checkpoint.ends[0]
    fill_store(file, fill(FAST, 2, since=5))
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
        ('{"default/fast/0": "2023-11-14T22:13:23Z"}', [4, 5]),  # T0 + 3 s
        ('{"default/fast/0": "2033-11-14T22:13:23Z"}', []),
    ],
)
def test_a_stream_begins_at_its_starting_offsets(file: str, starting: str, expected: list[int]) -> None:
    fill_store(file, fill(FAST, 5))

    with playing(url=file, startingOffsets=starting) as run:
        begin = run.rest()
        fill_store(file, fill(FAST, 1, since=5))
        then = run.rest()

    assert [seq for batch in begin for _, seq in places(batch)] == expected
    assert [seq for batch in then for _, seq in places(batch)] == [6]


def test_a_beginning_that_is_not_kept_or_of_an_unknown_shard_is_refused(file: str) -> None:
    fill_store(file, fill(FAST, 5))

    with (
        playing(url=file, startingOffsets='{"default/fast/0": 9}') as run,
        pytest.raises(Exception, match="says seq 9"),
    ):
        run.batch()
    with playing(url=file, startingOffsets='{"default/fsat/0": 1}') as run, pytest.raises(BadConfig, match="fsat"):
        run.batch()


def test_queues_that_appear_while_a_stream_runs_join_it_from_the_oldest_event_that_is_kept(url: str) -> None:
    theirs = Queue("late", "acme")
    fill_store(url, fill(FAST, 2))

    with playing(url=url, tenant="*", startingOffsets="latest") as run:
        before = run.rest()
        fill_store(url, fill(FAST, 1, since=2))
        joined = run.rest()
        fill_store(url, fill(LATE, 6), fill(theirs, 9), keep(Shard(theirs), 3))
        run.a_second_later()
        after = run.rest()

    assert before == [[]]
    assert ids(joined) == ["job-2"]
    assert sorted((row["tenant"], row["queue"], str(row["id"])) for row in after[0]) == [
        *[("acme", "late", id) for id in ("None", "job-7", "job-8")],
        *[("default", "late", f"job-{n}") for n in range(6)],
    ]
    assert run.checkpoint.last["skipped"] == 0


def test_queues_that_match_a_pattern_join_a_stream_and_others_do_not(file: str) -> None:
    fill_store(file, fill(FAST, 2), fill(SLOW, 2))

    with playing(url=file, queuePattern="fast.*") as run:
        before = run.rest()
        fill_store(file, fill(Queue("fast-eu"), 1), fill(Queue("steadfast"), 1))
        run.a_second_later()
        after = run.rest()

    assert [places(batch) for batch in before + after] == [[("fast", 1), ("fast", 2)], [("fast-eu", 1)]]


def test_a_queue_that_is_no_longer_asked_for_is_left_out_in_silence(file: str) -> None:
    checkpoint = Checkpoint()
    fill_store(file, fill(FAST, 3), fill(SLOW, 3))
    with playing(checkpoint, url=file) as run:
        run.batch()
    fill_store(file, fill(FAST, 1, since=3), fill(SLOW, 1, since=3))

    with playing(checkpoint, url=file, queue="slow") as run:
        batches = run.rest()

    assert [places(batch) for batch in batches] == [[("slow", 4)]]
    assert list(checkpoint.last["shards"]) == ["default/slow/0"]


def test_a_queue_that_never_was_is_refused_at_the_start_and_after_a_restart(file: str) -> None:
    checkpoint = Checkpoint()
    fill_store(file, fill(FAST, 3))
    with playing(checkpoint, url=file) as run:
        run.batch()

    with playing(url=file, queue="fsat") as run, pytest.raises(BadConfig, match="no queue 'fsat'"):
        run.batch()
    with playing(checkpoint, url=file, queue="fast,slwo") as run, pytest.raises(BadConfig, match="no queue 'slwo'"):
        run.batch()


def test_a_stream_says_how_far_the_journals_are_and_how_many_events_it_is_behind(file: str) -> None:
    fill_store(file, fill(FAST, 10), fill(SLOW, 2))

    with playing(url=file, maxEventsPerTrigger="5") as run:
        before = run.reader.reportLatestOffset()
        run.batch()
        behind = run.reader.reportLatestOffset()
        run.rest()
        reached = run.reader.reportLatestOffset()

    assert before is None
    assert behind == {"v": 1, "shards": {"default/fast/0": [1, 10]}, "lag": 7}
    assert reached == {"v": 1, "shards": {}, "lag": 0}


def test_a_stream_can_be_sent_to_a_task_while_its_store_is_open(file: str) -> None:
    fill_store(file, fill(FAST, 1))

    with playing(url=file) as run:
        run.reader.initialOffset()

        assert len(run.batch() or []) == 1


def test_a_store_of_no_queues_is_followed_until_there_are_some(file: str) -> None:
    with playing(url=file) as run:
        assert run.rest() == [[]]
        fill_store(file, fill(FAST, 2))
        run.a_second_later()

        assert ids(run.rest()) == ["job-0", "job-1"]


def test_a_batch_waits_for_so_many_events_unless_the_query_ends_with_what_is_there(url: str) -> None:
    checkpoint = Checkpoint()
    fill_store(url, fill(FAST, 2))

    with playing(checkpoint, url=url, minEventsPerTrigger="5") as run:
        first = run.rest()
        fill_store(url, fill(FAST, 3, since=2), fill(SLOW, 1))
        waiting, lag = run.batch(), run.reader.reportLatestOffset()["lag"]
        fill_store(url, fill(SLOW, 1, since=1))
        run.a_second_later()
        second = run.rest()
        fill_store(url, fill(SLOW, 1, since=2))
    with playing(checkpoint, available_now=True, url=url, minEventsPerTrigger="5") as run:
        last = run.rest()

    assert (waiting, lag) == (None, 3)
    assert [len(batch) for batch in first + second + last] == [2, 5, 1]


async def test_a_batch_waits_no_longer_than_the_trigger_delay_after_the_one_before(tmp_path: Path) -> None:
    clock = ManualClock(1)
    options = SourceOptions(url="memory://", events_min=5, trigger_delay_ms=60_000)
    async with STORES["memory"](tmp_path) as store:
        await fill(FAST, 2)(store)
        follower = JournalFollower(store, options, clock.now_ms)
        first = await follower.latest(None, None)
        await fill(FAST, 1, since=2)(store)

        clock.advance(59_999)
        before = await follower.latest(first, None)
        clock.advance(1)
        after = await follower.latest(before, None)

    assert before is first
    assert after.shards["default/fast/0"].seq == 3


async def test_new_queues_are_looked_for_once_a_second(tmp_path: Path) -> None:
    clock = ManualClock(1)
    async with STORES["memory"](tmp_path) as store:
        await fill(FAST, 2)(store)
        follower = JournalFollower(store, SourceOptions(url="memory://"), clock.now_ms)
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
        follower = JournalFollower(store, SourceOptions(url="memory://"), ManualClock(1).now_ms)
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
