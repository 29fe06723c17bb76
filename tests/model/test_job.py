"""Jobs: valid jobs, and the refusals of invalid ones."""

from typing import Any

import pytest
from msgspec.structs import replace

from headrace.model.errors import Refused
from headrace.model.job import Job, State, UpdateRunAt, new_job, record_of, upsert
from headrace.model.limits import DURATION_MS_MAX, PAYLOAD_BYTES_MAX, TIME_MS_MAX
from headrace.model.names import Queue, derived_id
from headrace.model.outcome import JobError
from headrace.model.policy import Policy

QUEUE = Queue("mail", "acme", 3)


def job(**fields: Any) -> Job:
    """A job of which only these fields matter."""
    return Job(**{"queue": QUEUE, "id": "a", "kind": "send", **fields})


def refusal(**fields: Any) -> Refused:
    """The refusal of a job with these fields."""
    with pytest.raises(Refused) as refused:
        job(**fields)
    return refused.value


@pytest.mark.parametrize("id", ["a", "x" * 256, "a:b/{c}#d", "'\"", " ", "😀", "日本"])
def test_an_id_is_any_printable_text(id: str) -> None:
    """v1-d: colons, slashes, braces and hashes included."""
    assert job(id=id).id == id


@pytest.mark.parametrize(
    ("fields", "reason", "message"),
    [
        ({"id": ""}, "bad_id", "id must have 1 to 256 characters; found 0: ''"),
        ({"id": "x" * 257}, "bad_id", f"id must have 1 to 256 characters; found 257: '{'x' * 39}…'"),
        ({"id": "a\nb"}, "bad_id", "id 'a\\nb' holds a character that cannot be printed; use printable ones"),
        ({"id": "a\0"}, "bad_id", "id 'a\\x00' holds a character that cannot be printed; use printable ones"),
        ({"id": "\ud800"}, "bad_id", "id '\\ud800' holds a character that cannot be printed; use printable ones"),
        ({"id": 5}, "bad_id", "id must be text; found int 5"),
        ({"id": b"a"}, "bad_id", "id must be text; found bytes b'a'"),
        ({"kind": ""}, "bad_kind", "kind must have 1 to 128 characters; found 0: ''"),
        ({"kind": None}, "bad_kind", "kind must be text; found NoneType None"),
        ({"kind": "x" * 129}, "bad_kind", f"kind must have 1 to 128 characters; found 129: '{'x' * 39}…'"),
        ({"tag": ""}, "bad_tag", "tag must have 1 to 128 characters; found 0: ''"),
        ({"tag": "a\tb"}, "bad_tag", "tag 'a\\tb' holds a character that cannot be printed; use printable ones"),
        (
            {"idempotency_key": ""},
            "bad_idempotency_key",
            "idempotency_key must have 1 to 256 characters; found 0: ''",
        ),
        (
            {"idempotency_key": "k", "idempotency_ttl_ms": 0},
            "bad_idempotency_ttl_ms",
            f"idempotency_ttl_ms must be from 1 to {DURATION_MS_MAX:,}; found 0",
        ),
        ({"run_at_ms": -1}, "bad_run_at_ms", f"run_at_ms must be from 0 to {TIME_MS_MAX:,}; found -1"),
        (
            {"run_at_ms": TIME_MS_MAX + 1},
            "bad_run_at_ms",
            f"run_at_ms must be from 0 to {TIME_MS_MAX:,}; found {TIME_MS_MAX + 1:,}",
        ),
        ({"run_at_ms": 1.5}, "bad_run_at_ms", "run_at_ms must be a whole number; found float 1.5"),
        ({"delay_ms": -1}, "bad_delay_ms", f"delay_ms must be from 0 to {DURATION_MS_MAX:,}; found -1"),
        ({"delay_ms": True}, "bad_delay_ms", "delay_ms must be a whole number; found bool True"),
        ({"run_at_ms": 0, "delay_ms": 0}, "bad_time", "job 'a' has both run_at_ms and delay_ms; give one of them"),
        (
            {"payload": b"x" * (PAYLOAD_BYTES_MAX + 1)},
            "payload_too_large",
            "payload has 262,145 bytes; at most 262,144 are kept; store the data elsewhere and send its address",
        ),
        ({"payload": "{}"}, "bad_payload", "payload must be encoded bytes; found str; encode it first"),
        ({"payload": None}, "bad_payload", "payload must be encoded bytes; found NoneType; encode it first"),
        ({"headers": {"a": 1}}, "bad_headers", "headers must map text to text; found int 1"),
        ({"headers": [("a", "b")]}, "bad_headers", "headers must map text to text; found list"),
        (
            {"headers": {"a": "x\ud800"}},
            "bad_headers",
            "headers 'x\\ud800' holds half a character at 1; decode it properly first",
        ),
        (
            {"headers": {str(number): "" for number in range(33)}},
            "headers_too_large",
            "headers have 33 entries and 56 bytes; at most 32 and 4,096; put the rest into the payload",
        ),
        (
            {"headers": {"a": "x" * 4_096}},
            "headers_too_large",
            "headers have 1 entries and 4,097 bytes; at most 32 and 4,096; put the rest into the payload",
        ),
        (
            {"update_run_at": "sometimes"},
            "bad_flag",
            "update_run_at must be an UpdateRunAt (always, never, if_later, if_earlier); found 'sometimes'",
        ),
        (
            {"reset_counts": "false"},
            "bad_flag",
            "update_payload, update_policy and reset_counts are true or false; found 'false'",
        ),
        ({"queue": "mail"}, "bad_queue", "queue must be a Queue; found str 'mail'"),
        ({"policy": None}, "bad_policy", "policy must be a Policy; found NoneType None"),
    ],
)
def test_a_job_that_can_never_be_right_is_refused_in_one_sentence(
    fields: dict[str, Any], reason: str, message: str
) -> None:
    """T7, T9, QB13, C7: what was wanted, what was found, what to do."""
    refused = refusal(**fields)

    assert (refused.reason, str(refused)) == (reason, message)


@pytest.mark.parametrize(
    "fields",
    [
        {"payload": b"x" * PAYLOAD_BYTES_MAX},
        {"headers": {str(number): "" for number in range(32)}},
        {"headers": {"a": "x" * 4_095}},
        {"kind": "x" * 128, "tag": "x" * 128},
        {"idempotency_key": "x" * 256, "idempotency_ttl_ms": 1},
        {"run_at_ms": 0},
        {"run_at_ms": TIME_MS_MAX},
        {"delay_ms": DURATION_MS_MAX},
    ],
    ids=",".join,
)
def test_a_job_at_its_limits_is_taken(fields: dict[str, Any]) -> None:
    assert job(**fields).id == "a"


def test_a_fail_queues_ids_may_be_longer_by_the_dead_letter_number() -> None:
    """`<id>#<dead_letter>` must fit for every id that may die."""
    longest = "x" * 256 + "#" + str(2**63)

    assert job(queue=QUEUE.fail_queue, id=longest).id == longest
    with pytest.raises(Refused, match="id must have 1 to 276 characters; found 277"):
        job(queue=QUEUE.fail_queue, id=longest + "0")


def test_a_job_has_its_own_id_or_a_derived_one_or_a_fresh_one() -> None:
    """Q6: in this order."""
    fields = new_job(QUEUE, "send", id="a", fresh_id="fresh", idempotency_key="k")
    derived = new_job(QUEUE, "send", fresh_id="fresh", idempotency_key="k")
    fresh = new_job(QUEUE, "send", fresh_id="fresh")

    assert (fields.id, derived.id, fresh.id) == ("a", derived_id(QUEUE, "k"), "fresh")
    assert (fields.id_given, derived.id_given, fresh.id_given) == (True, False, False)


def test_a_key_that_is_no_text_is_refused_and_derives_nothing() -> None:
    with pytest.raises(Refused, match="idempotency_key must be text; found int 5"):
        new_job(QUEUE, "send", fresh_id="fresh", idempotency_key=5)


def test_the_fingerprint_covers_only_an_explicit_id() -> None:
    fresh = [new_job(QUEUE, "send", fresh_id=id) for id in ("one", "two")]
    fields = [new_job(QUEUE, "send", fresh_id="one", id=id) for id in ("one", "two")]

    assert fresh[0].fingerprint == fresh[1].fingerprint
    assert len({each.fingerprint for each in (*fresh, *fields)}) == 3


@pytest.mark.parametrize(
    ("fields", "due_ms"),
    [
        ({}, 1_000),
        ({"run_at_ms": 5}, 5),
        ({"run_at_ms": 5_000}, 5_000),
        ({"delay_ms": 0}, 1_000),
        ({"delay_ms": 7}, 1_007),
    ],
)
def test_a_job_is_due_at_its_time_or_after_its_delay_or_now(fields: dict[str, int], due_ms: int) -> None:
    assert job(**fields).due_ms(1_000) == due_ms


@pytest.mark.parametrize(
    ("fields", "flag"),
    [
        ({}, UpdateRunAt.NEVER),
        ({"run_at_ms": 0}, UpdateRunAt.ALWAYS),
        ({"delay_ms": 0}, UpdateRunAt.ALWAYS),
        ({"delay_ms": 0, "update_run_at": UpdateRunAt.IF_LATER}, UpdateRunAt.IF_LATER),
        ({"update_run_at": UpdateRunAt.ALWAYS}, UpdateRunAt.ALWAYS),
    ],
)
def test_the_time_of_an_enqueue_is_taken_unless_the_caller_chose(fields: dict[str, Any], flag: UpdateRunAt) -> None:
    """Q9, Q13: the defaults are these, in one place."""
    assert job(**fields).run_at_flag is flag


@pytest.mark.parametrize(
    ("flag", "merged"),
    [
        (UpdateRunAt.ALWAYS, [3, 7]),
        (UpdateRunAt.NEVER, [5, 5]),
        (UpdateRunAt.IF_LATER, [5, 7]),
        (UpdateRunAt.IF_EARLIER, [3, 5]),
    ],
)
def test_a_flag_merges_an_old_time_with_a_new_one(flag: UpdateRunAt, merged: list[int]) -> None:
    """Q9: always overwrites, never keeps, the others move one way."""
    assert [flag.merge(5, new_ms) for new_ms in (3, 7)] == merged


def test_a_new_record_has_the_values_of_the_job_and_counters_of_zero() -> None:
    """Q7, T8."""
    record = record_of(job(payload=b"1", delay_ms=5, tag="t", headers={"h": "1"}, policy=Policy(priority=3)), 1_000)

    assert (record.id, record.kind, record.payload, record.tag) == ("a", "send", b"1", "t")
    assert (record.headers, record.policy, record.run_at_ms, record.enqueued_at_ms) == (
        {"h": "1"},
        Policy(priority=3),
        1_005,
        1_000,
    )
    assert (record.attempts, record.stalls, record.error, record.failed_at_ms, record.order_key) == (
        0,
        0,
        None,
        None,
        None,
    )


def test_an_upsert_with_every_flag_off_changes_nothing() -> None:
    old = record_of(job(payload=b"1", run_at_ms=5, policy=Policy(priority=3)), 1_000)

    new = upsert(
        old,
        job(
            kind="other",
            payload=b"2",
            run_at_ms=9,
            policy=Policy(priority=9),
            tag="t",
            update_payload=False,
            update_run_at=UpdateRunAt.NEVER,
            update_policy=False,
        ),
        2_000,
    )

    assert new == old


def test_an_upsert_that_resets_counts_forgets_the_error_too() -> None:
    """Q10."""
    failed = replace(record_of(job(), 1_000), attempts=3, stalls=2, error=JobError("X"), failed_at_ms=9)

    new = upsert(failed, job(reset_counts=True), 2_000)

    assert (new.attempts, new.stalls, new.error, new.failed_at_ms) == (0, 0, None, None)


@pytest.mark.parametrize(("run_at_ms", "since_ms"), [(0, 1_000), (1_000, 1_000), (5_000, 5_000)])
def test_a_past_time_does_not_make_a_job_older_than_it_is(run_at_ms: int, since_ms: int) -> None:
    assert record_of(job(run_at_ms=run_at_ms), 1_000).due_since_ms == since_ms


def test_the_states_have_their_documented_words() -> None:
    assert [state.value for state in State] == ["waiting", "blocked", "active", "done", "cancelled", "dead"]
