"""Faults that can be planted in the memory store, each under a name that describes it.

The conformance suite must notice every one of them: see tests/conformance/test_planted_faults.py.
"""

import sys
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from headrace.model import decision, event, job, names, policy
from headrace.model.names import Queue
from headrace.model.policy import DEFAULT_CONFIG
from headrace.model.results import Replayed
from headrace.stores.engine import cancel, claim, dead_letters, enqueue, journal, rows, settle, step
from headrace.stores.engine import jobs as engine_jobs
from headrace.stores.engine import queues as engine_queues
from headrace.stores.engine.journal import EngineJournal
from headrace.stores.memory import rows as memory_rows
from headrace.stores.memory import store as memory_store
from headrace.stores.shared.lookup import Row

FAULTS: dict[str, Callable[[], None]] = {}
NOTICED_BY: dict[str, str] = {}
"""The test that must fail because of a fault."""
Rows = memory_rows.MemoryRows


def plant(name: str) -> None:
    """Break the memory store of this process in the named way."""
    FAULTS[name]()


def fault(noticed_by: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register a fault under its function's name, with the test that notices it."""

    def register(act: Callable[[], None]) -> Callable[[], None]:
        FAULTS[act.__name__] = act
        NOTICED_BY[act.__name__] = noticed_by
        return act

    return register


def swap(old: Any, new: Any) -> None:
    """Put `new` wherever a module of Headrace knows `old`."""
    for name, module in list(sys.modules.items()):
        if name.startswith("headrace."):
            for attribute, value in list(vars(module).items()):
                if value is old:
                    setattr(module, attribute, new)


def wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Replace a method by `around(old, *arguments)`."""
    old = getattr(owner, name)
    setattr(owner, name, lambda *args, **options: around(old, *args, **options))


def _with(rows: Rows, **counters: int) -> Rows:
    for name, value in counters.items():
        setattr(rows.counters, name, value)
    return rows


# Leases.


@fault("test_settle.py::test_settle_refuses_a_stale_token_and_changes_nothing")
def a_token_is_not_checked() -> None:
    swap(settle.refusal, lambda row, lease, now_ms: _without("lease_mismatch", row, lease, now_ms))


@fault("test_settle.py::test_settle_refuses_a_lease_that_has_run_out_and_changes_nothing")
def an_expired_lease_is_accepted() -> None:
    swap(settle.refusal, lambda row, lease, now_ms: _without("lease_expired", row, lease, now_ms))


_REFUSAL = settle.refusal


def _without(check: str, row: Any, lease: Any, now_ms: int) -> Any:
    found = _REFUSAL(row, lease, 0 if check == "lease_expired" else now_ms)
    return None if found == check else found


@fault("test_settle.py::test_settle_refuses_a_lease_that_has_run_out_and_changes_nothing")
def a_lease_still_holds_at_its_end() -> None:
    swap(settle.refusal, lambda row, lease, now_ms: _REFUSAL(row, lease, now_ms - 1))


@fault("test_settle.py::test_expired_wins_over_a_wrong_token")
def a_wrong_token_is_reported_before_an_expired_lease() -> None:
    swap(settle.refusal, lambda row, lease, now_ms: _REFUSAL(row, lease, 0) or _REFUSAL(row, lease, now_ms))


@fault("test_extend.py::test_a_lost_lease_is_not_brought_back")
def an_active_job_of_any_worker_can_be_extended() -> None:
    def extend(old: Any, at: Any, lease: Any, lease_ms: int) -> Any:
        row = at.rows.job(lease.id)
        if row is not None and row.delivery is not None:
            lease = replace(lease, token=row.delivery.token)
        return old(at, lease, lease_ms)

    wrap(settle, "_extend_one", extend)


@fault("test_claim.py::test_ready_jobs_come_by_priority_and_then_in_order_of_arrival")
def a_fence_is_used_for_every_claim() -> None:
    wrap(claim, "_activate", lambda old, at, *args: old(_with(at, fence=0), *args))


@fault("test_repair.py::test_a_lease_that_has_run_out_makes_its_job_due_at_once")
def a_lease_is_not_repaired_at_its_end() -> None:
    wrap(Rows, "overdue", lambda old, rows, now_ms, limit: old(rows, now_ms - 1, limit))


@fault("test_repair.py::test_a_claim_repairs_a_hundred_leases_of_a_shard_and_no_more")
def repair_has_no_bound() -> None:
    wrap(Rows, "overdue", lambda old, rows, now_ms, _: old(rows, now_ms, 10**9))


@fault("test_repair.py::test_leases_are_repaired_by_their_end_and_then_by_id")
def repair_goes_by_id_alone() -> None:
    wrap(
        Rows,
        "overdue",
        lambda old, rows, now_ms, limit: sorted(old(rows, now_ms, 10**9), key=lambda row: row.record.id)[:limit],
    )


@fault("test_claim.py::test_a_repeated_nonce_returns_the_same_claims_and_nothing_new")
def a_repeated_nonce_hands_out_more() -> None:
    swap(claim.is_known, lambda rows, request: False)


@fault("test_claim.py::test_a_repeated_nonce_leaves_out_leases_that_have_run_out")
def a_repeated_nonce_returns_ended_leases() -> None:
    old = claim.known_claims
    swap(claim.known_claims, lambda rows, request, now_ms: old(rows, request, 0))


# Order and time.


@fault("test_claim.py::test_a_job_without_a_priority_has_that_of_its_queue_when_it_draws_its_number")
def a_due_job_is_not_promoted_at_its_time() -> None:
    wrap(Rows, "due", lambda old, rows, now_ms, limit: old(rows, now_ms - 1, limit))


@fault("test_claim.py::test_a_claim_promotes_a_thousand_jobs_of_a_shard_and_no_more")
def promotion_has_no_bound() -> None:
    wrap(Rows, "due", lambda old, rows, now_ms, _: old(rows, now_ms, 10**9))


@fault("test_claim.py::test_ready_jobs_come_by_priority_and_then_in_order_of_arrival")
def priority_is_ignored() -> None:
    swap(step.order_key_of, lambda priority, number: number)


@fault("test_claim.py::test_ready_jobs_come_by_priority_and_then_in_order_of_arrival")
def the_last_in_is_the_first_out() -> None:
    wrap(Rows, "ready", lambda old, rows, after, limit: old(rows, -1, 10**9)[::-1][:limit])


@fault("test_enqueue.py::test_a_ready_job_that_stays_due_keeps_its_number")
def an_update_loses_its_order() -> None:
    wrap(enqueue, "_update", lambda old, at, record, new: old(at, replace(record, order_key=None), new))


@fault("test_enqueue.py::test_update_run_at_steers_the_time_of_a_waiting_job")
def an_update_cuts_a_backoff_short() -> None:
    job.Job.run_at_flag = property(  # type: ignore[assignment]
        lambda each: each.update_run_at or job.UpdateRunAt.ALWAYS
    )


@fault("test_enqueue.py::test_update_run_at_steers_the_time_of_a_waiting_job")
def if_later_moves_earlier_too() -> None:
    wrap(
        job.UpdateRunAt,
        "merge",
        lambda old, flag, *times: times[1] if flag is job.UpdateRunAt.IF_LATER else old(flag, *times),
    )


@fault("test_claim.py::test_a_job_that_comes_back_draws_a_new_number")
def a_retried_job_goes_to_the_front() -> None:
    def wait(old: Any, at: Any, record: Any) -> Any:
        stored = old(at, record)
        if record.attempts and stored.order_key is not None:
            stored = replace(stored, order_key=stored.order_key >> 48 << 48)
            at.rows.put(Row(stored))
        return stored

    wrap(step.Step, "wait", wait)


@fault("test_claim.py::test_a_paused_queue_hands_out_nothing_and_everything_else_goes_on")
def a_paused_queue_hands_out() -> None:
    old = claim.claim
    swap(old, lambda *args: _unpaused(old, *args))


def _unpaused(old: Any, at: Any, *args: Any) -> Any:
    was = at.rows.config
    at.rows.config = replace(was, paused=False)
    try:
        return old(at, *args)
    finally:
        at.rows.config = was


@fault("test_claim.py::test_a_job_may_start_at_the_last_instant_and_dies_after_it")
def a_job_is_started_too_late() -> None:
    swap(decision.is_expired, lambda record, now_ms: False)


@fault("test_claim.py::test_a_job_may_start_at_the_last_instant_and_dies_after_it")
def a_job_is_refused_at_its_last_instant() -> None:
    old = decision.is_expired
    swap(decision.is_expired, lambda record, now_ms: old(record, now_ms + 1))


@fault("test_claim.py::test_a_claim_ends_at_four_mebibytes_of_payloads")
def the_next_time_is_missing() -> None:
    swap(claim.next_at, lambda rows, now_ms: None)


@fault("test_claim.py::test_a_claim_ends_at_four_mebibytes_of_payloads")
def bodies_have_no_bound() -> None:
    swap(claim.hand_out_ready, _unbounded(claim.hand_out_ready))


def _unbounded(old: Any) -> Any:
    return lambda at, request, limit, _: old(at, request, limit, 2**60)


# Counting.


@fault("test_settle.py::test_retry_counts_an_attempt_and_waits_for_the_backoff")
def attempts_are_counted_twice() -> None:
    old = decision._failed
    swap(old, lambda record, *args: old(replace(record, attempts=record.attempts + 1), *args))


@fault("test_settle.py::test_max_attempts_is_the_exact_number_of_runs")
def the_budget_is_one_too_large() -> None:
    old = decision.decide
    swap(old, lambda record, outcome, asked, rules, now_ms: _spare(old, record, outcome, asked, rules, now_ms))


def _spare(old: Any, record: Any, outcome: Any, asked: bool, rules: Any, now_ms: int) -> Any:
    found = old(record, outcome, asked, rules, now_ms)
    exhausted = isinstance(found, decision.Kill) and found.reason == "attempts"
    if exhausted and found.record.attempts <= rules.effective(record.policy).max_attempts:
        return decision.Requeue(replace(found.record, run_at_ms=now_ms), "retried")
    return found


@fault("test_repair.py::test_a_lease_that_has_run_out_makes_its_job_due_at_once")
def a_stall_is_not_counted() -> None:
    old = decision.decide_stall
    swap(old, lambda record, asked, rules, now_ms: old(replace(record, stalls=-1), asked, rules, now_ms))


@fault("test_settle.py::test_release_counts_nothing")
def a_release_is_counted() -> None:
    old = decision.decide

    def judge(record: Any, outcome: Any, *args: Any) -> Any:
        found = old(record, outcome, *args)
        if isinstance(found, decision.Requeue) and found.event == "released":
            return replace(found, record=replace(found.record, attempts=found.record.attempts + 1))
        return found

    swap(old, judge)


@fault("test_settle.py::test_the_backoff_doubles_and_is_capped")
def backoff_is_not_capped() -> None:
    swap(policy.backoff, lambda attempts, ms, ms_max, ppm=10**6: (ms << attempts - 1) * ppm // 10**6)


@fault("test_settle.py::test_retry_counts_an_attempt_and_waits_for_the_backoff")
def backoff_starts_doubled() -> None:
    old = policy.backoff
    swap(old, lambda attempts, *args: old(attempts + 1, *args))


@fault("test_settle.py::test_max_attempts_is_the_exact_number_of_runs")
def a_changed_configuration_is_not_followed() -> None:
    def effective(self: policy.QueueConfig, policy: policy.Policy) -> policy.QueueConfig:
        return DEFAULT_CONFIG

    policy.QueueConfig.effective = effective  # type: ignore[method-assign]


# Blocked jobs.


@fault("test_blocked_jobs.py::test_an_enqueue_of_an_active_id_becomes_a_blocked_job")
def a_job_is_handed_out_beside_its_active_namesake() -> None:
    def one(old: Any, at: Any, new: Any) -> Any:
        answer = old(at, new)
        if answer.status == "blocked":
            at.rows.drop_blocked_job(new.id)
            at.wait(job.record_of(new, at.now_ms))
        return answer

    wrap(enqueue, "_enqueue_one", one)


@fault("test_blocked_jobs.py::test_a_blocked_job_is_applied_on_top_of_a_job_that_comes_back_and_vanishes")
def a_blocked_job_is_lost_on_retry() -> None:
    job.BlockedJob.applied = lambda self, active: active  # type: ignore[method-assign]


@fault("test_blocked_jobs.py::test_a_blocked_job_becomes_a_job_of_its_own_when_the_active_one_is_over")
def a_blocked_job_is_lost_when_its_namesake_ends() -> None:
    swap(settle.free_blocked_job, lambda at, id: at.rows.drop_blocked_job(id))


@fault("test_blocked_jobs.py::test_flags_of_one_enqueue_are_not_undone_by_the_next")
def the_flags_of_a_later_blocked_job_win() -> None:
    old = job.block

    def block(known: Any, new: Any, now_ms: int) -> Any:
        merged = old(known, new, now_ms)
        return replace(merged, update_payload=new.update_payload, reset_counts=new.reset_counts)

    swap(old, block)


@fault("test_blocked_jobs.py::test_the_time_of_a_returning_job_is_clamped_by_its_blocked_job")
def the_clamp_of_a_blocked_job_is_ignored() -> None:
    wrap(
        job.BlockedJob,
        "applied",
        lambda old, self, active: replace(old(self, active), run_at_ms=active.run_at_ms),
    )


@fault(
    "test_blocked_jobs.py::test_a_blocked_job_that_resets_the_counters_does_not_save_the_delivery_that_uses_up_the_budget"
)
def death_is_decided_after_the_blocked_job() -> None:
    old = settle._settle_one

    def one(at: Any, settlement: Any) -> Any:
        known = at.rows.blocked_job(settlement.lease.id)
        row = at.rows.job(settlement.lease.id)
        if known is not None and row is not None and row.delivery is not None and known.reset_counts:
            at.rows.put(replace(row, record=replace(row.record, attempts=0, stalls=0)))
        return old(at, settlement)

    swap(old, one)


# Idempotency keys and tenants.

_ALL_KEYS: dict[tuple[str, str, str], Any] = {}


@fault("test_idempotency.py::test_a_key_that_was_used_answers_with_the_first_id_and_changes_nothing")
def keys_are_not_scoped_by_tenant() -> None:
    def put(old: Any, rows: Any, id: str, key: str, row: Any) -> None:
        _ALL_KEYS[rows.shard.queue.full_name, id, key] = row
        old(rows, id, key, row)

    wrap(Rows, "put_key", put)
    wrap(Rows, "key", lambda old, rows, id, key: _ALL_KEYS.get((rows.shard.queue.full_name, id, key)))


@fault("test_idempotency.py::test_a_key_that_was_used_answers_with_the_first_id_and_changes_nothing")
def a_key_is_forgotten_when_its_job_ends() -> None:
    def drop(old: Any, rows: Any, id: str) -> None:
        old(rows, id)
        for known, key in list(rows._keys):
            if known == id:
                rows._key_ends.remove((rows._keys.pop((known, key)).until_ms, known, key))

    wrap(Rows, "drop", drop)


@fault("test_idempotency.py::test_a_key_holds_until_its_time_and_not_at_it")
def a_key_holds_at_its_end() -> None:
    def key(old: Any, rows: Any, *args: str) -> Any:
        found = old(rows, *args)
        return None if found is None else replace(found, until_ms=found.until_ms + 1)

    wrap(Rows, "key", key)


@fault("test_idempotency.py::test_a_key_that_stands_for_other_work_is_a_conflict_and_changes_nothing")
def a_fingerprint_leaves_out_the_payload() -> None:
    old = names.fingerprint
    swap(old, lambda kind, payload, explicit_id: old(kind, b"", explicit_id))


@fault("test_enqueue.py::test_a_batch_is_answered_item_by_item_and_refusals_leave_the_others_alone")
def tenants_share_their_queues() -> None:
    wrap(
        memory_store.MemoryTx,
        "rows",
        lambda old, tx, shard, create=False: old(tx, replace(shard, queue=replace(shard.queue, tenant="one")), create),
    )


@fault("test_queues.py::test_a_wrong_number_of_shards_is_refused_by_every_call_and_changes_nothing")
def another_number_of_shards_is_accepted() -> None:
    def rows(old: Any, tx: Any, shard: Any, create: bool = False) -> Any:
        known = tx.shards_of(shard.queue)
        if known is not None and known != shard.queue.shards:
            shard = replace(shard, queue=replace(shard.queue, shards=known), index=0)
        return old(tx, shard, create)

    wrap(memory_store.MemoryTx, "rows", rows)


# Cancel, finished jobs, dead letters.


@fault("test_cancel.py::test_a_retried_job_with_a_cancel_request_ends_cancelled")
def a_cancel_request_is_forgotten_on_retry() -> None:
    old = decision.decide
    swap(old, lambda record, outcome, asked, *args: old(record, outcome, False, *args))


@fault("test_cancel.py::test_done_wins_over_a_cancel_request")
def a_cancel_request_beats_done() -> None:
    old = decision.decide

    def judge(record: Any, outcome: Any, asked: bool, *args: Any) -> Any:
        return decision.Finish(record, "cancelled") if asked else old(record, outcome, asked, *args)

    swap(old, judge)


@fault("test_cancel.py::test_cancel_leaves_an_active_job_alone")
def cancel_stops_an_active_job_without_running() -> None:
    old = cancel._cancel_one
    swap(old, lambda at, id, running: old(at, id, True))


@fault("test_remove.py::test_remove_deletes_all_dead_letters_of_an_id_and_leaves_those_of_others")
def remove_leaves_the_dead_letters() -> None:
    wrap(Rows, "dead_letters_of", lambda old, rows, id: [])


@fault("test_enqueue.py::test_an_ended_id_can_be_created_again_and_loses_its_old_finished_job")
def an_old_finished_job_outlives_a_new_job() -> None:
    wrap(enqueue, "_enqueue_one", _keeping_finished_jobs)
    enqueue._enqueue_one = enqueue._enqueue_one


def _keeping_finished_jobs(old: Any, at: Any, new: Any) -> Any:
    known = at.rows.finished_job(new.id)
    answer = old(at, new)
    if known is not None:
        at.rows.put_finished_job(known)
    return answer


@fault("test_settle.py::test_the_newest_finished_jobs_of_a_shard_are_kept")
def finished_jobs_have_no_bound() -> None:
    wrap(Rows, "sweep_finished_jobs", lambda old, rows, now_ms, keep_max, limit: old(rows, now_ms, 10**9, limit))


@fault("test_settle.py::test_a_result_with_a_time_to_live_is_kept_that_long_whatever_the_count")
def a_pinned_finished_job_is_evicted() -> None:
    wrap(Rows, "put_finished_job", lambda old, rows, finished_job: old(rows, replace(finished_job, pinned=False)))


@fault("test_dead_letters.py::test_a_failed_job_leaves_a_dead_letter_with_its_record_error_time_and_reason")
def a_dead_job_leaves_no_dead_letter() -> None:
    wrap(Rows, "put_dead_letter", lambda old, rows, dead_letter: None)


@fault("test_dead_letters.py::test_replay_drops_the_dead_letter_and_makes_the_job_due_at_once")
def a_replayed_dead_letter_stays() -> None:
    def replay(at: Any, pick: Any, keep_counts: bool, delay_ms: int) -> Replayed:
        dead_letter = at.rows.newest_dead_letter(pick) if isinstance(pick, str) else at.rows.dead_letter(pick.number)
        answer = old(at, pick, keep_counts, delay_ms)
        if answer.status == "replayed" and dead_letter is not None:
            at.rows.put_dead_letter(dead_letter)
        return answer

    old = dead_letters.replay
    swap(old, replay)


@fault("test_dead_letters.py::test_replay_refuses_an_id_that_is_in_use_and_keeps_its_dead_letter")
def a_dead_letter_is_replayed_over_its_waiting_namesake() -> None:
    old = dead_letters.replay

    def replay(at: Any, *args: Any) -> Any:
        rows = at.rows
        answer = old(at, *args)
        if answer.status == "id_in_use" and answer.key is not None:
            rows.drop_dead_letter(answer.key.number)
            return replace(answer, status="replayed")
        return answer

    swap(old, replay)


@fault("test_fail_handler.py::test_a_dying_job_puts_a_job_on_the_fail_queue_in_the_same_step")
def a_fail_job_is_lost_while_the_fail_queue_is_empty() -> None:
    old = settle.die

    def die(at: Any, *args: Any) -> Any:
        was = at.rows.config
        fail_queue = at.rows.fail_queue() if was.fail_handler and not at.rows.shard.queue.is_fail_queue else None
        if fail_queue is not None and not fail_queue.waiting_count():
            at.rows.config = replace(was, fail_handler=False)
        try:
            return old(at, *args)
        finally:
            at.rows.config = was

    swap(old, die)


@fault("test_fail_handler.py::test_a_dying_job_puts_a_job_on_the_fail_queue_in_the_same_step")
def the_payload_of_a_fail_job_is_no_json() -> None:
    old = settle.fail_payload
    swap(old, lambda record, *args: old(record, *args).replace(b'"' + record.id.encode() + b'"', record.id.encode()))


# Journal and shape.


@fault("test_journal.py::test_claimed_carries_the_fence_and_the_worker_only")
def claims_are_not_written_to_the_journal() -> None:
    wrap(step.Step, "note", lambda old, at, line: None if line.event == "claimed" else old(at, line))


@fault("test_journal.py::test_a_death_writes_dead_only")
def a_death_writes_a_retry_too() -> None:
    def note(old: Any, at: Any, line: Any) -> None:
        if line.event == "dead" and line.fence is not None:
            old(at, replace(line, event="retried", dead_letter=None, reason=None))
        old(at, line)

    wrap(step.Step, "note", note)


@fault("test_journal.py::test_an_event_is_one_flat_row_with_its_tenant_queue_shard_epoch_seq_and_time")
def the_journal_has_gaps() -> None:
    wrap(Rows, "append", lambda old, rows, *args: old(_with(rows, seq=rows.counters.seq + 1), *args))


@fault("test_journal.py::test_at_ms_never_decreases_in_a_shard_even_when_the_clock_goes_back")
def the_time_of_the_journal_goes_back() -> None:
    wrap(Rows, "append", lambda old, rows, *args: old(_with(rows, at_ms=0), *args))


@fault("test_journal.py::test_a_read_is_cut_exactly_at_both_ends")
def a_range_of_the_journal_includes_its_start() -> None:
    wrap(event.Entry, "within", lambda old, entry, after, upto: old(entry, after - 1, upto))


@fault("test_journals.py::test_a_journal_had_got_as_far_as_its_last_event_at_or_before_the_instant")
def a_journal_had_not_got_to_what_happened_at_the_instant() -> None:
    wrap(Rows, "reached", lambda old, rows, after, upto, at_ms: old(rows, after, upto, at_ms - 1))


@fault("test_journals.py::test_each_of_many_journals_has_reached_its_own_offset")
def a_span_is_not_cut_at_its_start() -> None:
    wrap(Rows, "reached", lambda old, rows, _, upto, at_ms: old(rows, 0, upto, at_ms))


@fault("test_journals.py::test_the_bounds_of_many_shards_are_those_of_each_in_order")
def the_bounds_of_many_shards_come_in_the_order_of_their_names() -> None:
    wrap(EngineJournal, "all_bounds", lambda old, part, shards: old(part, sorted(shards, key=str)))


@fault("test_journal.py::test_age_and_count_wait_for_a_holding_consumer")
def a_holding_consumer_beats_the_byte_limit() -> None:
    old = journal.trim
    swap(
        old, lambda rows, now_ms, limit: 0 if any(each.hold for each in rows.consumers()) else old(rows, now_ms, limit)
    )


@fault("test_journal.py::test_a_consumer_keeps_its_offset")
def retention_ignores_a_holding_consumer() -> None:
    wrap(Rows, "consumers", lambda old, rows: [replace(each, hold=False) for each in old(rows)])


@fault("test_enqueue.py::test_a_full_shard_refuses_new_jobs_and_changes_nothing")
def a_full_queue_takes_more() -> None:
    wrap(Rows, "waiting_count", lambda old, rows: 0)


@fault("test_enqueue.py::test_a_batch_is_answered_in_order_across_shards")
def a_batch_is_answered_out_of_order() -> None:
    old = engine_jobs._fill
    swap(old, lambda answers, picks, new: old(answers, picks, list(reversed(new))))


@fault("test_claim.py::test_queues_are_tried_in_order")
def queues_are_tried_in_order_of_name() -> None:
    def run(old: Any, self: Any, tx: Any, request: Any, now_ms: int) -> Any:
        return old(self, tx, replace(request, queues=sorted(request.queues, key=_name)), now_ms)

    wrap(engine_jobs.EngineJobs, "_claim", run)


def _name(queue: Queue) -> str:
    return queue.full_name


@fault("test_claim.py::test_an_idle_claim_writes_nothing")
def an_idle_claim_writes_each_time() -> None:
    old = claim.claim

    def claim_and_note(at: Any, *args: Any) -> Any:
        claims = old(at, *args)
        if not claims:
            at.note(event.EventRecord("configured", version=0))
        return claims

    swap(old, claim_and_note)


@fault("test_browse.py::test_finished_shows_the_newest_first_whether_they_are_pinned_or_not")
def finished_jobs_are_shown_oldest_first() -> None:
    wrap(Rows, "finished_page", lambda old, *args: old(*args)[::-1])


@fault("test_browse.py::test_later_goes_by_the_time_at_which_jobs_are_due_then_by_id")
def a_page_of_later_jobs_begins_behind_their_time() -> None:
    wrap(Rows, "later_page", lambda old, self, after, limit: old(self, (after[0], "\x7f"), limit))


@fault("test_browse.py::test_the_jobs_ahead_of_one_are_those_before_it_in_the_view_next")
def a_job_is_ahead_of_itself() -> None:
    wrap(Rows, "ready_before", lambda old, *args: old(*args) + 1)


@fault("test_overview.py::test_a_prefix_narrows_an_overview")
def an_overview_ignores_its_prefix() -> None:
    old = engine_queues.overview_page
    swap(old, lambda found, prefix, limit: old(found, "", limit))


@fault("test_overview.py::test_an_overview_shows_each_queue_with_its_settings_and_counts")
def an_overview_counts_no_events() -> None:
    old = engine_queues.overview_of
    swap(old, lambda *args: replace(found, last_seq=0) if (found := old(*args)) else None)


@fault("test_scan.py::test_a_part_ends_at_about_four_mebibytes")
def a_part_of_a_scan_has_no_bound_of_bytes() -> None:
    old = rows.part_of
    swap(old, lambda found, size, limit, _: old(found, size, limit, 2**60))


@fault("test_signals.py::test_a_sleeping_waiter_is_woken_by_an_enqueue")
def no_waiter_is_woken() -> None:
    memory_store.MemoryEngine.wake = lambda self, queues: None  # type: ignore[method-assign]
