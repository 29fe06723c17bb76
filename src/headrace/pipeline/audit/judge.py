"""Judges one job: what the journal says of it beside what the store has."""

from collections.abc import Iterator

from headrace.model.job import Record, State
from headrace.model.names import Shard
from headrace.model.results import Found
from headrace.pipeline.audit.findings import Finding, What
from headrace.pipeline.audit.job_history import ExpectedRecord, Story

_ALIVE = (State.WAITING, State.ACTIVE)

HINTS: dict[What, str] = {
    "lost": "enqueue it again if its work is still wanted, and find out who deletes records or what the store has lost",
    "untold": "it has run: do not enqueue it again; headrace doctor shows whether entries of the journal overlap",
    "stray": "it may run a second time: headrace jobs remove it, unless its work is still wanted",
    "unknown": "headrace jobs show it; remove it, or let it run if its work is wanted",
    "state": "headrace doctor --repair lets it wait again if its delivery was lost",
    "fence": "let its lease run out, or remove it; outside resources may have seen the other fence",
    "counts": "its budget is off by the difference; enqueue it again with reset_counts to start anew",
    "kind": "somebody changed the record; enqueue it again as it should be",
    "due": "somebody changed the record; enqueue it again with the time that it should have",
    "payload": "somebody changed the record; enqueue it again with the payload that it should have",
    "blocked_job": "enqueue it again: behind an active job that makes the blocked job anew",
    "finished_job": "whoever reads its result is told the wrong thing; headrace jobs remove it",
    "no_dead_letter": "it cannot be replayed any more; enqueue it again if its work is still wanted",
    "deathless": "headrace dead show it; purge it, or replay it if its work is wanted",
    "dead_letter": "headrace dead show it before it is replayed; somebody changed it",
}

MAYBE_OVER = "its end may be among the events that this journal lacks: see what it did before it is enqueued again"
"""What to do about a lost job where events are missing."""


def judge(shard: Shard, id: str, story: Story | None, found: Found | None, is_whole: bool) -> list[Finding]:
    """What does not add up. Without `is_whole` the journal has lost its beginning: what it does not tell may be."""
    case = Case(shard, id, story or Story(), found, is_whole)
    if case.is_untold:
        return [*case.alive(), *case.blocked_job()]
    return [*case.alive(), *case.blocked_job(), *case.finished_job(), *case.dead_letters()]


class Case:
    """One job: what is said on either side."""

    def __init__(self, shard: Shard, id: str, story: Story, found: Found | None, is_whole: bool) -> None:
        self._shard, self._id, self._story, self._found = shard, id, story, found
        self._is_whole = is_whole
        self._state = found.state if found is not None and found.state in _ALIVE else None

    @property
    def is_untold(self) -> bool:
        """Whether the store shows the end of a job that, by the journal, still waits or runs."""
        story, found = self._story, self._found
        if self._state is not None or found is None or story.state not in ("waiting", "active"):
            return False
        knows_no_end = story.finished_job == "none" or (story.finished_job is None and self._is_whole)
        has_died = self._is_whole and any(
            dead_letter.key.number not in story.dead_letters for dead_letter in found.dead_letters
        )
        return has_died or (found.finished_job is not None and knows_no_end)

    def alive(self) -> Iterator[Finding]:
        """What waits or runs."""
        story, state = self._story, self._state
        if story.state is None and not self._is_whole:
            return
        expected = None if story.state in (None, "over") else story.state
        if expected is None and state is None:
            return
        if state is None and self.is_untold:
            yield self._finding("untold", self._told(), "no job that waits or runs" + self._besides())
        elif state is None:
            besides = self._besides()
            hint = MAYBE_OVER if besides else HINTS["lost"]
            yield self._finding("lost", self._told(), "no job that waits or runs" + besides, hint=hint)
        elif story.seq == 0:
            yield self._finding("unknown", "no event of this job", f"{state}{self._besides()}")
        elif expected is None:
            yield self._finding("stray", self._told(), str(state))
        elif expected != state:
            yield self._finding("state", self._told(), str(state))
        else:
            yield from self._record()

    def _record(self) -> Iterator[Finding]:
        story, found = self._story, self._found
        assert found is not None
        assert found.record is not None
        if self._state is State.ACTIVE and story.fence is not None and story.fence != found.fence:
            yield self._finding("fence", f"fence {story.fence}", f"fence {found.fence}")
        if story.record is not None:
            yield from self._differences(story.record, found.record, self._state is State.WAITING)

    def _differences(self, told: ExpectedRecord, record: Record, has_time: bool) -> Iterator[Finding]:
        if told.kind != record.kind:
            yield self._finding("kind", f"kind {told.kind!r}", f"kind {record.kind!r}")
        if (told.attempts, told.stalls) != (record.attempts, record.stalls):
            yield self._finding("counts", _counts(told.attempts, told.stalls), _counts(record.attempts, record.stalls))
        if told.payload_bytes != len(record.payload):
            yield self._finding("payload", f"{told.payload_bytes} bytes", f"{len(record.payload)} bytes")
        if has_time and told.run_at_ms != record.run_at_ms:
            yield self._finding("due", f"due at {told.run_at_ms} ms", f"due at {record.run_at_ms} ms")

    def blocked_job(self) -> Iterator[Finding]:
        """What waits behind an active one."""
        story, found = self._story, self._found
        blocked = None if found is None else found.blocked_job
        if story.has_blocked_job is None and not self._is_whole:
            return
        told = story.blocked_job if story.has_blocked_job and self._state is State.ACTIVE else None
        if told is None and blocked is not None:
            yield self._finding(
                "blocked_job", "no blocked job", f"a blocked job of kind {blocked.kind!r} waits behind it"
            )
        elif told is not None and blocked is None:
            yield self._finding("blocked_job", f"a blocked job waits behind it since seq {told.seq}", "no blocked job")
        elif told is not None and blocked is not None:
            said = (told.kind, told.payload_bytes, told.run_at_ms)
            if said != (blocked.kind, len(blocked.payload), blocked.run_at_ms):
                yield self._finding(
                    "blocked_job",
                    f"a blocked job of kind {told.kind!r}, {told.payload_bytes} bytes, due at {told.run_at_ms} ms",
                    f"one of kind {blocked.kind!r}, {len(blocked.payload)} bytes, due at {blocked.run_at_ms} ms",
                )

    def finished_job(self) -> Iterator[Finding]:
        """What is left of one that is over. It may have been swept, which writes no event."""
        story, finished_job = self._story, None if self._found is None else self._found.finished_job
        if finished_job is None or (story.finished_job is None and not self._is_whole):
            return
        kept = (
            f"finished job {finished_job.state}, kind {finished_job.kind!r}, "
            f"{_counts(finished_job.attempts, finished_job.stalls)}"
        )
        told = story.ended
        if story.finished_job in (None, "none") or told is None:
            what: What = "unknown" if story.seq == 0 else "finished_job"
            yield self._finding(what, self._told() + ", no finished job" if story.seq else "no event of this job", kept)
        elif (story.finished_job, told.kind, told.attempts, told.stalls) != (
            finished_job.state,
            finished_job.kind,
            finished_job.attempts,
            finished_job.stalls,
        ):
            said = (
                f"finished job {story.finished_job} (seq {told.seq}), kind {told.kind!r}, "
                f"{_counts(told.attempts, told.stalls)}"
            )
            yield self._finding("finished_job", said, kept, told.seq)

    def dead_letters(self) -> Iterator[Finding]:
        """What is left of its deaths. What is swept of them has its event."""
        story = self._story
        kept = {dead_letter.key.number: dead_letter for dead_letter in self._found.dead_letters} if self._found else {}
        for number, told in sorted(story.dead_letters.items()):
            if number not in kept:
                yield self._finding(
                    "no_dead_letter", f"died at seq {told.seq}, dead letter {number}", "no such dead letter", told.seq
                )
        for number, dead_letter in sorted(kept.items()):
            record, death = dead_letter.record, story.dead_letters.get(number)
            if death is None and (self._is_whole or number in story.gone):
                said = "was taken away" if number in story.gone else "no death with it"
                yield self._finding(
                    "deathless", f"dead letter {number}: {said}", f"dead letter {number} of kind {record.kind!r}"
                )
            elif death is not None and (death.kind, death.attempts, death.stalls, death.reason) != (
                record.kind,
                record.attempts,
                record.stalls,
                dead_letter.reason,
            ):
                said = f"dead letter {number}, kind {death.kind!r}, {_counts(death.attempts, death.stalls)}"
                store = f"kind {record.kind!r}, {_counts(record.attempts, record.stalls)}"
                yield self._finding(
                    "dead_letter", f"{said}, {death.reason}", f"{store}, {dead_letter.reason}", death.seq
                )

    def _told(self) -> str:
        story = self._story
        return f"{story.state or 'over'} since {story.event} at seq {story.seq}" if story.seq else "nothing"

    def _besides(self) -> str:
        found = self._found
        if found is None:
            return ""
        if found.finished_job is not None:
            return f", but a finished job {found.finished_job.state}"
        return f", but {len(found.dead_letters)} dead letters" if found.dead_letters else ""

    def _finding(
        self, what: What, journal: str, store: str, seq: int | None = None, *, hint: str | None = None
    ) -> Finding:
        queue = self._shard.queue
        return Finding(
            what=what,
            tenant=queue.tenant,
            queue=queue.full_name,
            shard=self._shard.index,
            id=self._id,
            journal=journal,
            store=store,
            seq=seq or self._story.seq or None,
            hint=hint or HINTS[what],
        )


def _counts(attempts: int, stalls: int) -> str:
    return f"attempts {attempts}, stalls {stalls}"
