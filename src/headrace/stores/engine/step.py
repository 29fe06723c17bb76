"""One atomic step on a shard: its time, its rows, and the journal lines written at its end."""

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from headrace.model.event import CARRIERS, EventName, EventRecord, encode_lines, payload_text
from headrace.model.job import Record
from headrace.model.limits import NUMBER_BITS, PRIORITY_MAX
from headrace.model.names import Queue
from headrace.model.validate import check_time
from headrace.stores.engine.rows import Engine, Rows, Tx
from headrace.stores.shared.lookup import Row

Answer = TypeVar("Answer")
ENDS: frozenset[EventName] = frozenset({"done", "cancelled", "dead", "removed", "purged"})
"""The events that end the wait for a job."""


class Step:
    """Collects the journal lines of one call, so that they become one entry."""

    def __init__(self, rows: Rows, now_ms: int, worker: str | None = None) -> None:
        self.rows = rows
        self.now_ms = now_ms
        self.worker = worker
        self.lines: list[EventRecord] = []
        self.woke = False
        self._fail_queue: Step | None = None

    def fail_queue(self) -> "Step":
        """The step on the fail queue's shard in the same transaction."""
        if self._fail_queue is None:
            self._fail_queue = Step(self.rows.fail_queue(), self.now_ms)
        return self._fail_queue

    def fail_queue_rows(self) -> Rows | None:
        """The rows of the fail queue's shard, if this step has put a job there."""
        return None if self._fail_queue is None else self._fail_queue.rows

    def note(self, line: EventRecord) -> None:
        """Add a journal line."""
        self.lines.append(line)

    def ended(self) -> list[str]:
        """The ids of jobs that have ended or were dropped so far; a purged dead letter is of a job that ended
        before."""
        return [
            line.id
            for line in self.lines
            if line.event in ENDS and line.id is not None and (line.dead_letter is None or line.event != "purged")
        ]

    def finish(self) -> list[Queue]:
        """Append the lines to the journal, and return the queues that may have new work."""
        woken = [] if self._fail_queue is None else self._fail_queue.finish()
        if self.woke:
            woken.append(self.rows.shard.queue)
        if self.lines:
            self.rows.append(encode_lines(self.lines), len(self.lines), self.now_ms, self.worker)
            self.lines = []
        return woken

    def wait(self, record: Record) -> Record:
        """Store a waiting record: ready (with a new number) when it is due, later otherwise; returns it as stored."""
        order_key = self.draw(record) if record.run_at_ms <= self.now_ms else None
        record = replace(record, order_key=order_key)
        self.rows.put(Row(record))
        self.woke = True
        return record

    def draw(self, record: Record) -> int:
        """A new order key, last of the record's priority."""
        self.rows.counters.number += 1
        return order_key_of(self.rows.config.priority_of(record.policy), self.rows.counters.number)

    def line_of(self, event: EventName, record: Record, *, dead_letter: int | None = None) -> EventRecord:
        """The line of an event about a waiting record."""
        config = self.rows.config
        fresh = event in ("enqueued", "blocked", "unblocked")
        return EventRecord(
            event,
            record.id,
            record.kind,
            record.tag,
            config.priority_of(record.policy),
            None if fresh else record.attempts,
            None if fresh else record.stalls,
            run_at_ms=record.run_at_ms,
            dead_letter=dead_letter,
            payload_bytes=len(record.payload),
            payload=payload_text(record.payload) if config.journal_payloads and event in CARRIERS else None,
        )


def order_key_of(priority: int, number: int) -> int:
    """The order key: higher priorities first, then by number."""
    return (PRIORITY_MAX - priority << NUMBER_BITS) + number


def number_at(order_key: int) -> int:
    """The number in an order key."""
    return order_key & ((1 << NUMBER_BITS) - 1)


def finish_step(engine: Engine, step: Step) -> None:
    """Write the journal of a step; wake waiters for work that it made claimable and for jobs that it ended."""
    ended = step.ended()  # `finish` clears the lines
    for woken in step.finish():
        engine.wake([woken])
    if ended:
        engine.notify_ended(step.rows.shard.queue, ended)


def at(now_ms: int | None, act: Callable[[Tx, int], Answer]) -> Callable[[Tx], Answer]:
    """A step at `now_ms`, or by the store's clock, read inside the step."""
    if now_ms is None:
        return lambda tx: act(tx, tx.now_ms())
    check_time("now_ms", now_ms)
    return lambda tx: act(tx, now_ms)
