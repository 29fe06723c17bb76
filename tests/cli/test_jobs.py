"""`headrace jobs list`, `search` and `result`: what there is, found by what is known of it."""

import json

from headrace.cli.jobs.list import short_ids
from headrace.model.job import Job, new_job
from headrace.model.names import Queue
from headrace.model.outcome import Done, JobError
from headrace.stores.contract.store import Store
from tests.cli.job_states import MAIL, claim_all, finish_all, job, kill_all
from tests.cli.support import Ran, run, start, with_store

OTHER = Queue("other")


async def every_state(store: Store) -> None:
    """One job in each state, and one more in another queue."""
    await kill_all(store, [job("dead", tag="red", payload=b'{"user":42}')], JobError("KeyError", "no such User"))
    await finish_all(store, [job("done")], Done(b'{"sent":true}'))
    await store.jobs.enqueue([job("active")])
    await claim_all(store)
    await store.jobs.enqueue([job("active", kind="again")])
    await store.jobs.enqueue([job("cancelled")])
    await store.jobs.cancel(MAIL, ["cancelled"])
    await store.jobs.enqueue([job("due", tag="red"), Job(queue=MAIL, id="later", kind="remind", delay_ms=7_200_000)])
    await store.jobs.enqueue([job("other", queue=OTHER, payload=b'{"user":7}')])


STANDING = [
    ("mail", "active", "active"),
    ("mail", "due", "waiting"),
    ("other", "other", "waiting"),
    ("mail", "later", "waiting"),
    ("mail", "active", "blocked"),
    ("mail", "cancelled", "cancelled"),
    ("mail", "done", "done"),
    ("mail", "dead", "dead"),
]
"""What `every_state` leaves, in the order of a list."""


def ids(ran: Ran) -> list[str]:
    """The ids in a JSON answer."""
    return [row["id"] for row in ran.document["jobs"]]


def test_list_shows_what_is_under_way_and_then_what_is_over(url: str) -> None:
    """T34, T36: `list` for people."""
    with_store(url, every_state)

    whole = run("jobs", "list", url=url)
    one = run("jobs", "list", "--queue", "mail", "--state", "waiting", url=url)
    seen = run("jobs", "list", "--state", "active", url=url, terminal=True)

    assert (whole.code, whole.err) == (0, "")
    assert whole.lines[0].split() == ["queue", "id", "kind", "state", "failures", "when", "tag"]
    assert [(row[0], row[1], row[3]) for row in (line.split() for line in whole.lines[2:])] == STANDING
    assert one.lines[0].split() == ["id", "kind", "state", "failures", "when", "tag"]
    [due, later] = one.lines[2:]
    assert due.split()[:6] == ["due", "send", "waiting", "0", "due", "for"]
    assert due.endswith("red")
    assert "due in 1 h 59 m" in later
    assert seen.code == 0
    assert "lease for 2" in seen.out


def test_list_gives_programs_every_job_once_page_by_page(url: str) -> None:
    """T34, T36: `list` with a limit and an opaque cursor; the last page, though full, says that it is the last."""
    with_store(url, every_state)

    pages = [run("jobs", "list", "--limit", "4", "--json", url=url)]
    while (cursor := pages[-1].document["cursor"]) is not None:
        pages.append(run("jobs", "list", "--limit", "4", "--cursor", cursor, "--json", url=url))

    rows = [row for page in pages for row in page.document["jobs"]]
    assert [(row["queue"], row["id"], row["state"]) for row in rows] == STANDING
    assert [len(page.document["jobs"]) for page in pages] == [4, 4]
    assert {page.err for page in pages} == {""}
    active, dead = rows[0], rows[7]
    assert (active["worker"], active["lease_expires_at_ms"] > 0) == ("worker-1", True)
    assert (dead["dead_letter"], dead["error"]) == ("0:1", {"class": "KeyError", "message": "no such User"})
    assert (dead["tag"], dead["attempts"], dead["ended_at"][-1]) == ("red", 1, "Z")


def test_list_shows_the_newest_of_those_that_have_ended_first(url: str) -> None:
    async def act(store: Store) -> None:
        now_ms = await store.now_ms()
        for number in range(5):
            await finish_all(store, [job(f"done-{number}")], Done(b"1"), now_ms=now_ms - 60_000 * (5 - number))
            await kill_all(store, [job(f"dead-{number}")], now_ms=now_ms - 60_000 * (5 - number))

    with_store(url, act)

    first = run("jobs", "list", "--state", "done", "--limit", "2", "--json", url=url)
    second = run("jobs", "list", "--state", "done", "--cursor", first.document["cursor"], "--json", url=url)
    recent = run("jobs", "list", "--since", "150s", "--json", url=url)

    assert ids(first) + ids(second) == ["done-4", "done-3", "done-2", "done-1", "done-0"]
    assert ids(recent) == ["done-4", "done-3", "dead-4", "dead-3"]
    assert recent.document["cursor"] is None


def test_list_is_narrowed_to_a_kind(url: str) -> None:
    with_store(url, every_state)

    ran = run("jobs", "list", "--kind", "remind", "--json", url=url)
    nothing = run("jobs", "list", "--kind", "nobody", url=url)

    assert ids(ran) == ["later"]
    assert nothing.out == "no jobs\n"


def test_a_terminal_shows_the_first_part_of_generated_ids_and_other_commands_take_it(file_url: str) -> None:
    async def act(store: Store) -> None:
        jobs = [new_job(MAIL, "send", b"1", fresh_id="01a1f4a6-397e-7e28-a661-13ca4c42d9e0")]
        await store.jobs.enqueue([*jobs, job("a-chosen-id-that-is-rather-long-and-stays")])

    with_store(file_url, act)

    shown = run("jobs", "list", url=file_url, terminal=True)
    piped = run("jobs", "list", url=file_url)
    whole = run("jobs", "show", "01a1f4a6-397e…", "--json", url=file_url)

    assert "01a1f4a6-397e…" in shown.out
    assert "01a1f4a6-397e-7e28-a661-13ca4c42d9e0" not in shown.out
    assert "a-chosen-id" in shown.out
    assert "01a1f4a6-397e-7e28-a661-13ca4c42d9e0" in piped.out
    assert whole.code == 0


def test_short_ids_are_as_long_as_it_takes_to_tell_them_apart() -> None:
    one, two = "01a1f4a6-397e-7e28-a661-13ca4c42d9e0", "01a1f4a6-397e-7e29-a661-13ca4c42d9e0"

    assert short_ids([one, "mine"]) == {one: "01a1f4a6-397e…", "mine": "mine"}
    assert short_ids([one, two]) == {one: "01a1f4a6-397e-7e28…", two: "01a1f4a6-397e-7e29…"}


def test_list_refuses_a_cursor_that_it_did_not_give(file_url: str) -> None:
    """T34: a bad cursor is told as one, and so is that of another list."""
    with_store(file_url, every_state)
    other = run("jobs", "list", "--state", "waiting", "--limit", "1", "--json", url=file_url).document["cursor"]

    nonsense = run("jobs", "list", "--cursor", "nonsense", url=file_url)
    elsewhere = run("jobs", "list", "--state", "dead", "--cursor", other, url=file_url)

    sentence = "headrace: the cursor does not belong to a list with these options; start without a cursor\n"
    assert nonsense == Ran(2, "", sentence)
    assert elsewhere == Ran(2, "", sentence)


def test_a_list_of_nothing_says_so_and_an_unknown_queue_is_refused_with_the_nearest(file_url: str) -> None:
    with_store(file_url, every_state)

    nothing = run("jobs", "list", "--tenant", "nobody", url=file_url)
    unknown = run("jobs", "list", "--queue", "mial", "--json", url=file_url)

    assert nothing == Ran(0, "no jobs\n", "")
    assert (unknown.code, unknown.out) == (2, "")
    assert json.loads(unknown.err)["reason"] == "unknown_queue"
    assert "did you mean 'mail'?" in unknown.err


def test_search_finds_jobs_in_all_states_by_text_and_by_field(url: str) -> None:
    """T33: whatever its state, a job is found by what is known of it."""
    with_store(url, every_state)

    by_error = run("jobs", "search", "no such user", url=url)
    by_payload = run("jobs", "search", "--payload", '"user":', "--json", url=url)
    by_tag = run("jobs", "search", "--tag", "red", "--state", "waiting", "--json", url=url)
    by_kind = run("jobs", "search", "--kind", "again", "--id-prefix", "act", "--json", url=url)
    none = run("jobs", "search", "--older-than", "1h", url=url)

    assert (by_error.code, by_error.lines[2].split()[:3]) == (0, ["dead", "send", "dead"])
    assert by_error.err == "searched all 8 jobs\n"
    assert ids(by_payload) == ["other", "dead"]
    assert (by_payload.document["looked"], by_payload.document["stopped"], by_payload.err) == (8, None, "")
    assert ids(by_tag) == ["due"]
    assert [(row["id"], row["state"]) for row in by_kind.document["jobs"]] == [("active", "blocked")]
    assert none == Ran(1, "no job matches\n", "searched all 8 jobs\n")


def test_a_search_that_stopped_at_its_bound_does_not_end_like_one_that_found_none(url: str) -> None:
    with_store(url, every_state)

    stopped = run("jobs", "search", "--kind", "nowhere", "--scan-max", "3", url=url)
    programs = run("jobs", "search", "--kind", "nowhere", "--scan-max", "3", "--json", url=url)
    found = run("jobs", "search", "due", "--scan-max", "3", url=url)
    none = run("jobs", "search", "--kind", "nowhere", "--scan-max", "8", url=url)

    assert stopped == Ran(
        5,
        "no job matches among those searched, and there are more\n",
        "searched 3 jobs and stopped there; raise --scan-max to search further\n",
    )
    assert (programs.code, programs.document) == (5, {"jobs": [], "looked": 3, "stopped": "scan_max"})
    assert (found.code, found.lines[2].split()[0]) == (0, "due")
    assert none == Ran(1, "no job matches\n", "searched all 8 jobs\n")


def test_search_says_how_far_it_looked_when_it_stops_early(file_url: str) -> None:
    with_store(file_url, every_state)

    bounded = run("jobs", "search", "--scan-max", "3", url=file_url)
    enough = run("jobs", "search", "--limit", "2", "--newer-than", "1h", url=file_url)
    exact = run("jobs", "search", "--scan-max", "8", "--json", url=file_url)
    seen = run("jobs", "search", "other", url=file_url, terminal=True)

    assert [line.split()[1] for line in bounded.lines[2:]] == ["due", "later", "other"]
    assert bounded.err == "searched 3 jobs and stopped there; raise --scan-max to search further\n"
    assert enough.err == "searched 2 jobs and stopped: more match than --limit 2\n"
    assert (len(ids(exact)), exact.document["stopped"]) == (8, None)
    assert (seen.code, seen.lines[-1]) == (0, "searched all 8 jobs")


def test_a_time_that_is_none_is_refused(file_url: str) -> None:
    with_store(file_url, every_state)

    ran = run("jobs", "search", "--older-than", "yesterday", url=file_url)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "headrace: older_than 'yesterday' is not a valid time; use 30s, 2h or 7d for how long ago, or an instant such"
        " as 2030-01-31T12:00:00Z\n"
    )


def test_result_prints_what_the_handler_returned_and_nothing_else(url: str) -> None:
    """C38: `task result`."""
    with_store(url, every_state)

    text = run("jobs", "result", "done", url=url)
    document = run("jobs", "result", "done", "--json", url=url)

    assert text == Ran(0, '{"sent":true}\n', "")
    assert document.document == {"id": "done", "queue": "mail", "status": "done", "result": {"sent": True}}


def test_result_tells_why_there_is_none(file_url: str) -> None:
    """C38: `task result` of a job that failed, was cancelled, goes on, or is not known."""
    with_store(file_url, every_state)

    dead = run("jobs", "result", "dead", url=file_url)
    document = run("jobs", "result", "dead", "--json", url=file_url)
    cancelled = run("jobs", "result", "cancelled", url=file_url)
    waiting = run("jobs", "result", "later", "--wait", "1ms", url=file_url)
    unknown = run("jobs", "result", "nobody", url=file_url)

    assert dead == Ran(1, "", "job 'dead' died (failed) of KeyError: no such User\n")
    assert document.code == 1
    assert document.document["reason"] == "failed"
    assert document.document["error"] == {"class": "KeyError", "message": "no such User"}
    assert cancelled == Ran(1, "", "job 'cancelled' was cancelled and has no result\n")
    assert (waiting.code, waiting.out) == (1, "")
    assert waiting.err.startswith("job 'later' has not ended in time, it is waiting (it is due in 1 h 59 m")
    assert unknown == Ran(
        1, "", "job 'nobody' is not known; looked in the 2 queues of tenant 'default' (mail, other)\n"
    )


def test_result_waits_for_a_job_that_goes_on(url: str) -> None:
    """C38: `task result` of a job that is still to end."""
    with_store(url, lambda store: store.jobs.enqueue([job("slow")]))

    async def end(store: Store) -> None:
        [claim] = await claim_all(store)
        await store.jobs.settle([claim.settle(Done(b"[1,2]"))])

    with start("jobs", "result", "slow", "--wait", "50s", url=url) as waiting:
        with_store(url, end)
        out, err = waiting.communicate(timeout=60)

    assert (waiting.returncode, out, err) == (0, "[1,2]\n", "")
