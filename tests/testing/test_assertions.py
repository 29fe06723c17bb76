"""Assertions on sent jobs: written as the calls of the code, with a message that shows what was found."""

import re
from datetime import UTC, datetime
from typing import Any
from unittest.mock import ANY

import pytest
from msgspec import Struct

from headrace import RAW, OutcomeUnknown, Queue, Refused
from headrace.testing import Kit
from tests.testing.shop import audit, mail, sync, tick, welcome


class Order(Struct):
    """What a customer wants."""

    number: int
    at: datetime


NOON = datetime(2031, 5, 1, 12, tzinfo=UTC)


def test_assert_enqueued_compares_named_arguments_and_defaults(headrace: Kit) -> None:
    welcome.blocking.enqueue(42)

    [found] = headrace.assert_enqueued(welcome, user_id=42)
    headrace.assert_enqueued(welcome)
    headrace.assert_enqueued(welcome, 42, "en")
    headrace.assert_enqueued(welcome, lang="en")
    headrace.assert_enqueued("welcome", 42, tenant="acme")
    headrace.assert_enqueued(welcome, priority=5)

    assert (found.kind, found.arguments, found.queue) == ("welcome", {"user_id": 42}, Queue("default", "acme"))


def test_values_are_compared_as_encoded(headrace: Kit) -> None:
    bill = headrace.app.job(_bill)
    bill.blocking.enqueue(Order(4, NOON), tags=["a"])

    headrace.assert_enqueued(bill, order=Order(4, NOON))
    headrace.assert_enqueued(bill, order={"number": 4, "at": "2031-05-01T12:00:00Z"}, tags=("a",))
    headrace.assert_enqueued(bill, order=ANY)
    headrace.assert_not_enqueued(bill, order=Order(5, NOON))

    [found] = headrace.enqueued(bill)
    assert found.arguments == {"order": Order(4, NOON), "tags": ["a"]}


async def _bill(order: Order, tags: list[str]) -> None:
    return


def test_jobs_that_ran_since_still_count_and_come_in_order(headrace: Kit) -> None:
    welcome.blocking.enqueue(1)
    headrace.drain()
    audit.blocking.enqueue("last")

    assert [job.kind for job in headrace.enqueued()] == ["welcome", "mail", "audit", "audit"]
    assert [job.arguments["what"] for job in headrace.enqueued("audit")] == ["u1", "last"]
    headrace.assert_enqueued(mail, to="u1", tags=["welcome", "en"], times=1)


def test_times_needs_exactly_so_many_jobs(headrace: Kit) -> None:
    for number in (1, 1, 2):
        sync.blocking.enqueue(number)

    headrace.assert_enqueued(sync, times=3)
    headrace.assert_enqueued(sync, customer=1, times=2)
    headrace.assert_enqueued(sync, customer=3, times=0)
    with pytest.raises(AssertionError, match=re.escape("sync(customer=1) was enqueued 2 times; expected once; found:")):
        headrace.assert_enqueued(sync, customer=1, times=1)


def test_a_job_sent_again_before_it_is_claimed_is_one_job(headrace: Kit) -> None:
    named = sync.blocking.options(id="c7")
    named.enqueue(7, mood="calm")
    named.options(update_payload=False, delay="1m").enqueue(7, mood="angry")

    [found] = headrace.assert_enqueued(sync, times=1)
    assert (found.arguments["mood"], found.delay_ms) == ("calm", 60_000)

    headrace.drain(ahead="1m")
    named.enqueue(7)
    headrace.assert_enqueued(sync, times=2)


def test_a_duplicate_by_idempotency_key_was_not_enqueued(headrace: Kit) -> None:
    for _ in range(2):
        sync.blocking.options(idempotency_key="once").enqueue(7)
        headrace.drain()

    headrace.assert_enqueued(sync, times=1)


@pytest.mark.parametrize(
    ("expected", "wrong"),
    [
        ({"delay": "5m"}, {"delay": "6m"}),
        ({"delay": 300}, {"delay": 0}),
        ({"queue": "slow"}, {"queue": "fast"}),
        ({"queue": Queue("slow", "acme", 2)}, {"queue": Queue("slow", "acme")}),
        ({"tenant": "acme"}, {"tenant": "globex"}),
        ({"id": "c7"}, {"id": "c8"}),
        ({"tag": "vip"}, {"tag": None}),
        ({"priority": 9}, {"priority": 5}),
        ({"headers": {"a": "b"}}, {"headers": {}}),
        ({"timeout": "1h", "max_attempts": 3, "backoff": "10s"}, {"timeout": "1m"}),
        ({"backoff_max": "2m", "result_ttl": "1d", "expires_at": NOON}, {"backoff_max": "3m"}),
    ],
    ids=str,
)
def test_options_are_compared_by_the_names_of_options(
    headrace: Kit, expected: dict[str, Any], wrong: dict[str, Any]
) -> None:
    sent: dict[str, Any] = {"delay": "5m", "queue": Queue("slow", "acme", 2), "id": "c7", "tag": "vip", "priority": 9}
    more: dict[str, Any] = {"headers": {"a": "b"}, "backoff_max": "2m", "result_ttl": "1d", "expires_at": NOON}
    sync.blocking.options(**sent, **more).enqueue(7)

    headrace.assert_enqueued(sync, **expected)
    headrace.assert_enqueued(sync.options(**expected), 7)
    headrace.assert_not_enqueued(sync, **wrong)


def test_an_option_equal_to_the_functions_own_is_compared_too(headrace: Kit) -> None:
    sync.blocking.options(queue="slow").enqueue(7)

    headrace.assert_enqueued(sync)
    headrace.assert_not_enqueued(sync.options(queue="crm"))
    headrace.assert_not_enqueued(sync.options(queue="crm").options(priority=5))
    headrace.assert_not_enqueued(sync, queue="crm")


def test_run_at_is_compared_as_an_instant(headrace: Kit) -> None:
    sync.blocking.options(run_at=NOON).enqueue(7)

    headrace.assert_enqueued(sync, run_at=NOON)
    headrace.assert_not_enqueued(sync, run_at=headrace.clock.now_ms())


def test_a_keyword_that_the_function_has_is_its_argument(headrace: Kit) -> None:
    """As an option it is set by `.options(…)`."""
    label = headrace.app.job(_label)
    label.blocking.options(tag="red").enqueue(tag="blue")

    headrace.assert_enqueued(label, tag="blue")
    headrace.assert_enqueued(label.options(tag="red"), tag="blue")
    headrace.assert_not_enqueued(label.options(tag="blue"))
    headrace.assert_not_enqueued(label, tag="red")


async def _label(tag: str) -> None:
    return


def test_the_nearest_job_comes_first_in_the_message(headrace: Kit) -> None:
    audit.blocking.enqueue("x")
    welcome.blocking.enqueue(41, lang="de")
    welcome.blocking.options(id="near", delay="1m").enqueue(42, lang="fr")

    with pytest.raises(AssertionError) as raised:
        headrace.assert_enqueued(welcome, user_id=42, lang="de", queue="default")

    lines = re.sub(r"id '[^']{30,}'", "id …", str(raised.value)).splitlines()
    assert lines == [
        "welcome(user_id=42, lang='de', queue='default') was never enqueued; expected at least once; found:",
        "  welcome(user_id=41, lang='de') on queue 'default', id …",
        "      user_id is 41, expected 42",
        "  welcome(user_id=42, lang='fr') on queue 'default', id 'near', due after 60000 ms",
        "      lang is 'fr', expected 'de'",
        "  audit(what='x') on queue 'audit', id …",
        "      kind is 'audit', expected 'welcome'",
    ]


def test_further_jobs_are_counted_in_the_message(headrace: Kit) -> None:
    for number in range(12):
        audit.blocking.enqueue(str(number))

    with pytest.raises(AssertionError, match=r"and 7 more$") as raised:
        headrace.assert_enqueued(welcome)

    assert str(raised.value).count("audit(what=") == 5


def test_the_message_says_that_nothing_was_enqueued(headrace: Kit) -> None:
    with pytest.raises(
        AssertionError, match=re.escape("welcome(user_id=1) was never enqueued; expected at least once; no")
    ):
        headrace.assert_enqueued(welcome, user_id=1)


def test_assert_not_enqueued_shows_the_jobs_found(headrace: Kit) -> None:
    welcome.blocking.options(id="w").enqueue(1)

    with pytest.raises(AssertionError, match=r"once; expected never; found:\n  welcome\(user_id=1\) on queue"):
        headrace.assert_not_enqueued(welcome, user_id=1)


@pytest.mark.parametrize("times", ["", "not_"])
def test_a_wrong_name_is_refused_and_makes_no_test_pass(headrace: Kit, times: str) -> None:
    ask = getattr(headrace, f"assert_{times}enqueued")

    with pytest.raises(Refused, match=r"welcome\(user_id: int, .*\) has no argument 'usr_id'; did you mean 'user_id'"):
        ask(welcome, usr_id=1)
    with pytest.raises(Refused, match="takes 2 arguments; found 3"):
        ask(welcome, 1, "en", 3)
    with pytest.raises(Refused, match=r"'user_id' of .* was given twice"):
        ask(welcome, 1, user_id=1)
    with pytest.raises(Refused, match="idempotency_key is not in the record of a sent job"):
        ask(welcome.options(idempotency_key="k"), 1)
    with pytest.raises(Refused, match="expected a job function or the name of a kind"):
        ask(_bill)


def test_arguments_of_whole_and_listed_payloads_have_names(headrace: Kit) -> None:
    """A whole payload is the one argument, a list is by place, and an unknown kind has its payload."""
    whole = headrace.app.job(style="whole")(_whole)
    raw = headrace.app.job(style="whole", codec=RAW)(_raw)
    listed = headrace.app.job(style="listed")(_listed)
    anything = headrace.app.job(_anything)
    whole.blocking.enqueue({"a": 1})
    raw.blocking.enqueue(b"bytes")
    listed.blocking.enqueue(1, 2)
    anything.blocking.enqueue(1, color="red")
    headrace.client.enqueue("foreign", [1, 2])

    headrace.assert_enqueued(whole, {"a": 1})
    headrace.assert_enqueued(raw, data=b"bytes")
    headrace.assert_not_enqueued(raw, data=b"others")
    headrace.assert_enqueued(listed, other=2)
    headrace.assert_enqueued(anything, 1, color="red")
    headrace.assert_enqueued("foreign", [1, 2])
    headrace.assert_not_enqueued("foreign", [1])
    assert headrace.enqueued(listed)[0].arguments == {"one": 1, "other": 2}


async def _whole(payload: dict[str, int]) -> None:
    return


async def _raw(data: bytes) -> None:
    return


async def _listed(one: int, other: int) -> None:
    return


async def _anything(number: int, /, **others: str) -> None:
    return


def test_a_job_with_a_lost_reply_was_enqueued(headrace: Kit) -> None:
    headrace.store.lose("enqueue")

    with pytest.raises(OutcomeUnknown):
        tick.blocking.enqueue(number=1)

    headrace.assert_enqueued(tick, number=1, times=1)
