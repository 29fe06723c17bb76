"""The faults by name: in which module, what is replaced, and what by."""

HEART = "headrace.worker.heartbeat"
WORKER = "headrace.worker.worker"
CREW = "headrace.worker.runtime"
EXCHANGE = "headrace.worker.fetch_loop"
SETTLER = "headrace.worker.settler"
CLAIMER = "headrace.worker.claimer"
RUNNER = "headrace.worker.runner"
FINISHED_JOB = "headrace.worker.outcomes"
CAPACITY = "headrace.worker.capacity"
COALESCER = "headrace.client.batching"
BATCH = "headrace.client.batching"
OPTIONS = "headrace.client.options"

Piece = tuple[str, str, str]
"""Module, what stands there, what shall stand there."""


def before(module: str, line: str, *added: str) -> Piece:
    """Lines in front of a line, as far to the right as it is."""
    indent = line[: len(line) - len(line.lstrip())]
    return module, line, "\n".join([*(indent + each for each in added), line])


def after(module: str, line: str, *added: str) -> Piece:
    """Lines behind a line, as far to the right as it is."""
    indent = line[: len(line) - len(line.lstrip())]
    return module, line, "\n".join([line, *(indent + each for each in added)])


PAUSE_IN_OUTAGE = "            await self._outage.wait(error)"
COUNT_RUN = "            self._number += 1"
LOST_BATCH = "        return _split_outcomes(lost, jobs)"
CROSSED = "settlements = [replace(each, outcome=settlements[~at].outcome) for at, each in enumerate(settlements)]"
TIMED_OUT = 'return self._retry(JobError.of("TimedOut", f"the handler was still running after its {limit}"))'

FAULTS: dict[str, Piece] = {
    "the_heart_does_not_beat": (HEART, "< self._lease - self._beat / 2]", "< -1]"),
    "nobody_fences": (HEART, "lost = [run for run in self._held() if self._fences_at(run) <= now]", "lost = []"),
    "a_lease_that_is_gone_is_ignored": (HEART, "elif not run.is_settling and", "elif False and"),
    "an_asked_cancel_is_ignored": (HEART, "if answer.cancel_asked:", "if False:"),
    "a_late_answer_is_started": (CREW, "or not self.heart.has_time_for(holds_until, self._loop.time())", ""),
    "a_lease_counts_from_the_answer": (CREW, "holds_until = sent_at +", "holds_until = self._loop.time() +"),
    "a_lease_counts_from_the_last_of_several_requests": (
        CLAIMER,
        "if asked is not None and not asked.is_uncertain:",
        "if asked is not None:",
    ),
    "a_place_is_not_given_back_when_a_lease_is_lost": (
        CREW,
        "        self._capacity.give(run.handler)\n        if run.settlement",
        "        if outcome is not None:\n            self._capacity.give(run.handler)\n        if run.settlement",
    ),
    "nobody_looks_when_a_job_is_due": (EXCHANGE, "self._loop.call_at(when, self._is_due)", "None"),
    "what_is_left_behind_a_claim_is_forgotten": (EXCHANGE, "answered(is_more_there)", "answered(False)"),
    "a_settlement_is_not_sent_again": (SETTLER, "            again.append(run)", "            self._forget([run])"),
    "claims_go_beyond_the_capacity": (CLAIMER, "limit=min(room, half, BATCH_MAX)", "limit=self._capacity.units"),
    "a_weight_counts_as_one": (CAPACITY, "return min([capacity.free // self.weight,", "return min([capacity.free,"),
    "a_place_is_free_when_its_handler_is_told_to_stop": before(
        RUNNER,
        "            run.task.cancel()\n            if run.stopped_at",
        "self._ended.__self__._capacity.free += 1",
    ),
    "a_lost_claim_is_not_asked_for_again": before(EXCHANGE, PAUSE_IN_OUTAGE, "self._claimer.answered(True)"),
    "a_claim_that_was_half_heard_is_started_twice": before(
        EXCHANGE,
        PAUSE_IN_OUTAGE,
        "heard = [each for each in getattr(error, 'known', ()) if isinstance(each, Claim)]",
        "self._start(heard, self._loop.time(), False)",
    ),
    "the_worker_ends_when_the_store_is_away": before(EXCHANGE, PAUSE_IN_OUTAGE, "raise error"),
    "outcomes_are_crossed": after(
        EXCHANGE,
        "        settlements = [settlement_of(run) for run in ended]",
        "from msgspec.structs import replace",
        CROSSED,
    ),
    "nobody_looks_when_a_hint_is_lost": (EXCHANGE, "wait(self._queues, self._poll_ms)", "wait(self._queues, 10**8)"),
    "a_job_that_is_given_back_is_charged": (
        FINISHED_JOB,
        "                return model.Released()",
        "                return self._retry(job_error(error))",
    ),
    "a_cancelled_job_is_tried_again": (FINISHED_JOB, "return Cancelled()", "return self._retry(job_error(error))"),
    "a_time_out_costs_nothing": (FINISHED_JOB, TIMED_OUT, "return model.Released()"),
    "a_time_limit_is_ignored": (RUNNER, "        if run.claim.timeout_ms:", "        if False:"),
    "a_job_of_an_unknown_kind_is_dropped": after(CREW, COUNT_RUN, "if handler is None:", "    continue"),
    "an_old_run_settles_with_the_token_of_the_new_claim": before(
        CREW,
        COUNT_RUN,
        "for other in self.runs.values():",
        "    if other.claim.record.id == claim.record.id:",
        "        other.claim, other.is_lost, other.stop = claim, False, None",
    ),
    "the_drain_forgets_what_runs": (
        CREW,
        "[run for run in self.runs.values() if run.settlement is None and not run.is_lost]",
        "[]",
    ),
    "the_drain_leaves_a_handler_that_does_not_stop": (
        CREW,
        "            self._settler.put(run, Released(ABANDONED_DELAY_MS), 0)\n",
        "            run.is_lost = True\n",
    ),
    "the_drain_does_not_settle": (
        WORKER,
        "await self._until(crew, lambda: crew.is_settled, time() + SETTLE_SECONDS)",
        "pass",
    ),
    "answers_are_crossed_between_senders": (
        COALESCER,
        "for truth in await enqueue_batch(self._jobs, batch):",
        "for truth in reversed(await enqueue_batch(self._jobs, batch)):",
    ),
    "an_idempotency_key_is_not_sent": (OPTIONS, "idempotency_key=key,", "idempotency_key=None,"),
    "a_lost_reply_counts_as_success": (BATCH, "truths.append(mine)", 'truths.append(Enqueued(job.id, "created"))'),
    "a_lost_reply_is_told_as_nothing_changed": before(
        BATCH,
        LOST_BATCH,
        "from headrace.model.errors import StoreUnavailable",
        "return [StoreUnavailable(str(lost)) for _ in jobs]",
    ),
    "a_send_that_failed_is_sent_again_in_silence": before(BATCH, LOST_BATCH, "return await enqueue_batch(store, jobs)"),
}
