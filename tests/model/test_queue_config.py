"""Queue configuration: versioned, changed field by field, and what a job adds to it."""

import pytest

from headrace.model.errors import Refused
from headrace.model.limits import ATTEMPTS_MAX, DURATION_MS_MAX, RETENTION_MAX
from headrace.model.names import Queue
from headrace.model.policy import (
    DEFAULT_CONFIG,
    FAIL_QUEUE_CONFIG,
    NO_POLICY,
    SETTABLE,
    Policy,
    QueueConfig,
    first_config,
)

HOUR_MS = 3_600_000


def test_the_defaults_are_the_documented_ones() -> None:
    """Q31, TB2, C8: the documented defaults."""
    config = DEFAULT_CONFIG

    assert (config.version, config.paused, config.fail_handler, config.priority, config.timeout_ms) == (
        0,
        False,
        False,
        5,
        0,
    )
    assert (config.max_attempts, config.max_stalls) == (10, 3)
    assert (config.backoff_ms, config.backoff_ms_max) == (2_000, 300_000)
    assert (config.idempotency_ttl_ms, config.keep_done_ms, config.keep_done_max) == (24 * HOUR_MS, HOUR_MS, 10_000)
    assert (config.keep_dead_ms, config.journal_bytes_max) == (30 * 24 * HOUR_MS, 256 * 1024 * 1024)


def test_a_fail_queue_starts_with_a_policy_of_its_own() -> None:
    """Q31: 100 attempts, 3 stalls, 10 s to 15 min."""
    config = first_config(Queue("mail").fail_queue)

    assert config == FAIL_QUEUE_CONFIG
    assert (config.max_attempts, config.max_stalls, config.backoff_ms, config.backoff_ms_max) == (
        100,
        3,
        10_000,
        900_000,
    )
    assert first_config(Queue("mail")) == DEFAULT_CONFIG


def test_a_change_raises_the_version_and_touches_nothing_else() -> None:
    changed = DEFAULT_CONFIG.changed({"paused": True, "max_attempts": 3})

    assert (changed.version, changed.paused, changed.max_attempts) == (1, True, 3)
    assert changed.changed({"paused": False, "max_attempts": 10}) == QueueConfig(version=2)
    assert (DEFAULT_CONFIG.version, DEFAULT_CONFIG.paused) == (0, False)


def test_a_change_of_nothing_is_a_version_too() -> None:
    assert DEFAULT_CONFIG.changed({}).version == 1


@pytest.mark.parametrize("field", ["color", "version", "", "Paused", "expires_at_ms"])
def test_an_unknown_setting_is_refused_with_the_known_ones(field: str) -> None:
    with pytest.raises(Refused) as refused:
        DEFAULT_CONFIG.changed({field: 1})

    assert refused.value.reason == "bad_config"
    assert str(refused.value) == f"queues have no setting {field!r}; known settings: {', '.join(SETTABLE)}"


@pytest.mark.parametrize(
    ("field", "least", "most"),
    [
        ("priority", 0, 9),
        ("timeout_ms", 0, DURATION_MS_MAX),
        ("max_attempts", 1, ATTEMPTS_MAX),
        ("max_stalls", 1, ATTEMPTS_MAX),
        ("backoff_ms", 0, DURATION_MS_MAX),
        ("backoff_ms_max", 0, DURATION_MS_MAX),
        ("result_ttl_ms", 0, DURATION_MS_MAX),
        ("idempotency_ttl_ms", 0, DURATION_MS_MAX),
        ("keep_done_ms", 0, DURATION_MS_MAX),
        ("keep_done_max", 0, RETENTION_MAX),
        ("keep_dead_ms", 0, DURATION_MS_MAX),
        ("keep_dead_max", 0, RETENTION_MAX),
        ("waiting_max", 0, RETENTION_MAX),
        ("journal_keep_ms", 0, DURATION_MS_MAX),
        ("journal_keep_max", 0, RETENTION_MAX),
        ("journal_bytes_max", 0, 2**40),
    ],
)
def test_a_setting_is_taken_within_its_bounds_and_refused_beyond(field: str, least: int, most: int) -> None:
    assert getattr(DEFAULT_CONFIG.changed({field: least}), field) == least
    assert getattr(DEFAULT_CONFIG.changed({field: most}), field) == most

    for beyond in (least - 1, most + 1):
        with pytest.raises(Refused, match=f"^{field} must be from {least:,} to {most:,}; found {beyond:,}$"):
            DEFAULT_CONFIG.changed({field: beyond})


@pytest.mark.parametrize("field", ["paused", "fail_handler", "journal_payloads"])
@pytest.mark.parametrize("value", [1, 0, "yes", None])
def test_a_switch_is_true_or_false_and_nothing_else(field: str, value: object) -> None:
    with pytest.raises(Refused, match=f"{field} must be true or false; found "):
        DEFAULT_CONFIG.changed({field: value})


def test_every_field_but_the_version_can_be_set() -> None:
    assert set(SETTABLE) == set(QueueConfig.__struct_fields__) - {"version"}


def test_the_policy_of_a_job_wins_over_its_queue() -> None:
    """Q11: field by field; zero is something, and None follows the queue."""
    config = DEFAULT_CONFIG.changed({"max_attempts": 4, "priority": 2, "result_ttl_ms": 9, "timeout_ms": 8})
    own = Policy(priority=0, max_attempts=7, result_ttl_ms=0, timeout_ms=0, expires_at_ms=5)

    rules = config.effective(own)

    assert (rules.max_attempts, rules.priority, rules.max_stalls, rules.backoff_ms) == (7, 0, 3, 2_000)
    assert (config.priority_of(own), config.result_ttl_of(own), config.timeout_of(own)) == (0, 0, 0)
    assert (config.priority_of(NO_POLICY), config.result_ttl_of(NO_POLICY), config.timeout_of(NO_POLICY)) == (2, 9, 8)
    assert config.effective(NO_POLICY) == config
