"""Promises of `headrace queues`: what it shows is so, and what it changes is changed."""

from headrace.model.clock import SystemClock
from headrace.model.job import State
from headrace.model.names import Queue
from headrace.model.outcome import Cancelled, Done, Failed
from headrace.model.policy import QueueConfig
from headrace.model.results import Counts
from headrace.stores.contract.store import Store
from tests.cli.support import run, with_store
from tests.support.play import BOOM, Play

HOUR_MS = 3_600_000
MAIL = Queue("mail")


def playing(store: Store, name: str = "mail", *, tenant: str = "default", shards: int = 1) -> Play:
    """A queue of a store at the present."""
    play = Play(store, shards, name=name, tenant=tenant)
    play.now_ms = SystemClock().now_ms()
    return play


async def every_state(store: Store) -> None:
    """A queue with a job in every state, one that waits since an hour ago, and two queues beside it."""
    play = playing(store)
    for outcome in (Done(), Done(), Cancelled(), Failed(BOOM)):
        await play.settle(await play.start(f"over-{play.nonce()}"), outcome)
    await play.start("runs", worker="worker-7", lease_ms=HOUR_MS)
    await play.enqueue("runs")  # a blocked job, blocked by it
    await play.enqueue("tomorrow", run_at_ms=play.now_ms + 24 * HOUR_MS)
    play.now_ms -= HOUR_MS
    await play.enqueue("due")
    play.now_ms += HOUR_MS
    await playing(store, "idle").start("only", worker="worker-7", lease_ms=HOUR_MS)
    await store.queues.configure(Queue("idle"), {"paused": True})
    await playing(store, "reports", tenant="acme", shards=2).enqueue("one")


async def of_mail(store: Store) -> tuple[Counts, QueueConfig]:
    return await store.queues.counts(MAIL), await store.queues.configuration(MAIL)


def test_queues_are_listed_with_their_counts_and_a_total(url: str) -> None:
    """T34: what waits, runs, ended and died, and since when the first in line is due."""
    with_store(url, every_state)

    ran, everyone = run("queues", url=url), run("queues", "list", "--tenant", "*", url=url)

    assert (ran.code, ran.err, everyone.code, everyone.err) == (0, "", 0, "")
    head, _, idle, mail, total = ran.lines
    columns = "queue shards waiting later blocked active done cancelled dead oldest due paused"
    assert " ".join(head.split()) == columns
    assert idle.split() == ["idle", "1", "0", "0", "0", "1", "0", "0", "0", "–", "paused"]
    assert mail.split() == ["mail", "1", "2", "1", "1", "1", "2", "1", "1", "1", "h", "0", "m", "ago"]
    assert total == "2 queues: 2 waiting (1 later), 1 blocked, 2 active, 2 done, 1 cancelled, 1 dead"
    assert [line.split()[:3] for line in everyone.lines[2:-1]] == [
        ["acme", "reports", "2"],
        ["default", "idle", "1"],
        ["default", "mail", "1"],
    ]


def test_queues_are_listed_for_programs(url: str) -> None:
    with_store(url, every_state)

    ran = run("queues", "--json", url=url)

    idle, mail = ran.document["queues"]
    assert (ran.code, ran.err, ran.document["more"]) == (0, "", False)
    assert (idle["queue"], idle["paused"], idle["active"], idle["oldest_due_at"]) == ("idle", True, 1, None)
    assert (mail["tenant"], mail["queue"], mail["shards"], mail["paused"]) == ("default", "mail", 1, False)
    assert (mail["waiting"], mail["later"], mail["blocked"], mail["active"]) == (2, 1, 1, 1)
    assert (mail["done"], mail["cancelled"], mail["dead"]) == (2, 1, 1)
    assert HOUR_MS <= mail["oldest_due_ms_ago"] < HOUR_MS + 60_000
    assert ran.document["total"]["active"] == 2


def test_in_a_terminal_the_list_fits_and_a_question_is_asked(url: str) -> None:
    with_store(url, every_state)

    listed = run("queues", url=url, terminal=True)
    declined = run("queues", "purge", "mail", url=url, terminal=True, input="n\n")
    counts, _ = with_store(url, of_mail)
    agreed = run("queues", "purge", "mail", url=url, terminal=True, input="y\n")

    assert listed.code == 0
    assert [line.split()[0] for line in listed.lines[2:4]] == ["idle", "mail"]
    assert max(map(len, listed.lines)) <= 100
    assert "Drop 2 waiting jobs of queue 'mail' of tenant 'default' for good? [y/N]: " in declined.out
    assert (declined.code, declined.out.endswith(" nothing was changed\n"), counts.waiting) == (130, True, 2)
    assert (agreed.code, agreed.lines[-1]) == (0, "dropped 2 waiting jobs of queue 'mail'")


def test_without_queues_the_command_to_create_one_is_shown(file_url: str) -> None:
    async def nothing(store: Store) -> None:
        await store.health()

    with_store(file_url, nothing)
    fresh = run("queues", url=file_url)
    with_store(file_url, every_state)
    stranger = run("queues", "--tenant", "stranger", url=file_url)

    assert (fresh.code, fresh.err) == (0, "")
    assert fresh.out.startswith("there are no queues yet; the first job of a queue creates it")
    assert stranger.out == (
        "tenant 'stranger' has no queues; tenants with queues: acme, default; choose one with --tenant,"
        " or all of them with --tenant '*'\n"
    )


def test_a_queue_is_shown_whole_and_what_differs_from_the_default_is_marked(url: str) -> None:
    with_store(url, every_state)
    with_store(url, lambda store: store.queues.configure(MAIL, {"timeout_ms": 90_000, "fail_handler": True}))

    ran, programs = run("queues", "show", "mail", url=url), run("queues", "show", "mail", "--json", url=url)

    shown = programs.document
    assert (ran.code, ran.err, programs.code, programs.err) == (0, "", 0, "")
    assert [line.split() for line in ran.lines if line.startswith("*")] == [
        ["*", "fail_handler", "true", "false"],
        ["*", "timeout_ms", "90s", "0"],
    ]
    assert "Configuration, version 1; * differs from the default" in ran.lines
    assert ["backoff_ms_max", "5m"] in [line.split() for line in ran.lines]
    assert any(line.startswith("worker-7 ") and line.endswith("mail") for line in ran.lines)
    assert shown["queue"]["queue"] == "mail"
    assert [each["name"] for each in shown["settings"] if each["value"] != each["default"]] == [
        *("fail_handler", "timeout_ms")
    ]
    assert [(each["worker"], each["active"]) for each in shown["workers"]][-1] == ("worker-7", 1)
    [journal] = shown["journal"]
    assert journal["events"] == journal["last_seq"] - journal["first_seq"] + 1 > 10
    assert journal["bytes"] > 0
    assert journal["first_at"] <= journal["last_at"]


def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(url: str) -> None:
    with_store(url, every_state)

    first = run("queues", "pause", "mail", "idle", url=url)
    claimed = with_store(url, lambda store: playing(store).claim_ids())
    again = run("queues", "resume", "mail", "mail", "--json", url=url)
    claimed_then = with_store(url, lambda store: playing(store).claim_ids(nonce="another-nonce"))

    assert (first.code, first.err) == (0, "")
    assert first.lines == ["queue 'mail' paused", "queue 'idle' was already paused"]
    assert (claimed, claimed_then) == ([], ["due"])
    assert again.document == {"queues": [{"queue": "mail", "paused": False, "changed": True, "version": 2}]}


def test_a_change_of_the_configuration_shows_what_was_and_what_is(url: str) -> None:
    with_store(url, every_state)

    ran = run("queues", "configure", "mail", "timeout=30s", "max-attempts=5", "keep_done_ms=500", url=url)
    programs = run("queues", "configure", "mail", "fail_handler=on", "--if-version", "1", "--json", url=url)
    late = run("queues", "configure", "mail", "max_attempts=9", "--if-version", "1", "--json", url=url)

    assert (ran.code, ran.err) == (0, "")
    assert ran.lines == [
        "timeout_ms: 0 → 30s",
        "max_attempts: 10 → 5",
        "keep_done_ms: 1h → 500ms",
        "queue 'mail' has version 1 of its configuration",
    ]
    assert programs.document == {
        "queue": "mail",
        "tenant": "default",
        "version": 2,
        "changes": [{"name": "fail_handler", "before": False, "after": True}],
    }
    assert (late.code, '"reason":"version_changed"' in late.err) == (2, True)
    _, config = with_store(url, of_mail)
    assert (config.timeout_ms, config.max_attempts, config.keep_done_ms, config.fail_handler) == (30_000, 5, 500, True)


def test_configure_creates_a_queue_only_with_its_option(file_url: str) -> None:
    with_store(file_url, every_state)

    typo = run("queues", "configure", "mial", "timeout=30s", url=file_url)
    created = run("queues", "configure", "films", "timeout=1h", "--new", "--shards", "4", url=file_url)
    cut_anew = run("queues", "configure", "films", "timeout=2h", "--new", "--shards", "8", url=file_url)
    existing = run("queues", "configure", "films", "timeout=2h", "--new", url=file_url)

    assert (typo.code, typo.out) == (2, "")
    assert typo.err == "headrace: tenant 'default' has no queue 'mial'; did you mean 'mail'?\n"
    assert (created.code, existing.code, existing.lines[0]) == (0, 0, "timeout_ms: 1h → 2h")
    assert (cut_anew.code, "has 4 shards and keeps them" in cut_anew.err) == (2, True)


def test_purge_drops_the_waiting_jobs_and_nothing_else(url: str) -> None:
    """C38: a purge tells how many went."""

    async def crowd(store: Store) -> None:
        await every_state(store)
        play = playing(store)
        for first in range(0, 1_500, 500):
            await play.enqueue_all(*(play.job(f"crowd-{number}") for number in range(first, first + 500)))

    with_store(url, crowd)

    tried = run("queues", "purge", "mail", "--dry-run", "--json", url=url)
    unasked = run("queues", "purge", "mail", url=url)
    before, _ = with_store(url, of_mail)
    ran = run("queues", "purge", "mail", "--yes", url=url)

    assert tried.document == {"queue": "mail", "waiting": 1_502, "purged": 0, "dry_run": True}
    assert (unasked.code, unasked.out) == (2, "")
    assert "There is no terminal to answer in; add --yes to confirm" in unasked.err
    assert (ran.code, ran.out, ran.err) == (0, "dropped 1,502 waiting jobs of queue 'mail'\n", "")
    after, _ = with_store(url, of_mail)
    assert (before.waiting, after.waiting) == (1_502, 0)
    assert (after.blocked, after.active, after.done, after.cancelled, after.dead) == (1, 1, 2, 1, 1)


def test_delete_forgets_a_queue_that_has_no_jobs_left_and_refuses_another(url: str) -> None:
    async def old(store: Store) -> None:
        await every_state(store)
        play = playing(store, "old")
        for number in range(3):
            await play.settle(await play.start(f"done-{number}"), Done())

    async def left(store: Store) -> list[str]:
        return [queue.full_name for queue in (await store.queues.names("default")).rows]

    with_store(url, old)

    busy = run("queues", "delete", "mail", "--yes", url=url)
    unasked = run("queues", "delete", "old", "--json", url=url)
    tried = run("queues", "delete", "old", "--dry-run", url=url)
    ran = run("queues", "delete", "old", "--yes", "--json", url=url)

    assert (busy.code, busy.out) == (2, "")
    assert "queue 'mail' still has jobs (2 waiting, 1 blocked, 1 active)" in busy.err
    assert (unasked.code, "with 3 finished jobs, 0 dead letters and its journal?" in unasked.err) == (2, True)
    assert (tried.code, tried.out) == (0, "queue 'old' would be deleted\n")
    assert ran.document == {"queue": "old", "tenant": "default", "deleted": True, "dry_run": False}
    assert with_store(url, left) == ["idle", "mail"]


def test_the_fail_queue_of_a_queue_is_one_of_its_own(file_url: str) -> None:
    async def dying(store: Store) -> None:
        play = playing(store)
        await play.configure(fail_handler=True)
        await play.die("broken")

    async def waiting(store: Store) -> int:
        return len((await store.reads.list(MAIL.fail_queue, State.WAITING)).rows)

    with_store(file_url, dying)

    listed, ran = run("queues", url=file_url), run("queues", "purge", "mail.fail", "--yes", url=file_url)

    assert [line.split()[0] for line in listed.lines[2:-1]] == ["mail", "mail.fail"]
    assert (ran.out, with_store(file_url, waiting)) == ("dropped 1 waiting job of queue 'mail.fail'\n", 0)
