"""Finds a job by its id or by a unique prefix, such as a narrow table shows."""

from collections.abc import Sequence
from functools import partial

from headrace.inspect.jobs import JobScan
from headrace.inspect.lookup import look_at_each
from headrace.model.errors import Refused
from headrace.model.job import State
from headrace.model.limits import ID_CANDIDATES_MAX
from headrace.model.names import Queue
from headrace.model.results import Found
from headrace.model.validate import cut
from headrace.stores.contract.store import Store
from headrace.stores.shared.cursors import write_cursor

ELLIPSES = ("…", "...")
_BY_ID = (State.WAITING, State.ACTIVE, State.DONE, State.CANCELLED)
"""States whose lists are in the order of ids; a blocked job has the id of an active one."""


async def find_job(store: Store, queues: Sequence[Queue], id: str) -> tuple[Queue, Found] | None:
    """The job of this id in the first queue that has it."""
    async for queue, [found] in look_at_each(queues, lambda queue: store.reads.find(queue, [id])):
        if found is not None:
            return queue, found
    return None


def prefix_of(text: str) -> str | None:
    """The beginning of an id that a table cut (`0194a3b2…`); None for a whole id."""
    return next((prefix for end in ELLIPSES if (prefix := text.removesuffix(end)) not in ("", text)), None)


async def whole_id(store: Store, queues: Sequence[Queue], text: str) -> str:
    """The id itself, or the only id with the prefix that a table cut (`0194a3b2…`).

    Only a marked prefix is completed here: a command that cancels a job must not take another job because the named one
    is gone.
    """
    prefix = prefix_of(text)
    if prefix is None or await find_job(store, queues, text) is not None:
        return text
    return await complete_id(store, queues, prefix) or text


async def complete_id(store: Store, queues: Sequence[Queue], prefix: str) -> str | None:
    """The only id of these queues with this prefix, None if there is none.

    Raises `Refused` with some of the ids if there are several. Records are found by index, dead letters by a scan."""
    matches: set[str] = set()
    async for _, ids in look_at_each(queues, partial(_ids_with, store, prefix)):
        matches |= ids
    if len(matches) > 1:
        shown = sorted(matches)[:ID_CANDIDATES_MAX]
        more = " and more" if len(matches) > len(shown) else ""
        raise Refused(
            "ambiguous_id",
            f"several ids begin with {cut(prefix)!r}: {', '.join(map(repr, shown))}{more}; write more of the id",
        )
    return next(iter(matches), None)


async def _ids_with(store: Store, prefix: str, queue: Queue) -> set[str]:
    """Ids of a queue with this prefix, at most one more than are shown."""
    [exact] = await store.reads.find(queue, [prefix])
    ids = set() if exact is None else {prefix}
    for state in _BY_ID:
        for index in range(queue.shards):
            # The list is by shard, then id: ids with the prefix follow the prefix itself.
            cursor = write_cursor(index, prefix)
            page = await store.reads.list(queue, state, cursor=cursor, limit=ID_CANDIDATES_MAX + 1)
            ids.update(row.id for row in page.rows if row.id.startswith(prefix))
    dead_letters = JobScan(store, [queue], (State.DEAD,))
    while not dead_letters.is_over and len(ids) <= ID_CANDIDATES_MAX:
        ids.update(job.id for job in await dead_letters.take() if job.id.startswith(prefix))
    return ids
