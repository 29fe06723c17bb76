"""Holds what the journal says of one job: as Spark has folded it, and continued with later events on the driver."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from headrace.model.event import Event, EventRecord
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
    """The records that a job must have. None means that no event has it: in a complete journal there is none then."""

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
