"""The journal on Redis: pages that are put together from several commands, and searches that let others go first."""

import asyncio
from collections.abc import Iterator
from typing import cast

import pytest

from headrace.model.event import Span
from headrace.model.limits import JOURNAL_PAGE_BYTES
from headrace.model.names import Queue, Shard
from headrace.model.outcome import JobError, Retried
from headrace.stores.open import open_store
from headrace.stores.redis.client import RedisClient
from headrace.stores.redis.journal import ENTRIES_FIRST, EntryReader
from headrace.stores.redis.keys import journal_key
from headrace.stores.redis.store import RedisStore
from tests.support.play import START_MS, Play
from tests.support.server_cleanup import flush
from tests.support.servers import PASSWORD, USER, redis_server

LONG = JobError("Boom", "\1" * 1_024)
"""An error whose line in the journal has six bytes for each character."""
SHARD = Shard(Queue("mail", "acme"), 0)


@pytest.fixture
def play(runner: asyncio.Runner) -> Iterator[Play]:
    """A store on an emptied Redis."""
    flush([redis_server()])
    store = runner.run(open_store(redis_server().url_of(USER, PASSWORD)))
    yield Play(store)
    runner.run(store.close())


async def write_long(play: Play, entries: int, lines: int) -> None:
    """Have entries written that are large, one a millisecond, each between two small ones."""
    for number in range(entries):
        await play.enqueue_all(*[play.job(f"{number}-{line}") for line in range(lines)])
        claims = await play.claim(lines)
        play.advance(1)
        await play.store.jobs.settle([claim.settle(Retried(LONG, 10**9)) for claim in claims], now_ms=play.now_ms)


async def test_a_page_ends_once_its_bytes_are_reached_and_the_next_goes_on_behind_it(play: Play) -> None:
    await write_long(play, entries=7, lines=250)

    pages: list[list[int]] = []
    sizes: list[int] = []
    after = 0
    while page := await play.store.journal.read(SHARD, after, 2**62):
        pages.append([entry.last_seq for entry in page])
        sizes.append(sum(len(entry.lines) for entry in page))
        after = page[-1].last_seq
        assert sizes[-1] - len(page[-1].lines) < JOURNAL_PAGE_BYTES

    assert [seq for page in pages for seq in page] == list(range(250, 5_251, 250))
    assert len(pages) == 2
    assert sizes[0] >= JOURNAL_PAGE_BYTES


class Trimming:
    """A client that has the front of the journal dropped after every command."""

    def __init__(self, client: RedisClient, play: Play) -> None:
        self._client = client
        self._play = play

    async def command(self, *args: str | int) -> object:
        """As the client's."""
        answer = await self._client.command(*args)
        await self._play.store.journal.trim(SHARD, limit=2 * ENTRIES_FIRST, now_ms=self._play.now_ms)
        return answer


async def test_a_page_ends_before_what_retention_has_dropped_while_it_was_read(play: Play) -> None:
    for number in range(4 * ENTRIES_FIRST):
        await play.enqueue(f"job-{number}")
    await play.configure(journal_keep_ms=1_000)
    play.advance(1_000)
    assert isinstance(play.store, RedisStore)
    trimming = cast("RedisClient", Trimming(play.store._client, play))

    page = await EntryReader(trimming, SHARD, 0, 2**62).read(1_000, JOURNAL_PAGE_BYTES)
    rest = await EntryReader(trimming, SHARD, page[-1].last_seq, 2**62).read(1_000, JOURNAL_PAGE_BYTES)

    assert [entry.last_seq for entry in page] == list(range(1, ENTRIES_FIRST + 1))
    assert [entry.last_seq for entry in rest] == [4 * ENTRIES_FIRST + 1]


async def test_a_search_among_large_entries_is_done_in_several_calls(play: Play) -> None:
    await write_long(play, entries=2, lines=400)
    spans = [Span(SHARD, after, 2_400) for after in (0, 100, 1_200)]
    redis_server().ask("CONFIG", "RESETSTAT")

    found = [list(await play.store.journal.reached(spans, START_MS + late_ms)) for late_ms in (-1, 0, 1, 2)]

    calls = redis_server().ask("INFO", "commandstats")["cmdstat_fcall_ro"]["calls"]
    assert calls > len(found)
    assert found == [[0, 100, 1_200], [800, 800, 1_200], [2_000, 2_000, 2_000], [2_400, 2_400, 2_400]]


@pytest.mark.parametrize("name", ["e", "c", "n"])
@pytest.mark.parametrize("value", [b"", b"\xff\n", b"\x94\x90\xc0\xc4\x00\x90", b"12"])
async def test_damaged_packed_lines_are_reported_as_unreadable(play: Play, name: str, value: bytes) -> None:
    await play.enqueue_all(*[play.job(id) for id in play.ids(3)])
    await play.claim(3)
    with redis_server().admin() as admin:
        entries = admin.xrange(journal_key(SHARD))
        admin.delete(journal_key(SHARD))
        for id, fields in entries:
            admin.xadd(journal_key(SHARD), fields | ({name: value} if name.encode() in fields else {}), id=id)

    events = [event for entry in await play.store.journal.read(SHARD, 0, 6) for event in entry.events(SHARD)]

    assert [event.seq for event in events] == [1, 2, 3, 4, 5, 6]
    assert any(event.flaw for event in events)


async def test_a_waiting_job_takes_at_most_430_bytes_with_its_line_in_the_journal(play: Play) -> None:
    batches = [[play.job(payload=b"x" * 100) for _ in range(1_000)] for _ in range(11)]
    await play.enqueue_all(*batches[0])

    before = memory()
    for batch in batches[1:]:
        await play.enqueue_all(*batch)

    assert (memory() - before) / 10_000 <= 430


def memory() -> int:
    """What the server holds."""
    with redis_server().admin() as admin:
        return int(admin.info("memory")["used_memory"])
