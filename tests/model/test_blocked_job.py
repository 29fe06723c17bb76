"""Blocked jobs: merging blocked enqueues is the same as applying them one after the other."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.job import BlockedJob, Job, Record, UpdateRunAt, block, record_of, upsert
from headrace.model.names import Queue
from headrace.model.outcome import JobError
from headrace.model.policy import Policy

NOW_MS = 1_000
QUEUE = Queue("mail", "acme")
times = st.none() | st.integers(0, 5_000)
flags = st.none() | st.sampled_from(UpdateRunAt)
policies = st.builds(Policy, priority=st.none() | st.integers(0, 9), max_attempts=st.none() | st.integers(1, 9))


@st.composite
def jobs(draw: st.DrawFn, update_policy: bool | None = None) -> Job:
    """Any enqueue of the id `a`."""
    return Job(
        queue=QUEUE,
        id="a",
        kind=draw(st.sampled_from(["send", "resize"])),
        payload=draw(st.sampled_from([b"1", b"2", b"3"])),
        tag=draw(st.none() | st.just("t")),
        run_at_ms=draw(times),
        policy=draw(policies),
        update_payload=draw(st.booleans()),
        update_run_at=draw(flags),
        update_policy=draw(st.booleans()) if update_policy is None else update_policy,
        reset_counts=draw(st.booleans()),
    )


def blocked(enqueues: list[Job]) -> BlockedJob:
    """The blocked job after these enqueues."""
    blocked_job = None
    for job in enqueues:
        blocked_job = block(blocked_job, job, NOW_MS)
    assert blocked_job is not None
    return blocked_job


def one_by_one(record: Record, enqueues: list[Job]) -> Record:
    """The record after the same enqueues on a waiting job."""
    for job in enqueues:
        record = upsert(record, job, NOW_MS)
    return record


def back(run_at_ms: int) -> Record:
    """A job that waits again, with a failed attempt behind it."""
    return Record(
        id="a",
        kind="old",
        payload=b"old",
        run_at_ms=run_at_ms,
        enqueued_at_ms=0,
        policy=Policy(priority=1, backoff_ms=7),
        tag="old",
        attempts=3,
        stalls=1,
        error=JobError("Boom"),
        failed_at_ms=900,
    )


@given(st.lists(jobs(), min_size=1, max_size=6), st.integers(0, 5_000))
def test_the_clamp_of_a_blocked_job_gives_the_time_that_single_updates_would_give(
    enqueues: list[Job], retry_ms: int
) -> None:
    """Q9, Q25, QB2: for every sequence of flags and times, and every time of the retry."""
    applied = blocked(enqueues).applied(back(retry_ms))

    assert applied.run_at_ms == one_by_one(back(retry_ms), enqueues).run_at_ms


@given(st.lists(jobs(), min_size=1, max_size=6), st.integers(0, 5_000))
def test_an_applied_blocked_job_has_the_counters_that_single_updates_would_give(
    enqueues: list[Job], retry_ms: int
) -> None:
    """Q10, QB7: one reset among them is enough."""
    applied, expected = blocked(enqueues).applied(back(retry_ms)), one_by_one(back(retry_ms), enqueues)

    assert (applied.attempts, applied.stalls) == (expected.attempts, expected.stalls)
    assert (applied.error, applied.failed_at_ms) == (expected.error, expected.failed_at_ms)
    assert (applied.attempts == 0) == any(job.reset_counts for job in enqueues)


@given(st.lists(jobs(), min_size=1, max_size=6), st.integers(0, 5_000))
def test_an_applied_blocked_job_has_the_last_payload_that_was_to_be_taken(enqueues: list[Job], retry_ms: int) -> None:
    """Q8, QB7: as single updates would leave it, and the old one when none brought any."""
    applied, expected = blocked(enqueues).applied(back(retry_ms)), one_by_one(back(retry_ms), enqueues)

    assert (applied.kind, applied.payload, applied.tag) == (expected.kind, expected.payload, expected.tag)


@given(st.lists(jobs(update_policy=True), min_size=1, max_size=6), st.integers(0, 5_000))
def test_an_applied_blocked_job_has_the_policy_that_single_updates_would_give(
    enqueues: list[Job], retry_ms: int
) -> None:
    """Q11: field by field, when all of them bring theirs."""
    applied = blocked(enqueues).applied(back(retry_ms))

    assert applied.policy == one_by_one(back(retry_ms), enqueues).policy


@given(st.lists(jobs(update_policy=False), min_size=1, max_size=6))
def test_an_applied_blocked_job_without_a_policy_leaves_the_policy_alone(enqueues: list[Job]) -> None:
    assert blocked(enqueues).applied(back(0)).policy == back(0).policy


@given(st.lists(jobs(), min_size=1, max_size=6))
def test_a_freed_blocked_job_equals_a_job_of_the_same_enqueues(enqueues: list[Job]) -> None:
    """Q24, QB2: the first creates it, whatever its flags, and the others update it."""
    freed = blocked(enqueues).freed()

    assert freed == one_by_one(record_of(enqueues[0], NOW_MS), enqueues[1:])
    assert (freed.attempts, freed.stalls, freed.error) == (0, 0, None)


@given(jobs())
def test_a_blocked_job_without_a_time_is_due_at_the_instant_of_its_enqueue(job: Job) -> None:
    freed = blocked([job]).freed()

    assert freed.run_at_ms == (NOW_MS if job.run_at_ms is None else job.run_at_ms)


@given(st.lists(jobs(), min_size=1, max_size=6))
def test_the_bounds_of_a_clamp_never_cross(enqueues: list[Job]) -> None:
    """min(max(t, lo), hi) means one thing only."""
    blocked_job = blocked(enqueues)

    assert blocked_job.lo_ms <= blocked_job.hi_ms
