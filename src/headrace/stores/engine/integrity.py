"""The integrity protocol over an engine: rows are the truth, so only what is kept beside them can differ."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from headrace.model.event import Bounds, Entry
from headrace.model.integrity import CountMismatch, Findings, JournalBreak, Problem, RepairResult
from headrace.model.limits import BATCH_MAX, INSPECT_JOURNAL_BYTES
from headrace.model.names import Shard
from headrace.model.validate import check_int
from headrace.stores.engine.finish import free_blocked_job
from headrace.stores.engine.journal import bounds_of, cut
from headrace.stores.engine.rows import Engine, Rows, Tx
from headrace.stores.engine.step import Step, at, finish_step
from headrace.stores.shared.cursors import bad_cursor, read_cursor, write_cursor

_CURSOR = re.compile(r"(\d{1,18}) (\d{1,18}) (\+?)(.*)", re.ASCII | re.DOTALL)


class EngineIntegrity:
    """Counts what is counted twice, and finds blocked jobs that nothing blocks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def check(
        self, shard: Shard, *, cursor: str | None = None, limit: int = BATCH_MAX, now_ms: int | None = None
    ) -> Findings:
        check_int("limit", limit, 1, BATCH_MAX)
        place = CheckCursor.read(shard, cursor)

        def look(tx: Tx, now_ms: int) -> tuple[Findings, list[Entry]]:
            rows = tx.rows(shard)
            if rows is None:
                return Findings(), []
            rows.number()
            wrong: list[CountMismatch] = [] if cursor else count_mismatches(rows)
            ids = [] if place.records is None else rows.stranded(place.records, limit)
            bounds = bounds_of(rows.counters)
            after, upto = place.journal(bounds)
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

        found, entries = await self._engine.read(at(now_ms, look))
        return place.finish(shard, found, entries)

    async def repair(
        self, shard: Shard, *, cursor: str | None = None, limit: int = BATCH_MAX, now_ms: int | None = None
    ) -> RepairResult:
        after = read_place(shard, cursor, limit)

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
    """How far a look at a shard has got: in its records, and in its journal, which are walked beside each other."""

    records: str | None = ""
    """Where the records go on; None when they are through."""
    after: int = 0
    upto: int | None = None
    """How far the journal is read, which is where it ended when the look began; None at the beginning."""

    @staticmethod
    def read(shard: Shard, cursor: str | None) -> "CheckCursor":
        """The place of a cursor; refuses one of another shard."""
        if cursor is None:
            return CheckCursor()
        match = _CURSOR.fullmatch(read_cursor(cursor, shard.queue)[1])
        if match is None:
            raise bad_cursor("a look at this shard")
        after, upto, more, records = match.groups()
        return CheckCursor(records if more else None, int(after), int(upto))

    def journal(self, bounds: Bounds) -> tuple[int, int]:
        """What is to be read of the journal: after, and up to."""
        upto = bounds.last_seq if self.upto is None else min(self.upto, bounds.last_seq)
        return max(self.after, bounds.first_seq - 1), upto

    def finish(self, shard: Shard, found: Findings, entries: list[Entry]) -> Findings:
        """What a look found, whose cursor is where its records go on, with what the entries show as they stand."""
        after, upto = self.journal(found.journal)
        breaks = journal_breaks(after, upto, entries)
        entries = cut(entries, after, upto)
        after = entries[-1].last_seq if entries else upto
        unreadable = tuple(line for entry in entries for line in entry.unreadable())
        is_through = found.cursor is None and after >= upto
        place = f"{after} {upto} {'' if found.cursor is None else '+' + found.cursor}"
        cursor = None if is_through else write_cursor(shard.index, place)
        return replace(found, unreadable=unreadable, breaks=breaks, cursor=cursor)


def journal_breaks(after: int, upto: int, entries: Sequence[Entry]) -> tuple[JournalBreak, ...]:
    """Where entries that are to begin behind `after` do not follow each other; none at all are a gap up to `upto`."""
    breaks: list[JournalBreak] = []
    for entry in entries:
        if entry.first_seq != after + 1:
            breaks.append(JournalBreak(entry.first_seq, after))
        after = entry.last_seq
    if not entries and after < upto:
        breaks.append(JournalBreak(upto + 1, after))
    return tuple(breaks)


def read_place(shard: Shard, cursor: str | None, limit: int) -> str:
    """Where a look goes on, '' for the beginning; refuses a bad limit, and a cursor of another shard."""
    check_int("limit", limit, 1, BATCH_MAX)
    return "" if cursor is None else read_cursor(cursor, shard.queue)[1]


def _stranded(ids: list[str]) -> tuple[Problem, ...]:
    return tuple(Problem("stranded", id) for id in ids)


def _next(rows: Rows, ids: list[str], limit: int) -> str | None:
    return write_cursor(rows.shard.index, ids[-1]) if len(ids) == limit else None


def count_mismatches(rows: Rows) -> list[CountMismatch]:
    """The counters that differ from what is there."""
    kept, counted = rows.kept(), rows.counted()
    return [CountMismatch(name, kept[name], counted[name]) for name in kept if kept[name] != counted[name]]


def recount(step: Step) -> list[CountMismatch]:
    """Set wrong counters right; says which."""
    wrong = count_mismatches(step.rows)
    if wrong:
        step.rows.recount({each.counter: each.counted for each in wrong})
        step.woke = True  # a counter that was too low may have hidden jobs that are due
    return wrong


def free(step: Step, id: str) -> None:
    """Let the blocked job of a job that is not active wait: on its own, or on top of the one that waits."""
    rows = step.rows
    blocked_job, row = rows.blocked_job(id), rows.job(id)
    if blocked_job is None or row is None:
        free_blocked_job(step, id)
        return
    rows.drop_blocked_job(id)
    step.note(step.line_of("merged", step.wait(blocked_job.applied(row.record))))
