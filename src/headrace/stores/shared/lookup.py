"""Combines all records of one id into one `Found`."""

from msgspec import Struct
from msgspec.structs import replace

from headrace.model.claim import Delivery
from headrace.model.finished import DeadLetter, FinishedJob
from headrace.model.job import Record, State
from headrace.model.results import Found
from headrace.model.times import duration_text


class Row(Struct, frozen=True, gc=False):
    """A job that waits (no delivery) or is active (with one)."""

    record: Record
    delivery: Delivery | None = None


def found_of(
    id: str,
    row: Row | None,
    blocked_job: Record | None,
    finished_job: FinishedJob | None,
    dead_letters: list[DeadLetter],
    paused: bool,
    now_ms: int,
) -> Found | None:
    """All records of an id; rows past their retention are left out."""
    if finished_job is not None and finished_job.until_ms <= now_ms:
        finished_job = None
    kept = tuple(dead_letter for dead_letter in dead_letters if dead_letter.until_ms > now_ms)
    if row is not None and row.delivery is not None:
        delivery = row.delivery
        return Found(
            id,
            State.ACTIVE,
            row.record,
            blocked_job,
            delivery.worker,
            delivery.fence,
            delivery.expires_at_ms,
            delivery.cancel_asked,
            finished_job,
            kept,
        )
    if row is not None:
        return Found(
            id,
            State.WAITING,
            row.record,
            finished_job=finished_job,
            dead_letters=kept,
            why=_why(row.record, paused, now_ms),
        )
    if finished_job is not None:
        return Found(id, State(finished_job.state), finished_job=finished_job, dead_letters=kept)
    if kept:
        return Found(id, State.DEAD, kept[-1].record, dead_letters=kept)
    return None


def without_payloads(found: Found) -> Found:
    """The same records with empty payloads and without results."""
    return replace(
        found,
        record=_bare(found.record),
        blocked_job=_bare(found.blocked_job),
        finished_job=None if found.finished_job is None else replace(found.finished_job, result=None),
        dead_letters=tuple(replace(each, record=replace(each.record, payload=b"")) for each in found.dead_letters),
    )


def _bare(record: Record | None) -> Record | None:
    return record if record is None or not record.payload else replace(record, payload=b"")


def _why(record: Record, paused: bool, now_ms: int) -> str:
    if paused:
        return "its queue is paused; resume it"
    if record.run_at_ms > now_ms:
        attempts = "1 failed attempt" if record.attempts == 1 else f"{record.attempts} failed attempts"
        again = f" after {attempts}" if record.attempts else ""
        return f"it is due in {duration_text(record.run_at_ms - now_ms)}{again}"
    return "it is due and waits for a worker"
