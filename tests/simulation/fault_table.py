"""The faults by name: in which module, what is replaced, and what by."""

HEART = "headrace.worker.heart"
WORKER = "headrace.worker.worker"
EXCHANGE = "headrace.worker.exchange"
SETTLER = "headrace.worker.settler"
CLAIMER = "headrace.worker.claimer"
RUNNER = "headrace.worker.runner"
ENDING = "headrace.worker.ending"
CAPACITY = "headrace.worker.capacity"
COALESCER = "headrace.client.coalescer"
BATCH = "headrace.client.batch"
RESULTS = "headrace.client.results"

Piece = tuple[str, str, str]
FAULTS: dict[str, list[Piece]] = {
    "the_heart_does_not_beat": [
        (
            HEART,
            "old = [run for run in self._held() if run.holds_until - now < self._lease - self._beat / 2]",
            "old = []",
        )
    ],
    "nobody_fences": [(HEART, "lost = [run for run in self._held() if self._fences_at(run) <= now]", "lost = []")],
    "a_lease_that_is_gone_is_ignored": [
        (HEART, "elif not run.is_settling and", "elif False and not run.is_settling and")
    ],
    "a_late_answer_is_started": [
        (WORKER, "or not self._heart.has_time_for(holds_until, self._loop.time())", "or False")
    ],
    "a_settlement_is_not_sent_again": [(SETTLER, "            again.append(run)", "            self._forget(run)")],
    "claims_go_beyond_the_capacity": [
        (CLAIMER, "limit=min(room, half, BATCH_MAX)", "limit=max(self._capacity.units, 1)")
    ],
    "a_weight_counts_as_one": [(CAPACITY, "return min([capacity.free // self.weight,", "return min([capacity.free,")],
    "a_place_is_free_when_its_handler_is_told_to_stop": [
        (
            RUNNER,
            "            run.task.cancel()\n            self._loop.call_later(NAG_SECONDS, self._nag, run, self._now())",
            "            run.task.cancel()\n            self._ended.__self__._capacity.free += 1",
        )
    ],
    "a_lost_claim_is_not_asked_for_again": [
        (
            EXCHANGE,
            "            await self._outage.wait(error)",
            "            self._claimer.answered(True)\n            await self._outage.wait(error)",
        )
    ],
    "a_claim_that_was_half_heard_is_started_twice": [
        (
            EXCHANGE,
            "            await self._outage.wait(error)",
            "            self._start([each for each in getattr(error, 'known', ()) if isinstance(each, Claim)],"
            " self._loop.time())\n            await self._outage.wait(error)",
        )
    ],
    "a_job_that_is_given_back_is_charged": [
        (
            ENDING,
            '            case "drain":\n                return model.Release()',
            '            case "drain":\n                return self._retry(job_error(error))',
        )
    ],
    "an_old_run_settles_with_the_token_of_the_new_claim": [
        (
            WORKER,
            "            self._capacity.take(handler)\n",
            "            self._capacity.take(handler)\n"
            "            for other in self._runs.values():\n"
            "                if other.claim.record.id == claim.record.id:\n"
            "                    other.claim, other.is_lost, other.stop = claim, False, None\n",
        )
    ],
    "the_drain_forgets_what_runs": [
        (
            WORKER,
            "        return [run for run in self._runs.values() if run.settlement is None and not run.is_lost]",
            "        return []",
        )
    ],
    "the_drain_does_not_settle": [
        (WORKER, "        await self._until(self._is_settled, self._loop.time() + SETTLE_SECONDS)\n", "")
    ],
    "an_asked_cancel_is_ignored": [(HEART, "                if answer.cancel_asked:", "                if False:")],
    "a_cancelled_job_is_tried_again": [
        (ENDING, "                return Cancelled()", "                return self._retry(job_error(error))")
    ],
    "a_job_of_an_unknown_kind_is_dropped": [
        (
            WORKER,
            "            handler = self._handlers.find(claim.lease.queue, claim.record.kind)\n",
            "            handler = self._handlers.find(claim.lease.queue, claim.record.kind)\n"
            "            if handler is None:\n"
            "                continue\n",
        )
    ],
    "a_time_limit_is_ignored": [(RUNNER, "        if run.claim.timeout_ms:", "        if False:")],
    "a_time_out_is_a_failure_for_good": [
        (
            ENDING,
            'return self._retry(JobError.of("TimedOut", f"the handler was still running after its {limit}"))',
            "return model.Release()",
        )
    ],
    "the_worker_ends_when_the_store_is_away": [
        (EXCHANGE, "            await self._outage.wait(error)", "            raise")
    ],
    "outcomes_are_crossed": [
        (
            EXCHANGE,
            "        settlements = [settlement_of(run) for run in ended]",
            "        import msgspec\n"
            "        settlements = [msgspec.structs.replace(settlement_of(run), outcome=settlement_of(ended[~at]).outcome)"
            " for at, run in enumerate(ended)]",
        )
    ],
    "nobody_looks_when_a_hint_is_lost": [
        (
            EXCHANGE,
            "await self._store.signals.wait(self._queues, self._poll_ms)",
            "await self._store.signals.wait(self._queues, 10**8)",
        )
    ],
    "answers_are_crossed_between_senders": [
        (
            COALESCER,
            "for truth in await take_in(self._jobs, batch):",
            "for truth in reversed(await take_in(self._jobs, batch)):",
        )
    ],
    "a_lost_reply_counts_as_success": [
        (BATCH, "            truths.append(mine)", '            truths.append(Enqueued(job.id, "created"))')
    ],
    "a_lost_reply_is_told_as_nothing_changed": [
        (
            BATCH,
            "        return _sorted_out(lost, jobs)",
            "        from headrace.model.errors import StoreUnavailable\n"
            "        return [StoreUnavailable(str(lost)) for _ in jobs]",
        )
    ],
    "a_send_that_failed_is_sent_again_in_silence": [
        (BATCH, "        return _sorted_out(lost, jobs)", "        return list(await store.enqueue(jobs))")
    ],
}
