"""Finds the jobs whose ids a person or a narrow table shortened."""

from collections.abc import Sequence
from functools import partial

from headrace.cli.job_scan import JobScan
from headrace.cli.queue_lookup import locate, look_at_each
from headrace.model.errors import Refused
from headrace.model.job import State
from headrace.model.limits import ID_CANDIDATES_MAX
from headrace.model.names import Queue
from headrace.model.validate import cut
from headrace.stores.contract.store import Store
from headrace.stores.shared.cursors import write_cursor

ELLIPSES = ("…", "...")
_BY_ID = (State.WAITING, State.ACTIVE, State.DONE, State.CANCELLED)
"""States whose lists are in the order of ids; a blocked job has the id of an active one."""


def prefix_of(text: str) -> str | None:
    """What an id begins with that a table cut (`0194a3b2…`); None for one that is whole."""
    return next((prefix for end in ELLIPSES if (prefix := text.removesuffix(end)) not in ("", text)), None)


async def whole_id(store: Store, queues: Sequence[Queue], text: str) -> str:
    """The id that was written, or for one that a table cut the one that begins so.

    A beginning must be marked as one here: what is cancelled, or printed as a result, must not be another job because
    the one that was named is gone.
    """
    prefix = prefix_of(text)
    if prefix is None or await locate(store, queues, text) is not None:
        return text
    return await complete(store, queues, prefix) or text


async def complete(store: Store, queues: Sequence[Queue], prefix: str) -> str | None:
    """The one id in these queues that begins so, None when there is none.

    Raises `Refused` with some of them where there are several. Records are found by their order, dead letters one by
    one."""
    found: set[str] = set()
    async for _, ids in look_at_each(queues, partial(_ids, store, prefix)):
        found |= ids
    if len(found) > 1:
        shown = sorted(found)[:ID_CANDIDATES_MAX]
        more = " and more" if len(found) > len(shown) else ""
        raise Refused(
            "ambiguous_id",
            f"several ids begin with {cut(prefix)!r}: {', '.join(map(repr, shown))}{more}; write more of the one you"
            " mean",
        )
    return next(iter(found), None)


async def _ids(store: Store, prefix: str, queue: Queue) -> set[str]:
    """Ids of a queue that begin so: more than are shown where there are more."""
    [exact] = await store.reads.find(queue, [prefix])
    found = set() if exact is None else {prefix}
    for state in _BY_ID:
        for index in range(queue.shards):
            # The list is by shard, then id: those that begin so come next behind the prefix itself.
            cursor = write_cursor(index, prefix)
            page = await store.reads.list(queue, state, cursor=cursor, limit=ID_CANDIDATES_MAX + 1)
            found.update(row.id for row in page.rows if row.id.startswith(prefix))
    dead_letters = JobScan(store, [queue], (State.DEAD,))
    while not dead_letters.over and len(found) <= ID_CANDIDATES_MAX:
        found.update(seen.id for seen in await dead_letters.take() if seen.id.startswith(prefix))
    return found
