"""Shows jobs, their results and their dead letters the same way on every store."""

from typing import Any

import msgspec
import pytest

from headrace.inspect.dead_letters import DeadLetterQuery, find_dead_letters, list_dead_letters, show_dead_letter
from headrace.inspect.details import JobDetails, UnknownJob, show_job
from headrace.inspect.results import read_result
from headrace.model.errors import Refused
from headrace.model.job import Job
from headrace.model.outcome import Failed, JobError
from headrace.stores.contract.store import Store
from tests.inspect.conftest import MAIL, WEB, enqueue, settle


async def shown(store: Store, id: str, *, payload: bool = True) -> dict[str, Any]:
    """The JSON of a job."""
    details = await show_job(store, "acme", None, id, scan_max=1_000)
    assert isinstance(details, JobDetails)
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(details.view(payload=payload)))
    return found


async def test_an_active_job_is_shown_with_its_lease_and_the_blocked_one_behind_it(store: Store) -> None:
    job = await shown(store, "active")

    assert (job["found"], job["tenant"], job["queue"], job["state"]) == (True, "acme", "mail", "active")
    assert job["shard"] == MAIL.index_of("active")
    assert (job["lease"]["worker"], job["lease"]["cancel_asked"]) == ("worker-1", False)
    assert (job["record"]["payload"], job["blocked_job"]["payload"]) == (None, {"base64": "/wA="})
    assert job["policy"]["max_attempts"] == {"value": 10, "from": "queue"}
    assert "token" not in str(job)


async def test_a_done_job_is_shown_with_its_result_and_its_events(store: Store) -> None:
    job, bare = await shown(store, "done"), await shown(store, "done", payload=False)

    assert (job["record"], job["finished_job"]["result"]) == (None, {"sent": 1})
    assert "result" not in bare["finished_job"]
    assert (job["life"]["begins"], [each["event"] for each in job["life"]["events"]]) == (
        "whole",
        ["enqueued", "claimed", "done"],
    )
    assert job["life"]["events"][-1]["run_ms"] == 20


async def test_a_waiting_job_says_why_it_waits(store: Store) -> None:
    later = await shown(store, "later")
    await store.queues.configure(MAIL, {"paused": True})
    await enqueue(store, "soon")

    assert later["why"] == "it is due in 16 h 40 m"
    assert (await shown(store, "soon"))["why"] == "its queue is paused; resume it"


async def test_a_removed_job_is_shown_by_its_events(store: Store) -> None:
    await store.jobs.remove(MAIL, ["done"])

    job = await shown(store, "done")

    assert (job["found"], job["state"], "record" in job) == (True, None, False)
    assert [each["event"] for each in job["life"]["events"]][-1] == "removed"


async def test_an_unknown_job_comes_with_where_it_was_looked_for(store: Store) -> None:
    unknown = await show_job(store, "acme", None, "nobody", scan_max=1_000)
    bounded = await show_job(store, "acme", None, "nobody", scan_max=1)

    assert isinstance(unknown, UnknownJob)
    assert isinstance(bounded, UnknownJob)
    assert (unknown.queues, unknown.stopped_early, bounded.stopped_early) == (["mail", "web"], False, True)
    assert unknown.text("acme").startswith(
        "job 'nobody' is not known; looked in the 2 queues of tenant 'acme' (mail, web) and at"
    )


async def test_a_result_is_read_with_the_status_of_its_job(store: Store) -> None:
    ids = ("done", "dead", "cancelled", "active", "nobody")

    results = [await read_result(store, "acme", None, id, wait_ms=0) for id in ids]

    assert [each.status for each in results] == ["done", "dead", "cancelled", "not_ended", "not_found"]
    assert msgspec.json.encode(results[0].view()) == b'{"id":"done","queue":"mail","status":"done","result":{"sent":1}}'
    assert (results[1].reason, results[1].error) == ("failed", JobError("ValueError", "bad field"))


async def test_dead_letters_are_listed_by_filter_without_payloads(store: Store) -> None:
    every = await list_dead_letters(store, "acme", None, DeadLetterQuery(), cursor=None, limit=10)
    first = await list_dead_letters(store, "acme", None, DeadLetterQuery(), cursor=None, limit=1)
    rest = await list_dead_letters(store, "acme", None, DeadLetterQuery(), cursor=first.cursor, limit=1)
    by_class = await list_dead_letters(
        store, "acme", "mail", DeadLetterQuery(error_class="ValueError", since="1h"), cursor=None, limit=10
    )

    assert [row.error.class_ for row in every.dead_letters if row.error is not None] == ["OSError", "ValueError"]
    assert first.dead_letters + rest.dead_letters == every.dead_letters
    assert (rest.cursor, [row.reason for row in by_class.dead_letters]) == (None, ["failed"])
    assert not any("payload" in msgspec.to_builtins(row) for row in every.dead_letters)
    assert "hunter2" not in str(every)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"reason": "boredom"}, "'boredom' is not a reason of death; reasons: attempts, stalls, failed, expired"),
        ({"kind": "a\udcff"}, "kind"),
    ],
)
def test_a_query_that_no_dead_letter_can_match_is_refused(query: dict[str, str], message: str) -> None:
    with pytest.raises(Refused, match=message):
        DeadLetterQuery(**query)


async def test_a_dead_letter_is_found_by_its_key_and_the_newest_by_the_id_of_its_job(store: Store) -> None:
    oldest, newest = (
        await list_dead_letters(store, "acme", None, DeadLetterQuery(), cursor=None, limit=2)
    ).dead_letters

    names = ["dead", oldest.dead_letter, "0:999", "nobody"]
    found = await find_dead_letters(store, "acme", None, names)

    assert [each.key for each in found] == [newest.dead_letter, oldest.dead_letter, None, None]
    assert (found[0].dead_letters, found[0].queue) == (2, MAIL)


async def test_a_dead_letter_is_shown_with_its_policy_and_its_events(store: Store) -> None:
    details = await show_dead_letter(store, "acme", None, "dead", scan_max=1_000)

    assert details is not None
    view = msgspec.json.decode(msgspec.json.encode(details.view()))
    assert (view["found"], view["id"], view["reason"], view["dead_letters"]) == (True, "dead", "failed", 2)
    assert (view["payload"], view["error"]["class"]) == ({"width": 640}, "ValueError")
    assert view["life"]["events"][-1]["event"] == "dead"
    assert await show_dead_letter(store, "acme", None, "nobody", scan_max=10) is None


async def test_a_name_that_two_queues_know_is_refused(store: Store) -> None:
    await store.jobs.enqueue([Job(queue=WEB, id="dead", kind="crawl")])
    await settle(store, Failed(JobError("E")), WEB)

    with pytest.raises(Refused, match="names dead letters of the queues mail and web; choose one with --queue"):
        await find_dead_letters(store, "acme", None, ["dead"])
    assert (await find_dead_letters(store, "acme", "web", ["dead"]))[0].dead_letters == 1
