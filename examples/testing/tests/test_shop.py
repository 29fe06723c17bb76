"""The shop's jobs, run by the real worker on a store in memory: no server, no sleep."""

import crm
import pytest
from shop import remind, sign_up, sync, welcome

from headrace import Fail, StoreUnavailable
from headrace.testing import AsyncKit, Kit


@pytest.fixture(autouse=True)
def fresh_crm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CRM that knows nobody and has time."""
    monkeypatch.setattr(crm, "NOTES", [])
    monkeypatch.setattr(crm, "BUSY", 0)


def test_a_new_customer_is_welcomed_and_told_to_the_crm(headrace: Kit) -> None:
    sign_up(42, "Ann")

    headrace.assert_enqueued(welcome, user_id=42)
    headrace.assert_enqueued(sync, user_id=42, tag="sign-up", id="sync/42")
    drained = headrace.drain()

    assert drained.counts == {"done": 2}
    assert crm.NOTES == ["customer 42 is a customer"]


def test_the_reminder_comes_a_day_later(headrace: Kit) -> None:
    sign_up(42, "Ann")
    headrace.drain()

    headrace.assert_enqueued(remind, user_id=42, delay="1d", times=1)
    headrace.clock.advance("23h")
    assert not headrace.drain()
    headrace.clock.advance("1h")
    assert headrace.drain().counts == {"done": 1}


def test_a_busy_crm_is_asked_again(headrace: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crm, "BUSY", 1)
    sync.blocking.enqueue(user_id=42)

    drained = headrace.drain(ahead="10s", raising=False)

    assert [(job.attempt, job.outcome) for job in drained] == [(1, "retried"), (2, "done")]
    assert crm.NOTES == ["customer 42 is a customer"]


def test_a_crm_that_stays_busy_makes_a_dead_letter(headrace: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crm, "BUSY", 99)
    sync.blocking.enqueue(user_id=42)

    drained = headrace.drain(ahead="1h", raising=False)

    assert drained.counts == {"retried": 2, "dead": 1}
    [dead_letter] = headrace.dead_letters(sync)
    assert (dead_letter.reason, dead_letter.error.message) == ("attempts", "the CRM did not answer")


def test_a_handler_is_run_by_itself(headrace: Kit) -> None:
    assert headrace.run_job(welcome, user_id=42, name="Ann") == "welcome, Ann!"
    with pytest.raises(Fail, match="there is no customer -1"):
        headrace.run_job(sync, user_id=-1)


def test_signing_up_fails_while_the_store_is_away(headrace: Kit) -> None:
    with headrace.store.down(), pytest.raises(StoreUnavailable):
        sign_up(42, "Ann")

    headrace.assert_not_enqueued(welcome)


def test_a_reply_that_got_lost_does_no_harm(headrace: Kit) -> None:
    sign_up(42, "Ann")
    headrace.store.lose("settle", "turn")

    headrace.drain()

    assert crm.NOTES == ["customer 42 is a customer"]


@pytest.mark.anyio
async def test_coroutines_await_the_same(headrace: AsyncKit) -> None:
    await welcome.enqueue(user_id=42, name="Ann")

    drained = await headrace.drain(ahead="1d")

    assert [job.kind for job in drained] == ["welcome", "remind"]
