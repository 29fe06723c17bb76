"""Outcomes and errors of deliveries, and the decisions that follow."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.model.decision import STALLED, Finish, Kill, Requeue, decide, decide_stall, is_expired
from headrace.model.errors import Refused
from headrace.model.job import Record
from headrace.model.limits import DURATION_MS_MAX, ERROR_CLASS_CHARS_MAX, ERROR_MESSAGE_CHARS_MAX, RESULT_BYTES_MAX
from headrace.model.outcome import Cancelled, Done, Failed, JobError, Outcome, Released, Retried, check_outcome
from headrace.model.policy import DEFAULT_CONFIG, Policy

BOOM = JobError("Boom", "it broke")
NOW_MS = 1_000
RECORD = Record(id="a", kind="send", payload=b"", run_at_ms=0, enqueued_at_ms=0)


def with_policy(**fields: int) -> Record:
    return replace(RECORD, policy=Policy(**fields))


@given(st.text(max_size=2_000), st.text(max_size=2_000))
def test_an_error_that_is_built_to_fit_fits(name: str, message: str) -> None:
    error = JobError.of(name, message)

    assert 1 <= len(error.cls) <= ERROR_CLASS_CHARS_MAX
    assert len(error.message) <= ERROR_MESSAGE_CHARS_MAX
    assert (error.cls + error.message).encode()


def test_a_long_error_is_cut_visibly() -> None:
    error = JobError.of("X" * 500, "m" * 5_000)

    assert error.cls == "X" * (ERROR_CLASS_CHARS_MAX - 1) + "…"
    assert error.message == "m" * (ERROR_MESSAGE_CHARS_MAX - 1) + "…"


def test_lone_surrogates_in_an_error_are_replaced_and_an_empty_class_gets_a_name() -> None:
    assert JobError.of("", "bad \ud800 byte") == JobError("Error", "bad ? byte")


@pytest.mark.parametrize(
    ("build", "reason", "message"),
    [
        (lambda: JobError("X" * 129), "bad_error", "too long; build it with JobError.of, which cuts it"),
        (lambda: JobError("X", "m" * 1_025), "bad_error", "too long; build it with JobError.of, which cuts it"),
        (lambda: JobError("\ud800"), "bad_error", "error '\\ud800' holds half a character at 0"),
        (lambda: JobError(None), "bad_error", "class and message must be text; found NoneType None"),  # type: ignore[arg-type]
        (lambda: Failed("boom"), "bad_error", "an outcome's error must be a JobError; found str 'boom'"),  # type: ignore[arg-type]
        (lambda: Retried(None), "bad_error", "an outcome's error must be a JobError; found NoneType None"),  # type: ignore[arg-type]
        (lambda: Done("text"), "bad_result", "result must be encoded bytes; found str; encode it first"),  # type: ignore[arg-type]
        (
            lambda: Done(b"x" * (RESULT_BYTES_MAX + 1)),
            "result_too_large",
            "result has 262,145 bytes; at most 262,144 are kept; store the data elsewhere and return its address",
        ),
        (lambda: Retried(BOOM, delay_ms=-1), "bad_delay_ms", "found -1"),
        (lambda: Retried(BOOM, delay_ms=DURATION_MS_MAX + 1), "bad_delay_ms", "delay_ms must be from 0 to"),
        (lambda: Retried(BOOM, jitter_ppm=1_000_001), "bad_jitter_ppm", "from 0 to 1,000,000; found 1,000,001"),
        (lambda: Retried(BOOM, jitter_ppm=0.5), "bad_jitter_ppm", "must be a whole number; found float 0.5"),  # type: ignore[arg-type]
        (lambda: Released(-1), "bad_delay_ms", "found -1"),
        (lambda: Released(None), "bad_delay_ms", "must be a whole number; found NoneType None"),  # type: ignore[arg-type]
    ],
)
def test_an_outcome_that_can_never_be_right_is_refused_in_one_sentence(build: Any, reason: str, message: str) -> None:
    """C20, T7: what was found and what to do."""
    with pytest.raises(Refused) as refused:
        build()

    assert refused.value.reason == reason
    assert message in str(refused.value)


@pytest.mark.parametrize("outcome", [None, "done", BOOM, Done, object()])
def test_an_invalid_outcome_is_refused(outcome: object) -> None:
    with pytest.raises(Refused, match="is not an outcome; use Done, Retry, Fail, Release or Cancelled"):
        check_outcome(outcome)


@pytest.mark.parametrize("outcome", [Done(), Retried(BOOM), Failed(BOOM), Released(), Cancelled()])
def test_the_five_outcomes_are_outcomes(outcome: Outcome) -> None:
    check_outcome(outcome)


def test_done_and_cancelled_end_the_job_and_count_nothing() -> None:
    assert decide(RECORD, Done(b"1"), False, DEFAULT_CONFIG, NOW_MS) == Finish(RECORD, "done", b"1")
    assert decide(RECORD, Cancelled(), False, DEFAULT_CONFIG, NOW_MS) == Finish(RECORD, "cancelled")


def test_fail_counts_an_attempt_and_kills() -> None:
    """T21."""
    failed = replace(RECORD, attempts=1, error=BOOM, failed_at_ms=NOW_MS)

    assert decide(RECORD, Failed(BOOM), False, DEFAULT_CONFIG, NOW_MS) == Kill(failed, "failed", BOOM)


@pytest.mark.parametrize(("attempts", "dies"), [(3, False), (4, True), (9, True)])
def test_retry_kills_when_the_attempts_have_reached_their_number(attempts: int, dies: bool) -> None:
    """CB1, T30, Q26: counted once, compared after counting."""
    record = replace(with_policy(max_attempts=5), attempts=attempts)

    decision = decide(record, Retried(BOOM), False, DEFAULT_CONFIG, NOW_MS)

    assert decision.record.attempts == attempts + 1
    assert isinstance(decision, Kill if dies else Requeue)


def test_retry_waits_for_its_delay_or_for_the_backoff() -> None:
    """Q29: attempt two of 100 ms waits 200 ms."""
    record = replace(with_policy(backoff_ms=100), attempts=1)

    for outcome, at_ms in (
        (Retried(BOOM), 1_200),
        (Retried(BOOM, 7), 1_007),
        (Retried(BOOM, jitter_ppm=500_000), 1_100),
    ):
        assert decide(record, outcome, False, DEFAULT_CONFIG, NOW_MS).record.run_at_ms == at_ms


def test_release_counts_nothing_and_forgets_nothing() -> None:
    """C16."""
    record = replace(RECORD, attempts=2, stalls=1, error=BOOM, failed_at_ms=5)

    decision = decide(record, Released(30), False, DEFAULT_CONFIG, NOW_MS)

    assert decision == Requeue(replace(record, run_at_ms=1_030), "released")


@pytest.mark.parametrize(
    ("outcome", "ends"),
    [(Done(), "done"), (Failed(BOOM), "dead"), (Retried(BOOM), "cancelled"), (Released(), "cancelled")],
)
def test_done_and_fail_win_over_a_cancel_request_and_the_request_over_the_attempts(outcome: Outcome, ends: str) -> None:
    decision = decide(with_policy(max_attempts=1), outcome, True, DEFAULT_CONFIG, NOW_MS)

    assert ("dead" if isinstance(decision, Kill) else decision.event) == ends


@pytest.mark.parametrize(("stalls", "dies"), [(0, False), (1, False), (2, True)])
def test_a_stall_is_counted_and_kills_at_its_number(stalls: int, dies: bool) -> None:
    """TB4, Q23, T15: due at once, attempts as they were."""
    record = replace(with_policy(max_stalls=3), stalls=stalls, attempts=1)

    decision = decide_stall(record, False, DEFAULT_CONFIG, NOW_MS)

    assert (decision.record.stalls, decision.record.attempts, decision.record.error) == (stalls + 1, 1, STALLED)
    assert isinstance(decision, Kill if dies else Requeue)
    assert dies or decision.record.run_at_ms == NOW_MS


def test_a_cancel_request_wins_over_the_stalls() -> None:
    decision = decide_stall(with_policy(max_stalls=1), True, DEFAULT_CONFIG, NOW_MS)

    assert isinstance(decision, Finish)
    assert decision.event == "cancelled"


@pytest.mark.parametrize(("expires_at_ms", "late"), [(999, True), (1_000, False), (1_001, False)])
def test_a_job_may_start_at_the_last_instant(expires_at_ms: int, late: bool) -> None:
    assert is_expired(with_policy(expires_at_ms=expires_at_ms), NOW_MS) is late
    assert not is_expired(RECORD, NOW_MS)


def test_an_error_keeps_no_password_also_where_it_is_cut() -> None:
    url = "redis://me:hunter2@host"
    for length in range(ERROR_MESSAGE_CHARS_MAX - 40, ERROR_MESSAGE_CHARS_MAX + 5):
        error = JobError.of("X", "x" * length + " " + url)

        assert "hunter" not in error.message
        assert len(error.message) <= ERROR_MESSAGE_CHARS_MAX

    for many in range(1, 200):
        assert "hunter" not in JobError.of("X", "y" * many + f" {url}" * 500).message


def test_a_long_word_in_an_error_costs_no_more_than_its_length() -> None:
    """The square of it would be minutes."""
    error = JobError.of("X", "x" * 10_000_000 + "=")

    assert len(error.message) == ERROR_MESSAGE_CHARS_MAX
