"""What the journal says of one job: as Spark has folded it, and as it goes on while the store is looked at again."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from headrace.model.event import Event, EventRecord
from headrace.pipeline.audit.rules import (
    BLOCKED,
    ENDLESS,
    ENDS,
    LOST,
    OVER,
    RUNS,
    WAITS,
    WITHOUT_BLOCKED_JOB,
    WITHOUT_DEAD_LETTER,
)


class ExpectedRecord(Struct, frozen=True):
    """What the journal says of a record; None where it does not say."""

    kind: str | None
    attempts: int = 0
    stalls: int = 0
    run_at_ms: int | None = None
    payload_bytes: int | None = None
    reason: str | None = None
    """Of a death."""
    seq: int = 0


class Story(Struct):
    """What a job's records must be. What is None was not told, which means "none" in a journal that is whole."""

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
    """Dead letters that were there once."""

    @staticmethod
    def of(folded: Mapping[str, Any]) -> "Story":
        """A story from a row of `fold`, its structs as dictionaries."""
        last, live, record = folded["last"], folded["live"], folded["record"]
        blocked_job, finished_job = folded["blocked_job"], folded["finished_job"]
        gone = set(folded["gone"])
        gone_or_unread = {*gone, None}  # the line of a death may be unreadable in part
        deaths = {
            death["dead_letter"]: _told(death)
            for death in folded["deaths"]
            if death["dead_letter"] not in gone_or_unread
        }
        return Story(
            seq=last["seq"],
            event=last["event"],
            state=live and live["state"],
            record=record and _told(record),
            fence=folded["fence"],
            blocked_job=blocked_job and _told(blocked_job),
            has_blocked_job=blocked_job and blocked_job["is_there"],
            finished_job=finished_job and finished_job["state"],
            ended=finished_job and _told(finished_job),
            dead_letters=deaths,
            gone=gone,
        )

    def add(self, event: Event) -> None:
        """Take the next event of the job."""
        line = event.line
        name, is_blocked_jobs = line.event, line.event == "cancelled" and line.reason == BLOCKED
        self.seq, self.event = event.seq, name
        if name in WAITS:
            self.state, self.record = "waiting", _of(event)
        elif name in RUNS or is_blocked_jobs:
            self.state = "active"
            self.fence = line.fence or self.fence
        elif name in OVER and not (name == "purged" and line.dead_letter is not None):
            self.state = "over"
        if name == "blocked":
            self.has_blocked_job, self.blocked_job = True, _of(event)
        elif name in WITHOUT_BLOCKED_JOB or is_blocked_jobs:
            self.has_blocked_job = False
        if name in ENDS and not is_blocked_jobs:
            self.finished_job, self.ended = name, _of(event)
        elif name in ENDLESS and line.reason != LOST:
            self.finished_job = "none"
        self._take_dead_letters(event, line)

    def _take_dead_letters(self, event: Event, line: EventRecord) -> None:
        if line.event == "removed" and line.reason != LOST:
            self.gone |= set(self.dead_letters)
            self.dead_letters.clear()
        elif line.dead_letter is not None and line.event in WITHOUT_DEAD_LETTER:
            self.dead_letters.pop(line.dead_letter, None)
            self.gone.add(line.dead_letter)
        elif line.dead_letter is not None and line.event == "dead":
            self.dead_letters[line.dead_letter] = _of(event)


def _of(event: Event) -> ExpectedRecord:
    line = event.line
    return ExpectedRecord(
        line.kind, line.attempts or 0, line.stalls or 0, line.run_at_ms, line.payload_bytes, line.reason, event.seq
    )


def _told(row: Mapping[str, Any]) -> ExpectedRecord:
    return ExpectedRecord(
        row["kind"],
        row.get("attempts") or 0,
        row.get("stalls") or 0,
        row.get("run_at_ms"),
        row.get("payload_bytes"),
        row.get("reason"),
        row.get("seq") or 0,
    )
