"""Faults that can be planted in the SQL of the PostgreSQL store: each a change of text in one of its files.

The conformance suite must notice every one of them: see tests/conformance/test_planted_faults.py.
"""

from headrace.stores.postgres.sql import edit

FAULTS: dict[str, tuple[tuple[str, str, str], str]] = {
    "sql_claims_go_by_id": (("claim_take", "ORDER BY place LIMIT", "ORDER BY id LIMIT"), "claim"),
    "sql_a_lease_is_longer_than_asked_for": (
        ("claim_take", "expires_at_ms = now_ms + %b::bigint", "expires_at_ms = now_ms + 1 + %b::bigint"),
        "claim",
    ),
    "sql_a_repeated_nonce_finds_the_claims_of_others": (("job_of_nonce", "nonce = %s", "nonce <> %s"), "claim"),
    "sql_a_due_job_is_not_promoted_at_its_time": (("job_due", "run_at_ms <= %s", "run_at_ms < %s"), "claim"),
    "sql_promotion_goes_by_id_alone": (("job_due", "ORDER BY run_at_ms, id", "ORDER BY id"), "claim"),
    "sql_a_lease_is_not_repaired_at_its_end": (
        ("job_overdue", "expires_at_ms <= %s", "expires_at_ms < %s"),
        "repair",
    ),
    "sql_repair_goes_by_id_alone": (("job_overdue", "ORDER BY expires_at_ms, id", "ORDER BY id"), "repair"),
    "sql_an_update_keeps_the_old_payload": (
        ("job_change", "payload = coalesce(new.payload, job.payload)", "payload = job.payload"),
        "enqueue",
    ),
    "sql_a_twin_is_lost": (("job_change", "twin = new.twin", "twin = NULL"), "twins"),
    "sql_a_twin_stays_when_its_job_waits_again": (("job_change", "twin = new.twin", "twin = job.twin"), "twins"),
    "sql_an_idempotency_key_is_not_found": (
        ("key_lock", "WHERE key.shard_id = of.shard_id", "WHERE key.shard_id = -of.shard_id"),
        "idempotency",
    ),
    "sql_the_newest_endings_are_swept": (("ending_sweep", "ORDER BY ending_id", "ORDER BY ending_id DESC"), "settle"),
    "sql_a_page_of_letters_begins_with_the_last_of_the_one_before": (
        ("letter_list", "number > %s", "number >= %s"),
        "dead",
    ),
    "sql_a_replayed_letter_stays": (("letter_drop", "number = ANY", "number <> ALL"), "dead"),
    "sql_a_page_of_names_begins_with_the_last_of_the_one_before": (
        ("queue_names", "name > %s", "name >= %s"),
        "queues",
    ),
    "sql_the_oldest_due_job_is_looked_for_in_one_priority": (
        ("job_oldest", "generate_series(0, 9)", "generate_series(0, 0)"),
        "queues",
    ),
    "sql_counts_are_not_told_apart": (
        ("inbox_write", "ready, later, blocked, active", "later, ready, blocked, active"),
        "queues",
    ),
    "sql_what_is_not_numbered_is_not_counted": (("queue_open", "s.ready + i.ready", "s.ready"), "queues"),
    "sql_waiting_jobs_are_listed_backwards": (("job_ids_waiting", "ORDER BY id", "ORDER BY id DESC"), "reads"),
    "sql_the_last_call_is_numbered_first": (("inbox_read", "ORDER BY ticket", "ORDER BY ticket DESC"), "journal"),
    "sql_the_journal_is_read_backwards": (("entry_read", "ORDER BY last_seq;", "ORDER BY last_seq DESC;"), "journal"),
    "sql_nobody_is_known_to_wait_for_the_end_of_a_job": (
        ("queue_open", "q.awaited_until_ms > floor", "q.awaited_until_ms < floor"),
        "signals",
    ),
    "sql_a_consumer_does_not_advance": (("consumer_write", "seq = excluded.seq, ", ""), "journal"),
}
"""In which file what is replaced by what, and where the fault is looked for first, which saves time and decides
nothing."""


def planted(name: str, file: str, text: str) -> str:
    """The text of a file with the named fault; what it replaces must be there exactly once."""
    (broken, right, wrong), _ = FAULTS[name]
    if file != broken:
        return text
    if text.count(right) != 1:
        raise ValueError(f"{name} replaces a text that is there {text.count(right)} times; bring it up to date")
    return text.replace(right, wrong)


def plant(name: str) -> None:
    """Break the statements that this process will read in the named way."""
    edit(lambda file, text: planted(name, file, text))
