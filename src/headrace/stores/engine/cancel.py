"""Cancel, remove and purge: ends jobs, deletes all records of an id, drops waiting jobs."""

from msgspec.structs import replace

from headrace.model.event import EventName, EventRecord
from headrace.model.job import Record
from headrace.model.limits import TIME_MS_MAX
from headrace.model.results import Cancellation, Removed
from headrace.stores.engine.settle import end, sweep_finished_jobs
from headrace.stores.engine.step import Step
from headrace.stores.shared.lookup import Row


def cancel(step: Step, ids: list[str], running: bool) -> list[Cancellation]:
    """End waiting and blocked records; with `running`, ask active ones to stop."""
    step.rows.load(ids)
    answers = [_cancel_one(step, id, running) for id in ids]
    sweep_finished_jobs(step)
    return answers


def _cancel_one(step: Step, id: str, running: bool) -> Cancellation:
    row = step.rows.job(id)
    if row is None:
        return Cancellation(id, "not_found")
    if row.delivery is None:
        step.rows.drop(id)
        end(step, row.record, "cancelled")
        step.note(_end_line("cancelled", step, row.record))
        return Cancellation(id, "cancelled")
    blocked_job = step.rows.blocked_job(id)
    if blocked_job is not None:
        step.rows.drop_blocked_job(id)
        step.note(replace(_end_line("cancelled", step, blocked_job.record), reason="blocked"))
    if running:
        if not row.delivery.cancel_asked:
            step.rows.put(Row(row.record, replace(row.delivery, cancel_asked=True)))
            step.note(EventRecord("asked", id, fence=row.delivery.fence, worker=row.delivery.worker))
        return Cancellation(id, "asked", blocked_job is not None)
    return Cancellation(id, "active" if blocked_job is None else "cancelled", blocked_job is not None)


def _end_line(event: EventName, step: Step, record: Record) -> EventRecord:
    line = step.line_of(event, record)
    return replace(line, run_at_ms=None, enqueued_at_ms=record.enqueued_at_ms)


def remove(step: Step, ids: list[str]) -> list[Removed]:
    """Delete everything of each id."""
    rows = step.rows
    rows.load(ids)
    # An ended id may be enqueued again concurrently: then the event would be about another job.
    rows.seal([id for id in dict.fromkeys(ids) if rows.job(id) is None and _is_kept(step, id)])
    return [_remove_one(step, id) for id in ids]


def _is_kept(step: Step, id: str) -> bool:
    """Whether an id has a finished job or a dead letter."""
    kept = (step.rows.finished_job(id), *step.rows.dead_letters_of(id))
    return any(each is not None and step.now_ms < each.until_ms for each in kept)


def _remove_one(step: Step, id: str) -> Removed:
    rows = step.rows
    row, dead_letters = rows.job(id), rows.dead_letters_of(id)
    if row is None and not _is_kept(step, id):
        return Removed(id, "not_found")
    rows.drop(id)
    rows.drop_blocked_job(id)
    rows.drop_finished_job(id)
    for dead_letter in dead_letters:
        rows.drop_dead_letter(dead_letter.key.number)
    step.note(
        EventRecord("removed", id)
        if row is None
        else EventRecord("removed", id, row.record.kind, reason=_state_of(row))
    )
    return Removed(id, "removed")


def _state_of(row: Row) -> str:
    return "waiting" if row.delivery is None else "active"


def purge_waiting(step: Step, limit: int) -> int:
    """Drop waiting jobs in the order of claims, at most `limit`; returns how many."""
    purged, after_order_key = 0, -1
    while purged < limit and (ready := step.rows.ready(after_order_key, limit - purged)):
        after_order_key = ready[-1].record.order_key or 0
        purged += _purge(step, ready)
    if purged < limit:
        purged += _purge(step, step.rows.due(2 * TIME_MS_MAX, limit - purged))
    return purged


def _purge(step: Step, rows_read: list[Row]) -> int:
    """Drop the jobs that still wait: others may have been claimed since they were read."""
    ids = [row.record.id for row in rows_read]
    step.rows.load(ids)
    waiting = [row for id in ids if (row := step.rows.job(id)) is not None and row.delivery is None]
    for row in waiting:
        step.rows.drop(row.record.id)
        step.note(_end_line("purged", step, row.record))
    return len(waiting)
