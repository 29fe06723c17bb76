"""`headrace jobs show`: everything known of a job, why it waits, and its whole life out of the journal."""

from pathlib import Path

import pytest

from headrace.cli.dead.list import dead_letter_cells
from headrace.cli.jobs.show import job_text
from headrace.cli.render import event_cells, gap_text
from headrace.inspect import timeline
from headrace.inspect.timeline import read_timeline
from headrace.inspect.views import dead_letter_row
from headrace.model.event import Event, EventRecord
from headrace.model.finished import DeadLetter, DeadLetterKey
from headrace.model.job import Job, Record, State
from headrace.model.names import Queue, Shard
from headrace.model.outcome import Done, Failed, JobError, Retried
from headrace.model.policy import DEFAULT_CONFIG, Policy
from headrace.model.results import Found
from headrace.stores.contract.store import Store
from headrace.stores.memory.store import MemoryStore
from tests.cli.job_states import MAIL, claim_all, finish_all, job
from tests.cli.support import Ran, run, with_store
from tests.support.stores import REWRITES

SHARD = Shard(MAIL, 0)


async def a_long_life(store: Store) -> None:
    """A job that failed, died, was replayed and is done at last, among others."""
    await finish_all(store, [job("before"), job("beside")], Done())
    first = Job(
        queue=MAIL, id="x/1", kind="send", tag="red", payload=b'{"to":"a"}', policy=Policy(result_ttl_ms=60_000)
    )
    await store.jobs.enqueue([first])
    url = "cannot reach redis://me:hunter2@cache:6379"
    for outcome in (
        Retried(JobError("OSError", url), delay_ms=0),
        Failed(JobError("ValueError", "bad\n\x1b[31mfield")),
    ):
        [claim] = await claim_all(store)
        await store.jobs.settle([claim.settle(outcome, run_ms=1_500)])
    await store.dead.replay(MAIL, ["x/1"])
    [claim] = await claim_all(store)
    await store.jobs.settle([claim.settle(Done(b'{"sent":1}'), run_ms=20)])
    await finish_all(store, [job("after")], Done())


LIFE = ["enqueued", "claimed", "retried", "claimed", "dead", "replayed", "claimed", "done"]


def test_show_tells_people_the_whole_life_of_a_job(url: str) -> None:
    """T33, T36: `inspect` of a job that is done."""
    with_store(url, a_long_life)

    ran = run("jobs", "show", "x/1", url=url)

    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[:4] == [
        "job x/1 on queue mail of tenant default",
        "state       done",
        "kind        send",
        "tag         red",
    ]
    assert '              "sent": 1' in ran.lines
    rows = ran.lines[ran.lines.index("") + 1 :]
    assert rows[0].split() == ["time", "event", "failures", "worker", "waited", "ran", "what"]
    assert [row.split()[1] for row in rows[2:]] == LIFE
    assert "worker-1" in rows[4]
    assert "1.5 s" in rows[4]
    assert "OSError: cannot reach redis://…@cache:6379" in rows[4]
    assert "failed; ValueError: bad; dead letter 0:1" in rows[6]
    assert "hunter2" not in ran.out


def test_show_gives_programs_everything_in_one_document(url: str) -> None:
    """T33, T36: `inspect` for programs."""
    with_store(url, a_long_life)

    shown = run("jobs", "show", "x/1", "--json", url=url).document
    bare = run("jobs", "show", "x/1", "--queue", "mail", "--no-payload", "--scan-max", "0", "--json", url=url).document

    assert (shown["state"], shown["queue"], shown["shard"], shown["why"]) == ("done", "mail", 0, None)
    assert shown["finished_job"]["result"] == {"sent": 1}
    assert shown["finished_job"]["pinned"] is True
    assert (shown["life"]["begins"], [event["event"] for event in shown["life"]["events"]]) == ("whole", LIFE)
    assert shown["life"]["looked"] < 20
    retried, dead = shown["life"]["events"][2], shown["life"]["events"][4]
    assert (retried["attempts"], retried["run_ms"], retried["error_class"]) == (1, 1_500, "OSError")
    assert retried["error_message"] == "cannot reach redis://…@cache:6379"
    assert (dead["reason"], dead["dead_letter"], dead["at"][-1]) == ("failed", 1, "Z")
    assert "result" not in bare["finished_job"]
    assert bare["life"]["events"] == []


def test_payloads_in_the_journal_are_not_shown_with_the_events(file_url: str) -> None:
    """So leaving payloads out leaves all of them out, and a life is not flooded by them."""

    async def carried(store: Store) -> None:
        await store.queues.configure(MAIL, {"journal_payloads": True})
        await store.jobs.enqueue([job("x/1", payload=b'{"iban":1}')])
        await store.jobs.enqueue([job("x/1", payload=b'{"iban":2}')])

    with_store(file_url, carried)

    whole, bare, text = (
        run("jobs", "show", "x/1", *options, url=file_url) for options in (["--json"], ["--json", "--no-payload"], [])
    )

    assert [event["event"] for event in whole.document["life"]["events"]] == ["enqueued", "updated"]
    assert (whole.out.count("iban"), bare.out.count("iban"), text.out.count("iban")) == (1, 0, 1)


def test_show_goes_on_behind_a_line_that_cannot_be_read(file_url: str, tmp_path: Path) -> None:
    async def damaged(store: Store) -> None:
        await a_long_life(store)
        await REWRITES["sqlite"](store, tmp_path, b'"run_ms":1500', b'"run_ms":"x"')

    with_store(file_url, damaged)

    ran, document = (
        run("jobs", "show", "x/1", url=file_url),
        run("jobs", "show", "x/1", "--json", url=file_url).document,
    )

    events = document["life"]["events"]
    assert [event["event"] for event in events] == LIFE
    assert ["flaw" in event for event in events] == [name in ("retried", "dead") for name in LIFE]
    assert sum("cannot be read" in line for line in ran.lines) == 2
    assert "2 lines of the journal cannot be read" in ran.err
    assert ran.code == 0


async def all_kinds_of_waiting(store: Store) -> None:
    """Jobs that wait for different reasons."""
    await store.jobs.enqueue([job("behind", payload=b'{"n":1}')])
    await claim_all(store)
    await store.jobs.enqueue([job("behind", kind="again", payload=b"\xff\x00"), job("due")])
    await store.jobs.enqueue(
        [Job(queue=MAIL, id="later", kind="send", delay_ms=60_000_000, policy=Policy(priority=7), headers={"a": "b"})]
    )
    await store.jobs.enqueue([job("alone", queue=Queue("empty")), job("held", queue=Queue("held"))])
    await store.queues.configure(Queue("held"), {"paused": True})


def test_show_says_why_a_job_waits(file_url: str) -> None:
    with_store(file_url, all_kinds_of_waiting)

    due, later, alone, held = (run("jobs", "show", id, url=file_url) for id in ("due", "later", "alone", "held"))

    assert due.lines[1] == "state       waiting: it is due and waits for a worker"
    assert later.lines[1].startswith("state       waiting: it is due in 16 h 39 m")
    assert any(line.startswith("policy      of the job: priority 7") for line in later.lines)
    assert "headers     a: b" in later.lines
    assert alone.lines[1] == (
        "state       waiting: it is due and waits for a worker; none has claimed from this queue within a day"
    )
    assert held.lines[1] == "state       waiting: its queue is paused; resume it"


def test_show_names_the_worker_of_a_job_and_the_blocked_job_behind_it(url: str) -> None:
    """T33: the lease of a job that runs, without its token."""
    with_store(url, all_kinds_of_waiting)

    document = run("jobs", "show", "behind", "--json", url=url).document
    seen = run("jobs", "show", "behind", url=url, terminal=True)

    assert document["state"] == "active"
    assert document["record"]["payload"] == {"n": 1}
    assert document["lease"]["worker"] == "worker-1"
    assert document["lease"]["fence"] >= 1
    assert document["blocked_job"]["kind"] == "again"
    assert document["blocked_job"]["payload"] == {"base64": "/wA="}
    assert document["policy"]["max_attempts"] == {"value": 10, "from": "queue"}
    assert "token" not in str(document)
    assert seen.code == 0
    assert "job behind on queue mail of tenant default" in seen.out
    assert any(line.startswith("lease       worker worker-1 for 2") for line in seen.lines)
    assert "blocked     waits behind the active one:" in seen.lines
    assert r"  payload     2 bytes that are not JSON: b'\xff\x00'" in seen.lines


def test_a_dropped_job_is_shown_by_its_timeline_and_an_unknown_one_is_reported(url: str) -> None:
    """T33: an unknown job is said to be unknown, and where it was looked for."""

    async def forget(store: Store) -> None:
        await finish_all(store, [job("gone")], Done())
        await store.jobs.remove(MAIL, ["gone"])

    with_store(url, forget)

    gone = run("jobs", "show", "gone", url=url)
    unknown = run("jobs", "show", "nobody", url=url)
    document = run("jobs", "show", "nobody", "--scan-max", "2", "--json", url=url)
    without = run("jobs", "show", "nobody", "--scan-max", "0", url=url)

    assert gone.code == 0
    assert gone.lines[1] == "state       gone: only the journal remembers it"
    assert [row.split()[1] for row in gone.lines[5:]] == ["enqueued", "claimed", "done", "removed"]
    assert unknown == Ran(
        1,
        "",
        "job 'nobody' is not known; looked in queue 'mail' of tenant 'default' and at 4 events of the journal\n",
    )
    assert (document.code, without.code) == (5, 1), "only a bound that was reached leaves it open"
    looked = {"events_looked": 2, "stopped_early": True}
    assert document.document == {"id": "nobody", "found": False, "queues": ["mail"], **looked}


async def test_a_life_is_read_backwards_and_no_further_than_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others before it, between its events and after it; a window holds a few events of many entries."""
    monkeypatch.setattr(timeline, "TIMELINE_WINDOW_EVENTS", 7)
    store = MemoryStore()
    for second in range(100):
        await store.jobs.enqueue([job(f"a{second}")], now_ms=second * 1_000)
    await store.jobs.enqueue([Job(queue=MAIL, id="x", kind="send", delay_ms=1)], now_ms=100_000)
    for second in range(101, 120):
        await store.jobs.enqueue([job(f"a{second}"), job(f"b{second}")], now_ms=second * 1_000)
    await store.jobs.cancel(MAIL, ["x"], now_ms=120_000)

    whole = await read_timeline(store, SHARD, "x", since_ms=100_000, scan_max=1_000)

    assert [(event.seq, event.line.event) for event in whole.events] == [(101, "enqueued"), (140, "cancelled")]
    assert whole.begins == "whole"
    assert gap_text(whole) is None
    assert 40 <= whole.looked <= 48


async def test_a_life_says_when_its_beginning_is_missing() -> None:
    """Once because the search was bounded, once because the journal does not keep it any more."""
    store = MemoryStore()
    await store.jobs.enqueue([job("x")], now_ms=1_000)
    for second in range(2, 50):
        await store.jobs.enqueue([job(f"a{second}")], now_ms=second * 1_000)
    await store.jobs.cancel(MAIL, ["x"], now_ms=50_000)

    bounded = await read_timeline(store, SHARD, "x", since_ms=1_000, scan_max=10)
    await store.queues.configure(MAIL, {"journal_keep_max": 20}, now_ms=51_000)
    await store.journal.trim(SHARD, now_ms=51_000)
    dropped = await read_timeline(store, SHARD, "x", since_ms=1_000, scan_max=1_000)

    assert [event.line.event for event in bounded.events] == ["cancelled"]
    assert gap_text(bounded) == (
        "the job's first event was not reached within 10 events (read back to 1970-01-01T00:00:41.000Z);"
        " raise --scan-max"
    )
    assert [event.line.event for event in dropped.events] == ["cancelled"]
    assert dropped.begins == "dropped"
    assert (gap_text(dropped) or "").startswith("the journal has dropped the job's first events")


def test_a_secret_is_hidden_before_its_text_is_cut() -> None:
    """A cut that falls behind a password leaves nothing by which it could be known as one."""
    message = "p" * 24 + "redis://me:hunter2@cache:6379"
    error = JobError("OSError", message)
    record = Record(id="x", kind="send", payload=b"null", run_at_ms=0, enqueued_at_ms=0)
    dead_letter = DeadLetter(DeadLetterKey(0, 1), record, "failed", error, 0, 1)
    line = EventRecord("retried", id="x", error_class="OSError", error_message=message)
    event = Event(shard=SHARD, epoch=1, seq=1, at_ms=0, line=line)
    found = Found("x", State.DEAD, record, dead_letters=(dead_letter,))

    texts = [
        *map(str, dead_letter_cells(dead_letter_row(MAIL, dead_letter, payload=False), 0)),
        *map(str, event_cells(event)),
        job_text(found, None, DEFAULT_CONFIG, 0, payload=True),
    ]

    assert "hunter2" not in " ".join(texts)
    assert "redis://…@" in " ".join(texts)
