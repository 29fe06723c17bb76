"""A lone job on Redis goes a short way: it leaves what the long way would have left, whatever is there already."""

from typing import Any

import pytest
from msgspec.structs import replace

from headrace.model.names import Shard
from headrace.model.policy import Policy
from headrace.model.results import Enqueued
from headrace.stores.redis.keys import prefix_of
from headrace.stores.redis.store import RedisStore
from tests.support.play import Play
from tests.support.redis_client import options_from
from tests.support.redis_servers import RedisServer
from tests.support.server_cleanup import flush
from tests.support.servers import redis_server


@pytest.fixture
def server() -> RedisServer:
    """An empty server."""
    flush([redis_server()])
    return redis_server()


def the_long_way(source: str) -> str:
    """The functions without the short way."""
    changed = source.replace("and single_enqueue.enqueue(", "and false and single_enqueue.enqueue(")
    assert changed != source
    return changed


def held(server: RedisServer, play: Play) -> dict[str, Any]:
    """What the keys of the play's shard hold."""
    prefix = prefix_of(Shard(play.queue, 0))
    with server.admin() as client:
        return {
            "bodies": client.hgetall(prefix + "b"),
            "ready": client.zrange(prefix + "r", 0, -1, withscores=True),
            "later": client.zrange(prefix + "l", 0, -1, withscores=True),
            "finished_jobs": client.hgetall(prefix + "o"),
            "entries": [number for number, _ in client.xrange(prefix + "j")],
        }


async def played(server: RedisServer, *, is_long: bool) -> list[object]:
    """Lone jobs one after the other, in all that a shard may be in; what was answered, and what is there at the end."""
    flush([server])
    store = await RedisStore.open(options_from(server.url), edit=the_long_way if is_long else None)
    play = Play(store)
    answers: list[Enqueued] = []

    async def send(id: str, after_ms: int = 1, **given: Any) -> None:
        play.advance(after_ms)
        answers.append(await play.enqueue(id, **given))

    await send("first")
    await send("urgent", 5, policy=Policy(priority=9))
    await send("back in time", -3, tag="t")
    await send("first", payload=b"2")
    await send("later", delay_ms=60_000)
    await send('odd "id"', headers={"a": "b"})
    await send("keyed", idempotency_key="k")
    await send("keyed", idempotency_key="k")
    claimed = await play.claim(2)
    await play.settle(claimed[0])
    for claim in claimed:
        await send(claim.record.id)
    await send("beside a finished job")
    await play.configure(journal_payloads=True)
    await send("carried")
    await play.configure(journal_payloads=False, waiting_max=10)
    for number in range(4):
        await send(f"more {number}")
    await play.configure(waiting_max=1_000)
    # Without epoch and fence, which are of the time of the shard's birth.
    events = [(event.seq, event.at_ms, replace(event.line, fence=None)) for event in await play.events()]
    await play.configure(journal_keep_max=5)
    await send("trims")
    left = held(server, play)
    await store.close()
    return [answers, events, left]


async def test_a_lone_job_leaves_what_the_long_way_would_have_left(server: RedisServer) -> None:
    short = await played(server, is_long=False)
    long = await played(server, is_long=True)

    assert short == long
