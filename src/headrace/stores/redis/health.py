"""How the servers are: their clocks, what endangers jobs on them, and the highest epoch."""

from msgspec import Struct

from headrace.model.clock import SystemClock
from headrace.model.errors import HeadraceError, StoreUnavailable
from headrace.model.names import Queue
from headrace.stores.redis.keys import head_key
from headrace.stores.redis.link import Link
from headrace.stores.redis.notes import away, notes_on, server_name
from headrace.stores.redis.packing import counters_of
from headrace.stores.redis.profile import facts_of
from headrace.stores.redis.queues import RedisQueues
from headrace.stores.redis.server import Server

SHARDS_MAX = 1_000
"""Shards whose epoch is looked at, tenants and queues by name: health is asked for often and must stay cheap."""


class Servers(Struct, frozen=True):
    """All masters together."""

    skew_ms: int
    """The largest difference between a server's clock and this process's."""
    name: str
    notes: tuple[str, ...]


async def look_at_servers(link: Link, replicas: int) -> Servers:
    """Ask every master; one of a cluster that is away becomes a note, one that is alone an error."""
    skews: list[int] = []
    names: list[str] = []
    notes: list[str] = []
    last: StoreUnavailable | None = None
    masters = await link.topology.masters()
    for server in masters:
        try:
            skew_ms, facts = await _ask(server)
        except StoreUnavailable as error:
            if not link.clustered:
                raise
            notes.append(away(str(server.address), error))
            last = error
            continue
        skews.append(skew_ms)
        names.append(server_name(facts))
        notes += notes_on(str(server.address), facts, replicas)
    if not skews:
        raise StoreUnavailable(f"none of the {len(masters)} masters of the cluster answers ({last}); are they running?")
    return Servers(max(skews, key=abs), " and ".join(sorted({*names})), tuple(notes))


async def _ask(server: Server) -> tuple[int, dict[str, str]]:
    before_ms = SystemClock().now_ms()
    time, info = await server.ask([["TIME"], ["INFO"]])
    middle_ms = (before_ms + SystemClock().now_ms()) // 2
    for reply in (time, info):
        if isinstance(reply, HeadraceError):
            raise reply
        if isinstance(reply, Exception):
            raise StoreUnavailable(f"redis at {server.address} did not say how it is ({reply}); ask again")
    return int(time[0]) * 1000 + int(time[1]) // 1000 - middle_ms, facts_of(info)


async def highest_epoch(link: Link, queues: RedisQueues) -> int:
    """The highest epoch of any shard, 1 when there is none; 0 when the server of a cluster that knows is away."""
    try:
        heads = [head_key(shard) for queue in await _some_queues(queues) for shard in queue.all_shards()]
    except StoreUnavailable:
        if not link.clustered:
            raise
        return 0
    answers = await link.command_each([("HGET", key, "head") for key in heads[:SHARDS_MAX]])
    return max((counters_of(answer)["epoch"] for answer in answers if isinstance(answer, bytes)), default=1)


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
