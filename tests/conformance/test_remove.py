"""Remove: everything of an id goes, whatever its state."""

import pytest

from headrace.model.job import State
from headrace.model.outcome import Cancelled, Done, Failed, Outcome, Retried
from tests.support.play import BOOM, Play


async def test_remove_deletes_a_ready_job(play: Play) -> None:
    """K27: removed from every structure, whatever its state."""
    await play.enqueue("a")

    answer = await play.remove("a")

    assert (answer.id, answer.status) == ("a", "removed")
    assert await play.find("a") is None
    assert await play.claim(10) == []
    assert await play.history("a") == ["enqueued", "removed"]


async def test_remove_deletes_a_later_job_which_is_not_handed_out_when_its_time_comes(play: Play) -> None:
    """K27: a job that is not due yet."""
    await play.enqueue("a", delay_ms=60_000)

    answer = await play.remove("a")
    play.advance(60_000)

    assert answer.status == "removed"
    assert await play.claim(10) == []


async def test_remove_deletes_an_active_job_and_its_handler_goes_on_without_a_lease(play: Play) -> None:
    """K27, T17: the stale lease settles and extends nothing afterwards."""
    claim = await play.start("a")

    answer = await play.remove("a")
    before = await play.snapshot()
    extended = await play.extend(claim.lease)
    settled = await play.settle(claim)

    assert answer.status == "removed"
    assert (extended.status, settled.status) == ("not_active", "not_active")
    assert await play.snapshot() == before
    assert await play.find("a") is None


async def test_the_lease_of_a_removed_job_settles_nothing_of_the_next_job_with_its_id(play: Play) -> None:
    """K27, QB3: a zombie cannot touch the new owner's delivery."""
    old = await play.start("a")
    await play.remove("a")
    new = await play.start("a", worker="worker-2")
    before = await play.snapshot()

    extended = await play.extend(old.lease)
    settled = await play.settle(old)

    assert (extended.status, settled.status) == ("lease_mismatch", "lease_mismatch")
    assert await play.snapshot() == before
    assert new.lease.fence > old.lease.fence


async def test_remove_deletes_the_blocked_job_together_with_the_active_job(play: Play) -> None:
    """K27: at most one `removed` for all records of an id."""
    await play.start("a")
    await play.enqueue("a")

    answer = await play.remove("a")
    play.advance(60_000)

    assert answer.status == "removed"
    assert await play.find("a") is None
    assert await play.claim(10) == []
    assert (await play.counts()).blocked == 0
    assert await play.history("a") == ["enqueued", "claimed", "blocked", "removed"]


@pytest.mark.parametrize("outcome", [Done(b"1"), Cancelled()], ids=["done", "cancelled"])
async def test_remove_deletes_a_finished_job(play: Play, outcome: Outcome) -> None:
    """K27: finished jobs can be removed too."""
    await play.settle(await play.start("a"), outcome)

    answer = await play.remove("a")

    counts = await play.counts()
    assert answer.status == "removed"
    assert await play.find("a") is None
    assert (counts.done, counts.cancelled) == (0, 0)


async def test_remove_deletes_all_dead_letters_of_an_id_and_leaves_those_of_others(play: Play) -> None:
    """K27: a dead job's dead letters go, so nothing is left to replay."""
    first, second = await play.die("a"), await play.die("a")
    other = await play.die("b")

    answer = await play.remove("a")

    assert answer.status == "removed"
    assert [dead_letter.key for dead_letter in await play.dead_letters()] == [other]
    assert [(await play.replay(key)).status for key in (first, second)] == ["not_found", "not_found"]
    assert (await play.replay("a")).status == "not_found"


async def test_remove_deletes_a_waiting_job_together_with_the_dead_letters_of_its_id(play: Play) -> None:
    """K27: everything of an id, not only its liveliest record."""
    await play.die("a")
    await play.enqueue("a")

    await play.remove("a")

    assert await play.find("a") is None
    assert (await play.counts()).dead == 0


async def test_remove_answers_not_found_for_an_unknown_id_and_changes_nothing(play: Play) -> None:
    """K27: an unknown id fails."""
    await play.enqueue("a")
    before = await play.snapshot()

    answer = await play.remove("nobody")

    assert answer.status == "not_found"
    assert await play.snapshot() == before


async def test_a_second_remove_finds_nothing(play: Play) -> None:
    """K27: what was removed is unknown."""
    await play.enqueue("a")

    answers = [(await play.remove("a")).status for _ in range(2)]

    assert answers == ["removed", "not_found"]
    assert await play.history("a") == ["enqueued", "removed"]


async def test_remove_finds_nothing_in_an_unknown_queue_and_does_not_create_it(play: Play) -> None:
    answer = await play.remove("a")

    assert answer.status == "not_found"
    assert (await play.store.queues.names("acme")).rows == []


async def test_remove_does_not_find_a_finished_job_whose_time_is_over(play: Play) -> None:
    await play.settle(await play.start("a"), Done())

    play.advance(3_600_000)
    answer = await play.remove("a")

    assert answer.status == "not_found"


async def test_remove_does_not_find_a_dead_letter_past_its_retention(play: Play) -> None:
    await play.configure(keep_dead_ms=1_000)
    await play.die("a")

    play.advance(1_000)
    answer = await play.remove("a")

    assert answer.status == "not_found"


async def test_a_removed_job_keeps_its_idempotency_key(play: Play) -> None:
    """C8: the key is kept whatever becomes of the job."""
    first = await play.enqueue(idempotency_key="k")
    await play.remove(first.id)

    again = await play.enqueue(idempotency_key="k")

    assert (again.id, again.status) == (first.id, "duplicate")
    assert await play.find(first.id) is None


async def test_a_removed_id_starts_again_with_its_counters_at_zero(play: Play) -> None:
    await play.settle(await play.start("a"), Retried(BOOM))
    await play.remove("a")

    answer = await play.enqueue("a")

    record = await play.record("a")
    assert answer.status == "created"
    assert (record.attempts, record.error) == (0, None)


async def test_remove_answers_a_batch_item_by_item_in_order(play: Play) -> None:
    await play.settle(await play.start("dead"), Failed(BOOM))
    await play.enqueue("waiting")

    answers = await play.store.jobs.remove(play.queue, ["nobody", "dead", "waiting", "dead"], now_ms=play.now_ms)

    assert [(answer.id, answer.status) for answer in answers] == [
        ("nobody", "not_found"),
        ("dead", "removed"),
        ("waiting", "removed"),
        ("dead", "not_found"),
    ]


async def test_removing_one_id_leaves_the_same_id_of_another_tenant(play: Play) -> None:
    """C1: every structure is per tenant."""
    other = Play(play.store, play.queue.shards, tenant="other")
    await play.enqueue("a")
    await other.enqueue("a")

    await play.remove("a")

    assert await other.state("a") is State.WAITING
