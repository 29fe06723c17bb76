"""How the servers are: their clocks, and the highest epoch."""

from headrace.model.clock import SystemClock
from headrace.model.errors import HeadraceError, StoreUnavailable
from headrace.model.names import Queue
from headrace.stores.redis.keys import head_key
from headrace.stores.redis.link import Link
from headrace.stores.redis.queues import RedisQueues

SHARDS_MAX = 1_000
"""Shards whose epoch is looked at, tenants and queues by name: health is asked for often and must stay cheap."""


async def clock_skew_ms(link: Link) -> int:
    """The largest difference between a server's clock and this process's."""
    skews: list[int] = []
    for server in await link.topology.masters():
        before_ms = SystemClock().now_ms()
        [reply] = await server.ask([["TIME"]])
        middle_ms = (before_ms + SystemClock().now_ms()) // 2
        if isinstance(reply, HeadraceError):
            raise reply
        if isinstance(reply, Exception):
            raise StoreUnavailable(f"redis at {server.address} did not tell the time ({reply}); ask again")
        skews.append(int(reply[0]) * 1000 + int(reply[1]) // 1000 - middle_ms)
    return max(skews, key=abs, default=0)


async def highest_epoch(link: Link, queues: RedisQueues) -> int:
    """The highest epoch of any shard, 1 when there is none."""
    heads = [head_key(shard) for queue in await _some_queues(queues) for shard in queue.all_shards()]
    answers = await link.command_each([("HGET", key, "epoch") for key in heads[:SHARDS_MAX]])
    return max((int(answer) for answer in answers if isinstance(answer, bytes)), default=1)


async def _some_queues(queues: RedisQueues) -> list[Queue]:
    found: list[Queue] = []
    cursor: str | None = None
    while len(found) < SHARDS_MAX:
        tenants = await queues.tenants(cursor=cursor)
        for tenant in tenants.rows:
            found += (await queues.names(tenant, limit=SHARDS_MAX)).rows
        cursor = tenants.cursor
        if cursor is None:
            break
    return found
