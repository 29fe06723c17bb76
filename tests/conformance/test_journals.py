"""Many journals at once: what each of them holds, and how far each had got at an instant."""

from collections.abc import Sequence
from functools import partial
from itertools import product

import pytest

from headrace.model.errors import Refused
from headrace.model.event import Bounds, Event, Span
from headrace.model.names import Queue, Shard
from headrace.stores.contract.store import Store
from tests.support.play import START_MS, Play

STEPS = [(0, 1), (0, 3), (5, 1), (0, 2), (7, 4), (1, 1), (0, 1), (90, 2)]
"""Calls that enqueue: how long after the one before, and how many jobs."""
BAD_INSTANTS = [-1, 0.5, "0", None]


async def write(play: Play, steps: Sequence[tuple[int, int]] = STEPS) -> Shard:
    """Have entries of several sizes written to one shard, some of them at the same time."""
    ids = iter(play.ids(sum(count for _, count in steps)))
    for wait_ms, count in steps:
        play.advance(wait_ms)
        await play.enqueue_all(*[play.job(next(ids)) for _ in range(count)])
    return play.queue.shard_of(play.ids(1)[0])


async def events_of(play: Play, shard: Shard) -> list[Event]:
    entries = await play.store.journal.read(shard, 0, 2**62)
    return [event for entry in entries for event in entry.events(shard)]


def folded(events: Sequence[Event], first_seq: int, span: Span, at_ms: int) -> int:
    """How far a journal had got, found by looking at every event."""
    seqs = [each.seq for each in events if span.after < each.seq <= span.upto and each.at_ms <= at_ms]
    return max(span.after, min(first_seq - 1, span.upto), *seqs)


async def check_every_span(play: Play, shard: Shard) -> None:
    """Compare the answer of the store with the fold, for all spans around the journal and all instants around its
    times."""
    events = await events_of(play, shard)
    bounds = await play.store.journal.bounds(shard)
    places = range(bounds.last_seq + 3)
    spans = [Span(shard, after, upto) for after, upto in product(places, places)]
    times = {each.at_ms for each in events} | {START_MS}
    for at_ms in sorted({time + shift for time in times for shift in (-1, 0, 1)}):
        reached = await play.store.journal.reached(spans, at_ms)

        assert list(reached) == [folded(events, bounds.first_seq, span, at_ms) for span in spans]


# Bounds.


async def test_the_bounds_of_many_shards_are_those_of_each_in_order(play: Play) -> None:
    store, count = play.store, play.queue.shards
    quiet, busy, trimmed = (Play(store, count, name=name) for name in ("quiet", "busy", "trimmed"))
    other = Play(store, count, tenant="other")
    await play.configure(fail_handler=True)
    await play.die("dead")
    for each in (play, quiet, busy, trimmed, other):
        await write(each)
    await trimmed.configure(journal_keep_ms=1_000)
    trimmed.advance(1_000)
    await store.journal.trim(trimmed.queue.all_shards()[0], now_ms=trimmed.now_ms)
    for shard in quiet.queue.all_shards():
        await store.journal.bounds(shard)
    await busy.enqueue("one more")
    queues = [busy.queue, Queue("nobody", "acme", count), play.queue.fail_queue, trimmed.queue, quiet.queue, play.queue]
    shards = [shard for queue in (*queues, other.queue, busy.queue) for shard in queue.all_shards()]

    found = await store.journal.all_bounds(shards)

    assert list(found) == [await store.journal.bounds(shard) for shard in shards]
    assert found[count] == Bounds(0, 1, 0, None, None, 0)
    assert sum(each.last_seq > 0 for each in found[2 * count : 3 * count]) == 1  # of the fail queue


async def test_one_call_reads_the_bounds_of_a_thousand_shards_and_no_more(store: Store) -> None:
    known = Play(store)
    await known.enqueue("a")
    queues = [known.queue] + [Queue(f"nobody-{number}", "acme") for number in range(1_000)]
    shards = [Shard(queue, 0) for queue in queues]

    found = await store.journal.all_bounds(shards[:1_000])
    reached = await store.journal.reached([Span(shard, 0, 9) for shard in shards[:1_000]], START_MS)
    with pytest.raises(Refused, match="at most 1,000 shards; found 1,001"):
        await store.journal.all_bounds(shards)
    with pytest.raises(Refused, match="at most 1,000 spans; found 1,001"):
        await store.journal.reached([Span(shard, 0, 9) for shard in shards], START_MS)

    assert [each.last_seq for each in found] == [1] + [0] * 999
    assert list(reached) == [1] + [0] * 999


async def test_empty_batches_are_answered(store: Store) -> None:
    assert list(await store.journal.all_bounds([])) == []
    assert list(await store.journal.reached([], START_MS)) == []


async def test_a_queue_that_is_cut_otherwise_is_refused_among_many(play: Play) -> None:
    await play.die("a")
    shards = play.queue.shards + 1
    wrong = [Queue("mail", "acme", shards), Queue("mail", "acme", shards).fail_queue]
    others = [Shard(Queue("nobody", "acme"), 0), *play.queue.all_shards()]

    for queue, index in product(wrong, (0, shards - 1)):
        asked = [*others, Shard(queue, index)]
        for call in (
            partial(play.store.journal.all_bounds, asked),
            partial(play.store.journal.reached, [Span(shard, 0, 9) for shard in asked], START_MS),
        ):
            with pytest.raises(Refused) as refused:
                await call()

            assert refused.value.reason == "wrong_shards"


# How far they had got.


async def test_a_journal_had_got_as_far_as_its_last_event_at_or_before_the_instant(play: Play) -> None:
    shard = await write(play)

    await check_every_span(play, shard)


async def test_dropped_events_count_as_before_any_instant(play: Play) -> None:
    await play.configure(journal_keep_max=6)
    shard = await write(play)
    await play.store.journal.trim(shard, now_ms=play.now_ms)

    assert (await play.store.journal.bounds(shard)).first_seq > 3
    await check_every_span(play, shard)


async def test_a_journal_that_was_trimmed_to_nothing_had_got_to_its_end_at_any_instant(play: Play) -> None:
    shard = await write(play)
    await play.configure(journal_keep_ms=1_000)
    play.advance(1_000)
    await play.store.journal.trim(shard, now_ms=play.now_ms)

    assert await events_of(play, shard) == []
    await check_every_span(play, shard)


async def test_an_event_at_the_instant_itself_counts(play: Play) -> None:
    shard = await write(play, [(0, 2), (5, 1)])

    found = await play.store.journal.reached([Span(shard, 0, 2**62), Span(shard, 2**63 - 1, 0)], START_MS + 5)

    assert list(found) == [3, 2**63 - 1]


async def test_each_of_many_journals_has_reached_its_own_offset(play: Play) -> None:
    store, count = play.store, play.queue.shards
    plays = [Play(store, count, name=f"queue-{number}") for number in range(4)]
    for number, each in enumerate(plays):
        for step in range(6 * count):
            each.advance(number + 1)
            await each.enqueue(f"job-{step}")
    shards = [shard for each in plays for shard in each.queue.all_shards()]
    events = {shard: await events_of(play, shard) for shard in shards}
    spans = [Span(shard, after, 2**62) for after in (0, 2) for shard in shards]
    spans[3:3] = [Span(Shard(Queue("nobody", "acme"), 0), 7, 9)]

    for at_ms in range(START_MS, START_MS + 6 * count + 1):
        found = await store.journal.reached(spans, at_ms)

        assert list(found) == [folded(events.get(span.shard, []), 1, span, at_ms) for span in spans]


async def test_a_long_journal_is_searched_and_read_to_its_end(store: Store) -> None:
    play = Play(store)
    shard = await write(play, [(1, 1 + number % 2) for number in range(300)])

    entries = await store.journal.read(shard, 0, 2**62)
    part = await store.journal.read(shard, 100, 400, limit=150)
    times = [(entry.at_ms, entry.last_seq) for entry in entries]
    found = {at_ms: await store.journal.reached([Span(shard, 0, 450)], at_ms) for at_ms, _ in times[::7]}

    assert [entry.last_seq for entry in entries][-1] == 450
    assert (part[0].first_seq, len(part)) == (101, 150)
    assert [event.seq for entry in entries for event in entry.events(shard)] == list(range(1, 451))
    assert {at_ms: [last_seq] for at_ms, last_seq in times[::7]} == {at_ms: list(seqs) for at_ms, seqs in found.items()}


async def test_spans_and_instants_that_are_none_are_refused(store: Store) -> None:
    shard = Shard(Queue("mail"), 0)
    bad = [Span(shard, -1, 5), Span(shard, 0, -5), Span(shard, "0", 5), Span(shard, 0, 2**63)]  # type: ignore[arg-type]

    for span in bad:
        with pytest.raises(Refused, match=r"after|upto"):
            await store.journal.reached([span], START_MS)
    for at_ms in BAD_INSTANTS:
        with pytest.raises(Refused, match="at_ms"):
            await store.journal.reached([Span(shard, 0, 5)], at_ms)  # type: ignore[arg-type]
