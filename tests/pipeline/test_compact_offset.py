"""Promises of streams over many shards: offsets do not grow with idle ones, and say as exactly what was read."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headrace.model.clock import ManualClock
from headrace.model.errors import Refused
from headrace.model.event import Span
from headrace.model.job import Job
from headrace.model.names import Queue, Shard
from headrace.pipeline.history.run import follow_history
from headrace.pipeline.history.table import read_history
from headrace.pipeline.source.journal import shards
from headrace.pipeline.source.journal.follower import JournalFollower
from headrace.pipeline.source.journal.idle import IDLE_MS, LISTED_IDLE_MAX, IdleShards
from headrace.pipeline.source.journal.offset import Offset
from headrace.pipeline.source.options import SourceOptions
from headrace.stores.contract.store import Store
from headrace.stores.memory.store import MemoryStore
from tests.pipeline.filled_journals import T0, Story, delete, fill, fill_store
from tests.pipeline.player import Checkpoint, places, playing
from tests.pipeline.shared_stores import TWO_OF_SERVED, fresh_url
from tests.support.stores import sqlite_url

BUSY, IDLE, OTHER = Queue("busy"), Queue("idle", shards=256), Queue("other")
SHARDS = [Shard(IDLE, index) for index in range(256)]
NOW = 2 * IDLE_MS // 1_000
"""Seconds after T0 at which the idle shards are idle."""
OPTIONS = SourceOptions(url="memory://")
names = st.integers(0, 40).map("default/q{}/0".format)
seqs = st.dictionaries(names, st.integers(0, 2**40))


def spread(count: int, at_ms: int = T0, prefix: str = "job") -> Story:
    """Jobs over the shards of a queue, in one call."""

    async def story(store: Store) -> None:
        jobs = [Job(queue=IDLE, id=f"{prefix}-{number}", kind="k") for number in range(count)]
        await store.jobs.enqueue(jobs, now_ms=at_ms)

    return story


def one(shard: Shard, at_ms: int, id: str = "") -> Story:
    """A job of exactly this shard."""
    id = id or next(
        f"one-{number}" for number in range(100_000) if shard.queue.index_of(f"one-{number}") == shard.index
    )

    async def story(store: Store) -> None:
        await store.jobs.enqueue([Job(queue=shard.queue, id=id, kind="k")], now_ms=at_ms)

    return story


def trim(shard: Shard, at_ms: int) -> Story:
    """Drop all events of a shard that can be dropped: all but the last entry of its queue's setting."""

    async def story(store: Store) -> None:
        await store.queues.configure(shard.queue, {"journal_keep_max": 1}, now_ms=at_ms)
        for each in shard.queue.all_shards():
            while await store.journal.trim(each, now_ms=at_ms):
                pass

    return story


@pytest.fixture(params=TWO_OF_SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """An empty store in a file: for promises that have nothing to do with the kind of store."""
    fill_store(sqlite_url(tmp_path))
    return sqlite_url(tmp_path)


def idled(url: str, **options: Any) -> Checkpoint:
    """A checkpoint that has read 600 events of 256 shards, which are idle now, and two events of a busy one."""
    checkpoint = Checkpoint()
    fill_store(url, spread(600))
    with playing(checkpoint, url=url, **options) as run:
        run.batch()
        fill_store(url, fill(BUSY, 1, since=NOW))
        run.a_second_later()
        run.batch()
        fill_store(url, fill(BUSY, 1, since=NOW + 1))
        run.batch()
    assert set(checkpoint.last["shards"]) == {"default/busy/0"}
    return checkpoint


def test_an_offset_of_many_idle_shards_names_those_alone_in_which_something_happens(url: str) -> None:
    checkpoint = idled(url)

    assert len(checkpoint.ends[0]) > 256 * 40
    assert len(checkpoint.ends[-1]) < 2_000
    assert checkpoint.last["idle"]["at_ms"] == T0 + (NOW + 1) * 1_000 - IDLE_MS


def test_a_few_idle_shards_stay_in_the_offset_with_their_marks(file: str) -> None:
    few = Queue("few", shards=LISTED_IDLE_MAX)
    checkpoint = Checkpoint()
    fill_store(file, *(one(shard, T0) for shard in few.all_shards()), fill(BUSY, 1, since=NOW))

    with playing(checkpoint, url=file) as run:
        run.batch()
        fill_store(file, fill(BUSY, 1, since=NOW + 1))
        run.batch()

    assert len(checkpoint.last["shards"]) == LISTED_IDLE_MAX + 1
    assert "idle" not in checkpoint.last


def test_a_stream_goes_on_exactly_where_idle_shards_were_read_whether_it_was_restarted_or_not(url: str) -> None:
    checkpoint = idled(url)
    woken = SHARDS[7]

    with playing(checkpoint, url=url) as run:
        nothing = run.rest()
        fill_store(url, one(woken, T0 + (NOW + 2) * 1_000))
        first = run.rest()
        fill_store(url, one(SHARDS[9], T0 + (NOW + 3) * 1_000), one(woken, T0 + (NOW + 4) * 1_000, "job-of-7"))
        second = run.rest()
    fill_store(url, fill(BUSY, 1, since=NOW + 5))
    with playing(checkpoint, url=url) as run:
        third = run.rest()

    rows = [row for batches in (first, second, third) for batch in batches for row in batch]
    assert nothing == []
    assert len(rows) == 4
    assert len({(row["queue"], row["shard"], row["seq"]) for row in rows}) == 4
    assert (checkpoint.last["skipped"], checkpoint.last["lost"]) == (0, 0)


def test_a_batch_that_wakes_an_idle_shard_reads_the_same_when_it_is_run_again(file: str) -> None:
    checkpoint = idled(file)
    fill_store(file, one(SHARDS[7], T0 + (NOW + 2) * 1_000))
    with playing(checkpoint, url=file) as run:
        [before] = run.rest()
    checkpoint.run -= 1

    with playing(checkpoint, url=file) as run:
        again = run.rest()

    assert [places(batch) for batch in again] == [places(before)]
    assert len(before) == 1


def test_events_of_an_idle_shard_that_are_older_than_the_offset_says_are_read_all_the_same(file: str) -> None:
    checkpoint = idled(file)
    fill_store(file, one(SHARDS[7], T0 + 1_000), one(SHARDS[8], T0 + 1_000))  # by a clock that was put back

    with playing(checkpoint, url=file) as run:
        found = run.rest()

    assert sorted(row["shard"] for batch in found for row in batch) == [7, 8]
    assert (checkpoint.last["skipped"], checkpoint.last["lost"]) == (0, 0)


def test_an_idle_shard_that_went_on_and_was_trimmed_is_refused_or_skipped_with_its_number(url: str) -> None:
    checkpoint = idled(url)
    fill_store(url, *(one(SHARDS[7], T0 + (NOW + 2) * 1_000, f"job-{id}") for id in ids_of(SHARDS[7], 4)))
    fill_store(url, trim(SHARDS[7], T0 + (NOW + 3) * 1_000))

    with playing(checkpoint, url=url) as run, pytest.raises(Refused, match=r"default/idle/\d+ up to seq"):
        run.batch()
    with playing(checkpoint, url=url, failOnDataLoss="false") as run:
        run.rest()

    assert checkpoint.last["skipped"] > 0
    assert checkpoint.last["lost"] == 0


def ids_of(shard: Shard, count: int) -> list[str]:
    found = (f"{number}" for number in range(10_000, 100_000) if shard.queue.index_of(f"job-{number}") == shard.index)
    return [next(found) for _ in range(count)]


def test_an_idle_queue_that_was_deleted_is_refused_or_left_out(url: str) -> None:
    fill_store(url, fill(OTHER, 3))
    checkpoint = idled(url)
    fill_store(url, delete(OTHER))

    with (
        playing(checkpoint, url=url) as run,
        pytest.raises(Refused, match=r"of shards that were idle since .*: a queue was deleted or created again"),
    ):
        run.batch()
    with playing(checkpoint, url=url, failOnDataLoss="false") as run:
        run.rest()
        fill_store(url, fill(BUSY, 1, since=NOW + 5))
        after = run.rest()

    assert [places(batch) for batch in after] == [[("busy", 3)]]
    assert (checkpoint.last["skipped"], checkpoint.last["lost"]) == (0, 3)


def test_an_idle_queue_that_was_made_anew_is_refused_or_read_from_its_beginning(url: str) -> None:
    fill_store(url, fill(OTHER, 3))
    checkpoint = idled(url)
    fill_store(url, delete(OTHER), fill(OTHER, 5, since=NOW + 2))

    with playing(checkpoint, url=url) as run, pytest.raises(Refused, match="default/other/0 up to seq 3, and its jour"):
        run.batch()
    with playing(checkpoint, url=url, failOnDataLoss="false") as run:
        found = run.rest()

    assert [places(batch) for batch in found] == [[("other", seq) for seq in range(1, 6)]]
    assert (checkpoint.last["skipped"], checkpoint.last["lost"]) == (0, 3)


def test_a_checkpoint_with_idle_shards_of_another_store_is_refused(file: str, tmp_path: Path) -> None:
    checkpoint = idled(file)
    (tmp_path / "other").mkdir()
    other = sqlite_url(tmp_path / "other")
    fill_store(other, spread(600, prefix="else"), fill(BUSY, 9, since=NOW))

    with playing(checkpoint, url=other) as run, pytest.raises(Refused, match="or this is another store"):
        run.batch()


def test_other_queues_of_the_options_do_not_confuse_what_was_read_of_idle_ones(file: str) -> None:
    fill_store(file, fill(OTHER, 3))
    checkpoint = idled(file, queuePattern="busy|idle")
    fill_store(file, one(SHARDS[7], T0 + (NOW + 2) * 1_000))

    with playing(checkpoint, url=file) as run:
        found = run.rest()
    with playing(checkpoint, url=file, queue="busy") as run:
        left = run.rest()

    assert sorted(row["queue"] for batch in found for row in batch) == ["idle", "other", "other", "other"]
    assert [places(batch) for batch in left] in ([], [[]])


def test_a_limited_stream_over_idle_shards_reads_each_event_once(file: str) -> None:
    checkpoint = idled(file)
    fill_store(file, spread(300, T0 + (NOW + 2) * 1_000, "late"), fill(BUSY, 50, since=NOW + 2))

    found = read_with_restarts(checkpoint, url=file, maxEventsPerTrigger="37")

    assert len(found) == len(set(found)) == 350


def test_shards_with_old_events_to_read_are_not_taken_for_idle_ones(file: str) -> None:
    fill_store(file, fill(BUSY, 3, since=NOW), spread(600))

    # The busy queue's place is newer than all that is to be read.
    first = '{"default/busy/0": -1}'
    found = read_with_restarts(Checkpoint(), url=file, startingOffsets=first, maxEventsPerTrigger="97")

    assert len(found) == len(set(found)) == 600


def read_with_restarts(checkpoint: Checkpoint, **options: Any) -> list[tuple[object, ...]]:
    """What a stream reads that is started anew for each batch."""
    found: list[tuple[object, ...]] = []
    while True:
        with playing(checkpoint, **options) as run:
            batch = run.batch()
        if batch is None:
            return found
        found += [(row["queue"], row["shard"], row["seq"]) for row in batch]


def test_a_history_keeps_how_far_idle_shards_were_read_that_its_offsets_do_not_list(
    spark: SparkSession, file: str, tmp_path: Path
) -> None:
    folder = tmp_path / "history"
    fill_store(file, spread(600), fill(BUSY, 1, since=NOW))

    # The end of the third batch lists the busy shard alone.
    write(spark, file, folder, events_max=250)
    fill_store(file, fill(BUSY, 1, since=NOW + 1), one(SHARDS[7], T0 + (NOW + 2) * 1_000))
    write(spark, file, folder)
    write(spark, file, folder)

    rows = read_history(spark, folder).select("queue", "shard", "seq").collect()
    assert len(rows) == len(set(rows)) == 603


def write(spark: SparkSession, url: str, folder: Path, **options: Any) -> None:
    """Write what is there to a history, and end."""
    assert follow_history(spark, url, folder, once=True, **options).awaitTermination(120)


FEW = Queue("few", shards=8)
adds = st.tuples(st.integers(0, 7), st.sampled_from([0, 1_000, IDLE_MS // 2, 2 * IDLE_MS]))
steps = st.lists(adds | st.sampled_from(["batch", "small batch", "restart"]), max_size=40)


@settings(max_examples=100, deadline=None)
@given(steps)
def test_each_event_is_read_once_whatever_is_idle_and_whenever_the_stream_restarts(
    steps: list[tuple[int, int] | str],
) -> None:
    # Few shards, so that a sequence of steps makes each of them idle and wakes it up again.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shards, "LISTED_IDLE_MAX", 1)
        asyncio.run(follow(steps))


async def follow(steps: list[tuple[int, int] | str]) -> None:
    """Play jobs and batches; a restart plans the last batch again and forgets everything else."""
    clock, options = ManualClock(T0), SourceOptions(url="memory://")
    store = MemoryStore(clock)
    await store.queues.configure(FEW, {}, now_ms=T0)
    follower = JournalFollower(store, options, clock.now_ms)
    kept: list[Any] = [(await follower.initial()).to_json()]
    read: list[tuple[str, int]] = []
    written = 0
    for step in [*steps, "restart", *["batch"] * 3]:
        clock.advance(1_000)
        if isinstance(step, tuple):
            shard, gap_ms = step
            clock.advance(gap_ms)
            await one(Shard(FEW, shard), clock.now_ms(), f"job-{ids_of(Shard(FEW, shard), written + 1)[-1]}")(store)
            written += 1
        elif step == "restart":
            follower = JournalFollower(store, options, clock.now_ms)
            if len(kept) > 1:
                again = await follower.plan(*map(Offset.parse, kept[-2:]))
                assert events_of(again) == read[len(read) - len(events_of(again)) :]
        else:
            start = Offset.parse(kept[-1])
            end = (await follower.latest(start, 2 if step == "small batch" else None)).to_json()
            if end != kept[-1]:
                read += events_of(await follower.plan(start, Offset.parse(end)))
                kept.append(end)
    assert sorted(read) == sorted(await events_in(store))
    assert (kept[-1]["skipped"], kept[-1]["lost"]) == (0, 0)


def events_of(spans: Sequence[Span]) -> list[tuple[str, int]]:
    return [(str(span.shard), seq) for span in spans for seq in range(span.after + 1, span.upto + 1)]


async def events_in(store: Store) -> list[tuple[str, int]]:
    bounds = {shard: await store.journal.bounds(shard) for shard in FEW.all_shards()}
    return [(str(shard), seq) for shard, each in bounds.items() for seq in range(each.first_seq, each.last_seq + 1)]


@given(seqs, seqs)
def test_folded_shards_are_distinguished_from_all_others(read: dict[str, int], reached: dict[str, int]) -> None:
    comparison = IdleShards.fold(read, 1, 1, OPTIONS).compare(reached)

    same = {name: seq for name, seq in read.items() if seq} == {name: seq for name, seq in reached.items() if seq}
    assert (comparison.differing == {} and comparison.unknown == []) == same


@given(seqs.filter(bool), st.data())
def test_one_shard_that_differs_is_found_with_how_far_it_was_read(read: dict[str, int], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(read)))
    reached = read | {name: data.draw(st.integers(0, 2**40).filter(lambda seq: seq != read[name]))}

    comparison = IdleShards.fold(read, 1, 1, OPTIONS).compare(reached)

    assert comparison.differing == {name: read[name]}
    assert comparison.unknown == []


@given(seqs)
def test_folded_shards_come_back_from_the_json_that_spark_keeps(read: dict[str, int]) -> None:
    offset = Offset(shards={}, idle=IdleShards.fold(read, 1, 1, OPTIONS), gone=("default/a/0",))

    assert Offset.parse(json.loads(json.dumps(offset.to_json()))) == offset
