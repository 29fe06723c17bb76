"""Options: the options of a caller become the fields of a job."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace.client.options import OptionFields, Options
from headrace.model.errors import Refused
from headrace.model.job import Job, UpdateRunAt
from headrace.model.names import Queue, derived_id
from headrace.model.policy import NO_POLICY, Policy

FRESH = "fresh"


def job(kind: str = "send", payload: bytes = b"1", queue_default: str | Queue = "default", **options: Any) -> Job:
    return Options(**options).job(
        kind, payload, tenant_default="acme", queue_default=queue_default, fresh_id=lambda: FRESH
    )


def test_without_options_a_job_has_the_defaults_and_follows_its_queue() -> None:
    """T3, T8: the queue `default`, a fresh id, no policy of its own."""
    plain = job()

    assert plain == Job(queue=Queue("default", "acme"), id=FRESH, kind="send", payload=b"1", id_given=False)
    assert plain.policy is NO_POLICY


def test_every_field_of_a_job_has_an_option() -> None:
    """T3: kind, payload, queue, run_at, timeout, max_attempts and idempotency key, and what came later."""
    created = job(
        queue="mail",
        tenant="rival",
        shards=4,
        id="a",
        run_at=datetime(2030, 1, 1, tzinfo=UTC),
        priority=9,
        timeout="30s",
        max_attempts=5,
        max_stalls=2,
        backoff="250ms",
        backoff_max=timedelta(minutes=1),
        result_ttl=3_600,
        expires_at=1_900_000_000_000,
        tag="t",
        headers={"trace": "x"},
        idempotency_key="k",
        idempotency_ttl="2d",
        update_payload=False,
        update_run_at="if_later",
        update_policy=False,
        reset_counts=True,
    )

    assert created == Job(
        queue=Queue("mail", "rival", 4),
        id="a",
        kind="send",
        payload=b"1",
        run_at_ms=1_893_456_000_000,
        policy=Policy(9, 30_000, 5, 2, 250, 60_000, 3_600_000, 1_900_000_000_000),
        tag="t",
        headers={"trace": "x"},
        idempotency_key="k",
        idempotency_ttl_ms=172_800_000,
        update_payload=False,
        update_run_at=UpdateRunAt.IF_LATER,
        update_policy=False,
        reset_counts=True,
    )


def test_a_delay_is_sent_as_a_delay() -> None:
    """The store adds it to its own clock."""
    assert job(delay="5m").delay_ms == 300_000
    assert job(delay="5m").run_at_ms is None


@pytest.mark.parametrize("kind", ["", "  ", None])
def test_a_blank_kind_is_refused(kind: Any) -> None:
    """T7: a job's kind is required."""
    with pytest.raises(Refused, match="needs a kind") as caught:
        job(kind)

    assert caught.value.reason == "bad_kind"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": -1}, "timeout cannot be negative"),
        ({"timeout": "-5s"}, "timeout cannot be negative"),
        ({"max_attempts": -1}, "max_attempts must be from 1"),
        ({"max_attempts": True}, "max_attempts must be a whole number"),
        ({"priority": 10}, "priority must be from 0 to 9"),
        ({"priority": []}, "priority must be a whole number"),
        ({"delay": "1s", "run_at": 5}, "both run_at_ms and delay_ms"),
        ({"run_at": datetime(2030, 1, 1)}, "has no time zone"),  # noqa: DTZ001 - what the test is about
        ({"update_run_at": "sometimes"}, "update_run_at must be always, never, if_later, if_earlier"),
        ({"queue": "mail box"}, "queue name 'mail box' is not a name"),
        ({"queue": ["mail"]}, "queue name"),
        ({"queue": Queue("mail"), "shards": 4}, "has its own tenant and shards"),
        ({"queue": Queue("mail"), "tenant": "acme"}, "has its own tenant and shards"),
        ({"headers": {"n": 1}}, "headers must map text to text"),
    ],
)
def test_invalid_options_are_refused_with_a_sentence(options: dict[str, Any], message: str) -> None:
    """T7: a negative time-out or number of attempts is found when the job is made."""
    job(priority=1)  # so that a cache that takes True for 1 would be seen

    with pytest.raises(Refused, match=message):
        job(**options)


def test_true_is_no_priority_even_after_one_was() -> None:
    job(priority=1)

    with pytest.raises(Refused, match="priority must be a whole number"):
        job(priority=True)


@pytest.mark.parametrize("queue", [None, "", "  "])
def test_a_blank_queue_means_the_default_queue_of_the_client(queue: str | None) -> None:
    """T8, TB15: and the client's default is honoured, not a fixed one."""
    assert job(queue=queue).queue == Queue("default", "acme")
    assert job(queue=queue, queue_default="mail").queue == Queue("mail", "acme")
    assert job(queue=queue, queue_default=Queue("mail", "rival", 4)).queue == Queue("mail", "rival", 4)


@pytest.mark.parametrize("key", [None, "", "  "])
def test_a_blank_idempotency_key_means_none(key: str | None) -> None:
    """T10: an empty key is always a new job."""
    assert job(idempotency_key=key).idempotency_key is None
    assert job(idempotency_key=key).id == FRESH


def test_an_idempotency_key_is_trimmed_and_gives_the_id() -> None:
    """T10: the key of one queue is independent of the same key in another."""
    assert job(idempotency_key=" k ") == job(idempotency_key="k")
    assert job(idempotency_key="k").id == derived_id(Queue("default", "acme"), "k")
    assert job(idempotency_key="k", queue="mail").id != job(idempotency_key="k").id


def test_options_over_others_replace_them() -> None:
    below = Options(queue="mail", shards=4, priority=3, delay="1m", tag="t")

    assert Options().over(below) is below
    assert Options(priority=0).over(below) == Options(queue="mail", shards=4, priority=0, delay="1m", tag="t")
    assert Options(run_at=5).over(below) == Options(queue="mail", shards=4, priority=3, run_at=5, tag="t")
    assert Options(reset_counts=False).over(Options(reset_counts=True)).reset_counts is False


def test_another_queue_does_not_take_the_shards_of_the_one_below() -> None:
    below = Options(queue="mail", shards=4, tenant="acme")

    assert Options(queue="post").over(below) == Options(queue="post", tenant="acme")
    assert Options(queue=Queue("post", "rival", 2)).over(below) == Options(queue=Queue("post", "rival", 2))


def test_options_and_their_keyword_arguments_have_the_same_fields() -> None:
    assert set(OptionFields.__annotations__) == set(Options.__struct_fields__)
