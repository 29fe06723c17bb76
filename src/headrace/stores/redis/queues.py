"""The queues protocol: configuration, counts, names, and the end of a queue."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from headrace.model.errors import HeadraceError, StoreUnavailable
from headrace.model.limits import BATCH_MAX, CONFIGURE_TRIES_MAX, PAGE_MAX
from headrace.model.names import Queue, Shard, check_tenant
from headrace.model.queue_config import QueueConfig, first_config
from headrace.model.results import Counts, Page
from headrace.model.validate import check_int, check_version_number
from headrace.stores.redis.client import RedisClient, ServerCall
from headrace.stores.redis.fanout import ask, check_shards, each, now_argument, one
from headrace.stores.redis.keys import TENANTS, first_shard, head_key, names_key
from headrace.stores.shared.validate import check_version, not_empty


class QueueRegistry:
    """Makes and finds queues.

    Shard 0 decides whether there is a queue and how it is cut: it is opened before the others and forgotten after
    them. The lists of names and tenants are written before it and cleared after it, so they never lack a queue,
    whoever dies in between; what they name too much is not shown.
    """

    def __init__(self, client: RedisClient) -> None:
        self._client = client

    async def create(self, queue: Queue) -> None:
        """Make all shards of a queue that are not there yet; refuses another number of shards than it has."""
        await check_shards(self._client, queue)  # so that a refused queue is not named
        await self._register(queue)
        config = msgspec.json.encode(first_config(queue))
        [opened] = await ask(self._client, "shard_create", [first_shard(queue)], [config])
        others = queue.all_shards()[1:]
        if others:
            # A shard that is late (somebody died while making it) takes the configuration that holds by now.
            await ask(self._client, "shard_create", others, [opened])
        # Once more: somebody who deleted the queue of before may have taken the name off between the two.
        await self._register(queue)

    async def fail_queue_made(self, queue: Queue) -> None:
        """A death on `queue` made a shard of its fail queue: name the fail queue and make its other shards."""
        await self.create(queue.fail_queue)

    async def _register(self, queue: Queue) -> None:
        # The name before the tenant: whoever drops an empty tenant looks for names afterwards.
        await self._client.command("ZADD", names_key(queue.tenant), 0, queue.full_name)
        await self._client.command("ZADD", TENANTS, 0, queue.tenant)

    async def unregister(self, queue: Queue) -> None:
        """Take a queue whose shards are gone off the lists, unless somebody has made it again meanwhile."""
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
            page = await self._page(names_key(tenant), after, wanted)
            found += await self._there(tenant, page)
            if len(page) < wanted:
                break
            after = page[-1]
        return found

    async def tenants(self, after: str, limit: int) -> list[str]:
        """The tenants that have queues with `name > after`, by that, at most `limit`."""
        return await self._page(TENANTS, after, limit)

    async def _page(self, key: str, after: str, limit: int) -> list[str]:
        start = b"(" + after.encode("utf-8", "surrogatepass") if after else b"-"
        found = await self._client.command("ZRANGE", key, start, "+", "BYLEX", "LIMIT", 0, limit)
        return [name.decode() for name in found]

    async def _there(self, tenant: str, names: list[str]) -> list[Queue]:
        """Those of the named queues that there are."""
        first = [Queue.parse(name, tenant, 1) for name in names]
        calls = [ServerCall("check_shard_count", [head_key(first_shard(queue))], [""], reads=True) for queue in first]
        answers: list[Any] = await each(self._client, first[0], calls) if first else []
        found: list[Queue] = []
        for name, [(own, main_queue)] in zip(names, answers, strict=True):
            queue = Queue.parse(name, tenant, int(own or main_queue or 1))
            if own or (main_queue and await self._has_shards(queue)):
                found.append(queue)
        return found

    async def _has_shards(self, queue: Queue) -> bool:
        # A fail queue is made where a job died, so it may be there without its shard 0 if its maker died as well.
        others = [
            ServerCall("check_shard_count", [head_key(shard)], [""], reads=True) for shard in queue.all_shards()[1:]
        ]
        return queue.is_fail_queue and any(own for [(own, _)] in await each(self._client, queue, others))


class FailQueueRegistration:
    """What is left to be named; tried again with the next death, since the call itself has succeeded."""

    def __init__(self, registry: QueueRegistry) -> None:
        self._registry = registry
        self._unnamed: dict[Queue, None] = {}

    async def made(self, queues: Iterable[Queue]) -> None:
        """Deaths on these queues made shards of their fail queues."""
        self._unnamed.update(dict.fromkeys(queues))
        for queue in list(self._unnamed):
            try:
                await self._registry.fail_queue_made(queue)
            except HeadraceError:
                return
            self._unnamed.pop(queue, None)


_CONFIG = msgspec.json.Decoder(QueueConfig)


class RedisQueues:
    """Queues whose shard 0 decides what is decided once."""

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
            [known] = await ask(self._client, "configuration", [first_shard(queue)], reads=True)
            old = first_config(queue) if known is None else _CONFIG.decode(known)
            check_version(queue, old, version)
            config = old.changed(changes)
            if known is None:
                await self._registry.create(queue)
            if await self._configure(queue, old, config, now):
                return config
        raise StoreUnavailable(
            f"queue {queue.full_name!r} was configured by others {CONFIGURE_TRIES_MAX} times in a row; ask again"
        )

    async def _configure(self, queue: Queue, old: QueueConfig, config: QueueConfig, now: int | str) -> bool:
        """Whether shard 0 was still at the old configuration and all shards have the new one now."""
        given = [now, config.version, msgspec.json.encode(config), old.version]
        shards = queue.all_shards()
        if not self._client.clustered:
            answers = await ask(self._client, "configure", shards, given)
            return bool(answers[0])
        # Shard 0 alone compares versions; the others take whatever is newer, so two configures end alike everywhere.
        [taken] = await ask(self._client, "configure", shards[:1], given)
        if taken and shards[1:]:
            await ask(self._client, "configure", shards[1:], [*given[:-1], ""])
        return bool(taken)

    async def configuration(self, queue: Queue) -> QueueConfig:
        [known] = await ask(self._client, "configuration", [first_shard(queue)], reads=True)
        return first_config(queue) if known is None else _CONFIG.decode(known)

    async def counts(self, queue: Queue, *, now_ms: int | None = None) -> Counts:
        answers = await ask(self._client, "counts", queue.all_shards(), [now_argument(now_ms)], reads=True)
        return sum((_counts_of(answer) for answer in answers if answer is not None), start=Counts())

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
                [dropped] = await ask(self._client, "purge_jobs", [shard], [now, limit - purged])
                purged += int(dropped or 0)
        return purged

    async def delete(self, queue: Queue, *, limit: int = BATCH_MAX) -> bool:
        check_int("limit", limit, 1, BATCH_MAX)
        # Shard 0 last: while it is there, nobody can cut the queue otherwise.
        shards = queue.all_shards()[::-1]
        if self._client.clustered:
            gone = await self._erase_each(shards, limit)
        else:
            _, gone = await self._erase(shards, limit, forget=True)
        if gone:
            await self._registry.unregister(queue)
        return gone

    async def _erase(self, shards: list[Shard], limit: int, *, forget: bool) -> tuple[int, bool]:
        """How many rows went, and whether the shards were forgotten because nothing was left of them."""
        queue = shards[0].queue
        keys = [head_key(shard) for shard in shards]
        erased, gone = await one(
            self._client, queue, ServerCall("delete_shards", keys, [queue.shards, limit, int(forget)])
        )
        return int(erased), bool(gone)

    async def _erase_each(self, shards: list[Shard], limit: int) -> bool:
        """Shard by shard: all are looked at before one is erased, and all are erased before one is forgotten."""
        held = await ask(self._client, "count_unfinished", shards, reads=True)
        if live := sum(int(each or 0) for each in held):
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


def _counts_of(answer: list[Any]) -> Counts:
    waiting, later, blocked, active, done, cancelled, dead = map(int, answer[:7])
    oldest_due_ms = None if answer[7] is None else int(answer[7])
    return Counts(waiting, later, blocked, active, done, cancelled, dead, oldest_due_ms)
