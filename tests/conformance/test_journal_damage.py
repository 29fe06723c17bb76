"""Damaged journals: an unreadable line stops no reader, keeps its readable fields, and is found by check."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from headrace.feeds.queue_events import QueueEvents
from headrace.model.event import Event
from headrace.model.integrity import JournalBreak
from headrace.model.names import Shard
from headrace.model.outcome import Done
from tests.support.play import Play
from tests.support.stores import RECOUNTS, REWRITES

Rewrite = Callable[[bytes, bytes], Awaitable[None]]
DAMAGES = {
    "a text for a number": (b'"run_ms":77', b'"run_ms":"x"'),
    "a list for a number": (b'"run_ms":77', b'"run_ms":[1]'),
    "a number too large": (b'"run_ms":77', b'"run_ms":9223372036854775808'),
    "a number with a fraction": (b'"run_ms":77', b'"run_ms":7.5'),
    "an event of an unknown name": (b'"event":"done"', b'"event":"finished"'),
    "an event that is no text": (b'"event":"done"', b'"event":["done"]'),
    "half a line": (b'"run_ms":77', b'"run_ms"'),
    "no object": (b'{"event":"done"', b'["event","done"'),
    "bytes that are no text": (b'"event":"done"', b'"event":"d\xff\xfe"'),
    "nested without end": (b'"run_ms":77', b'"run_ms":' + b"[" * 5_000),
}
"""Pieces of the line that the end of a job writes, and what stands there instead."""


@pytest.fixture
def rewrite(play: Play, store_name: str, tmp_path: Path) -> Rewrite:
    return lambda old, new: REWRITES[store_name](play.store, tmp_path, old, new)


async def three_done(play: Play) -> Shard:
    """Three jobs of a shard that have ended, the second after 77 milliseconds; returns the shard."""
    ids = play.ids(3)
    for id, run_ms in zip(ids, (5, 77, 6), strict=True):
        await play.settle(await play.start(id), Done(), run_ms)
    return play.queue.shard_of(ids[0])


async def events_of(play: Play, shard: Shard) -> list[Event]:
    """All events of a shard."""
    bounds = await play.store.journal.bounds(shard)
    entries = await play.store.journal.read(shard, 0, bounds.last_seq)
    return [event for entry in entries for event in entry.events(shard)]


@pytest.mark.parametrize("damage", DAMAGES)
async def test_an_unreadable_line_keeps_its_readable_fields(play: Play, rewrite: Rewrite, damage: str) -> None:
    shard = await three_done(play)
    before = await events_of(play, shard)
    old, new = DAMAGES[damage]

    await rewrite(old, new)
    events = await events_of(play, shard)

    assert [event.seq for event in events] == [event.seq for event in before]
    assert [event.line for event in events if event.flaw is None] == [
        event.line for event in before if event.line.event != "done" or (b"done" not in old and event.line.run_ms != 77)
    ]
    assert all(len(event.flaw) <= 200 for event in events if event.flaw)


async def test_readable_fields_of_a_damaged_line_are_kept(play: Play, rewrite: Rewrite) -> None:
    shard = await three_done(play)

    await rewrite(b'"run_ms":77', b'"run_ms":"x"')

    [event] = [event for event in await events_of(play, shard) if event.flaw]
    assert (event.line.event, event.line.id, event.line.kind) == ("done", play.ids(3)[1], "send")
    assert (event.line.run_ms, event.line.worker) == (None, "worker-1")
    assert "run_ms" in str(event.flaw)


@pytest.mark.parametrize("limit", [1, 1_000])
async def test_check_names_the_unreadable_lines(play: Play, rewrite: Rewrite, limit: int) -> None:
    shard = await three_done(play)
    [seq] = [event.seq for event in await events_of(play, shard) if event.line.run_ms == 77]
    await rewrite(b'"run_ms":77', b'"run_ms":"x"')

    found = [await play.store.integrity.check(shard, limit=limit, now_ms=play.now_ms)]
    while (cursor := found[-1].cursor) is not None:
        found.append(await play.store.integrity.check(shard, cursor=cursor, limit=limit, now_ms=play.now_ms))

    assert [line.seq for each in found for line in each.unreadable] == [seq]
    assert [each.ok for each in found].count(False) == 1
    assert len(found) > 1 or limit > 1


@pytest.mark.parametrize("limit", [1, 1_000])
async def test_check_names_the_entries_that_overlap(play: Play, store_name: str, tmp_path: Path, limit: int) -> None:
    shard = await three_done(play)
    at_ms = play.advance(1)
    id = play.ids(4)[3]
    await play.enqueue(id)
    play.advance(1)
    await play.enqueue(id)
    [seq, _] = [event.seq for event in await events_of(play, shard) if event.line.id == id]
    whole = await all_breaks(play, shard, limit)

    await RECOUNTS[store_name](play.store, tmp_path, at_ms)
    broken = await all_breaks(play, shard, limit)

    assert whole == []
    assert broken == [JournalBreak(seq - 1, seq - 1)]
    assert str(broken[0]) == f"the events from seq {seq - 1} to {seq - 1} are repeated, and readers see only the first"


async def all_breaks(play: Play, shard: Shard, limit: int) -> list[JournalBreak]:
    """What all parts of a look find of entries that do not follow each other."""
    found = await play.store.integrity.check(shard, limit=limit, now_ms=play.now_ms)
    breaks = list(found.breaks)
    while found.cursor is not None:
        found = await play.store.integrity.check(shard, cursor=found.cursor, limit=limit, now_ms=play.now_ms)
        breaks += found.breaks
    return breaks


async def test_an_entry_that_lacks_lines_has_all_its_events(play: Play, rewrite: Rewrite) -> None:
    await play.enqueue_all(*[play.job(id) for id in play.ids(3)])
    shard = play.queue.shard_of(play.ids(3)[0])
    before = await events_of(play, shard)
    [entry] = await play.store.journal.read(shard, 0, 3)

    await rewrite(entry.lines.splitlines(keepends=True)[1], b"")
    events = await events_of(play, shard)

    assert [event.seq for event in events] == [event.seq for event in before] == [1, 2, 3]
    assert [bool(event.flaw) for event in events] == [False, False, True]


async def test_a_queue_is_followed_past_a_line_that_cannot_be_read(play: Play, rewrite: Rewrite) -> None:
    await three_done(play)
    await rewrite(b'"event":"done"', b'"event":7')

    async with QueueEvents(play.store, play.queue).subscribe(beginning=True) as subscription, asyncio.timeout(30):
        changes = [await anext(subscription) for _ in range(10)]

    assert [change.event for change in changes] == ["live", *["enqueued", "claimed", "unreadable"] * 3]
    assert all("flaw" in change.item for change in changes if change.event == "unreadable")
