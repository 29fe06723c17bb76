"""Every value of the model comes back as it was from the bodies that carry it."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.claim import Claim, Claims, Facts, Lease, Settlement
from headrace.model.finished import DeadLetter, DeadLetterKey, FinishedJob
from headrace.model.job import Job, Record, State, UpdateRunAt
from headrace.model.names import Queue
from headrace.model.outcome import Cancelled, Done, Failed, JobError, Outcome, Released, Retried
from headrace.model.policy import Policy
from headrace.model.results import Found, Settled
from headrace.wire.claims import ClaimAnswer, SettledJob, SettlementBody
from headrace.wire.content import FORMATS, Format
from headrace.wire.jobs import NewJob
from headrace.wire.records import JobAnswer

PRINTABLE = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=20)
TIMES = st.integers(0, 2**43)
MAYBE_TIME = st.none() | TIMES
COUNTS = st.integers(0, 1_000)
BYTES = st.binary(max_size=30) | st.sampled_from([b"null", b'{"a":[1,2.5,"\xc3\xa9"]}', b"12345678901234567890123"])
QUEUES = st.builds(Queue, st.sampled_from(["mail", "a.b-c_D"]), st.just("acme"), st.integers(1, 8), st.booleans())
HEADERS = st.dictionaries(PRINTABLE, PRINTABLE, max_size=2)
POLICIES = st.builds(
    Policy,
    priority=st.none() | st.integers(0, 9),
    max_attempts=st.none() | st.integers(1, 10),
    backoff_ms=st.none() | COUNTS,
    expires_at_ms=MAYBE_TIME,
)
ERRORS = st.builds(JobError, PRINTABLE, st.sampled_from(["", "it broke"]))
JOBS = st.builds(
    Job,
    queue=QUEUES,
    id=PRINTABLE,
    kind=PRINTABLE,
    payload=BYTES,
    delay_ms=st.none() | COUNTS,
    policy=POLICIES,
    tag=st.none() | PRINTABLE,
    headers=HEADERS,
    idempotency_key=st.none() | PRINTABLE,
    id_given=st.booleans(),
    update_payload=st.booleans(),
    update_run_at=st.none() | st.sampled_from(UpdateRunAt),
    reset_counts=st.booleans(),
)
RECORDS = st.builds(
    Record,
    id=PRINTABLE,
    kind=PRINTABLE,
    payload=BYTES,
    run_at_ms=TIMES,
    enqueued_at_ms=TIMES,
    policy=POLICIES,
    tag=st.none() | PRINTABLE,
    headers=HEADERS,
    attempts=COUNTS,
    stalls=COUNTS,
    error=st.none() | ERRORS,
    failed_at_ms=MAYBE_TIME,
    order_key=st.none() | st.integers(0, 2**52),
)
LEASES = st.builds(Lease, QUEUES, PRINTABLE, st.just("nonce-of-1.7"), st.just(7), TIMES)


def _claim(lease: Lease, record: Record, *numbers: int) -> Claim:
    return Claim(lease, msgspec.structs.replace(record, id=lease.id), "w", *numbers)


CLAIMS = st.builds(
    Claims,
    st.lists(st.builds(_claim, LEASES, RECORDS, st.integers(0, 9), COUNTS, TIMES), max_size=2),
    MAYBE_TIME,
    TIMES,
)
OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Done, st.none() | BYTES),
    st.builds(Retried, ERRORS, st.none() | COUNTS, st.integers(0, 1_000_000)),
    st.builds(Failed, ERRORS),
    st.builds(Released, COUNTS),
    st.just(Cancelled()),
)
FACTS = st.builds(
    Facts,
    PRINTABLE,
    st.none() | PRINTABLE,
    st.integers(0, 9),
    PRINTABLE,
    TIMES,
    COUNTS,
    COUNTS,
    COUNTS,
    COUNTS,
    COUNTS,
)
FINISHED = st.builds(
    FinishedJob,
    *(PRINTABLE, st.sampled_from(["done", "cancelled"]), PRINTABLE, st.none() | PRINTABLE),
    *(TIMES, TIMES, TIMES, st.booleans(), COUNTS, COUNTS, BYTES),
)
DEAD = st.builds(
    DeadLetter,
    *(st.builds(DeadLetterKey, st.integers(0, 7), COUNTS), RECORDS, st.sampled_from(["attempts", "expired"])),
    *(ERRORS, TIMES, TIMES),
)
FOUND = st.builds(
    Found,
    *(PRINTABLE, st.sampled_from(State), st.none() | RECORDS, st.none() | RECORDS, st.none() | PRINTABLE),
    *(st.none() | COUNTS, MAYBE_TIME, st.booleans(), st.none() | FINISHED),
    st.lists(DEAD, max_size=2).map(tuple),
    st.none() | PRINTABLE,
)
PACKED = FORMATS["application/msgpack"]
ANY_FORMAT = st.sampled_from([*FORMATS.values()])


def carried(body: msgspec.Struct, form: Format = PACKED) -> object:
    return form.decoder(type(body)).decode(form.encode(body))


@given(JOBS)
@settings(max_examples=100, deadline=None)
def test_a_job_is_enqueued_as_it_was_made(job: Job) -> None:
    body = carried(NewJob.of(job))

    assert isinstance(body, NewJob)
    assert body.job(job.queue, "unused", packed=True) == job


@given(CLAIMS)
@settings(max_examples=100, deadline=None)
def test_claims_come_back_as_the_store_made_them(claims: Claims) -> None:
    body = carried(ClaimAnswer.of(claims, packed=True))

    assert isinstance(body, ClaimAnswer)
    assert body.model("acme") == claims


@given(LEASES, OUTCOMES, FACTS, ANY_FORMAT)
@settings(max_examples=100, deadline=None)
def test_a_settlement_reaches_the_store_as_it_was(lease: Lease, outcome: Outcome, facts: Facts, form: Format) -> None:
    body = carried(SettlementBody.of(Settlement(lease, outcome, facts)), form)

    assert isinstance(body, SettlementBody)
    settlement = body.settlement(lease.queue, facts, packed=form.is_packed)
    assert (settlement.outcome, settlement.facts) == (outcome, facts)
    assert settlement.lease == msgspec.structs.replace(lease, expires_at_ms=0)  # which no store looks at


@given(FOUND)
@settings(max_examples=100, deadline=None)
def test_a_found_job_comes_back_as_it_was(found: Found) -> None:
    body = carried(JobAnswer.of(found, packed=True))

    assert isinstance(body, JobAnswer)
    assert body.found() == found


@given(FOUND)
@settings(max_examples=100, deadline=None)
def test_json_holds_the_same_job_as_message_pack(found: Found) -> None:
    body = carried(JobAnswer.of(found, packed=False), FORMATS["application/json"])
    packed = carried(JobAnswer.of(found, packed=True))

    assert isinstance(body, JobAnswer)
    assert isinstance(packed, JobAnswer)
    assert (body.id, body.state, body.worker, body.why) == (packed.id, packed.state, packed.worker, packed.why)
    if body.record is not None and packed.record is not None and isinstance(body.record.payload, msgspec.Raw):
        assert bytes(body.record.payload) == packed.record.payload_base64


@given(
    st.builds(Settled, PRINTABLE, st.sampled_from(["done", "dead"]), MAYBE_TIME, st.none() | DEAD.map(lambda d: d.key))
)
@settings(max_examples=50, deadline=None)
def test_an_answer_to_a_settlement_comes_back_as_it_was(settled: Settled) -> None:
    body = carried(SettledJob.of(settled))

    assert isinstance(body, SettledJob)
    assert body.model() == settled
