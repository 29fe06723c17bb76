"""Faults that can be planted in the functions of the Redis store: each a change of text in the assembled source.

The conformance suite must notice every one of them: see tests/conformance/test_planted_faults.py.
"""

from headrace.stores.redis import library

FAULTS: dict[str, tuple[tuple[str, str], str]] = {
    "lua_claims_ignore_priority": (
        ("    tier = (PRIORITY_MAX - priority) * TIER,", "    tier = 0,"),
        "test_claim.py::test_jobs_of_one_call_come_by_priority_and_then_in_their_order",
    ),
    "lua_a_token_is_not_checked": (
        ("elseif find(packed, token, 8, true) ~= 8 then", "elseif false then"),
        "test_settle.py::test_settle_refuses_a_stale_token_and_changes_nothing",
    ),
    "lua_a_page_of_ready_jobs_begins_with_the_last_of_the_one_before": (
        ("call('ZRANGE', s.names.ready, '(' .. after, '+inf'", "call('ZRANGE', s.names.ready, after, '+inf'"),
        "test_browse.py::test_the_pages_of_a_view_show_every_row_once_in_order",
    ),
    "lua_a_page_of_later_jobs_begins_behind_their_time": (
        ("call('ZCOUNT', key, '-inf', '(' .. score), call(", "call('ZCOUNT', key, '-inf', score), call("),
        "test_browse.py::test_later_goes_by_the_time_at_which_jobs_are_due_then_by_id",
    ),
    "lua_pinned_jobs_are_shown_by_the_end_of_their_time": (
        ("finished.pinned_order[n + 2] = counters.seq + n / 2 + 1, id", "finished.pinned_order[n + 2] = until_ms, id"),
        "test_browse.py::test_finished_shows_the_newest_first_whether_they_are_pinned_or_not",
    ),
    "lua_a_pinned_job_stays_in_order_when_its_time_is_over": (
        ("    chunked.run('ZREM', s.names.finished_pinned_order, ids, #ids)\n", ""),
        "test_leftovers.py::test_nothing_stays_of_jobs_that_are_over_once_their_time_is_over_too",
    ),
    "lua_a_job_is_ahead_of_itself": (
        ("'-inf', '(' .. args[at + i])", "'-inf', args[at + i])"),
        "test_browse.py::test_the_jobs_ahead_of_one_are_those_before_it_in_the_view_next",
    ),
    "lua_an_overview_counts_no_events": (
        ("numbers.text(s.counters.seq), state_counts.of(s)", "'0', state_counts.of(s)"),
        "test_overview.py::test_an_overview_shows_each_queue_with_its_settings_and_counts",
    ),
    "lua_a_death_opens_its_fail_queue_a_second_time": (
        ("local own = s.steps_by_key and s.steps_by_key[key]", "local own = nil"),
        "test_fail_handler.py::test_a_settle_of_deaths_and_of_fail_jobs_keeps_both_journals_intact",
    ),
    "lua_done_jobs_are_settled_without_a_look_at_their_tokens": (
        ("if is_done[id] or settle.refusal(s, delivery, nil, token) then", "if is_done[id] or not delivery then"),
        "test_settle.py::test_a_refused_settlement_among_done_ones_leaves_their_lines_as_they_are",
    ),
    "lua_blocked_jobs_are_not_counted": (
        (
            "counters.blocked = counters.blocked + set_hash(names.blocked, s.blocked)",
            "set_hash(names.blocked, s.blocked)",
        ),
        "test_blocked_jobs.py::test_a_blocked_job_becomes_a_job_of_its_own_when_the_active_one_is_over",
    ),
    "lua_finished_jobs_are_never_over": (
        ("local is_any_expired = s.now >= counters.over_at", "local is_any_expired = false"),
        "test_settle.py::test_finished_jobs_whose_time_is_over_are_swept_by_the_next_settle",
    ),
    "lua_a_claim_forgets_the_leases_that_it_gave": (
        ("elseif lease_end and (not next_ms", "elseif false and (not next_ms"),
        "test_claim.py::test_next_at_is_the_end_of_a_lease_that_this_claim_gave",
    ),
    "lua_a_claim_forgets_the_blocked_jobs_that_it_freed": (
        ("  if repaired > 0 then\n    s.first_due = nil", "  if false then\n    s.first_due = nil"),
        "test_claim.py::test_next_at_is_the_time_of_a_blocked_job_that_a_death_in_this_claim_has_freed",
    ),
    "lua_an_expired_lease_is_accepted": (
        ("elseif end_ms and tonumber(end_ms) <= s.now then", "elseif false then"),
        "test_settle.py::test_settle_refuses_a_lease_that_has_run_out_and_changes_nothing",
    ),
    "lua_a_lease_still_holds_at_its_end": (
        ("elseif end_ms and tonumber(end_ms) <= s.now then", "elseif end_ms and tonumber(end_ms) < s.now then"),
        "test_settle.py::test_settle_refuses_a_lease_that_has_run_out_and_changes_nothing",
    ),
    "lua_a_lease_is_not_repaired_at_its_end": (
        (
            "call('ZRANGE', s.names.leases, '-inf', numbers.text(s.now),",
            "call('ZRANGE', s.names.leases, '-inf', '(' .. numbers.text(s.now),",
        ),
        "test_repair.py::test_a_lease_that_has_run_out_makes_its_job_due_at_once",
    ),
    "lua_promotion_has_no_bound": (
        ("claim.promote(s, LIMITS.promotions_per_call_max)", "claim.promote(s, 1000000)"),
        "test_claim.py::test_a_claim_promotes_a_thousand_jobs_of_a_shard_and_no_more",
    ),
    "lua_a_paused_queue_hands_out": (
        ("if not s.cfg.paused then\n    flat, n", "if true then\n    flat, n"),
        "test_queues.py::test_a_paused_queue_hands_nothing_out_until_it_is_resumed",
    ),
    "lua_a_repeated_nonce_hands_out_more": (
        ("return s.worker_seen and sub(s.worker_seen, 7) == request.nonce", "return false"),
        "test_claim.py::test_a_repeated_nonce_returns_the_same_claims_and_nothing_new",
    ),
    "lua_attempts_are_counted_twice": (
        (
            "local failed, cfg = job_codec.with_failure(packed, 1, 0,",
            "local failed, cfg = job_codec.with_failure(packed, 2, 0,",
        ),
        "test_settle.py::test_retry_counts_an_attempt_and_waits_for_the_backoff",
    ),
    "lua_the_budget_is_one_too_large": (
        (
            "if attempts >= job_codec.policy_in_force(packed, 'max_attempts', cfg)",
            "if attempts > job_codec.policy_in_force(packed, 'max_attempts', cfg)",
        ),
        "test_settle.py::test_max_attempts_is_the_exact_number_of_runs",
    ),
    "lua_a_stall_is_not_counted": (
        (
            "job_codec.with_failure(packed, 0, 1, s.now, STALLED.class",
            "job_codec.with_failure(packed, 0, 0, s.now, STALLED.class",
        ),
        "test_repair.py::test_a_lease_that_has_run_out_makes_its_job_due_at_once",
    ),
    "lua_a_blocked_job_is_lost_on_retry": (
        ("    packed = blocked_jobs.apply(blocked_job, packed)\n", ""),
        "test_blocked_jobs.py::test_a_blocked_job_is_applied_on_top_of_a_job_that_comes_back_and_vanishes",
    ),
    "lua_a_blocked_job_is_lost_when_its_namesake_ends": (
        (
            "function blocked_jobs.release(s, id)\n",
            "function blocked_jobs.release(s, id)\n  if true then\n    return\n  end\n",
        ),
        "test_blocked_jobs.py::test_a_blocked_job_becomes_a_job_of_its_own_when_the_active_one_is_over",
    ),
    "lua_a_key_holds_at_its_end": (
        ("if until_ms and s.now < until_ms then", "if until_ms and s.now <= until_ms then"),
        "test_idempotency.py::test_a_key_holds_until_its_time_and_not_at_it",
    ),
    "lua_an_asked_cancel_is_forgotten": (
        ("local is_cancel_requested = byte(delivery) == 49", "local is_cancel_requested = false"),
        "test_cancel.py::test_a_retried_job_with_a_cancel_request_ends_cancelled",
    ),
    "lua_a_replayed_dead_letter_stays": (
        (
            "  dead_letters.drop(s, dead_letter.number, id)\n  finished_jobs.drop(s, id)\n",
            "  finished_jobs.drop(s, id)\n",
        ),
        "test_dead_letters.py::test_replay_drops_the_dead_letter_and_makes_the_job_due_at_once",
    ),
    "lua_a_dead_letter_is_replayed_beside_its_namesake": (
        ("  if live_jobs.get_body(s, id) then\n    return 'u'", "  if false then\n    return 'u'"),
        "test_dead_letters.py::test_replay_refuses_an_id_that_is_in_use_and_keeps_its_dead_letter",
    ),
    "lua_claims_are_told_as_releases": (
        ("""'{"event":"claimed","id":', json""", """'{"event":"released","id":', json"""),
        "test_journal.py::test_claims_behind_expired_jobs_are_written_in_their_order",
    ),
    "lua_claims_are_kept_under_the_fences_before_theirs": (
        ("digits, first, ids, count)", "digits, first - 1, ids, count)"),
        "test_journal.py::test_claimed_carries_the_fence_and_the_worker_only",
    ),
    "lua_a_kept_line_has_no_time": (
        ("bytes + count * #now, now .. ' '", "bytes + count * #now, '0 '"),
        "test_journal.py::test_jobs_of_a_call_each_have_their_own_event",
    ),
    "lua_kept_lines_have_no_bytes": (
        ("journal.add_packed(s, 'e', bytes + count * #now,", "journal.add_packed(s, 'e', 0,"),
        "test_journal.py::test_bounds_are_those_of_the_readable_events",
    ),
    "lua_the_journal_has_gaps": (
        (
            "local seq, at = counters.seq + s.line_count, counters.at",
            "local seq, at = counters.seq + s.line_count + 1, counters.at",
        ),
        "test_journal.py::test_events_are_numbered_without_a_gap_whatever_call_they_are_of",
    ),
    "lua_a_search_stops_before_the_instant": (
        ("if tonumber(at) <= instant then", "if tonumber(at) < instant then"),
        "test_journals.py::test_a_journal_had_got_as_far_as_its_last_event_at_or_before_the_instant",
    ),
    "lua_a_search_does_not_know_what_was_dropped": (
        ("math.max(low, s.counters.first - 1), math.min", "low, math.min"),
        "test_journals.py::test_dropped_events_count_as_before_any_instant",
    ),
    "lua_the_bounds_of_a_journal_begin_with_its_last_time": (
        (
            "counters.seq, counters.oldest, counters.at, counters.bytes }",
            "counters.seq, counters.at, counters.at, counters.bytes }",
        ),
        "test_journal.py::test_bounds_are_those_of_the_readable_events",
    ),
    "lua_the_time_of_the_journal_goes_back": (
        ("  if s.now > at then\n    at = s.now\n  end\n", "  at = s.now\n"),
        "test_journal.py::test_at_ms_never_decreases_in_a_shard_even_when_the_clock_goes_back",
    ),
    "lua_nobody_waits_for_a_holding_consumer": (
        ("if hold == '1' and", "if false and"),
        "test_journal.py::test_age_and_count_wait_for_a_holding_consumer",
    ),
    "lua_a_full_queue_takes_more": (
        ("= s.cfg.waiting_max - live_jobs.count_waiting(s)", "= 1000000"),
        "test_queues.py::test_a_queue_is_full_at_waiting_max_and_takes_more_when_something_leaves",
    ),
    "lua_an_old_finished_job_outlives_a_new_job": (
        ("  if found then\n    finished_jobs.drop(s, id)", "  if false then\n    finished_jobs.drop(s, id)"),
        "test_enqueue.py::test_an_ended_id_can_be_created_again_and_loses_its_old_finished_job",
    ),
    "lua_a_list_starts_anew_on_every_page": (
        ("local is_wanted = records.is_before(args[6], id) and", "local is_wanted ="),
        "test_reads.py::test_a_list_continues_after_any_id_even_an_unknown_one",
    ),
    "lua_another_number_of_shards_is_accepted": (
        ("if known and shards ~= '' and known ~= shards then", "if false then"),
        "test_queues.py::test_a_wrong_number_of_shards_is_refused_by_every_call_and_changes_nothing",
    ),
    "lua_deleting_leaves_the_keys": (
        (
            "  left = delete_ordered(names.idempotency_ends, names.idempotency_keys, left)\n",
            "",
        ),
        "test_queues.py::test_a_deleted_queue_is_gone_with_its_finished_jobs_dead_letters_keys_journal_and_settings",
    ),
    "lua_a_configuration_stays_on_the_first_shard": (
        ("local is_newer = s and s.cfg.version", "local is_newer = index == 1 and s and s.cfg.version"),
        "test_queues.py::test_counts_follow_every_transition_down_to_nothing",
    ),
    "lua_the_oldest_due_job_is_looked_for_in_one_priority": (
        ("for tier = 0, PRIORITY_MAX do", "for tier = 0, 0 do"),
        "test_queues.py::test_counts_are_the_jobs_by_state",
    ),
    "lua_the_end_of_a_job_is_not_told": (
        ("  notify.publish(s.names.end_channel, concat(ids, '\\n'))\n", ""),
        "test_signals.py::test_a_waiter_for_an_end_is_woken_by_another_handle_of_the_store",
    ),
    "lua_a_snapshot_leaves_out_what_is_later": (
        ("ipairs({ names.ready, names.later })", "ipairs({ names.ready })"),
        "test_reads.py::test_a_snapshot_equals_the_fold_of_the_journal_up_to_its_seq",
    ),
    "lua_moves_are_not_told": (
        ("  feed.note_change(f, 'm', where, id, item, neighbour)\n", ""),
        "test_sorted_feeds.py::test_an_item_moves_to_either_end_and_next_to_another",
    ),
    "lua_an_edit_evicts": (
        ("if type == 'feed' and find(answer, 'p', 1, true) then", "if type == 'feed' then"),
        "test_feed_items.py::test_a_lower_bound_evicts_with_the_next_publication_and_not_with_an_edit",
    ),
    "lua_a_move_next_to_itself_loses_the_item": (
        (
            "  if neighbour == id or is_at(",
            "  if id == neighbour then\n    return items.drop(f, id, packed)\n  elseif is_at(",
        ),
        "test_sorted_feeds.py::test_a_move_to_where_the_item_stands_changes_nothing",
    ),
    "lua_a_refusal_burns_a_number": (
        ("    return 'n'\n  elseif not old and", "    draw_id(f)\n    return 'n'\n  elseif not old and"),
        "test_sorted_feeds.py::test_next_to_an_unknown_item_nothing_is_published_and_no_number_is_drawn",
    ),
    "lua_a_number_that_was_given_is_drawn_again": (
        ("    skip_number(f, id)\n", ""),
        "test_sorted_feeds.py::test_a_number_used_as_an_id_is_never_drawn_for_another_item",
    ),
    "lua_ranks_drawn_anew_disturb_the_order": (
        ("ranks[index <= lower and index or index + 1]", "ranks[index < 3 and 3 - index or index + 1]"),
        "test_sorted_feeds.py::test_ranks_that_would_grow_long_are_redistributed_in_the_same_order",
    ),
    "lua_an_item_is_handed_out_twice": (
        (
            "      items.drop(f, ids[index], rows[index])\n    end\n    for _, member in ipairs(f.lost_members)",
            "    end\n    for _, member in ipairs(f.lost_members)",
        ),
        "test_item_queues.py::test_items_come_out_in_the_order_in_which_they_were_put",
    ),
    "lua_an_item_queue_is_last_in_first_out": (
        (
            "  feed_position.put(f, id, item, where, neighbour)\n",
            "  feed_position.put(f, id, item, type == 'queue' and 'f' or where, neighbour)\n",
        ),
        "test_item_queues.py::test_items_come_out_in_the_order_in_which_they_were_put",
    ),
    "lua_an_item_is_shown_at_its_age": (
        ("if items.at_of(rows[index]) > expired_at then", "if items.at_of(rows[index]) >= expired_at then"),
        "test_feed_items.py::test_items_over_their_age_are_not_shown_whether_they_were_swept_or_not",
    ),
    "lua_a_scan_loses_the_blocked_jobs": (
        ("ends[i] or false, blocked[i] or false", "ends[i] or false, false"),
        "test_scan.py::test_a_scan_shows_the_same_as_find_and_the_list_of_dead_letters",
    ),
    "lua_the_log_of_a_feed_has_holes": (
        ("counters.seq + count, counters.epoch\n", "counters.seq + count + 1, counters.epoch\n"),
        "test_feed_changes.py::test_changes_are_numbered_without_a_hole_in_the_order_in_which_they_happened",
    ),
    "lua_a_trim_drops_one_too_many": (
        (
            "counters.seq - counters.first + 1 - cfg.changes_keep_max",
            "counters.seq - counters.first + 2 - cfg.changes_keep_max",
        ),
        "test_feed_changes.py::test_changes_are_kept_by_count",
    ),
    "lua_a_gap_is_not_noticed": (
        ("if seq < counters.first - 1 or seq > counters.seq then", "if seq > counters.seq then"),
        "test_feed_changes.py::test_changes_are_kept_by_count",
    ),
    "lua_the_epoch_of_a_cursor_is_ignored": (
        ("return entry_epoch == epoch and 'kept' or 'gap'", "return entry_epoch and 'kept' or 'gap'"),
        "test_feed_changes.py::test_a_cursor_that_this_log_has_not_reached_is_a_gap",
    ),
    "lua_the_directory_is_not_told_of_settings": (
        ("  directory.record(directory.open(keys[2], args[5], args[2], now), 'g', args[3], args[4])\n", ""),
        "test_feeds.py::test_the_log_of_the_directory_has_created_changed_and_deleted_feeds",
    ),
    "lua_a_deleted_feed_leaves_its_items": (
        ("call('UNLINK', f.key, f.items_key, f.ranks_key, f.log_key)", "call('UNLINK', f.key, f.log_key)"),
        "test_feeds.py::test_a_recreated_feed_starts_empty",
    ),
}
"""What is replaced by what, and the test that must fail because of it."""


def planted(name: str, source: str) -> str:
    """The source with the named fault; what it replaces must be there exactly once."""
    (right, wrong), _ = FAULTS[name]
    if source.count(right) != 1:
        raise ValueError(f"{name} replaces a text that is there {source.count(right)} times; bring it up to date")
    return source.replace(right, wrong)


def plant(name: str) -> None:
    """Break the functions that this process will load in the named way."""
    source = planted(name, library.assemble_source())
    library.assemble_source = lambda: source  # type: ignore[assignment]
