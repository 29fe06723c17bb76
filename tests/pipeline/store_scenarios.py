"""Stores with a story in them, and what they themselves say of it."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from headrace.model.claim import ClaimRequest
from headrace.model.event import columns
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.outcome import Done, Failed, JobError, Outcome, Released, Retried
from headrace.model.policy import Policy
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store

Row = dict[str, object]

ODD_IDS = (
    "plain",
    'double "quotes"',
    "single 'quotes'",
    "back\\slash \\n \\u0041",
    "{braces}:colons/[slashes]#1",
    "émoji 😀 日本語",
    "<b>&amp;%s",
    "null",
)
ODD_MESSAGE = 'first line\nsecond\r\n\ttab "quoted" \\ \u2028 \x00 😀'


def url_of(path: Path) -> str:
    return f"sqlite:///{quote(str(path))}?profile=fast"


def run_scenario(url: str, scenario: Callable[[Store], Awaitable[None]]) -> None:
    """Run a scenario in the store at `url`."""

    async def run() -> None:
        store = await open_store(url)
        try:
            await scenario(store)
        finally:
            await store.close()

    asyncio.run(run())


async def odd_story(store: Store, queue: Queue) -> None:
    """Every way a delivery can end, under ids that are hard to quote, with every column set somewhere."""
    await store.queues.configure(queue, {"fail_handler": True, "max_stalls": 2}, now_ms=1_000)
    await store.jobs.enqueue([odd_job(queue, id) for id in ODD_IDS], now_ms=2_001)
    for delay_ms in (60_000, 70_000):
        await store.jobs.enqueue([Job(queue=queue, id="later", kind="later", delay_ms=delay_ms)], now_ms=2_002)
    request = ClaimRequest(queues=[queue], worker="worker 'one'", nonce="nonce-one", limit=100, lease_ms=10_000)
    claims = {claim.record.id: claim for claim in (await store.jobs.claim(request, now_ms=3_003)).items}
    await store.jobs.enqueue([Job(queue=queue, id=id, kind="blocked_job") for id in ODD_IDS[:2]], now_ms=3_500)
    error = JobError.of('Odd"Error', ODD_MESSAGE)
    outcomes: list[Outcome] = [Done(b"1"), Retried(error), Failed(error), Released(5), Done(), Retried(error)]
    ended = [claims[id].settle(outcome, len(id)) for id, outcome in zip(ODD_IDS, outcomes, strict=False)]
    await store.jobs.settle(ended, now_ms=4_004)
    # The leases of the others run out, and another worker's claim finds that.
    other = ClaimRequest(queues=[queue], worker="two", nonce="nonce-two", limit=100, lease_ms=60_000)
    again = (await store.jobs.claim(other, now_ms=20_000)).items
    await store.jobs.cancel(queue, [claim.record.id for claim in again], running=True, now_ms=20_100)
    await store.jobs.settle([claim.settle(Retried(error), 9) for claim in again], now_ms=20_200)
    await store.jobs.cancel(queue, ["later"], now_ms=20_300)
    dead_letters = (await store.dead.list(queue, now_ms=20_400)).rows
    await store.dead.replay(queue, [dead_letter.key for dead_letter in dead_letters[:1]], now_ms=20_500)
    await store.dead.purge(queue, [dead_letter.key for dead_letter in dead_letters[1:2]], now_ms=20_600)
    await store.jobs.remove(queue, [ODD_IDS[0]], now_ms=20_700)


def odd_job(queue: Queue, id: str) -> Job:
    policy = Policy(max_attempts=2, priority=7, max_stalls=1 if id == ODD_IDS[-1] else None)
    return Job(queue=queue, id=id, kind=f"kind of {id}", payload=b'{"a":1}', tag=id, policy=policy)


def store_events(url: str, queues: list[Queue]) -> list[Row]:
    """All events of the queues' journals as the store itself decodes them, without payloads, as Spark shows them."""
    found: list[Row] = []

    async def read(store: Store) -> None:
        for queue in queues:
            for shard in queue.all_shards():
                after, upto = 0, (await store.journal.bounds(shard)).last_seq
                while after < upto:
                    for entry in await store.journal.read(shard, after, upto):
                        rows = [columns(event) for event in entry.events(shard)]
                        found.extend(as_shown({name: row[name] for name in row if name != "payload"}) for row in rows)
                        after = entry.last_seq

    run_scenario(url, read)
    return found


def as_shown(row: Row) -> Row:
    """A row with its instants as Spark shows them."""
    return {_shown_name(name): instant(value) if name.endswith("at_ms") else value for name, value in row.items()}


def _shown_name(name: str) -> str:
    if name == "at_ms":
        return "happened_at"
    return name.removesuffix("_ms") if name.endswith("_at_ms") else name


def instant(ms: object) -> datetime | None:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms) if isinstance(ms, int) else None
