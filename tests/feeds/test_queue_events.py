"""The events of a job queue as a feed: live, resumed at any point, and honest about what the journal no longer has."""

import asyncio

import pytest
from msgspec.structs import replace

from headrace import Client, Feeds, Queue, Refused, Store
from headrace.model.event import Entry
from headrace.model.outcome import Done
from headrace.testing.faults import ForwardingStore, StoreCall
from tests.client.worker_calls import work
from tests.feeds.changes import EVERYWHERE, SOON_S, summaries, take, take_until


@pytest.mark.parametrize("store", EVERYWHERE, indirect=True)
async def test_queue_events_are_yielded_live(feeds: Feeds, store: Store) -> None:
    """KB14: also for an unused queue; with the job, the worker, and the columns of the journal."""
    client = Client(store)
    async with feeds.queue_events("mail").subscribe() as subscription:
        start = await take(subscription, 1)
        await client.enqueue("send", {"to": 1}, id="a", queue="mail", tag="t")
        await work(store, Queue("mail"), Done())
        later = await client.enqueue("send", id="b", queue="mail", delay="1h")
        await later.cancel()
        changes = await take(subscription, 5)

    assert summaries(start) == ["live"]
    assert summaries(changes) == ["enqueued a", "claimed a", "done a", "enqueued b", "cancelled b"]
    assert (changes[0].item["kind"], changes[0].item["tag"], changes[0].feed) == ("send", "t", "mail")
    assert changes[0].instance is None
    assert changes[1].instance == changes[2].instance == changes[1].item["worker"]
    assert [change.seq for change in changes] == [1, 2, 3, 4, 5]


async def test_queue_events_carry_no_payloads(feeds: Feeds, store: Store) -> None:
    await store.queues.configure(Queue("mail"), {"journal_payloads": True})
    await Client(store).enqueue("send", {"to": 1}, id="a", queue="mail")

    changes = await take(feeds.queue_events("mail").subscribe(beginning=True), 3)

    assert summaries(changes[1:]) == ["configured", "enqueued a"]
    assert set(changes[2].item) == {"id", "kind", "priority", "run_at_ms", "payload_bytes"}


@pytest.mark.parametrize("shards", [1, 3])
async def test_queue_events_start_at_the_beginning_or_behind_any_event(feeds: Feeds, store: Store, shards: int) -> None:
    """KB14: over all shards, in order within each; no gap, nothing twice."""
    queue = Queue("mail", shards=shards)
    client = Client(store)
    for number in range(12):
        await client.enqueue("send", id=f"{number}", queue=queue)
    events = feeds.queue_events("mail", shards=shards)

    changes = await take(events.subscribe(beginning=True), 13)
    ends = await take(events.subscribe(), 1)

    assert sorted(summaries(changes[1:])) == sorted(f"enqueued {number}" for number in range(12))
    assert ends[0].cursor == changes[-1].cursor
    for at, change in enumerate(changes):
        resumed = events.subscribe(cursor=change.cursor)
        assert summaries(await take(resumed, 12 - at)) == summaries(changes[at + 1 :])
    of_shard = [change.seq for change in changes[1:] if queue.index_of(change.id) == 0]
    assert of_shard == list(range(1, len(of_shard) + 1))


async def test_a_cursor_before_the_kept_journal_yields_a_gap_and_the_rest(feeds: Feeds, store: Store) -> None:
    client, queue = Client(store), Queue("mail")
    await client.enqueue("send", id="first", queue=queue)
    subscription = feeds.queue_events(queue).subscribe()
    cursor = (await take(subscription, 1))[0].cursor
    await store.queues.configure(queue, {"journal_keep_max": 3})
    for number in range(8):
        await client.enqueue("send", id=f"{number}", queue=queue)
    await store.journal.trim(queue.all_shards()[0])
    bounds = await store.journal.bounds(queue.all_shards()[0])

    resumed = feeds.queue_events(queue).subscribe(cursor=cursor)
    kept = bounds.last_seq - bounds.first_seq + 1
    changes = await take(resumed, 1 + kept)
    again = await take(feeds.queue_events(queue).subscribe(cursor=changes[0].cursor), kept)
    await client.enqueue("send", id="new", queue=queue)

    assert kept < 9
    assert summaries(changes)[0] == "gap"
    assert [change.seq for change in changes[1:]] == list(range(bounds.first_seq, bounds.last_seq + 1))
    assert summaries(await take(resumed, 1)) == ["enqueued new"]
    assert summaries(again) == summaries(changes[1:])


async def test_a_journal_that_lost_its_tail_is_a_gap_also_when_it_has_grown_again(feeds: Feeds, store: Store) -> None:
    """The numbers continue, so only the epoch of the last event shows the loss."""
    client, queue = Client(store), Queue("mail")
    await client.enqueue("send", id="a", queue=queue)
    cursor = (await take(feeds.queue_events(queue).subscribe(), 1))[0].cursor
    await client.enqueue("send", id="b", queue=queue)

    async def reborn(call: StoreCall) -> object:
        answer = await call.act()
        if call.name == "journal.read":
            return [replace(entry, epoch=entry.epoch + 1) for entry in answer if isinstance(entry, Entry)]
        return replace(answer, epoch=answer.epoch + 1) if call.name == "journal.bounds" else answer

    changes = await take(Feeds(ForwardingStore(store, reborn)).queue_events(queue).subscribe(cursor=cursor), 3)

    assert summaries(changes) == ["gap", "enqueued a", "enqueued b"]


async def test_a_cursor_of_another_queue_or_number_of_shards_is_refused(feeds: Feeds) -> None:
    events = feeds.queue_events("mail", shards=2)

    for cursor in ("1.5", "1.5-1.6-1.7", "nonsense", "1-2"):
        with pytest.raises(Refused, match="is not a cursor of the 2 shards of 'mail'"):
            events.subscribe(cursor=cursor)


async def test_a_quiet_queue_yields_heartbeats_and_a_cancelled_wait_misses_nothing(feeds: Feeds, store: Store) -> None:
    subscription = feeds.queue_events("mail").subscribe(heartbeat="10ms")
    live = (await take_until(subscription, "live"))[-1]
    beats = await take(subscription, 3)
    for _ in range(5):
        asking = asyncio.ensure_future(anext(subscription))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    await Client(store).enqueue("send", id="a", queue="mail")

    async with asyncio.timeout(SOON_S):
        change = await anext(subscription)
        while change.event == "heartbeat":
            change = await anext(subscription)

    assert [(beat.event, beat.cursor) for beat in beats] == [("heartbeat", live.cursor)] * 3
    assert summaries([change]) == ["enqueued a"]
