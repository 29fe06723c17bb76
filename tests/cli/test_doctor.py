"""`headrace doctor`: what is well, what to look at, what is wrong and what to do; and `--repair`, which does it."""

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from headrace.cli.doctor.checks import Check, Versions, run_checks, worst
from headrace.cli.doctor.command import repair
from headrace.cli.doctor.facts import StoreFacts, gather
from headrace.model.clock import SystemClock
from headrace.model.integrity import Findings
from headrace.model.job import Job
from headrace.model.names import Queue, Shard
from headrace.stores.contract.store import Store
from headrace.stores.memory.store import MemoryStore
from headrace.stores.redis.keys import prefix_of
from tests.cli.support import run, with_store
from tests.support.play import Play
from tests.support.servers import redis_server
from tests.support.stores import memory_rewrite

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
VERSIONS = Versions("1.0", "3.11", None)
CHECKS = ("store", "durability", "clock", "versions", "epochs", "queues", "journal", "quarantine", "damage")


def play_at(store: Store, ago_ms: int = 0) -> Play:
    """A play of the default tenant that began some time ago."""
    play = Play(store, tenant="default")
    play.now_ms = SystemClock().now_ms() - ago_ms
    return play


async def two_jobs(store: Store) -> None:
    await play_at(store).enqueue_all(*[Play(store, tenant="default").job(id) for id in ("a", "b")])


def damage(url: str) -> None:
    """Hide the job `a` from every claim."""
    if url.startswith("redis"):
        redis_server().ask("ZREM", prefix_of(Shard(Queue("mail"), 0)) + "r", "a")
        return
    with closing(sqlite3.connect(urlsplit(url).path.removeprefix("/"))) as connection, connection:
        connection.execute("UPDATE shard SET ready = 1")


async def claimed(store: Store) -> list[str]:
    """What is handed out until nothing is left."""
    play = play_at(store)
    return [*await play.claim_ids(), *await play.claim_ids()]


# Through the entry point.


def test_a_healthy_store_is_reported_check_by_check(url: str) -> None:
    with_store(url, two_jobs)

    ran = run("doctor", url=url)

    printed = {line.split()[0]: line for line in ran.lines[2:]}
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[0].split() == ["check", "found", "what", "to", "do"]
    assert tuple(printed) == CHECKS
    assert printed["store"].split()[1] == "ok"
    assert "1 queue, 2 jobs waiting, 0 running" in printed["queues"]
    assert "look" in printed["durability"], "neither a fast file nor a Redis without AOF is durable"


def test_json_tells_the_same(url: str) -> None:
    with_store(url, two_jobs)

    ran = run("doctor", "--json", url=url)

    found = ran.document
    assert (ran.code, ran.err, found["verdict"], found["repairs"]) == (0, "", "look", None)
    assert tuple(dict.fromkeys(each["check"] for each in found["checks"])) == CHECKS
    assert {each["status"] for each in found["checks"]} == {"ok", "look"}
    assert all(each["todo"] for each in found["checks"] if each["status"] != "ok")
    assert (found["queues"], found["more_queues"], found["health"]["clock_skew_ms"]) == (
        1,
        False,
        pytest.approx(0, abs=999),
    )


def test_damage_is_wrong_until_it_is_repaired_and_the_hidden_job_runs_once(url: str) -> None:
    """K29: what stands nowhere is found, put back, and handed out once."""
    with_store(url, two_jobs)
    damage(url)

    sick, repaired = run("doctor", url=url), run("doctor", "--repair", "--json", url=url)

    assert (sick.code, sick.err) == (1, "")
    [printed] = [line for line in sick.lines if line.startswith("damage")]
    assert ("counter ready is 1, but 2 were counted" in printed) or ("1 unindexed ('a')" in printed)
    assert "headrace doctor --repair" in printed
    document = repaired.document
    assert (repaired.code, repaired.err, document["verdict"]) == (0, "", "look")
    assert (document["repairs"]["recounted"], document["repairs"]["mended"]) in ((1, {}), (0, {"unindexed": 1}))
    assert sorted(with_store(url, claimed)) == ["a", "b"]


def test_in_a_terminal_repairs_are_listed_before_the_table(file_url: str) -> None:
    with_store(file_url, two_jobs)
    damage(file_url)

    ran = run("doctor", "--repair", url=file_url, terminal=True)

    assert ran.code == 0
    assert "repaired: corrected 1 counter" in ran.out
    assert "damage" in ran.out


def test_a_store_that_cannot_be_reached_ends_with_3(file_url: str) -> None:
    missing = run("doctor", url=file_url)

    assert (missing.code, missing.out) == (3, "")
    assert "there is no file" in missing.err


async def test_lines_of_a_journal_that_cannot_be_read_are_named_by_shard_and_seq(tmp_path: Path) -> None:
    store = MemoryStore()
    await two_jobs(store)
    await memory_rewrite(store, tmp_path, b'"priority":', b'"priority":"high","was":')

    [check] = await only(store, "wrong")

    assert check.check == "damage"
    assert check.found.startswith("'mail': the journal of shard 0 cannot be read at seq 1 and 1 others: ")


# What is found, and what is said of it.


async def only(store: Store, status: str, *, full: bool = False) -> list[Check]:
    """The checks with a status, without what holds of every store in memory."""
    checks = run_checks(await gather(store, full=full), VERSIONS)
    return [each for each in checks if each.status == status and each.check != "durability"]


async def paused(store: Store) -> None:
    play = play_at(store, 5 * MINUTE_MS)
    await play.enqueue("a")
    await play.configure(paused=True)


async def forsaken(store: Store) -> None:
    await play_at(store, 5 * MINUTE_MS).enqueue("a")


async def forsaken_by_a_worker(store: Store) -> None:
    play = play_at(store, 5 * MINUTE_MS)
    await play.claim()
    await play.enqueue("a")
    await play.claim(worker="gone")
    await play.enqueue("b")


async def leases_over(store: Store) -> None:
    play = play_at(store, 5 * MINUTE_MS)
    await play.start("a", lease_ms=1_000)


async def many_dead_letters(store: Store) -> None:
    play = play_at(store)
    await play.configure(keep_dead_max=5)
    for id in ("a", "b", "c", "d"):
        await play.die(id)


async def nearly_full(store: Store) -> None:
    play = play_at(store)
    await play.configure(waiting_max=5)
    await play.enqueue_all(*[play.job(id) for id in ("a", "b", "c", "d")])


async def silent_reader(store: Store) -> None:
    play = play_at(store, 2 * DAY_MS)
    await play.configure(paused=True)
    await store.journal.register(Shard(play.queue, 0), "spark", hold=True, now_ms=play.now_ms)


CASES: list[tuple[Callable[[Store], Awaitable[None]], str, str, str]] = [
    (paused, "look", "'mail' is paused with 1 job waiting", "headrace queues resume mail"),
    (forsaken, "wrong", "'mail' has had jobs due for 5 m 0 s and no worker was seen", "headrace worker --queues mail"),
    (forsaken_by_a_worker, "wrong", "and no worker was seen for 5 m 0 s", "headrace worker --queues mail"),
    (leases_over, "wrong", "'mail' has 1 lease that ran out", "headrace doctor --repair"),
    (many_dead_letters, "look", "'mail' has 4 of 5 dead letters", "headrace dead"),
    (nearly_full, "look", "'mail' has 4 of 5 waiting jobs", "raise waiting_max of mail"),
    (silent_reader, "look", "'spark' reads 'mail': 1 event behind, seen 2 d 0 h ago, holds", "forget"),
]


@pytest.mark.parametrize(("happen", "status", "found", "todo"), CASES, ids=[each[0].__name__ for each in CASES])
async def test_each_problem_is_reported_with_what_to_do(
    happen: Callable[[Store], Awaitable[None]], status: str, found: str, todo: str
) -> None:
    store = MemoryStore()
    await happen(store)

    checks = [each for each in await only(store, status) if found in each.found]

    assert len(checks) == 1
    assert todo in (checks[0].todo or "")
    assert status == "wrong" or await only(store, "wrong") == []


async def test_a_queue_that_is_worked_on_or_young_is_well() -> None:
    store = MemoryStore()
    play = play_at(store, 30_000)
    await play.start("a", lease_ms=1_000)
    await play.enqueue("b")
    await store.journal.register(Shard(play.queue, 0), "spark", hold=True)
    await play.enqueue_all(play.job("c", queue=Queue("nobody-has-come-yet")))

    assert await only(store, "look") == await only(store, "wrong") == []


async def test_a_repair_takes_back_leases_and_says_so() -> None:
    store = MemoryStore()
    await leases_over(store)
    steps: list[int] = []

    repairs = await repair(store, [Queue("mail")], steps.append)

    assert (repairs.leases, repairs.text, steps) == (1, "repaired: released 1 lease", [1])
    assert (await repair(store, [Queue("mail")], steps.append)).text == "nothing to repair"
    assert await only(store, "wrong") == []


async def facts() -> StoreFacts:
    return await gather(MemoryStore(), full=False)


@pytest.mark.parametrize(("skew_ms", "verdict"), [(1_000, "ok"), (-1_000, "ok"), (1_001, "look"), (-90_000, "look")])
async def test_clocks_that_differ_by_more_than_a_second_are_to_be_looked_at(skew_ms: int, verdict: str) -> None:
    known = await facts()
    health = replace(known.health, clock_skew_ms=skew_ms, notes=())

    checks = run_checks(replace(known, health=health), VERSIONS)

    assert worst(checks) == verdict
    assert [each.status for each in checks if each.check == "clock"] == [verdict]


@pytest.mark.parametrize(
    ("epoch", "profile", "status", "words"),
    [
        (1, "fast", "ok", "never lost"),
        (
            1_700_000_000_000,
            "fast",
            "look",
            "began at 2023-11-14T22:13:20.000Z: a start or failover may have lost the moments before it",
        ),
        (1_700_000_000_000, "durable", "ok", "may have lost the moments before it; its profile is durable"),
    ],
)
async def test_a_risen_epoch_is_reported_as_a_tail_that_may_be_lost(
    epoch: int, profile: str, status: str, words: str
) -> None:
    store = MemoryStore()
    await two_jobs(store)
    known = await gather(store, full=False)
    [queue] = known.queues
    risen = replace(queue, shards=[[Findings(epoch=1)], [Findings(epoch=epoch)]])

    checks = run_checks(replace(known, queues=[risen], health=replace(known.health, profile=profile)), VERSIONS)

    [check] = [each for each in checks if each.check == "epochs"]
    assert (check.status, words in check.found) == (status, True)


async def test_queues_with_the_same_finding_are_listed_while_they_are_few_and_counted_when_they_are_many() -> None:
    store = MemoryStore()
    now_ms = SystemClock().now_ms()
    names = [f"queue-{number:04}" for number in range(1_001)]
    jobs = [Job(queue=Queue(name), id="a", kind="send") for name in names]
    for start in range(0, len(jobs), 1_000):
        await store.jobs.enqueue(jobs[start : start + 1_000], now_ms=now_ms - 5 * MINUTE_MS)
    for name in names[:10]:
        await store.queues.configure(Queue(name), {"paused": True}, now_ms=now_ms)
    for name in names:
        await store.journal.register(Shard(Queue(name), 0), "spark", hold=True, now_ms=now_ms)

    checks = run_checks(await gather(store, full=False), VERSIONS)

    found = [each.found for each in checks if each.check in ("queues", "journal")]
    assert len(checks) < 25
    assert [text for text in found if "is paused" in text] == [
        f"'{name}' is paused with 1 job waiting" for name in names[:10]
    ]
    assert found[10:] == [
        (
            "991 queues have had jobs due for more than 1 m 0 s and no worker was seen: 'queue-0010', 'queue-0011',"
            " 'queue-0012' and 988 more"
        ),
        "1,001 queues are read by 'spark': 'queue-0000', 'queue-0001', 'queue-0002' and 998 more",
    ]
    [idle] = [each for each in checks if each.found == found[10]]
    assert (idle.status, idle.todo) == ("wrong", "for each, as in: start one: headrace worker --queues queue-0010")


async def test_a_partial_check_is_reported_as_partial() -> None:
    store = MemoryStore()
    await two_jobs(store)
    known = await gather(store, full=False)
    [queue] = known.queues

    checks = run_checks(replace(known, queues=[replace(queue, shards=[[Findings(cursor="more")]])]), VERSIONS)

    [check] = [each for each in checks if each.check == "damage"]
    assert (check.status, check.found) == ("ok", "only part of mail was checked; --full checks every record")
