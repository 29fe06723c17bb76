"""The queues protocol: configuration, counts, names, and the end of a queue."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from headrace.model.errors import HeadraceError, StoreUnavailable
from headrace.model.limits import BATCH_MAX, CONFIGURE_TRIES_MAX, PAGE_MAX
from headrace.model.names import Queue, Shard, check_tenant
from headrace.model.policy import QueueConfig, first_config
from headrace.model.results import Counts, Page, QueueOverview
from headrace.model.validate import check_int, check_version_number
from headrace.stores.engine.queues import check_overview, overview_page, overview_start
from headrace.stores.redis.client import Argument, RedisClient
from headrace.stores.redis.fanout import (
    SHARDS_PER_CALL,
    ShardGroup,
    call_groups,
    call_shards,
    check_shard_counts,
    now_argument,
)
from headrace.stores.redis.keys import TENANTS, first_shard, head_key, names_key
from headrace.stores.shared.validate import check_version, not_empty


class QueueRegistry:
    """Creates and lists queues.

    Shard 0 decides whether a queue exists and how many shards it has: it is created before the others and dropped after
    them. The lists of names and tenants are written before it and cleared after it, so they never lack a queue,
    whichever client dies in between; names without a queue are not shown.
    """

    def __init__(self, client: RedisClient) -> None:
        self._client = client

    async def create(self, queue: Queue) -> None:
        """Create the missing shards of a queue; refuses a queue with another number of shards."""
        await check_shard_counts(self._client, [queue])  # so that a refused queue is not listed
        await self._register(queue)
        first = msgspec.json.encode(first_config(queue))
        [config] = await call_shards(self._client, "shard_create", [first_shard(queue)], [first])
        others = queue.all_shards()[1:]
        if others:
            # A shard that is late, since its creator died, takes the current configuration.
            await call_shards(self._client, "shard_create", others, [config])
        # Again: a client that deleted the queue may have removed the name in between.
        await self._register(queue)

    async def _register(self, queue: Queue) -> None:
        # The name before the tenant: a client that removes an empty tenant checks its names afterwards.
        await self._client.command("ZADD", names_key(queue.tenant), 0, queue.full_name)
        await self._client.command("ZADD", TENANTS, 0, queue.tenant)

    async def unregister(self, queue: Queue) -> None:
        """Remove a queue without shards from the lists, unless another client has created it meanwhile."""
        names = names_key(queue.tenant)
        await self._client.command("ZREM", names, queue.full_name)
        if not await self._client.command("ZCARD", names):
            await self._client.command("ZREM", TENANTS, queue.tenant)
            if await self._client.command("ZCARD", names):
                await self._client.command("ZADD", TENANTS, 0, queue.tenant)
        if await self._client.command("EXISTS", head_key(first_shard(queue))):
            await self._register(queue)

    async def names(self, tenant: str, after: str, limit: int) -> list[Queue]:
        """The queues of a tenant with `full_name > after`, by that, at most `limit`."""
        found: list[Queue] = []
        while len(found) < limit:
            wanted = limit - len(found)
            page = await self.names_page(tenant, after, wanted)
            found += await self._existing(tenant, page)
            if len(page) < wanted:
                break
            after = page[-1]
        return found

    async def names_page(self, tenant: str, after: str, limit: int) -> list[str]:
        """The listed names behind a name, of which some may have no queue."""
        return await self._page(names_key(tenant), after, limit)

    async def tenants(self, after: str, limit: int) -> list[str]:
        """The tenants that have queues with `name > after`, by that, at most `limit`."""
        return await self._page(TENANTS, after, limit)

    async def _page(self, key: str, after: str, limit: int) -> list[str]:
        start = b"(" + after.encode("utf-8", "surrogatepass") if after else b"-"
        found = await self._client.command("ZRANGE", key, start, "+", "BYLEX", "LIMIT", 0, limit)
        return [name.decode() for name in found]

    async def _existing(self, tenant: str, names: list[str]) -> list[Queue]:
        """The queues of these names that exist."""
        answers = await self._shard_counts([first_shard(Queue.parse(name, tenant, 1)) for name in names])
        found: list[Queue] = []
        for name, (own, main_queue) in zip(names, answers, strict=True):
            queue = Queue.parse(name, tenant, int(own or main_queue or 1))
            if own or (main_queue and await self._has_shards(queue)):
                found.append(queue)
        return found

    async def _has_shards(self, queue: Queue) -> bool:
        # A fail queue is created where a job died, so it may lack its shard 0 if its creator died as well.
        others = queue.all_shards()[1:]
        return queue.is_fail_queue and any(own for own, _ in await self._shard_counts(others))

    async def _shard_counts(self, shards: Sequence[Shard]) -> list[tuple[Any, Any]]:
        """For each shard the number of shards of its queue and of the main queue, as far as they exist."""
        groups: list[ShardGroup] = [([shard], [""]) for shard in shards]
        replies = await call_groups(self._client, "check_shard_count", groups, reads=True) if groups else []
        return [(own, main_queue) for [(own, main_queue)] in replies]


class FailQueueRegistration:
    """Registers fail queues that deaths have created; repeats a failure with the next death, as the call succeeded."""

    def __init__(self, registry: QueueRegistry) -> None:
        self._registry = registry
        self._unregistered: dict[Queue, None] = {}

    async def register(self, queues: Iterable[Queue]) -> None:
        """List the fail queues of these queues, and create their other shards."""
        self._unregistered.update(dict.fromkeys(queues))
        for queue in list(self._unregistered):
            try:
                await self._registry.create(queue.fail_queue)
            except HeadraceError:
                return
            self._unregistered.pop(queue, None)


_CONFIG = msgspec.json.Decoder(QueueConfig)


class RedisQueues:
    """Queues whose shard 0 decides for all shards."""

    def __init__(self, client: RedisClient, registry: QueueRegistry) -> None:
        self._client = client
        self._registry = registry

    async def configure(
        self,
        queue: Queue,
        changes: Mapping[str, object],
        *,
        version: int | None = None,
        now_ms: int | None = None,
    ) -> QueueConfig:
        check_version_number(version)
        first_config(queue).changed(changes)
        now = now_argument(now_ms)
        for _ in range(CONFIGURE_TRIES_MAX):
            [known] = await call_shards(self._client, "configuration", [first_shard(queue)], reads=True)
            old = first_config(queue) if known is None else _CONFIG.decode(known)
            check_version(queue, old, version)
            config = old.changed(changes)
            if known is None:
                await self._registry.create(queue)
            if await self._configure(queue, old, config, now):
                return config
        raise StoreUnavailable(
            f"queue {queue.full_name!r} was configured by others {CONFIGURE_TRIES_MAX} times in a row; try again"
        )

    async def _configure(self, queue: Queue, old: QueueConfig, config: QueueConfig, now: int | str) -> bool:
        """Whether shard 0 still had the old configuration, so that all shards have the new one now."""
        args = [now, config.version, msgspec.json.encode(config), old.version]
        shards = queue.all_shards()
        if not self._client.clustered:
            answers = await call_shards(self._client, "configure", shards, args)
            return bool(answers[0])
        # Only shard 0 compares versions; the others take the newer one, so two configures end alike everywhere.
        [is_configured] = await call_shards(self._client, "configure", shards[:1], args)
        if is_configured and shards[1:]:
            await call_shards(self._client, "configure", shards[1:], [*args[:-1], ""])
        return bool(is_configured)

    async def configuration(self, queue: Queue) -> QueueConfig:
        [known] = await call_shards(self._client, "configuration", [first_shard(queue)], reads=True)
        return first_config(queue) if known is None else _CONFIG.decode(known)

    async def counts(self, queue: Queue, *, now_ms: int | None = None) -> Counts:
        answers = await call_shards(self._client, "counts", queue.all_shards(), [now_argument(now_ms)], reads=True)
        return sum((_counts_of(answer) for answer in answers if answer is not None), start=Counts())

    async def overview(
        self,
        tenant: str,
        *,
        names: Sequence[str] | None = None,
        prefix: str = "",
        cursor: str | None = None,
        limit: int = 100,
        now_ms: int | None = None,
    ) -> Page[QueueOverview]:
        wanted = check_overview(tenant, names, prefix, cursor, limit, now_ms)
        now = now_argument(now_ms)
        if wanted is not None:
            return Page(await self._overviews(tenant, wanted, now), None)
        after = overview_start(prefix, cursor)
        found: list[QueueOverview] = []
        page: list[str] | None = None
        while len(found) < limit and (page is None or page):
            page = await self._registry.names_page(tenant, after, limit - len(found))
            found += await self._overviews(tenant, page, now)
            after = page[-1] if page else after
            if not after.startswith(prefix):
                break
        return overview_page(found, prefix, limit)

    async def _overviews(self, tenant: str, names: Sequence[str], now: int | str) -> list[QueueOverview]:
        """The existing ones of these queues: shard 0 of each tells how many others to ask for."""
        firsts = await self._overview_answers([first_shard(Queue.parse(name, tenant, 1)) for name in names], now)
        queues = [
            Queue.parse(name, tenant, int(own or paired or 1))
            for name, (own, paired, *_) in zip(names, firsts, strict=True)
        ]
        others = [shard for queue in queues if queue.shards > 1 for shard in queue.all_shards()[1:]]
        answers: dict[Queue, list[Any]] = {queue: [first] for queue, first in zip(queues, firsts, strict=True)}
        for shard, answer in zip(others, await self._overview_answers(others, now), strict=True):
            answers[shard.queue].append(answer)
        return [each for queue, parts in answers.items() if (each := _overview_of(queue, parts)) is not None]

    async def _overview_answers(self, shards: Sequence[Shard], now: int | str) -> list[Any]:
        step = 1 if self._client.clustered else SHARDS_PER_CALL
        groups: list[ShardGroup] = [(shards[at : at + step], [now]) for at in range(0, len(shards), step)]
        replies = await call_groups(self._client, "overview", groups, reads=True) if groups else []
        return [answer for reply in replies for answer in reply]

    async def names(self, tenant: str, *, cursor: str | None = None, limit: int = 100) -> Page[Queue]:
        check_tenant(tenant)
        check_int("limit", limit, 1, PAGE_MAX)
        found = await self._registry.names(tenant, cursor or "", limit)
        return Page(found, found[-1].full_name if len(found) == limit else None)

    async def tenants(self, *, cursor: str | None = None, limit: int = 100) -> Page[str]:
        check_int("limit", limit, 1, PAGE_MAX)
        found = await self._registry.tenants(cursor or "", limit)
        return Page(found, found[-1] if len(found) == limit else None)

    async def purge(self, queue: Queue, *, limit: int = BATCH_MAX, now_ms: int | None = None) -> int:
        check_int("limit", limit, 1, BATCH_MAX)
        now = now_argument(now_ms)
        purged = 0
        for shard in queue.all_shards():
            if purged < limit:
                [dropped] = await call_shards(self._client, "purge_jobs", [shard], [now, limit - purged])
                purged += int(dropped or 0)
        return purged

    async def delete(self, queue: Queue, *, limit: int = BATCH_MAX) -> bool:
        check_int("limit", limit, 1, BATCH_MAX)
        # Shard 0 last: while it exists, no client can create the queue with another number of shards.
        shards = queue.all_shards()[::-1]
        if self._client.clustered:
            gone = await self._erase_each(shards, limit)
        else:
            _, gone = await self._erase(shards, limit, forget=True)
        if gone:
            await self._registry.unregister(queue)
        return gone

    async def _erase(self, shards: list[Shard], limit: int, *, forget: bool) -> tuple[int, bool]:
        """How many rows were erased, and whether the shards were dropped since they are empty."""
        args: list[Argument] = [shards[0].queue.shards, limit, int(forget)]
        [(erased, gone)] = await call_groups(self._client, "delete_shards", [(shards, args)])
        return int(erased), bool(gone)

    async def _erase_each(self, shards: list[Shard], limit: int) -> bool:
        """Shard by shard: all are checked before one is erased, and all are erased before one is dropped."""
        unfinished = await call_shards(self._client, "count_unfinished", shards, reads=True)
        if live := sum(int(each or 0) for each in unfinished):
            raise not_empty(shards[0].queue, live)
        for shard in shards:
            erased, _ = await self._erase([shard], limit, forget=False)
            limit -= erased
            if limit <= 0:
                return False
        for shard in shards:
            _, gone = await self._erase([shard], 1, forget=True)
            if not gone:
                return False
        return True


def _overview_of(queue: Queue, parts: Sequence[list[Any]]) -> QueueOverview | None:
    known = [part for part in parts if part[0] is not None]
    if not known:
        return None
    config = _CONFIG.decode(known[0][2])
    counts = sum((_counts_of(part[4]) for part in known), start=Counts())
    return QueueOverview(queue, config.version, config.paused, counts, sum(int(part[3]) for part in known))


def _counts_of(answer: list[Any]) -> Counts:
    waiting, later, blocked, active, done, cancelled, dead = map(int, answer[:7])
    oldest_due_ms = None if answer[7] is None else int(answer[7])
    return Counts(waiting, later, blocked, active, done, cancelled, dead, oldest_due_ms)
