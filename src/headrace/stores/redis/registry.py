"""Which queues there are: made on first use, listed by tenant and name, forgotten when they are deleted."""

from typing import Any

import msgspec

from headrace.model.names import Queue
from headrace.model.queue_config import first_config
from headrace.stores.redis.asking import ask, check_shards, each
from headrace.stores.redis.keys import TENANTS, first_shard, head_key, names_key
from headrace.stores.redis.link import Call, Link


class Registry:
    """Makes and finds queues.

    Shard 0 decides whether there is a queue and how it is cut: it is opened before the others and forgotten after
    them. The lists of names and tenants are written before it and cleared after it, so they never lack a queue,
    whoever dies in between; what they name too much is not shown.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    async def create(self, queue: Queue) -> None:
        """Make all shards of a queue that are not there yet; refuses another number of shards than it has."""
        await check_shards(self._link, queue)  # so that a refused queue is not named
        await self._register(queue)
        config = msgspec.json.encode(first_config(queue))
        [opened] = await ask(self._link, "open", [first_shard(queue)], [config])
        others = queue.all_shards()[1:]
        if others:
            # A shard that is late (somebody died while making it) takes the configuration that holds by now.
            await ask(self._link, "open", others, [opened])
        # Once more: somebody who deleted the queue of before may have taken the name off between the two.
        await self._register(queue)

    async def companion_made(self, queue: Queue) -> None:
        """A death on `queue` made a shard of its companion: name the companion and make its other shards."""
        await self.create(queue.companion)

    async def _register(self, queue: Queue) -> None:
        # The name before the tenant: whoever drops an empty tenant looks for names afterwards.
        await self._link.command("ZADD", names_key(queue.tenant), 0, queue.full_name)
        await self._link.command("ZADD", TENANTS, 0, queue.tenant)

    async def unregister(self, queue: Queue) -> None:
        """Take a queue whose shards are gone off the lists, unless somebody has made it again meanwhile."""
        names = names_key(queue.tenant)
        await self._link.command("ZREM", names, queue.full_name)
        if not await self._link.command("ZCARD", names):
            await self._link.command("ZREM", TENANTS, queue.tenant)
            if await self._link.command("ZCARD", names):
                await self._link.command("ZADD", TENANTS, 0, queue.tenant)
        if await self._link.command("EXISTS", head_key(first_shard(queue))):
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
        found = await self._link.command("ZRANGE", key, start, "+", "BYLEX", "LIMIT", 0, limit)
        return [name.decode() for name in found]

    async def _there(self, tenant: str, names: list[str]) -> list[Queue]:
        """Those of the named queues that there are."""
        first = [Queue.parse(name, tenant, 1) for name in names]
        calls = [Call("shards", [head_key(first_shard(queue))], [""], reads=True) for queue in first]
        answers: list[Any] = await each(self._link, first[0], calls) if first else []
        found: list[Queue] = []
        for name, [(own, sibling)] in zip(names, answers, strict=True):
            queue = Queue.parse(name, tenant, int(own or sibling or 1))
            if own or (sibling and await self._has_shards(queue)):
                found.append(queue)
        return found

    async def _has_shards(self, queue: Queue) -> bool:
        # A companion is made where a job died, so it may be there without its shard 0 if its maker died as well.
        others = [Call("shards", [head_key(shard)], [""], reads=True) for shard in queue.all_shards()[1:]]
        return queue.is_companion and any(own for [(own, _)] in await each(self._link, queue, others))
