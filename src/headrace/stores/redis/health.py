"""Reports the health of the servers: clocks, risks to their jobs, the highest epoch, and the function library."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from headrace.model.clock import SystemClock
from headrace.model.errors import BadConfig, HeadraceError, StoreUnavailable
from headrace.model.integrity import Schema
from headrace.model.limits import NEARLY_FULL_PERCENT
from headrace.model.names import Queue
from headrace.stores.redis.client import RedisClient
from headrace.stores.redis.connections.server import Server
from headrace.stores.redis.connections.topology import topology_of
from headrace.stores.redis.durability import facts_of
from headrace.stores.redis.errors import startup_error
from headrace.stores.redis.keys import head_key
from headrace.stores.redis.library import LAYOUT, Library, read_library
from headrace.stores.redis.packing import counters_of
from headrace.stores.redis.queues import RedisQueues
from headrace.stores.redis.url import RedisOptions


def server_name(facts: Mapping[str, str]) -> str:
    """The kind and version of a server."""
    if facts.get("server_name") == "valkey":
        return f"Valkey {facts.get('valkey_version', '?')}"
    return f"Redis {facts.get('redis_version', '?')}"


def notes_on(where: str, facts: Mapping[str, str], replicas: int) -> list[str]:
    """Warnings about a server, from its INFO; `replicas` is the number that acknowledge every change."""
    notes: list[str] = []
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        notes.append(
            f"redis at {where} may evict keys (maxmemory-policy {policy}); set it to noeviction, jobs would vanish"
        )
    if facts.get("aof_enabled") == "0":
        notes.append(
            f"redis at {where} keeps no append-only file, so its next crash or restart loses all since the last"
            " snapshot; set appendonly yes"
        )
    failed = [name for name in ("aof_last_write_status", "rdb_last_bgsave_status") if facts.get(name) == "err"]
    if failed:
        notes.append(f"redis at {where} could not write to its disk ({', '.join(failed)}: err); make room, see its log")
    used, room = int(facts.get("used_memory", "0")), int(facts.get("maxmemory", "0"))
    if room and used * 100 >= room * NEARLY_FULL_PERCENT:
        notes.append(
            f"redis at {where} has used {used * 100 // room} % of its maxmemory, and takes no jobs when that is full;"
            " raise it, or let workers catch up"
        )
    connected = int(facts.get("connected_slaves", "0"))
    if connected < replicas:
        notes.append(
            f"redis at {where} has {connected} of the {replicas} replicas that profile=replicated waits for, so every"
            " change is OutcomeUnknown; start the others"
        )
    return notes


def unreachable_note(where: str, why: object) -> str:
    """The warning about a server of a cluster that does not answer."""
    return f"redis at {where} of the cluster does not answer ({why}); start it: the queues it holds stand still"


SHARDS_MAX = 1_000
"""Shards whose epoch is read, by tenant and queue name: health is read often and must stay cheap."""


class MastersHealth(Struct, frozen=True):
    """The health of all masters together."""

    skew_ms: int
    """The largest difference between a server's clock and this process's."""
    name: str
    notes: tuple[str, ...]


async def read_masters_health(client: RedisClient, replicas: int) -> MastersHealth:
    """Ask every master; an unreachable master of a cluster becomes a note, a lone server an error."""
    skews: list[int] = []
    names: list[str] = []
    notes: list[str] = []
    last: StoreUnavailable | None = None
    masters = await client.topology.masters()
    for server in masters:
        try:
            skew_ms, facts = await _read_clock_and_info(server)
        except StoreUnavailable as error:
            if not client.clustered:
                raise
            notes.append(unreachable_note(str(server.address), error))
            last = error
            continue
        skews.append(skew_ms)
        names.append(server_name(facts))
        notes += notes_on(str(server.address), facts, replicas)
    if not skews:
        raise _none_answers(len(masters), last)
    return MastersHealth(max(skews, key=abs), " and ".join(sorted({*names})), tuple(notes))


async def _read_clock_and_info(server: Server) -> tuple[int, dict[str, str]]:
    before_ms = SystemClock().now_ms()
    time, info = await _replies(server, "TIME", "INFO")
    middle_ms = (before_ms + SystemClock().now_ms()) // 2
    return _time_ms(time) - middle_ms, facts_of(info)


async def _replies(server: Server, *commands: str) -> list[Any]:
    replies = await server.send([[command] for command in commands])
    for reply in replies:
        if isinstance(reply, HeadraceError):
            raise reply
        if isinstance(reply, Exception):
            raise StoreUnavailable(
                f"redis at {server.address} did not answer {' and '.join(commands)} ({reply}); try again"
            )
    return replies


def _time_ms(time: Sequence[bytes]) -> int:
    """The answer to TIME: seconds and microseconds."""
    return int(time[0]) * 1000 + int(time[1]) // 1000


async def earliest_clock_ms(client: RedisClient) -> int:
    """The clock of the master that is furthest behind; masters of a cluster that do not answer are left out."""
    clocks_ms: list[int] = []
    last: StoreUnavailable | None = None
    masters = await client.topology.masters()
    for server in masters:
        try:
            [time] = await _replies(server, "TIME")
        except StoreUnavailable as error:
            if not client.clustered:
                raise
            last = error
        else:
            clocks_ms.append(_time_ms(time))
    if not clocks_ms:
        raise _none_answers(len(masters), last)
    return min(clocks_ms)


def _none_answers(masters: int, last: StoreUnavailable | None) -> StoreUnavailable:
    return StoreUnavailable(f"none of the {masters} masters of the cluster answers ({last}); are they running?")


async def highest_epoch(client: RedisClient, queues: RedisQueues) -> int:
    """The highest epoch of any shard, 1 without shards; 0 when the server of a cluster with the registry is down."""
    try:
        heads = [head_key(shard) for queue in await _some_queues(queues) for shard in queue.all_shards()]
    except StoreUnavailable:
        if not client.clustered:
            raise
        return 0
    answers = await client.command_each([("HGET", key, "head") for key in heads[:SHARDS_MAX]])
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


_LIBRARY = re.compile(rb"headrace_(\d+)_[0-9a-f]+")


async def schema_of(options: RedisOptions) -> Schema:
    """The newest layout of the libraries on the servers, None without any; pending is our own library when a master
    lacks it. Refuses servers with a newer layout."""
    topology = topology_of(options)
    try:
        library = read_library(clustered=topology.clustered)
        libraries = [await _libraries(server, library) for server in await topology.masters()]
    finally:
        await topology.close()
    layouts = [int(found.group(1)) for each in libraries for name in each if (found := _LIBRARY.fullmatch(name))]
    is_loaded = all(library.name.encode() in each for each in libraries)
    return library_schema(library, max(layouts, default=None), is_loaded=is_loaded)


def library_schema(library: Library, found: int | None, *, is_loaded: bool) -> Schema:
    """The schema of servers with functions of this layout; `is_loaded` says whether ours are among them."""
    return Schema(
        found=found, known=LAYOUT, pending=() if is_loaded else (f"load {library.name}",), library=library.name
    )


async def _libraries(server: Server, library: Library) -> list[bytes]:
    [reply] = await server.send([["FUNCTION", "LIST", "LIBRARYNAME", "headrace_*"]])
    if isinstance(reply, Exception):
        raise startup_error(str(server.address), reply)
    names = [dict(zip(each[::2], each[1::2], strict=True))[b"library_name"] for each in reply]
    newest = max((int(found.group(1)) for name in names if (found := _LIBRARY.fullmatch(name))), default=LAYOUT)
    if newest > LAYOUT:
        raise BadConfig(
            f"redis at {server.address} has functions of layout {newest}, this Headrace knows {LAYOUT}"
            f" ({library.name}); use a newer Headrace"
        )
    return names
