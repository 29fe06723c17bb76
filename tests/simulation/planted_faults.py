"""The faults to plant by name: module, source text, and its replacement."""

HEARTBEAT = "headrace.worker.heartbeat"
WORKER = "headrace.worker.worker"
RUNTIME = "headrace.worker.runtime"
FETCH_LOOP = "headrace.worker.fetch_loop"
SETTLER = "headrace.worker.settler"
CLAIMER = "headrace.worker.claimer"
RUNNER = "headrace.worker.runner"
OUTCOMES = "headrace.worker.outcomes"
CAPACITY = "headrace.worker.claimer"
BATCHING = "headrace.client.batching"
OPTIONS = "headrace.client.options"

Piece = tuple[str, str, str]
"""Module, source text, and its replacement."""


def before(module: str, line: str, *added: str) -> Piece:
    """Lines in front of a line, as far to the right as it is."""
    indent = line[: len(line) - len(line.lstrip())]
    return module, line, "\n".join([*(indent + each for each in added), line])


def after(module: str, line: str, *added: str) -> Piece:
    """Lines behind a line, as far to the right as it is."""
    indent = line[: len(line) - len(line.lstrip())]
    return module, line, "\n".join([line, *(indent + each for each in added)])


PAUSE_IN_OUTAGE = "            await self._reconnect.wait(error)"
COUNT_RUN = "            self._number += 1"
LOST_BATCH = "        return split_outcomes(lost, jobs)"
CROSSED = "settlements = [replace(each, outcome=settlements[~at].outcome) for at, each in enumerate(settlements)]"
TIMED_OUT = 'return self._retry(JobError.of("TimedOut", f"the handler was still running after its {limit}"))'

FAULTS: dict[str, Piece] = {
    "the_heartbeat_extends_nothing": (HEARTBEAT, "< self._lease - self._interval / 2]", "< -1]"),
    "leases_are_never_given_up": (
        HEARTBEAT,
        "lost = [delivery for delivery in self._owned() if self._fence_time(delivery) <= now]",
        "lost = []",
    ),
    "a_lease_that_is_gone_is_ignored": (HEARTBEAT, "elif not delivery.is_settling and", "elif False and"),
    "a_requested_cancel_is_ignored": (HEARTBEAT, "if answer.cancel_asked:", "if False:"),
    "a_late_answer_is_started": (RUNTIME, "or not self.heartbeat.has_time_for(holds_until, self._loop.time())", ""),
    "a_lease_counts_from_the_answer": (RUNTIME, "holds_until = sent_at +", "holds_until = self._loop.time() +"),
    "a_lease_counts_from_the_last_of_several_requests": (
        CLAIMER,
        "if pending is not None and not pending.is_uncertain:",
        "if pending is not None:",
    ),
    "a_unit_is_not_freed_when_a_lease_is_lost": (
        RUNTIME,
        "        self._capacity.release(delivery.handler)\n        if delivery.settlement",
        (
            "        if outcome is not None:\n            self._capacity.release(delivery.handler)\n"
            "        if delivery.settlement"
        ),
    ),
    "no_claim_when_a_job_is_due": (FETCH_LOOP, "self._loop.call_at(when, self._on_due)", "None"),
    "what_is_left_behind_a_claim_is_forgotten": (FETCH_LOOP, "record_answer(has_more)", "record_answer(False)"),
    "a_settlement_is_not_sent_again": (
        SETTLER,
        "            again.append(delivery)",
        "            self._forget([delivery])",
    ),
    "claims_go_beyond_the_capacity": (CLAIMER, "limit=min(room, half, BATCH_MAX)", "limit=self._capacity.units"),
    "a_weight_counts_as_one": (CAPACITY, "return min([capacity.free // self.weight,", "return min([capacity.free,"),
    "a_unit_is_free_when_its_handler_is_asked_to_stop": before(
        RUNNER,
        "            delivery.task.cancel()\n            if delivery.stopped_at",
        "self._on_finished.__self__._capacity.free += 1",
    ),
    "a_lost_claim_is_not_repeated": before(FETCH_LOOP, PAUSE_IN_OUTAGE, "self._claimer.record_answer(True)"),
    "a_partly_lost_claim_is_started_twice": before(
        FETCH_LOOP,
        PAUSE_IN_OUTAGE,
        "heard = [each for each in getattr(error, 'known', ()) if isinstance(each, Claim)]",
        "self._start(heard, self._loop.time(), False)",
    ),
    "the_worker_ends_when_the_store_is_away": before(FETCH_LOOP, PAUSE_IN_OUTAGE, "raise error"),
    "outcomes_are_crossed": after(
        FETCH_LOOP,
        "        settlements = [settlement_of(delivery) for delivery in finished]",
        "from msgspec.structs import replace",
        CROSSED,
    ),
    "no_claim_when_a_hint_is_lost": (FETCH_LOOP, "wait(self._queues, self._poll_ms)", "wait(self._queues, 10**8)"),
    "a_released_job_is_charged": (
        OUTCOMES,
        "                return model.Released()",
        "                return self._retry(job_error(error))",
    ),
    "a_cancelled_job_is_tried_again": (OUTCOMES, "return Cancelled()", "return self._retry(job_error(error))"),
    "a_time_out_costs_nothing": (OUTCOMES, TIMED_OUT, "return model.Released()"),
    "a_time_limit_is_ignored": (RUNNER, "        if delivery.claim.timeout_ms:", "        if False:"),
    "a_job_of_an_unknown_kind_is_dropped": after(RUNTIME, COUNT_RUN, "if handler is None:", "    continue"),
    "an_old_run_settles_with_the_token_of_the_new_claim": before(
        RUNTIME,
        COUNT_RUN,
        "for other in self.deliveries.values():",
        "    if other.claim.record.id == claim.record.id:",
        "        other.claim, other.is_lost, other.stop = claim, False, None",
    ),
    "the_drain_forgets_what_runs": (
        RUNTIME,
        "if delivery.settlement is None and not delivery.is_lost",
        "if False",
    ),
    "the_drain_leaves_a_handler_that_does_not_stop": (
        RUNTIME,
        "            self._settler.put(delivery, Released(ABANDONED_DELAY_MS), 0)\n",
        "            delivery.is_lost = True\n",
    ),
    "the_drain_does_not_settle": (
        WORKER,
        "await self._until(runtime, lambda: runtime.is_settled, time() + SETTLE_SECONDS)",
        "pass",
    ),
    "answers_are_crossed_between_senders": (
        BATCHING,
        "for outcome in await enqueue_batch(self._jobs, batch):",
        "for outcome in reversed(await enqueue_batch(self._jobs, batch)):",
    ),
    "an_idempotency_key_is_not_sent": (OPTIONS, "idempotency_key=key,", "idempotency_key=None,"),
    "a_lost_reply_counts_as_success": (
        BATCHING,
        "outcomes.append(error)",
        'outcomes.append(Enqueued(job.id, "created"))',
    ),
    "a_lost_reply_is_reported_as_nothing_changed": before(
        BATCHING,
        LOST_BATCH,
        "from headrace.model.errors import StoreUnavailable",
        "return [StoreUnavailable(str(lost)) for _ in jobs]",
    ),
    "a_send_that_failed_is_sent_again_in_silence": before(
        BATCHING, LOST_BATCH, "return await enqueue_batch(store, jobs)"
    ),
}
