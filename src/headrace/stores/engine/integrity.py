"""Checks and repairs counters and blocked jobs; the database itself keeps rows and indexes consistent."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from headrace.model.event import Bounds, Entry
from headrace.model.integrity import CountMismatch, Findings, JournalBreak, Problem, RepairResult
from headrace.model.limits import BATCH_MAX, INSPECT_JOURNAL_BYTES
from headrace.model.names import Shard
from headrace.model.validate import check_int
from headrace.stores.engine.journal import bounds_of, cut
from headrace.stores.engine.rows import Engine, Rows, Tx
from headrace.stores.engine.settle import free_blocked_job
from headrace.stores.engine.step import Step, at, finish_step
from headrace.stores.shared.cursors import bad_cursor, read_cursor, write_cursor

_CURSOR = re.compile(r"(\d{1,18}) (\d{1,18}) (\+?)(.*)", re.ASCII | re.DOTALL)


class EngineIntegrity:
    """Compares counters with rows, and finds blocked jobs without an active job."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def check(
        self, shard: Shard, *, cursor: str | None = None, limit: int = BATCH_MAX, now_ms: int | None = None
    ) -> Findings:
        check_int("limit", limit, 1, BATCH_MAX)
        position = CheckCursor.read(shard, cursor)

        def query(tx: Tx, now_ms: int) -> tuple[Findings, list[Entry]]:
            rows = tx.rows(shard)
            if rows is None:
                return Findings(), []
            rows.number()
            wrong: list[CountMismatch] = [] if cursor else count_mismatches(rows)
            ids = [] if position.records is None else rows.stranded(position.records, limit)
            bounds = bounds_of(rows.counters)
            after, upto = position.journal(bounds)
            found = Findings(
                epoch=rows.counters.epoch,
                journal=bounds,
                leases_over=rows.leases_over(now_ms, limit),
                problems=_stranded(ids),
                count_mismatches=tuple(wrong),
                cursor=ids[-1] if len(ids) == limit else None,
            )
            entries = rows.entries(after, upto, limit, INSPECT_JOURNAL_BYTES) if after < upto else []
            return found, list(entries)

        found, entries = await self._engine.read(at(now_ms, query))
        return position.finish(shard, found, entries)

    async def repair(
        self, shard: Shard, *, cursor: str | None = None, limit: int = BATCH_MAX, now_ms: int | None = None
    ) -> RepairResult:
        after = read_repair_cursor(shard, cursor, limit)

        def act(tx: Tx, now_ms: int) -> RepairResult:
            rows = tx.rows(shard)
            if rows is None:
                return RepairResult()
            step = Step(rows, now_ms)
            rows.number()
            wrong: list[CountMismatch] = [] if cursor else recount(step)
            ids = rows.stranded(after, limit)
            for id in ids:
                free(step, id)
            finish_step(self._engine, step)
            return RepairResult(problems=_stranded(ids), count_mismatches=tuple(wrong), cursor=_next(rows, ids, limit))

        return await self._engine.write(at(now_ms, act))


class CheckCursor(NamedTuple):
    """The position of a check: in the records of a shard, and in its journal, which it reads side by side."""

    records: str | None = ""
    """The position in the records; None at their end."""
    after: int = 0
    upto: int | None = None
    """The end of the journal when the check began; None at the beginning."""

    @staticmethod
    def read(shard: Shard, cursor: str | None) -> "CheckCursor":
        """The position of a cursor; refuses the cursor of another shard."""
        if cursor is None:
            return CheckCursor()
        match = _CURSOR.fullmatch(read_cursor(cursor, shard.queue)[1])
        if match is None:
            raise bad_cursor("a check of this shard")
        after, upto, more, records = match.groups()
        return CheckCursor(records if more else None, int(after), int(upto))

    def journal(self, bounds: Bounds) -> tuple[int, int]:
        """The range of the journal to read: after, and up to."""
        upto = bounds.last_seq if self.upto is None else min(self.upto, bounds.last_seq)
        return max(self.after, bounds.first_seq - 1), upto

    def finish(self, shard: Shard, found: Findings, entries: list[Entry]) -> Findings:
        """Add the flaws of the journal's entries, and the cursor of both positions, to the findings of the records."""
        after, upto = self.journal(found.journal)
        breaks = journal_breaks(after, upto, entries)
        entries = cut(entries, after, upto)
        after = entries[-1].last_seq if entries else upto
        unreadable = tuple(line for entry in entries for line in entry.unreadable())
        is_through = found.cursor is None and after >= upto
        text = f"{after} {upto} {'' if found.cursor is None else '+' + found.cursor}"
        cursor = None if is_through else write_cursor(shard.index, text)
        return replace(found, unreadable=unreadable, breaks=breaks, cursor=cursor)


def journal_breaks(after: int, upto: int, entries: Sequence[Entry]) -> tuple[JournalBreak, ...]:
    """The breaks in the numbering of the entries after `after`; no entries at all are a gap up to `upto`."""
    breaks: list[JournalBreak] = []
    for entry in entries:
        if entry.first_seq != after + 1:
            breaks.append(JournalBreak(entry.first_seq, after))
        after = entry.last_seq
    if not entries and after < upto:
        breaks.append(JournalBreak(upto + 1, after))
    return tuple(breaks)


def read_repair_cursor(shard: Shard, cursor: str | None, limit: int) -> str:
    """The position of a repair, '' for the beginning; refuses a bad limit, and the cursor of another shard."""
    check_int("limit", limit, 1, BATCH_MAX)
    return "" if cursor is None else read_cursor(cursor, shard.queue)[1]


def _stranded(ids: list[str]) -> tuple[Problem, ...]:
    return tuple(Problem("stranded", id) for id in ids)


def _next(rows: Rows, ids: list[str], limit: int) -> str | None:
    return write_cursor(rows.shard.index, ids[-1]) if len(ids) == limit else None


def count_mismatches(rows: Rows) -> list[CountMismatch]:
    """The counters that differ from the rows."""
    kept, counted = rows.kept(), rows.counted()
    return [CountMismatch(name, kept[name], counted[name]) for name in kept if kept[name] != counted[name]]


def recount(step: Step) -> list[CountMismatch]:
    """Correct wrong counters; returns them."""
    wrong = count_mismatches(step.rows)
    if wrong:
        step.rows.recount({each.counter: each.counted for each in wrong})
        step.woke = True  # a counter that was too low may have hidden due jobs
    return wrong


def free(step: Step, id: str) -> None:
    """Free a blocked job without an active one: it waits on its own, or is merged into the waiting job."""
    rows = step.rows
    blocked_job, row = rows.blocked_job(id), rows.job(id)
    if blocked_job is None or row is None:
        free_blocked_job(step, id)
        return
    rows.drop_blocked_job(id)
    step.note(step.line_of("merged", step.wait(blocked_job.applied(row.record))))
