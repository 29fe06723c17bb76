"""Resolves the queues of requests: the token must cover them, and a name alone means the queue as it is."""

import re
from collections import OrderedDict
from collections.abc import Sequence

from headrace.model.clock import monotonic_ms
from headrace.model.errors import Refused
from headrace.model.limits import QUEUE_CACHE_MAX, QUEUE_CACHE_MS
from headrace.model.names import FAIL_QUEUE_SUFFIX, Queue, Shard, check_queue_name
from headrace.model.validate import bounded_repr
from headrace.service.operation import Call
from headrace.service.problems import RequestProblem
from headrace.stores.catalog import find_queue
from headrace.stores.contract.store import Store
from headrace.wire.queues import QueueBody, QueueField

_INDEX = re.compile(r"[0-9]{1,3}", re.ASCII)


class KnownQueues:
    """Remembers for some seconds how many shards queues have: each request would ask for it otherwise."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: OrderedDict[tuple[str, str], tuple[Queue, int]] = OrderedDict()

    async def find(self, tenant: str, full_name: str) -> Queue | None:
        """The queue of a tenant by name, if there is one."""
        key, now_ms = (tenant, full_name), monotonic_ms()
        known = self._found.get(key)
        if known is not None and now_ms < known[1]:
            return known[0]
        queue = await find_queue(self._store, tenant, full_name)
        if queue is None:
            self._found.pop(key, None)
            return None
        self._found[key] = queue, now_ms + QUEUE_CACHE_MS
        self._found.move_to_end(key)
        if len(self._found) > QUEUE_CACHE_MAX:
            self._found.popitem(last=False)
        return queue

    def forget(self, queue: Queue) -> None:
        """Look for the queue again: it has another number of shards than was remembered."""
        self._found.pop((queue.tenant, queue.full_name), None)


async def queue_of_field(call: Call, field: QueueField) -> Queue:
    """The queue of a body member; with shards as they were given, else as they are, else one."""
    if isinstance(field, str):
        return await _named(call, field, None)
    return await _named(call, field.full_name, field)


async def _named(call: Call, full_name: str, body: QueueBody | None) -> Queue:
    name = full_name.removesuffix(FAIL_QUEUE_SUFFIX)
    check_queue_name(name if body is None else body.name)
    call.caller.check_name(full_name)
    if body is not None and body.shards is not None:
        return Queue(body.name, call.tenant, body.shards, body.fail_queue)
    found = await call.service.queues.find(call.tenant, full_name)
    return found if found is not None else Queue.parse(full_name, call.tenant, 1)


async def queues_of_fields(call: Call, fields: Sequence[QueueField]) -> list[Queue]:
    """The queues of a body member, in order."""
    return [await queue_of_field(call, field) for field in fields]


async def path_queue(call: Call, shards: int | None = None) -> Queue:
    """The queue in the path; one shard for a queue that does not exist, unless `shards` says more."""
    full_name = call.path["queue"]
    name = full_name.removesuffix(FAIL_QUEUE_SUFFIX)
    check_queue_name(name)
    call.caller.check_name(full_name)
    if shards is not None:
        return Queue(name, call.tenant, shards, name != full_name)
    found = await call.service.queues.find(call.tenant, full_name)
    return found if found is not None else Queue.parse(full_name, call.tenant, 1)


async def known_path_queue(call: Call) -> Queue:
    """The queue in the path; refuses an unknown one."""
    full_name = call.path["queue"]
    check_queue_name(full_name.removesuffix(FAIL_QUEUE_SUFFIX))
    call.caller.check_name(full_name)
    found = await call.service.queues.find(call.tenant, full_name)
    if found is None:
        raise RequestProblem(
            "unknown_queue", f"there is no queue {bounded_repr(full_name)}; its first job or configuration creates it"
        )
    return found


async def path_shard(call: Call, shards: int | None = None) -> Shard:
    """The shard in the path."""
    queue, text = await path_queue(call, shards), call.path["shard"]
    if not _INDEX.fullmatch(text):
        raise Refused("bad_shard", f"shard {bounded_repr(text)} is not a number; use 0 to {queue.shards - 1}")
    return Shard(queue, int(text))
