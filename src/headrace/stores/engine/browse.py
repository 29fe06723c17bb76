"""Reads the rows of a shard in the order of a view, each without its payload or result."""

from headrace.model.finished import DeadLetter, FinishedJob
from headrace.model.job import BlockedJob
from headrace.model.results import Found
from headrace.stores.engine.rows import Rows
from headrace.stores.shared.cursors import ViewCursor, ViewRow
from headrace.stores.shared.lookup import Row, found_of, without_payloads


def lane_rows(rows: Rows, start: ViewCursor, pinned: bool, below: int, limit: int, now_ms: int) -> list[ViewRow]:
    """The next rows of a shard in a view."""
    index, paused = rows.shard.index, rows.config.paused
    match start.view:
        case "next":
            ready = rows.ready_page(start.after_order_key(index), limit)
            return [next_row(row, index, paused, now_ms) for row in ready]
        case "later":
            return [later_row(row, paused, now_ms) for row in rows.later_page(start.after_time(), limit)]
        case "active":
            found = rows.active_page(start.after_time(), limit)
            return [active_row(row, blocked_job, paused, now_ms) for row, blocked_job in found]
        case "finished":
            return [finished_row(number, each, now_ms) for number, each in rows.finished_page(pinned, below, limit)]
        case _:
            return [dead_row(each, now_ms) for each in rows.dead_page(below, limit)]


def next_row(row: Row, shard: int, paused: bool, now_ms: int) -> ViewRow:
    """A ready job in the view `next`."""
    return ViewRow((row.record.order_key or 0, shard), 0, _found_row(row, None, paused, now_ms))


def later_row(row: Row, paused: bool, now_ms: int) -> ViewRow:
    """A later job in the view `later`."""
    return ViewRow((row.record.run_at_ms, row.record.id), 0, _found_row(row, None, paused, now_ms))


def active_row(row: Row, blocked_job: BlockedJob | None, paused: bool, now_ms: int) -> ViewRow:
    """An active job in the view `active`."""
    ends_at_ms = 0 if row.delivery is None else row.delivery.expires_at_ms
    return ViewRow((ends_at_ms, row.record.id), 0, _found_row(row, blocked_job, paused, now_ms))


def _found_row(row: Row, blocked_job: BlockedJob | None, paused: bool, now_ms: int) -> Found | None:
    blocked = None if blocked_job is None else blocked_job.record
    found = found_of(row.record.id, row, blocked, None, [], paused, now_ms)
    return found and without_payloads(found)


def finished_row(number: int, each: FinishedJob, now_ms: int) -> ViewRow:
    """A finished job in the view `finished`."""
    found = found_of(each.id, None, None, each, [], False, now_ms)
    return ViewRow((-each.ended_at_ms, ""), number, found and without_payloads(found))


def dead_row(each: DeadLetter, now_ms: int) -> ViewRow:
    """A dead letter in the view `dead`."""
    found = found_of(each.record.id, None, None, None, [each], False, now_ms)
    return ViewRow((-each.died_at_ms, ""), each.key.number, found and without_payloads(found))
