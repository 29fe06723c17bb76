"""Judges one job: compares the store's records of it with the history that its events describe."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from headrace.model.event import Event, EventRecord
from headrace.model.job import Record, State
from headrace.model.names import Shard
from headrace.model.results import Found
from headrace.pipeline.audit.findings import Finding, FindingKind
from headrace.pipeline.audit.fold import (
    ACTIVE_EVENTS,
    BLOCKED,
    DEAD_LETTER_DELETED,
    FINAL_EVENTS,
    FINISHED_DELETED,
    FINISHED_EVENTS,
    LOST,
    UNBLOCKING_EVENTS,
    WAITING_EVENTS,
)

_ALIVE = (State.WAITING, State.ACTIVE)
HINTS: dict[FindingKind, str] = {
    "lost": "enqueue it again if its work is still needed, and find out what deletes records",
    "unrecorded": "it has run: do not enqueue it again; headrace doctor shows whether entries of the journal overlap",
    "stray": "it may run a second time: remove it with headrace jobs remove, unless its work is still needed",
    "unknown": "see headrace jobs show; remove it, or let it run if its work is needed",
    "state": "headrace doctor --repair requeues it if its delivery was lost",
    "fence": "let its lease run out, or remove it; outside resources may know the other fence",
    "counts": "its retry budget is off by the difference; enqueue it again with reset_counts to start at zero",
    "kind": "the record was changed; enqueue it again with the right kind",
    "due": "the record was changed; enqueue it again with the right time",
    "payload": "the record was changed; enqueue it again with the right payload",
    "blocked_job": "enqueue it again: behind an active job this creates the blocked job",
    "finished_job": "readers of its result get a wrong one; remove it with headrace jobs remove",
    "lost_dead_letter": "it cannot be replayed any more; enqueue it again if its work is still needed",
    "stray_dead_letter": "see headrace dead show; purge it, or replay it if its work is needed",
    "dead_letter": "it was changed; see headrace dead show before you replay it",
}
MAYBE_FINISHED = "this journal lacks events, and its end may be among them: see what it did before you enqueue it again"
"""The hint for a lost job where events are missing."""


class ExpectedRecord(Struct, frozen=True):
    """The values that the journal has of a record; None where it has none."""

    kind: str | None
    attempts: int = 0
    stalls: int = 0
    run_at_ms: int | None = None
    payload_bytes: int | None = None
    reason: str | None = None
    """Of a death."""
    seq: int = 0


class JobHistory(Struct):
    """The records that a job must have. None means that no event has it: with a complete journal, the record must not
    exist."""

    seq: int = 0
    """Of the last event; 0 for none."""
    event: str | None = None
    state: str | None = None
    """waiting, active or over."""
    record: ExpectedRecord | None = None
    fence: int | None = None
    blocked_job: ExpectedRecord | None = None
    has_blocked_job: bool | None = None
    finished_job: str | None = None
    """done, cancelled or none."""
    ended: ExpectedRecord | None = None
    dead_letters: dict[int, ExpectedRecord] = {}
    gone: set[int] = set()
    """Dead letters that were deleted."""

    @staticmethod
    def of(folded: Mapping[str, Any]) -> "JobHistory":
        """The history of a row of `fold`, with its structs as dictionaries."""
        last, live, record = folded["last"], folded["live"], folded["record"]
        blocked_job, finished_job = folded["blocked_job"], folded["finished_job"]
        gone = set(folded["gone"])
        deleted_or_unreadable = {*gone, None}  # a line of a death may be unreadable in part
        deaths = {
            death["dead_letter"]: _from_row(death)
            for death in folded["deaths"]
            if death["dead_letter"] not in deleted_or_unreadable
        }
        return JobHistory(
            seq=last["seq"],
            event=last["event"],
            state=live and live["state"],
            record=record and _from_row(record),
            fence=folded["fence"],
            blocked_job=blocked_job and _from_row(blocked_job),
            has_blocked_job=blocked_job and blocked_job["is_there"],
            finished_job=finished_job and finished_job["state"],
            ended=finished_job and _from_row(finished_job),
            dead_letters=deaths,
            gone=gone,
        )

    def add(self, event: Event) -> None:
        """Apply the next event of the job."""
        line = event.line
        name, is_of_blocked_job = line.event, line.event == "cancelled" and line.reason == BLOCKED
        self.seq, self.event = event.seq, name
        if name in WAITING_EVENTS:
            self.state, self.record = "waiting", _from_event(event)
        elif name in ACTIVE_EVENTS or is_of_blocked_job:
            self.state = "active"
            self.fence = line.fence or self.fence
        elif name in FINAL_EVENTS and not (name == "purged" and line.dead_letter is not None):
            self.state = "over"
        if name == "blocked":
            self.has_blocked_job, self.blocked_job = True, _from_event(event)
        elif name in UNBLOCKING_EVENTS or is_of_blocked_job:
            self.has_blocked_job = False
        if name in FINISHED_EVENTS and not is_of_blocked_job:
            self.finished_job, self.ended = name, _from_event(event)
        elif name in FINISHED_DELETED and line.reason != LOST:
            self.finished_job = "none"
        self._apply_to_dead_letters(event, line)

    def _apply_to_dead_letters(self, event: Event, line: EventRecord) -> None:
        if line.event == "removed" and line.reason != LOST:
            self.gone |= set(self.dead_letters)
            self.dead_letters.clear()
        elif line.dead_letter is not None and line.event in DEAD_LETTER_DELETED:
            self.dead_letters.pop(line.dead_letter, None)
            self.gone.add(line.dead_letter)
        elif line.dead_letter is not None and line.event == "dead":
            self.dead_letters[line.dead_letter] = _from_event(event)


def _from_event(event: Event) -> ExpectedRecord:
    line = event.line
    return ExpectedRecord(
        line.kind, line.attempts or 0, line.stalls or 0, line.run_at_ms, line.payload_bytes, line.reason, event.seq
    )


def _from_row(row: Mapping[str, Any]) -> ExpectedRecord:
    return ExpectedRecord(
        row["kind"],
        row.get("attempts") or 0,
        row.get("stalls") or 0,
        row.get("run_at_ms"),
        row.get("payload_bytes"),
        row.get("reason"),
        row.get("seq") or 0,
    )


def judge(shard: Shard, id: str, history: JobHistory | None, found: Found | None, is_whole: bool) -> list[Finding]:
    """The findings of a job. Without `is_whole` the journal has dropped its first events: what it lacks may exist."""
    case = _JobCase(shard, id, history or JobHistory(), found, is_whole)
    if case.is_unrecorded:
        return [*case.check_live_job(), *case.check_blocked_job()]
    return [*case.check_live_job(), *case.check_blocked_job(), *case.check_finished_job(), *case.check_dead_letters()]


class _JobCase:
    """One job in journal and store."""

    def __init__(self, shard: Shard, id: str, history: JobHistory, found: Found | None, is_whole: bool) -> None:
        self._shard, self._id, self._history, self._found = shard, id, history, found
        self._is_whole = is_whole
        self._state = found.state if found is not None and found.state in _ALIVE else None

    @property
    def is_unrecorded(self) -> bool:
        """Whether the job is finished in the store and still waiting or running by the journal."""
        history, found = self._history, self._found
        if self._state is not None or found is None or history.state not in ("waiting", "active"):
            return False
        has_no_end = history.finished_job == "none" or (history.finished_job is None and self._is_whole)
        has_died = self._is_whole and any(
            dead_letter.key.number not in history.dead_letters for dead_letter in found.dead_letters
        )
        return has_died or (found.finished_job is not None and has_no_end)

    def check_live_job(self) -> Iterator[Finding]:
        """Findings of the live job."""
        history, state = self._history, self._state
        if history.state is None and not self._is_whole:
            return
        expected = None if history.state in (None, "over") else history.state
        if expected is None and state is None:
            return
        if state is None and self.is_unrecorded:
            yield self._finding("unrecorded", self._journal_text(), "no waiting or running job" + self._remains())
        elif state is None:
            remains = self._remains()
            hint = MAYBE_FINISHED if remains else HINTS["lost"]
            yield self._finding("lost", self._journal_text(), "no waiting or running job" + remains, hint=hint)
        elif history.seq == 0:
            yield self._finding("unknown", "no event of this job", f"{state}{self._remains()}")
        elif expected is None:
            yield self._finding("stray", self._journal_text(), str(state))
        elif expected != state:
            yield self._finding("state", self._journal_text(), str(state))
        else:
            yield from self._record()

    def _record(self) -> Iterator[Finding]:
        history, found = self._history, self._found
        assert found is not None
        assert found.record is not None
        if self._state is State.ACTIVE and history.fence is not None and history.fence != found.fence:
            yield self._finding("fence", f"fence {history.fence}", f"fence {found.fence}")
        if history.record is not None:
            yield from self._differences(history.record, found.record, self._state is State.WAITING)

    def _differences(self, expected: ExpectedRecord, record: Record, has_time: bool) -> Iterator[Finding]:
        if expected.kind != record.kind:
            yield self._finding("kind", f"kind {expected.kind!r}", f"kind {record.kind!r}")
        if (expected.attempts, expected.stalls) != (record.attempts, record.stalls):
            yield self._finding(
                "counts", _counts(expected.attempts, expected.stalls), _counts(record.attempts, record.stalls)
            )
        if expected.payload_bytes != len(record.payload):
            yield self._finding("payload", f"{expected.payload_bytes} bytes", f"{len(record.payload)} bytes")
        if has_time and expected.run_at_ms != record.run_at_ms:
            yield self._finding("due", f"due at {expected.run_at_ms} ms", f"due at {record.run_at_ms} ms")

    def check_blocked_job(self) -> Iterator[Finding]:
        """Findings of the blocked job."""
        history, found = self._history, self._found
        blocked = None if found is None else found.blocked_job
        if history.has_blocked_job is None and not self._is_whole:
            return
        expected = history.blocked_job if history.has_blocked_job and self._state is State.ACTIVE else None
        if expected is None and blocked is not None:
            yield self._finding(
                "blocked_job", "no blocked job", f"a blocked job of kind {blocked.kind!r} waits behind it"
            )
        elif expected is not None and blocked is None:
            yield self._finding(
                "blocked_job", f"a blocked job waits behind it since seq {expected.seq}", "no blocked job"
            )
        elif expected is not None and blocked is not None:
            values = (expected.kind, expected.payload_bytes, expected.run_at_ms)
            if values != (blocked.kind, len(blocked.payload), blocked.run_at_ms):
                yield self._finding(
                    "blocked_job",
                    f"one of kind {expected.kind!r}, {expected.payload_bytes} bytes, due at {expected.run_at_ms} ms",
                    f"one of kind {blocked.kind!r}, {len(blocked.payload)} bytes, due at {blocked.run_at_ms} ms",
                )

    def check_finished_job(self) -> Iterator[Finding]:
        """Findings of the finished job. It may have been swept, which writes no event."""
        history, finished_job = self._history, None if self._found is None else self._found.finished_job
        if finished_job is None or (history.finished_job is None and not self._is_whole):
            return
        actual = (
            f"finished job {finished_job.state}, kind {finished_job.kind!r}, "
            f"{_counts(finished_job.attempts, finished_job.stalls)}"
        )
        expected = history.ended
        if history.finished_job in (None, "none") or expected is None:
            kind: FindingKind = "unknown" if history.seq == 0 else "finished_job"
            journal = f"{self._journal_text()}, no finished job" if history.seq else "no event of this job"
            yield self._finding(kind, journal, actual)
        elif (history.finished_job, expected.kind, expected.attempts, expected.stalls) != (
            finished_job.state,
            finished_job.kind,
            finished_job.attempts,
            finished_job.stalls,
        ):
            journal = (
                f"finished job {history.finished_job} (seq {expected.seq}), kind {expected.kind!r}, "
                f"{_counts(expected.attempts, expected.stalls)}"
            )
            yield self._finding("finished_job", journal, actual, expected.seq)

    def check_dead_letters(self) -> Iterator[Finding]:
        """Findings of the dead letters, which are swept with an event."""
        history = self._history
        kept = {dead_letter.key.number: dead_letter for dead_letter in self._found.dead_letters} if self._found else {}
        for number, death in sorted(history.dead_letters.items()):
            if number not in kept:
                yield self._finding(
                    "lost_dead_letter",
                    f"died at seq {death.seq}, dead letter {number}",
                    "no such dead letter",
                    death.seq,
                )
        for number, dead_letter in sorted(kept.items()):
            record, expected = dead_letter.record, history.dead_letters.get(number)
            if expected is None and (self._is_whole or number in history.gone):
                cause = "was deleted" if number in history.gone else "no such death"
                yield self._finding(
                    "stray_dead_letter",
                    f"dead letter {number}: {cause}",
                    f"dead letter {number} of kind {record.kind!r}",
                )
            elif expected is not None and (expected.kind, expected.attempts, expected.stalls, expected.reason) != (
                record.kind,
                record.attempts,
                record.stalls,
                dead_letter.reason,
            ):
                journal = f"dead letter {number}, kind {expected.kind!r}, {_counts(expected.attempts, expected.stalls)}"
                store = f"kind {record.kind!r}, {_counts(record.attempts, record.stalls)}"
                yield self._finding(
                    "dead_letter", f"{journal}, {expected.reason}", f"{store}, {dead_letter.reason}", expected.seq
                )

    def _journal_text(self) -> str:
        history = self._history
        return f"{history.state or 'over'} since {history.event} at seq {history.seq}" if history.seq else "nothing"

    def _remains(self) -> str:
        found = self._found
        if found is None:
            return ""
        if found.finished_job is not None:
            return f", but a finished job {found.finished_job.state}"
        return f", but {len(found.dead_letters)} dead letters" if found.dead_letters else ""

    def _finding(
        self, what: FindingKind, journal: str, store: str, seq: int | None = None, *, hint: str | None = None
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
            seq=seq or self._history.seq or None,
            hint=hint or HINTS[what],
        )


def _counts(attempts: int, stalls: int) -> str:
    return f"attempts {attempts}, stalls {stalls}"
