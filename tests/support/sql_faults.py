"""Faults that can be planted in the SQL of the PostgreSQL store: each a change of the text of one statement.

The conformance suite must notice every one of them: see tests/conformance/test_planted_faults.py.
"""

from headrace.stores.postgres.sql import edit

FAULTS: dict[str, tuple[tuple[str, str, str], str]] = {
    "sql_claims_go_by_id": (
        ("claim_take", "ORDER BY order_key LIMIT", "ORDER BY id LIMIT"),
        "test_claim.py::test_ready_jobs_come_by_priority_and_then_in_order_of_arrival",
    ),
    "sql_a_lease_is_longer_than_requested": (
        ("claim_take", "expires_at_ms = now_ms + %b::bigint", "expires_at_ms = now_ms + 1 + %b::bigint"),
        "test_claim.py::test_a_job_that_comes_back_draws_a_new_number",
    ),
    "sql_a_repeated_nonce_finds_the_claims_of_others": (
        ("job_of_nonce", "nonce = %s", "nonce <> %s"),
        "test_claim.py::test_a_repeated_nonce_returns_the_same_claims_and_nothing_new",
    ),
    "sql_a_due_job_is_not_promoted_at_its_time": (
        ("job_due", "run_at_ms <= %s", "run_at_ms < %s"),
        "test_claim.py::test_a_job_without_a_priority_has_that_of_its_queue_when_it_draws_its_number",
    ),
    "sql_promotion_goes_by_id_alone": (
        ("job_due", "ORDER BY run_at_ms, id", "ORDER BY id"),
        "test_claim.py::test_later_jobs_become_ready_by_time_and_then_by_id",
    ),
    "sql_a_lease_is_not_repaired_at_its_end": (
        ("job_overdue", "expires_at_ms <= %s", "expires_at_ms < %s"),
        "test_repair.py::test_a_lease_that_has_run_out_makes_its_job_due_at_once",
    ),
    "sql_repair_goes_by_id_alone": (
        ("job_overdue", "ORDER BY expires_at_ms, id", "ORDER BY id"),
        "test_repair.py::test_leases_are_repaired_by_their_end_and_then_by_id",
    ),
    "sql_an_update_keeps_the_old_payload": (
        ("job_update", "payload = coalesce(new.payload, job.payload)", "payload = job.payload"),
        "test_enqueue.py::test_the_same_id_twice_is_one_job",
    ),
    "sql_a_blocked_job_is_lost": (
        ("job_update", "blocked_job = new.blocked_job", "blocked_job = NULL"),
        "test_blocked_jobs.py::test_an_enqueue_of_an_active_id_becomes_a_blocked_job",
    ),
    "sql_a_blocked_job_stays_when_its_job_waits_again": (
        ("job_update", "blocked_job = new.blocked_job", "blocked_job = job.blocked_job"),
        "test_blocked_jobs.py::test_an_enqueue_of_an_active_id_becomes_a_blocked_job",
    ),
    "sql_an_idempotency_key_is_not_found": (
        ("key_lock", "WHERE key.shard_id = of.shard_id", "WHERE key.shard_id = -of.shard_id"),
        "test_idempotency.py::test_a_key_that_was_used_answers_with_the_first_id_and_changes_nothing",
    ),
    "sql_the_newest_finished_jobs_are_swept": (
        ("finished_job_sweep", "ORDER BY finished_job_id", "ORDER BY finished_job_id DESC"),
        "test_settle.py::test_cancelled_and_done_share_the_bound",
    ),
    "sql_a_page_of_dead_letters_begins_with_the_last_of_the_one_before": (
        ("dead_letter_list", "number > %s", "number >= %s"),
        "test_dead_letters.py::test_the_pages_of_a_list_show_every_dead_letter_once",
    ),
    "sql_a_replayed_dead_letter_stays": (
        ("dead_letter_drop", "number = ANY", "number <> ALL"),
        "test_dead_letters.py::test_a_list_continues_while_dead_letters_come_and_go",
    ),
    "sql_a_page_of_names_begins_with_the_last_of_the_one_before": (
        ("queue_names", "name > %s", "name >= %s"),
        "test_queues.py::test_queues_are_listed_by_name_page_by_page",
    ),
    "sql_the_oldest_due_job_is_searched_in_one_priority": (
        ("job_oldest", "generate_series(0, 9)", "generate_series(0, 0)"),
        "test_queues.py::test_counts_are_the_jobs_by_state",
    ),
    "sql_ready_and_later_counts_are_swapped": (
        ("inbox_write", "ready, later, blocked, active", "later, ready, blocked, active"),
        "test_queues.py::test_a_paused_queue_promotes_jobs_whose_time_has_come",
    ),
    "sql_calls_without_numbers_are_not_counted": (
        ("queue_open", "s.ready + i.ready", "s.ready"),
        "test_queues.py::test_a_queue_is_full_at_waiting_max_and_takes_more_when_something_leaves",
    ),
    "sql_a_page_of_later_jobs_begins_with_the_last_of_the_one_before": (
        ("job_page_later", "(run_at_ms, id) > (%s, %s)", "(run_at_ms, id) >= (%s, %s)"),
        "test_browse.py::test_the_pages_of_a_view_show_every_row_once_in_order",
    ),
    "sql_the_oldest_finished_jobs_are_shown_first": (
        ("finished_job_page_pinned", "ORDER BY finished_job_id DESC", "ORDER BY finished_job_id"),
        "test_browse.py::test_finished_shows_the_newest_first_whether_they_are_pinned_or_not",
    ),
    "sql_a_job_is_ahead_of_itself": (
        ("job_ready_before", "order_key < %s", "order_key <= %s"),
        "test_browse.py::test_the_jobs_ahead_of_one_are_those_before_it_in_the_view_next",
    ),
    "sql_an_overview_misses_calls_without_numbers": (
        ("queue_overview", "sum(s.seq + i.events)", "sum(s.seq)"),
        "test_overview.py::test_an_overview_shows_each_queue_with_its_settings_and_counts",
    ),
    "sql_a_page_of_an_overview_begins_with_the_last_of_the_one_before": (
        ("queue_overview", "queue.name > arg.after", "queue.name >= arg.after"),
        "test_overview.py::test_the_pages_of_an_overview_show_every_queue_once_by_name",
    ),
    "sql_waiting_jobs_are_listed_backwards": (
        ("job_ids_waiting", "ORDER BY id", "ORDER BY id DESC"),
        "test_reads.py::test_a_list_goes_by_shard_then_id_page_by_page",
    ),
    "sql_a_scan_of_dead_letters_begins_at_their_end": (
        ("dead_letter_scan", "ORDER BY number LIMIT", "ORDER BY number DESC LIMIT"),
        "test_scan.py::test_a_scan_shows_the_same_as_find_and_the_list_of_dead_letters",
    ),
    "sql_the_last_call_is_numbered_first": (
        ("inbox_read", "ORDER BY ticket", "ORDER BY ticket DESC"),
        "test_journal.py::test_updated_has_the_attempts",
    ),
    "sql_an_entry_loses_its_worker_on_its_way_to_the_journal": (
        ("inbox_number", "at_ms, count, worker, lines FROM gone", "at_ms, count, NULL, lines FROM gone"),
        "test_journal.py::test_claimed_carries_the_fence_and_the_worker_only",
    ),
    "sql_numbers_and_times_are_swapped_on_the_way_to_the_journal": (
        ("inbox_number", "numbered (ticket, last_seq, at_ms)", "numbered (ticket, at_ms, last_seq)"),
        "test_journal.py::test_seq_is_gap_free_from_one_in_every_shard",
    ),
    "sql_a_numbered_call_is_late_by_a_millisecond": (
        ("inbox_number", "numbered.at_ms, inbox.count", "numbered.at_ms + 1 AS at_ms, inbox.count"),
        "test_journal.py::test_an_event_is_one_flat_row_with_its_tenant_queue_shard_epoch_seq_and_time",
    ),
    "sql_the_journal_is_read_backwards": (
        ("journal_read", "ORDER BY last_seq;", "ORDER BY last_seq DESC;"),
        "test_journal.py::test_stalled_names_the_lost_worker_and_not_the_repairing_one",
    ),
    "sql_a_search_stops_before_the_instant": (
        ("journal_reached", "high, %s::bigint\n", "high, %s::bigint - 1\n"),
        "test_journals.py::test_a_journal_had_got_as_far_as_its_last_event_at_or_before_the_instant",
    ),
    "sql_the_bounds_of_many_journals_miss_calls_without_numbers": (
        ("shard_bounds", "i.holds IS NOT NULL", "false"),
        "test_journals.py::test_the_bounds_of_many_shards_are_those_of_each_in_order",
    ),
    "sql_waiters_for_the_end_of_a_job_are_unknown": (
        ("queue_open", "q.awaited_until_ms > floor", "q.awaited_until_ms < floor"),
        "test_signals.py::test_a_waiter_for_an_end_is_woken_by_another_handle_of_the_store",
    ),
    "sql_a_consumer_does_not_advance": (
        ("consumer_write", "seq = excluded.seq, ", ""),
        "test_journal.py::test_a_consumer_keeps_its_offset",
    ),
    "sql_a_page_of_changes_begins_with_the_last_of_the_one_before": (
        ("feed_change_read", "seq > %s", "seq >= %s"),
        "test_feed_changes.py::test_a_cursor_returns_the_changes_after_it_repeatedly",
    ),
    "sql_a_trim_drops_one_too_many": (
        ("feed_change_drop", "BETWEEN %s AND %s", "BETWEEN %s AND %s + 1"),
        "test_feed_changes.py::test_changes_are_kept_by_count",
    ),
    "sql_a_page_of_items_begins_with_the_last_of_the_one_before": (
        ("feed_item_read", "rank > %s", "rank >= %s"),
        "test_feed_items.py::test_the_pages_of_a_list_show_every_item_once_in_order",
    ),
    "sql_an_edit_keeps_the_old_item": (
        ("feed_item_write", ", item = excluded.item", ""),
        "test_feed_items.py::test_an_edit_replaces_a_known_item_and_creates_no_new_one",
    ),
    "sql_a_retracted_item_stays": (
        ("feed_item_drop", "feed_item.id = gone.id", "feed_item.id <> gone.id"),
        "test_feed_items.py::test_a_retracted_item_is_gone_and_logged_once",
    ),
}
"""The statement, the text in it with its replacement, and the test that must fail because of it."""


def planted(name: str, statement: str, text: str) -> str:
    """The text of a statement with the named fault, whose text must occur exactly once."""
    (broken, right, wrong), _ = FAULTS[name]
    if statement != broken:
        return text
    if text.count(right) != 1:
        raise ValueError(f"{name} replaces a text that occurs {text.count(right)} times; bring it up to date")
    return text.replace(right, wrong)


def plant(name: str) -> None:
    """Break the statements that this process will read in the named way."""
    edit(lambda statement, text: planted(name, statement, text))
