"""Promises of `headrace workers`: who claimed lately, from which queues, and what each holds."""

from headrace.model.clock import SystemClock
from headrace.stores.contract.store import Store
from tests.cli.support import run, with_store
from tests.support.play import Play

HOUR_MS = 3_600_000


async def two_workers(store: Store) -> None:
    """One that has just claimed from two queues and holds three jobs, one that was last seen an hour ago."""
    for name, jobs in (("mail", 2), ("films", 1)):
        play = Play(store, name=name, tenant="default")
        play.now_ms = SystemClock().now_ms()
        await play.enqueue_all(*(play.job(f"{name}-{number}") for number in range(jobs)))
        play.now_ms -= HOUR_MS
        await play.claim(worker="early", nonce=f"early-{name}-nonce") if name == "mail" else None
        play.now_ms += HOUR_MS
        await play.claim(9, worker="late", nonce=f"late-{name}-nonce", lease_ms=HOUR_MS)


def test_workers_are_shown_the_latest_first_with_what_they_hold(url: str) -> None:
    with_store(url, two_workers)

    ran, programs = run("workers", url=url), run("workers", "--json", url=url)
    one = run("workers", "--queue", "films", "--json", url=url)

    assert (ran.code, ran.err, programs.code, programs.err) == (0, "", 0, "")
    head, _, late, early = ran.lines
    assert head.split() == ["worker", "seen", "active", "queues"]
    assert (late.split()[0], late.split()[-4:]) == ("late", ["ago", "3", "films,", "mail"])
    assert early.split() == ["early", "1", "h", "0", "m", "ago", "0", "mail"]
    assert [(each["worker"], each["queues"], each["active"]) for each in programs.document["workers"]] == [
        ("late", ["films", "mail"], 3),
        ("early", ["mail"], 0),
    ]
    assert HOUR_MS <= programs.document["workers"][1]["seen_ms_ago"] < HOUR_MS + 60_000
    assert [(each["worker"], each["active"]) for each in one.document["workers"]] == [("late", 1)]


def test_in_a_terminal_workers_are_shown_or_the_command_to_start_one(file_url: str) -> None:
    async def nothing(store: Store) -> None:
        await store.health()

    with_store(file_url, nothing)
    none = run("workers", url=file_url)
    with_store(file_url, two_workers)
    ran = run("workers", url=file_url, terminal=True)

    assert (none.code, none.err) == (0, "")
    assert none.out.startswith("no worker has claimed a job within the last day; start one with: headrace worker")
    assert [line.split()[0] for line in ran.lines[2:]] == ["late", "early"]
