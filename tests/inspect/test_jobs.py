"""Lists, searches and finds jobs the same way on every store."""

import msgspec
import pytest

from headrace.inspect.job_ids import complete_id, find_job, whole_id
from headrace.inspect.jobs import list_jobs
from headrace.inspect.lookup import queues_of
from headrace.inspect.search import JobFilter, read_filter, search_jobs
from headrace.model.errors import Refused
from headrace.model.job import State
from headrace.stores.contract.store import Store
from tests.inspect.conftest import MAIL, WEB

EVERY_STATE = {
    ("later", State.WAITING),
    ("page", State.WAITING),
    ("active", State.ACTIVE),
    ("active", State.BLOCKED),
    ("done", State.DONE),
    ("cancelled", State.CANCELLED),
    ("dead", State.DEAD),
}


async def test_pages_of_a_list_hold_every_job_of_every_queue_in_the_order_of_states(store: Store) -> None:
    page = await list_jobs(store, "acme", None, None, cursor=None, limit=3)
    rows, sizes = list(page.jobs), [len(page.jobs)]
    while page.cursor is not None:
        page = await list_jobs(store, "acme", None, None, cursor=page.cursor, limit=3)
        rows += page.jobs
        sizes.append(len(page.jobs))

    assert sizes == [3, 3, 2]
    assert {(row.id, row.state) for row in rows} == EVERY_STATE
    states = [row.state for row in rows]
    assert states[:4] == [State.ACTIVE, State.WAITING, State.WAITING, State.BLOCKED]
    assert states[6:] == [State.DEAD, State.DEAD]
    ends = [row.ended_at_ms for row in rows[4:6]]
    assert ends == sorted(ends, key=lambda at_ms: -(at_ms or 0))


async def test_a_row_has_the_fields_of_its_state_and_no_secret(store: Store) -> None:
    page = await list_jobs(store, "acme", "mail", None, cursor=None, limit=100)
    jobs = msgspec.to_builtins(page)["jobs"]
    rows = {(row["id"], row["state"]): row for row in jobs}

    active, dead = rows["active", "active"], [row for row in jobs if row["state"] == "dead"][-1]
    assert (active["worker"], active["ended_at"], active["run_at"], active["error"]) == ("worker-1", None, None, None)
    assert active["lease_expires_at_ms"] - active["enqueued_at_ms"] >= 600_000
    assert (active["lease_expires_at"][-1], rows["active", "blocked"]["worker"]) == ("Z", None)
    assert rows["later", "waiting"]["run_at_ms"] - rows["later", "waiting"]["enqueued_at_ms"] == 60_030_000
    assert dead["error"] == {"class": "OSError", "message": "cannot reach redis://…@cache:6379"}
    assert dead["dead_letter"].partition(":")[0] == str(MAIL.index_of("dead"))
    assert (rows["done", "done"]["tag"], rows["done", "done"]["dead_letter"]) == ("red", None)


async def test_a_cursor_of_another_list_is_refused(store: Store) -> None:
    page = await list_jobs(store, "acme", None, State.DEAD, cursor=None, limit=1)

    assert page.cursor is not None
    with pytest.raises(Refused, match="does not belong to a list with these options"):
        await list_jobs(store, "acme", "mail", State.DONE, cursor=page.cursor, limit=1)


async def test_an_unknown_queue_is_refused_with_the_nearest_name_and_is_not_created(store: Store) -> None:
    with pytest.raises(Refused, match="tenant 'acme' has no queue 'mial'; did you mean 'mail'"):
        await list_jobs(store, "acme", "mial", None, cursor=None, limit=1)

    assert [queue.full_name for queue in await queues_of(store, "acme")] == ["mail", "web"]


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        (JobFilter(text="VALUEERROR"), ["dead"]),
        (JobFilter(text="width"), ["dead", "dead"]),
        (JobFilter(kind="again"), ["active"]),
        (JobFilter(tag="red"), ["done"]),
        (JobFilter(id_prefix="ca"), ["cancelled"]),
        (JobFilter(payload="640", kind="resize"), ["dead", "dead"]),
        (JobFilter(enqueued_before_ms=1), []),
    ],
    ids=["error", "payload text", "kind", "tag", "id", "payload", "time"],
)
async def test_a_search_looks_at_all_states_and_queues(store: Store, where: JobFilter, ids: list[str]) -> None:
    result = await search_jobs(store, "acme", None, None, where, limit=10, scan_max=100)

    assert ([job.id for job in result.jobs], result.looked, result.stopped) == (ids, 8, None)


async def test_a_search_says_which_bound_ended_it(store: Store) -> None:
    where = read_filter(await store.now_ms(), newer_than="1h")

    by_limit = await search_jobs(store, "acme", None, None, where, limit=2, scan_max=100)
    by_scan = await search_jobs(store, "acme", None, None, where, limit=10, scan_max=3)

    assert (len(by_limit.jobs), by_limit.looked, by_limit.stopped) == (2, 2, "limit")
    assert (len(by_scan.jobs), by_scan.looked, by_scan.stopped) == (3, 3, "scan_max")


async def test_a_job_is_found_by_its_id_in_whichever_queue_it_is(store: Store) -> None:
    queues = await queues_of(store, "acme")

    found, unknown = await find_job(store, queues, "page"), await find_job(store, queues, "nobody")

    assert found is not None
    assert (found[0], found[1].state, unknown) == (WEB, State.WAITING, None)


async def test_a_beginning_is_completed_if_one_id_has_it(store: Store) -> None:
    queues = await queues_of(store, "acme")

    assert await complete_id(store, queues, "de") == "dead"
    assert await complete_id(store, queues, "x") is None
    assert [await whole_id(store, queues, text) for text in ("pa…", "lat...", "ac")] == ["page", "later", "ac"]
    with pytest.raises(Refused, match="several ids begin with 'd': 'dead', 'done'; write more of the id"):
        await complete_id(store, queues, "d")
