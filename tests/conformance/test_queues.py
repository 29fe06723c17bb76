"""Queues: configured live, counted, listed, kept apart by tenant, emptied and deleted."""

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import asdict, replace

from headrace.model.claim import ClaimRequest, Lease
from headrace.model.errors import Refused
from headrace.model.finished import DeadLetterKey
from headrace.model.job import State
from headrace.model.names import Queue, Shard
from headrace.model.outcome import Cancelled, Done, Failed, Released, Retried
from headrace.model.policy import SETTABLE, Policy, QueueConfig
from headrace.model.results import Counts
from headrace.stores.catalog import find_queue
from tests.support.play import BOOM, Play


async def names(play: Play, tenant: str = "acme") -> list[str]:
    """The names of all queues of a tenant."""
    return [queue.full_name for queue in (await play.store.queues.names(tenant, limit=1_000)).rows]


# Configuration.


async def test_a_new_queue_has_the_documented_defaults(play: Play) -> None:
    """TB2: a job without a budget of its own gets the documented ten attempts."""
    config = await play.store.queues.configuration(play.queue)

    assert (config.version, config.paused, config.fail_handler) == (0, False, False)
    assert (config.priority, config.max_attempts, config.max_stalls) == (5, 10, 3)
    assert (config.backoff_ms, config.backoff_ms_max) == (2_000, 300_000)
    assert (config.keep_done_ms, config.keep_done_max) == (3_600_000, 10_000)
    assert (config.keep_dead_ms, config.idempotency_ttl_ms) == (30 * 24 * 3_600_000, 24 * 3_600_000)
    assert config.journal_bytes_max == 256 * 1024 * 1024


async def test_configure_changes_only_its_settings_and_raises_the_version(play: Play) -> None:
    first = await play.configure(max_attempts=4, paused=True)
    second = await play.configure(paused=False)

    assert (first.version, first.max_attempts, first.paused) == (1, 4, True)
    assert (second.version, second.max_attempts, second.paused) == (2, 4, False)
    assert await play.store.queues.configuration(play.queue) == second


async def test_configure_takes_every_setting_and_keeps_it(play: Play) -> None:
    wanted: dict[str, object] = {name: name in ("paused", "fail_handler", "journal_payloads") or 7 for name in SETTABLE}

    await play.store.queues.configure(play.queue, wanted, now_ms=play.now_ms)

    assert asdict(await play.store.queues.configuration(play.queue)) == {**wanted, "version": 1}


async def test_configure_with_the_version_in_force_is_granted(play: Play) -> None:
    old = await play.configure(max_attempts=4)

    new = await play.store.queues.configure(play.queue, {"max_attempts": 5}, version=old.version, now_ms=play.now_ms)

    assert (new.version, new.max_attempts) == (old.version + 1, 5)


async def test_configure_with_an_older_version_is_refused_and_changes_nothing(play: Play) -> None:
    await play.configure(max_attempts=4)
    await play.configure(max_attempts=5)
    before = await play.snapshot()

    with pytest.raises(Refused) as refused:
        await play.store.queues.configure(play.queue, {"max_attempts": 6}, version=1, now_ms=play.now_ms)

    assert refused.value.reason == "version_changed"
    assert (await play.store.queues.configuration(play.queue)).max_attempts == 5
    assert await play.snapshot() == before


async def test_a_refused_version_does_not_make_the_queue(play: Play) -> None:
    with pytest.raises(Refused):
        await play.store.queues.configure(play.queue, {"paused": True}, version=3, now_ms=play.now_ms)

    assert await names(play) == []


async def test_version_zero_is_the_initial_configuration(play: Play) -> None:
    config = await play.store.queues.configure(play.queue, {"paused": True}, version=0, now_ms=play.now_ms)

    assert config.version == 1


BAD_SETTINGS: list[dict[str, object]] = [
    {"colour": "blue"},
    {"version": 7},
    {"paused": "yes"},
    {"paused": 1},
    {"fail_handler": None},
    {"priority": 10},
    {"priority": -1},
    {"priority": None},
    {"timeout_ms": -1},
    {"max_attempts": 0},
    {"max_stalls": 0},
    {"backoff_ms": -1},
    {"backoff_ms_max": 1.5},
    {"result_ttl_ms": -1},
    {"idempotency_ttl_ms": -1},
    {"keep_done_ms": "1h"},
    {"keep_done_max": -1},
    {"keep_dead_ms": 2**60},
    {"keep_dead_max": True},
    {"waiting_max": -1},
    {"journal_keep_ms": -1},
    {"journal_keep_max": -1},
    {"journal_bytes_max": -1},
    {"max_attempts": 3, "colour": "blue"},
]


async def test_configure_refuses_unknown_settings_and_bad_values_and_changes_nothing(play: Play) -> None:
    await play.configure(max_attempts=4)
    before = (await play.snapshot(), await play.store.queues.configuration(play.queue))

    granted = [changes for changes in BAD_SETTINGS if await sentence(play.configure(**changes)) is None]

    assert granted == []
    assert (await play.snapshot(), await play.store.queues.configuration(play.queue)) == before


async def sentence(call: Awaitable[object]) -> str | None:
    """The error of a refused call; None when it is granted."""
    try:
        await call
    except Refused as refused:
        return str(refused)
    return None


async def test_a_refused_setting_does_not_make_the_queue(play: Play) -> None:
    with pytest.raises(Refused):
        await play.configure(colour="blue")

    assert await names(play) == []


# Coming to be.


async def test_a_queue_is_created_by_the_first_enqueue(play: Play) -> None:
    await play.enqueue("a")

    assert (await play.store.queues.names("acme")).rows == [play.queue]


async def test_a_queue_is_created_by_the_first_configure(play: Play) -> None:
    await play.configure(paused=True)

    assert (await play.store.queues.names("acme")).rows == [play.queue]


async def test_asking_after_a_queue_does_not_make_it(play: Play) -> None:
    await play.store.queues.configuration(play.queue)
    await play.store.queues.purge(play.queue, now_ms=play.now_ms)
    await play.store.queues.delete(play.queue)
    await play.claims(10)
    await play.repair()
    await play.cancel("a")
    await play.remove("a")
    await play.find("a")
    await play.counts()
    await play.dead_letters()
    await play.replay("a")
    await play.store.reads.list(play.queue, State.WAITING, now_ms=play.now_ms)
    await play.store.reads.workers(play.queue, now_ms=play.now_ms)
    await play.store.reads.finished_job(play.queue, "a", now_ms=play.now_ms)
    await play.snapshot()
    await play.store.signals.wait([play.queue], 0)
    await play.store.signals.ended(play.queue, ["a"], 1_000)

    assert await names(play) == []
    assert (await play.store.queues.tenants()).rows == []


# Pausing.


async def test_a_paused_queue_hands_nothing_out_until_it_is_resumed(play: Play) -> None:
    await play.enqueue("a")
    await play.configure(paused=True)

    paused = await play.claims(10)
    await play.configure(paused=False)
    resumed = await play.claim(10)

    assert (paused.items, paused.next_at_ms) == ([], None)
    assert [claim.record.id for claim in resumed] == ["a"]


async def test_a_paused_queue_takes_jobs_in_and_ends_running_ones(play: Play) -> None:
    claim = await play.start("a")
    await play.configure(paused=True)

    enqueued = await play.enqueue("b")
    extended = await play.extend(claim.lease)
    settled = await play.settle(claim)

    assert (enqueued.status, extended.status, settled.status) == ("created", "extended", "done")


async def test_a_paused_queue_is_repaired_by_claims_all_the_same(play: Play) -> None:
    """CB10: repair does not depend on handing out."""
    await play.start("a", lease_ms=1_000)
    await play.configure(paused=True)

    waiting = await play.claims()
    play.advance(1_000)
    await play.claims()

    assert waiting.next_at_ms == play.now_ms
    record = await play.record("a")
    assert (await play.state("a"), record.stalls) == (State.WAITING, 1)


async def test_a_paused_queue_promotes_jobs_whose_time_has_come(play: Play) -> None:
    await play.enqueue("a", delay_ms=1_000)
    await play.configure(paused=True)

    play.advance(1_000)
    await play.claims()

    assert (await play.counts()).later == 0


async def test_a_claim_goes_past_a_paused_queue_to_the_next_one(play: Play) -> None:
    other = Play(play.store, play.queue.shards, name="other")
    await play.enqueue("a")
    await other.enqueue("b")
    await play.configure(paused=True)

    claims = await play.claim(10, queues=[play.queue, other.queue])

    assert [claim.record.id for claim in claims] == ["b"]


# Live defaults.


async def test_a_new_default_budget_holds_for_jobs_that_wait_already(play: Play) -> None:
    """Q11: limits live in the configuration and change at once."""
    await play.enqueue("a")
    await play.configure(max_attempts=1)

    answer = await play.settle(await play.claim_one(), Retried(BOOM))

    assert answer.status == "dead"


async def test_a_new_default_holds_for_deliveries_that_run_already(play: Play) -> None:
    """Q11: also for the delivery that is about to end."""
    claim = await play.start("a")
    await play.configure(backoff_ms=70)

    answer = await play.settle(claim, Retried(BOOM))

    assert answer.run_at_ms == play.now_ms + 70


async def test_a_new_default_timeout_reaches_the_next_claim(play: Play) -> None:
    await play.enqueue("a")
    await play.configure(timeout_ms=1_234)

    assert (await play.claim_one()).timeout_ms == 1_234


async def test_a_new_default_leaves_jobs_alone_that_set_the_field_themselves(play: Play) -> None:
    await play.enqueue("a", policy=Policy(max_attempts=2, timeout_ms=9))
    await play.configure(max_attempts=1, timeout_ms=1_234)

    claim = await play.claim_one()
    answer = await play.settle(claim, Retried(BOOM))

    assert claim.timeout_ms == 9
    assert answer.status == "retried"


async def test_a_new_stall_budget_holds_for_leases_that_run_out(play: Play) -> None:
    await play.start("a", lease_ms=1_000)
    await play.configure(max_stalls=1)

    play.advance(1_000)
    await play.repair()

    assert [dead_letter.reason for dead_letter in await play.dead_letters()] == ["stalls"]


async def test_a_queue_is_full_at_waiting_max_and_takes_more_when_something_leaves(play: Play) -> None:
    await play.configure(waiting_max=2)
    ids = play.ids(3)

    answers = [(await play.enqueue(id)).status for id in ids]
    again = (await play.enqueue(ids[0])).status
    await play.claim_one()
    freed = (await play.enqueue(ids[2])).status

    assert answers == ["created", "created", "full"]
    assert (again, freed) == ("updated", "created")


# Counts.


async def test_counts_are_the_jobs_by_state(play: Play) -> None:
    """CB8: the counts are those of this tenant and queue, in every state."""
    await play.settle(await play.start("done"), Done())
    await play.settle(await play.start("cancelled"), Cancelled())
    await play.die("dead")
    await play.start("active")
    await play.enqueue("active")
    await play.enqueue("ready")
    await play.enqueue("later", delay_ms=1_000)

    counts = await play.counts()

    assert counts == Counts(
        waiting=2, later=1, blocked=1, active=1, done=1, cancelled=1, dead=1, oldest_due_ms=play.now_ms
    )


async def test_counts_follow_every_transition_down_to_nothing(play: Play) -> None:
    await play.configure(keep_done_max=0, keep_dead_max=0)
    for number in range(9):
        await play.enqueue(f"job-{number}", delay_ms=number % 2)
    claims = await play.claim(4, lease_ms=100)
    await play.enqueue_all(*[play.job(claim.lease.id) for claim in claims])
    await play.settle(claims[0], Retried(BOOM, 5))
    await play.settle(claims[1], Done())
    await play.cancel(claims[2].lease.id, running=True)
    await play.remove(claims[3].lease.id)
    play.advance(100)
    await play.repair()

    busy = await play.counts()
    while claims := await play.claim(100):
        for claim in claims:
            await play.settle(claim)
    idle = await play.counts()

    assert (busy.waiting, busy.active, busy.blocked) == (7, 0, 0)
    assert idle == Counts()


async def test_later_counts_waiting_jobs_until_they_are_promoted(play: Play) -> None:
    await play.enqueue("a", delay_ms=1_000)

    early = await play.counts()
    play.advance(1_000)
    due = await play.counts()
    await play.configure(paused=True)
    await play.claims()
    promoted = await play.counts()

    assert (early.waiting, early.later, early.oldest_due_ms) == (1, 1, None)
    assert (due.waiting, due.oldest_due_ms) == (1, play.now_ms)
    assert (promoted.waiting, promoted.later, promoted.oldest_due_ms) == (1, 0, play.now_ms)


async def test_oldest_due_is_the_longest_waiting_job_of_any_priority(play: Play) -> None:
    start_ms = play.now_ms
    await play.enqueue("old", policy=Policy(priority=0))
    play.advance(50)
    await play.enqueue("new", policy=Policy(priority=9))

    both = await play.counts()
    await play.cancel("old")
    one = await play.counts()
    await play.cancel("new")
    none = await play.counts()

    assert (both.oldest_due_ms, one.oldest_due_ms, none.oldest_due_ms) == (start_ms, start_ms + 50, None)


async def test_oldest_due_of_a_past_time_is_the_enqueue(play: Play) -> None:
    await play.enqueue("a", run_at_ms=5)

    assert (await play.counts()).oldest_due_ms == play.now_ms


async def test_oldest_due_of_a_retried_job_is_the_time_it_was_due_again(play: Play) -> None:
    await play.settle(await play.start("a"), Retried(BOOM, 100))
    due_ms = play.now_ms + 100

    play.advance(500)

    assert (await play.counts()).oldest_due_ms == due_ms


async def test_an_unknown_queue_counts_nothing(play: Play) -> None:
    assert await play.counts() == Counts()


# Names and tenants.


async def test_queues_are_listed_by_name_page_by_page(play: Play) -> None:
    wanted = ["Zebra", "alpha", "beta", "beta.2", "gamma"]
    for name in reversed(wanted):
        await Play(play.store, play.queue.shards, name=name).enqueue("a")

    pages = [await play.store.queues.names("acme", limit=2)]
    while pages[-1].cursor is not None:
        pages.append(await play.store.queues.names("acme", cursor=pages[-1].cursor, limit=2))
        assert len(pages) < 10

    assert [queue.name for page in pages for queue in page.rows] == wanted
    assert all(len(page.rows) <= 2 for page in pages)
    assert {queue.shards for page in pages for queue in page.rows} == {play.queue.shards}


async def test_fail_queues_are_listed_with_their_queues(play: Play) -> None:
    await play.configure(fail_handler=True)
    await play.die("a")

    assert (await play.store.queues.names("acme")).rows == [play.queue, play.queue.fail_queue]


async def test_a_list_of_names_goes_on_where_it_was_when_queues_come_and_go(play: Play) -> None:
    for name in ("a", "b", "c", "d"):
        await Play(play.store, play.queue.shards, name=name).configure(paused=True)

    first = await play.store.queues.names("acme", limit=2)
    await play.store.queues.delete(Queue("b", "acme", play.queue.shards))
    await Play(play.store, play.queue.shards, name="aa").configure(paused=True)
    second = await play.store.queues.names("acme", cursor=first.cursor, limit=2)

    assert [[queue.name for queue in page.rows] for page in (first, second)] == [["a", "b"], ["c", "d"]]


async def test_a_queue_is_found_by_its_name_among_those_that_are_called_alike(play: Play) -> None:
    names = ["Mail", "mai", "mail-2", "mail.2", "mailz", "mail", "m"]
    for name in names:
        await Play(play.store, play.queue.shards, name=name).configure(fail_handler=True)
    await Play(play.store, 1, name="mail", tenant="other").configure(paused=True)
    await Play(play.store, 1, name="post", tenant="other").configure(paused=True)
    await play.die("a")

    found = [await find_queue(play.store, "acme", name) for name in names]
    missing = [
        await find_queue(play.store, "acme", name)
        for name in ("mailx", "mai.fail", "ma", "zz", "0", "post", "", ".fail", "mail box", "mail\udcff", "mail\x7f")
    ]

    assert found == [Queue(name, "acme", play.queue.shards) for name in names]
    assert await find_queue(play.store, "acme", "mail.fail") == play.queue.fail_queue
    assert missing == [None] * 11


async def test_tenants_are_listed_by_name_page_by_page(play: Play) -> None:
    for tenant in ("umbrella", "acme", "initech"):
        for name in ("mail", "media"):
            await Play(play.store, play.queue.shards, name=name, tenant=tenant).enqueue("a")

    first = await play.store.queues.tenants(limit=2)
    second = await play.store.queues.tenants(cursor=first.cursor, limit=2)

    assert (first.rows, second.rows, second.cursor) == (["acme", "initech"], ["umbrella"], None)


async def test_a_tenant_sees_its_own_queues_only(play: Play) -> None:
    """C1: a queue belongs to its tenant."""
    await play.enqueue("a")
    await Play(play.store, 1, name="secret", tenant="other").enqueue("a")

    assert await names(play, "acme") == ["mail"]
    assert await names(play, "other") == ["secret"]
    assert await names(play, "nobody") == []


# Tenants kept apart.


async def test_claims_are_of_one_tenant(play: Play) -> None:
    """C5: a worker of one tenant is never handed another's job."""
    other = Play(play.store, play.queue.shards, tenant="other")
    await play.enqueue("a", payload=b"1")
    await other.enqueue("a", payload=b"2")

    mine, theirs = await play.claim(10), await other.claim(10)

    assert [(claim.lease.queue, claim.record.payload) for claim in mine] == [(play.queue, b"1")]
    assert [(claim.lease.queue, claim.record.payload) for claim in theirs] == [(other.queue, b"2")]


async def test_idempotency_keys_are_of_one_tenant(play: Play) -> None:
    """CB5: the same key of another tenant neither finds nor hinders."""
    other = Play(play.store, play.queue.shards, tenant="other")
    first = await play.enqueue(idempotency_key="k", payload=b"1")

    second = await other.enqueue(idempotency_key="k", payload=b"2")
    third = await other.enqueue("b", idempotency_key="k", payload=b"3")

    assert (second.status, third.status) == ("created", "created")
    assert second.id != first.id
    assert await other.find(first.id) is None


async def test_the_same_id_is_independent_in_each_tenant_and_queue(play: Play) -> None:
    """C1: every structure is per tenant and queue."""
    plays = [play] + [
        Play(play.store, play.queue.shards, name=name, tenant=tenant)
        for name, tenant in (("mail", "other"), ("media", "acme"))
    ]
    for each in plays:
        await each.start("a")

    await play.cancel("a", running=True)
    await plays[1].remove("a")
    await plays[2].enqueue("a")

    found = [await each.find("a") for each in plays]
    assert [each and (each.state, each.cancel_asked, each.blocked_job is not None) for each in found] == [
        (State.ACTIVE, True, False),
        None,
        (State.ACTIVE, False, True),
    ]


async def test_a_lease_of_one_tenant_settles_nothing_of_another(play: Play) -> None:
    """C5, CB12, KB5: an id in hand is not enough, nor is another tenant's token."""
    other = Play(play.store, play.queue.shards, tenant="other")
    claim = await play.start("a")
    other.nonce()
    await other.start("a")
    before = await other.snapshot()

    stolen = replace(claim, lease=replace(claim.lease, queue=other.queue))
    extended = await other.extend(stolen.lease)
    settled = await other.settle(stolen)

    assert (extended.status, settled.status) == ("lease_mismatch", "lease_mismatch")
    assert await other.snapshot() == before


async def test_settings_and_counts_are_of_one_tenant(play: Play) -> None:
    """CB8, C1: asking for one tenant answers for that tenant."""
    other = Play(play.store, play.queue.shards, tenant="other")
    await play.configure(paused=True)
    await play.enqueue("a")
    await other.enqueue("b")
    await other.enqueue("c")

    assert ((await play.counts()).waiting, (await other.counts()).waiting) == (1, 2)
    assert await play.store.queues.configuration(other.queue) == QueueConfig()
    assert len(await other.claim(10)) == 2


# Purging.


async def test_purge_drops_waiting_jobs_and_nothing_else(play: Play) -> None:
    await play.settle(await play.start("done"), Done())
    await play.die("dead")
    claim = await play.start("active")
    await play.enqueue("active")
    await play.enqueue("ready")
    await play.enqueue("later", delay_ms=1_000)

    purged = await play.store.queues.purge(play.queue, now_ms=play.now_ms)

    assert purged == 2
    assert [await play.state(id) for id in ("ready", "later")] == [None, None]
    assert await play.counts() == Counts(blocked=1, active=1, done=1, dead=1)
    assert await play.history("ready") == ["enqueued", "purged"]
    assert (await play.settle(claim)).status == "done"


async def test_purge_is_bounded_and_goes_on_while_it_answers_its_limit(play: Play) -> None:
    for number in range(10):
        await play.enqueue(f"job-{number}", delay_ms=number % 2)

    purged = [await play.store.queues.purge(play.queue, limit=4, now_ms=play.now_ms) for _ in range(4)]

    assert purged == [4, 4, 2, 0]
    assert await play.counts() == Counts()


async def test_purge_drops_in_the_order_of_handing_out_within_a_shard(play: Play) -> None:
    later, last, urgent, first = play.ids(4)
    await play.enqueue(later, delay_ms=1)
    await play.enqueue(last, delay_ms=2)
    await play.enqueue(first)
    await play.enqueue(urgent, policy=Policy(priority=9))

    for left in ([first, later, last], [later, last], [last], []):
        await play.store.queues.purge(play.queue, limit=1, now_ms=play.now_ms)
        assert [id for id in (first, later, last, urgent) if await play.state(id)] == left


# Deleting.


@pytest.mark.parametrize("state", ["ready", "later", "active"])
async def test_a_queue_with_live_jobs_is_not_deleted(play: Play, state: str) -> None:
    await play.enqueue("a", delay_ms=1_000 if state == "later" else 0)
    if state == "active":
        await play.claim_one()
    before = await play.snapshot()

    with pytest.raises(Refused) as refused:
        await play.store.queues.delete(play.queue)

    assert refused.value.reason == "not_empty"
    assert await play.snapshot() == before


async def test_a_deleted_queue_is_gone_with_its_finished_jobs_dead_letters_keys_journal_and_settings(
    play: Play,
) -> None:
    await play.configure(max_attempts=4)
    await play.enqueue("done", idempotency_key="k")
    await play.settle(await play.claim_one())
    key = await play.die("dead")
    await play.store.journal.register(play.queue.shard_of("dead"), "history", now_ms=play.now_ms)

    gone = await play.store.queues.delete(play.queue)

    assert gone
    assert await names(play) == []
    assert await play.counts() == Counts()
    assert [await play.find(id) for id in ("done", "dead")] == [None, None]
    assert (await play.dead_letters(), await play.events()) == ([], [])
    assert (await play.store.queues.configuration(play.queue)).version == 0
    assert (await play.replay(key)).status == "not_found"
    assert (await play.enqueue("done", idempotency_key="k")).status == "created"
    assert await play.store.journal.consumers(play.queue.shard_of("dead")) == []


async def test_a_deleted_queue_may_come_back_with_another_number_of_shards(play: Play) -> None:
    await play.settle(await play.start("a"))
    await play.store.queues.delete(play.queue)

    other = Play(play.store, 5)
    answer = await other.enqueue("a")

    assert answer.status == "created"
    assert (await play.store.queues.names("acme")).rows == [other.queue]


async def test_deleting_leaves_other_queues_and_tenants_alone(play: Play) -> None:
    """C1: every structure is per tenant and queue."""
    others = [
        Play(play.store, play.queue.shards, name=name, tenant=tenant)
        for name, tenant in (("mail", "other"), ("mail2", "acme"))
    ]
    for each in (play, *others):
        await each.settle(await each.start("a"), Done(b"1"))

    before = [await each.snapshot() for each in others]
    await play.store.queues.delete(play.queue)

    assert [await each.snapshot() for each in others] == before


async def test_delete_is_bounded_and_goes_on_until_all_is_gone(play: Play) -> None:
    for number in range(6):
        await play.settle(await play.start(f"job-{number}"))

    answers: list[bool] = []
    while not (answers and answers[-1]):
        answers.append(await play.store.queues.delete(play.queue, limit=5))
        assert len(answers) < 50

    assert len(answers) >= 24 // 5
    assert await names(play) == []


async def test_a_half_deleted_queue_can_still_be_used_and_counts_its_remaining_jobs(play: Play) -> None:
    await play.configure(keep_done_ms=1_000, keep_dead_ms=1_000)
    for number in range(6):
        await play.settle(await play.start(f"done-{number}", policy=Policy(result_ttl_ms=number % 2 * 500)))
        await play.die(f"dead-{number}")
        await play.enqueue(f"key-{number}", idempotency_key="k", idempotency_ttl_ms=100)
        await play.cancel(f"key-{number}")

    for turn in range(4):
        assert not await play.store.queues.delete(play.queue, limit=3)
        listed = [len((await play.store.reads.list(play.queue, each, now_ms=play.now_ms)).rows) for each in OVER]
        counts = await play.counts()
        assert [counts.done, counts.cancelled] == listed
        assert counts.dead == len(await play.dead_letters())
        assert counts.done + counts.cancelled + counts.dead >= 18 - 3 * (turn + 1)
        await readable(play)
    await play.settle(await play.start("again"))
    await readable(play)
    play.advance(1_000)
    await play.repair()

    assert await play.counts() == Counts()


OVER = (State.DONE, State.CANCELLED)


async def readable(play: Play) -> None:
    """What the bounds of a journal promise can be read."""
    for shard in play.queue.all_shards():
        bounds = await play.store.journal.bounds(shard)
        entries = await play.store.journal.read(shard, 0, 2**62)
        seqs = [event.seq for entry in entries for event in entry.events(shard)]
        assert seqs == list(range(bounds.first_seq, bounds.last_seq + 1))
        assert bounds.bytes == 0 or seqs


async def test_deleting_an_unknown_queue_has_nothing_to_do(play: Play) -> None:
    assert await play.store.queues.delete(play.queue)


# The number of shards.

Call = Callable[[Play], Awaitable[object]]
CALLS: dict[str, Call] = {
    "claim": lambda play: play.claim(),
    "extend": lambda play: play.extend(Lease(play.queue, "a", "nonce-000001.1", 1, play.now_ms + 1)),
    "repair": lambda play: play.repair(),
    "cancel": lambda play: play.cancel("a"),
    "remove": lambda play: play.remove("a"),
    "dead.list": lambda play: play.dead_letters(),
    "dead.replay by id": lambda play: play.replay("a"),
    "dead.replay by dead letter": lambda play: play.replay(DeadLetterKey(0, 1)),
    "dead.purge": lambda play: play.store.dead.purge(play.queue, [DeadLetterKey(0, 1)], now_ms=play.now_ms),
    "configure": lambda play: play.configure(paused=True),
    "configuration": lambda play: play.store.queues.configuration(play.queue),
    "counts": lambda play: play.counts(),
    "purge": lambda play: play.store.queues.purge(play.queue, now_ms=play.now_ms),
    "delete": lambda play: play.store.queues.delete(play.queue),
    "find": lambda play: play.find("a"),
    "list": lambda play: play.store.reads.list(play.queue, State.WAITING, now_ms=play.now_ms),
    "finished_job": lambda play: play.store.reads.finished_job(play.queue, "a", now_ms=play.now_ms),
    "snapshot": lambda play: play.store.reads.snapshot(Shard(play.queue, 0), now_ms=play.now_ms),
    "workers": lambda play: play.store.reads.workers(play.queue, now_ms=play.now_ms),
    "journal.read": lambda play: play.store.journal.read(Shard(play.queue, 0), 0, 9),
    "journal.bounds": lambda play: play.store.journal.bounds(Shard(play.queue, 0)),
    "journal.register": lambda play: play.store.journal.register(Shard(play.queue, 0), "history"),
    "journal.advance": lambda play: play.store.journal.advance(Shard(play.queue, 0), "history", 0),
    "journal.forget": lambda play: play.store.journal.forget(Shard(play.queue, 0), "history"),
    "journal.consumers": lambda play: play.store.journal.consumers(Shard(play.queue, 0)),
    "journal.trim": lambda play: play.store.journal.trim(Shard(play.queue, 0), now_ms=play.now_ms),
    "signals.wait": lambda play: play.store.signals.wait([play.queue], 0),
    "signals.ended": lambda play: play.store.signals.ended(play.queue, ["a"], 1_000),
}


async def test_a_wrong_number_of_shards_is_refused_by_every_call_and_changes_nothing(play: Play) -> None:
    """A client that counts shards otherwise would look for an id in the wrong one."""
    await play.start("a")
    await play.store.journal.register(Shard(play.queue, 0), "history", now_ms=play.now_ms)
    before = await play.snapshot()
    wrong = Play(play.store, play.queue.shards + 1)

    errors = {name: await sentence(call(wrong)) for name, call in CALLS.items()}

    assert [
        name for name, text in errors.items() if text is None or f"has {play.queue.shards} shards" not in text
    ] == []
    assert await play.snapshot() == before


async def test_a_wrong_number_of_shards_is_an_answer_of_enqueue_for_those_items_only(play: Play) -> None:
    await play.enqueue("a")
    wrong = Queue("mail", "acme", play.queue.shards + 1)

    answers = await play.enqueue_all(
        play.job("b"), play.job("c", queue=wrong), play.job("d", queue=Queue("media", "acme", 2))
    )

    assert [(answer.id, answer.status, answer.ok) for answer in answers] == [
        ("b", "created", True),
        ("c", "wrong_shards", False),
        ("d", "created", True),
    ]
    assert await play.find("c") is None


async def test_a_turn_on_a_wrong_number_of_shards_settles_nothing(play: Play) -> None:
    claim = await play.start("a")
    before = await play.snapshot()
    wrong = Queue("mail", "acme", play.queue.shards + 1)

    with pytest.raises(Refused) as refused:
        await play.store.jobs.turn(
            [claim.settle(Released())],
            ClaimRequest(queues=[wrong], worker="worker-1", nonce=play.nonce()),
            now_ms=play.now_ms,
        )

    assert refused.value.reason == "wrong_shards"
    assert await play.snapshot() == before


async def test_a_claim_over_several_queues_with_one_wrong_number_of_shards_hands_nothing_out(play: Play) -> None:
    other = Play(play.store, play.queue.shards, name="other")
    await play.enqueue("a")
    await other.enqueue("b")
    before = (await play.snapshot(), await other.snapshot())
    wrong = Queue("other", "acme", play.queue.shards + 1)

    with pytest.raises(Refused):
        await play.claim(10, queues=[play.queue, wrong])

    assert (await play.snapshot(), await other.snapshot()) == before


async def test_a_fail_queue_cannot_come_to_be_with_another_number_of_shards_than_its_queue(play: Play) -> None:
    """QB4: else every death would fail, and with it every claim that repairs."""
    await play.configure(fail_handler=True)
    wrong = Queue("mail", "acme", play.queue.shards + 1).fail_queue

    with pytest.raises(Refused) as refused:
        await play.store.queues.configure(wrong, {"paused": True}, now_ms=play.now_ms)
    [enqueued] = await play.enqueue_all(play.job("x#1", queue=wrong))

    assert refused.value.reason == "wrong_shards"
    assert enqueued.status == "wrong_shards"
    assert (await play.die("a")).number > 0


async def test_a_queue_cannot_come_to_be_with_another_number_of_shards_than_its_fail_queue(play: Play) -> None:
    """QB4: else every death would fail, and with it every claim that repairs."""
    await play.store.queues.configure(play.queue.fail_queue, {"paused": True}, now_ms=play.now_ms)
    wrong = Queue("mail", "acme", play.queue.shards + 1)

    with pytest.raises(Refused) as refused:
        await play.store.queues.configure(wrong, {"fail_handler": True}, now_ms=play.now_ms)
    [enqueued] = await play.enqueue_all(play.job("a", queue=wrong))

    assert refused.value.reason == "wrong_shards"
    assert enqueued.status == "wrong_shards"


async def test_every_queue_of_every_tenant_has_its_own_lines_and_dead_letters(play: Play) -> None:
    """C3: ten priorities, what is active, what is later and what is dead, kept apart by queue and tenant."""
    second, rival = (Queue(name, tenant, play.queue.shards) for name, tenant in (("second", "acme"), ("mail", "rival")))
    [first, *_] = ids = play.ids(12)
    for queue in (play.queue, second, rival):
        jobs = [play.job(id, queue=queue, policy=Policy(priority=priority)) for priority, id in enumerate(ids[:10])]
        await play.enqueue_all(*jobs, play.job(ids[10], queue=queue, delay_ms=500))
    claims = await play.claim(10)
    await play.settle(claims[0], Failed(BOOM))

    mine, others = await play.counts(), [await play.counts(queue) for queue in (second, rival)]

    assert [claim.record.id for claim in claims] == ids[:10][::-1]
    assert (mine.waiting, mine.later, mine.active, mine.dead) == (1, 1, 9, 1)
    assert [(each.waiting, each.later, each.active, each.dead) for each in others] == [(11, 1, 0, 0)] * 2
    assert await play.state(first) is State.ACTIVE
