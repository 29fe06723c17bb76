"""Those who wait for the end of a job: what they look at before they sleep, and under which names they are woken."""

from collections.abc import Iterable, Sequence

from headrace.model.limits import DURATION_MS_MAX
from headrace.model.names import Queue
from headrace.model.validate import check_int
from headrace.stores.calls.jobs import by_shard, check_ids
from headrace.stores.transitions.rows import Tx

JobName = tuple[str, str, str]
"""A job as those who wait for its end know it: tenant and full name of its queue, and its id."""


def names_of(queue: Queue, ids: Iterable[str]) -> list[JobName]:
    """The names under which jobs are watched, each once."""
    tenant, name = queue.tenant, queue.full_name
    return [(tenant, name, id) for id in dict.fromkeys(ids)]


def check_ended(queue: Queue, ids: Sequence[str], timeout_ms: object) -> None:
    """Refuse a wait that can never be right."""
    check_ids(queue, ids)
    check_int("timeout_ms", timeout_ms, 0, DURATION_MS_MAX)


def has_ended(tx: Tx, queue: Queue, ids: Sequence[str]) -> bool:
    """Whether one of the jobs neither waits nor runs, or has an ending that is kept."""
    now_ms = tx.now_ms()
    for shard, picks in by_shard(ids, lambda id: (queue, id)):
        rows = tx.rows(shard)
        if rows is None:
            return True
        wanted = [ids[index] for index in picks]
        rows.load(wanted)
        for id in wanted:
            if rows.job(id) is None:
                return True
            ending = rows.ending(id)
            if ending is not None and now_ms < ending.until_ms:
                return True
    return False
