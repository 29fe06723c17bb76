"""Reads: jobs by id, lists, finished jobs, snapshots, scans, workers."""

import builtins
from collections.abc import Sequence

from msgspec.structs import replace

from headrace.model.finished import DeadLetter, FinishedJob
from headrace.model.job import BlockedJob, State
from headrace.model.limits import AHEAD_IDS_MAX, AHEAD_MAX, PAGE_MAX, SCAN_PART_BYTES, WORKER_KEEP_MS
from headrace.model.names import Queue, Shard
from headrace.model.policy import QueueConfig
from headrace.model.results import ALL_IDS, Found, Group, IdRange, Page, Scan, Snapshot, SnapshotRow, View, WorkerSeen
from headrace.model.validate import check_batch, check_bool, check_int
from headrace.stores.engine.browse import lane_rows
from headrace.stores.engine.rows import Engine, Rows, Tx
from headrace.stores.engine.step import at
from headrace.stores.shared.cursors import (
    Lane,
    is_row_key,
    lane_limit,
    merge_lanes,
    read_cursor,
    read_scan_cursor,
    read_view_cursor,
    write_cursor,
    write_scan_cursor,
)
from headrace.stores.shared.lookup import Row, found_of, without_payloads
from headrace.stores.shared.validate import check_ids, check_state


def find_one(rows: Rows, id: str, now_ms: int) -> Found | None:
    """All records of an id on its shard."""
    blocked_job = rows.blocked_job(id)
    known = (
        rows.job(id),
        None if blocked_job is None else blocked_job.record,
        rows.finished_job(id),
        rows.dead_letters_of(id),
    )
    return found_of(id, *known, rows.config.paused, now_ms)


def scan_part(
    rows: Rows, group: Group, ids: IdRange, payloads: bool, position: str, limit: int, now_ms: int
) -> tuple[list[Found], str | None]:
    """The rows of a group after a position, and the position to continue from; None at the end."""
    paused = rows.config.paused
    bytes_max = SCAN_PART_BYTES if payloads else None
    last: str | None = None
    found: list[Found | None]
    match group:
        case "alive":
            jobs, more = rows.scan_jobs(max(position, ids.after), limit, bytes_max)
            inside = [row for row in jobs if ids.holds(row.record.id)]
            found = []
            for row in inside:
                blocked_job = None if row.delivery is None else rows.blocked_job(row.record.id)
                blocked = None if blocked_job is None else blocked_job.record
                found.append(found_of(row.record.id, row, blocked, None, [], paused, now_ms))
            last = jobs[-1].record.id if more and len(inside) == len(jobs) else None
        case "ended":
            finished_jobs, more = rows.scan_finished_jobs(max(position, ids.after), limit, bytes_max)
            kept = [each for each in finished_jobs if ids.holds(each.id)]
            found = [found_of(each.id, None, None, each, [], paused, now_ms) for each in kept]
            last = finished_jobs[-1].id if more and len(kept) == len(finished_jobs) else None
        case "dead":
            dead_letters, more = rows.scan_dead_letters(int(position or 0), limit, SCAN_PART_BYTES)
            found = [
                found_of(each.record.id, None, None, None, [each], paused, now_ms)
                for each in dead_letters
                if ids.holds(each.record.id)
            ]
            last = str(dead_letters[-1].key.number) if more else None
    known = [each for each in found if each is not None]
    return known if payloads else [without_payloads(each) for each in known], last


class EngineReads:
    """Reads of one consistent state."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def find(
        self, queue: Queue, ids: Sequence[str], *, ahead: bool = False, now_ms: int | None = None
    ) -> Sequence[Found | None]:
        check_find(queue, ids, ahead)

        def query(tx: Tx, now_ms: int) -> builtins.list[Found | None]:
            shards = {id: tx.rows(queue.shard_of(id)) for id in ids}
            found = [None if (rows := shards[id]) is None else find_one(rows, id, now_ms) for id in ids]
            return [each and with_ahead(each, _jobs_ahead(tx, queue, each)) for each in found] if ahead else found

        return await self._engine.read(at(now_ms, query))

    async def list(
        self, queue: Queue, state: State, *, cursor: str | None = None, limit: int = 100, now_ms: int | None = None
    ) -> Page[Found]:
        check_int("limit", limit, 1, PAGE_MAX)
        check_state(state)
        start, last = read_cursor(cursor, queue)

        def query(tx: Tx, now_ms: int) -> Page[Found]:
            found: builtins.list[Found] = []
            after = last
            for shard in queue.all_shards()[start:]:
                rows = tx.rows(shard)
                if rows is not None:
                    wanted = limit - len(found)
                    ids = rows.ids_in(state, after, wanted)
                    rows.load(ids)
                    shown = (find_one(rows, id, now_ms) for id in ids)
                    found += [each for each in shown if each is not None and shows(each, state)]
                    if len(ids) == wanted:
                        return Page(found, write_cursor(shard.index, ids[-1]))
                after = ""
            return Page(found, None)

        return await self._engine.read(at(now_ms, query))

    async def browse(
        self, queue: Queue, view: View, *, cursor: str | None = None, limit: int = 50, now_ms: int | None = None
    ) -> Page[Found]:
        check_int("limit", limit, 1, PAGE_MAX)
        if view == "blocked":
            page = await self.list(queue, State.BLOCKED, cursor=cursor, limit=limit, now_ms=now_ms)
            return Page([without_payloads(found) for found in page.rows], page.cursor)
        start = read_view_cursor(cursor, queue, view)

        def query(tx: Tx, now_ms: int) -> Page[Found]:
            lanes: builtins.list[Lane] = []
            wanted = lane_limit(queue, view, limit)
            for pinned in (False, True) if view == "finished" else (False,):
                for shard in queue.all_shards():
                    rows = tx.rows(shard)
                    below = start.below[len(lanes)] if start.below else 0
                    found = [] if rows is None else lane_rows(rows, start, pinned, below, wanted, now_ms)
                    lanes.append(Lane(found, len(found) < wanted))
            return merge_lanes(start, lanes, limit)

        return await self._engine.read(at(now_ms, query))

    async def finished_job(self, queue: Queue, id: str, *, now_ms: int | None = None) -> FinishedJob | None:
        check_ids(queue, [id])

        def query(tx: Tx, now_ms: int) -> FinishedJob | None:
            rows = tx.rows(queue.shard_of(id))
            return None if rows is None else _finished_job(rows, id, now_ms)

        return await self._engine.read(at(now_ms, query))

    async def snapshot(self, shard: Shard, *, now_ms: int | None = None) -> Snapshot:

        def query(tx: Tx, now_ms: int) -> Snapshot:
            rows = tx.rows(shard)
            if rows is None:
                return Snapshot(0, 0, [])
            rows.number()
            return Snapshot(
                rows.counters.epoch, rows.counters.seq, snapshot_rows(rows.config, *rows.everything(), now_ms)
            )

        return await self._engine.read(at(now_ms, query))

    async def scan(
        self,
        shard: Shard,
        group: Group,
        *,
        ids: IdRange = ALL_IDS,
        payloads: bool = True,
        cursor: str | None = None,
        limit: int = 1_000,
        now_ms: int | None = None,
    ) -> Scan:
        check_bool("payloads", payloads)
        check_int("limit", limit, 1, PAGE_MAX)
        position = read_scan_cursor(shard, group, cursor, is_row_key)

        def query(tx: Tx, now_ms: int) -> Scan:
            rows = tx.rows(shard)
            if rows is None:
                return Scan(0, 0, [], None)
            rows.number()
            found, last = scan_part(rows, group, ids, payloads, position, limit, now_ms)
            return Scan(rows.counters.epoch, rows.counters.seq, found, write_scan_cursor(shard, group, last))

        return await self._engine.read(at(now_ms, query))

    async def split_ids(self, shard: Shard, parts: int, *, now_ms: int | None = None) -> Sequence[str]:
        check_int("parts", parts, 1, PAGE_MAX)

        def query(tx: Tx, now_ms: int) -> list[str]:
            rows = tx.rows(shard)
            if rows is None:
                return []
            counts = rows.counts(now_ms)
            live, finished = counts.waiting + counts.active, counts.done + counts.cancelled
            group: Group = "alive" if live >= finished else "ended"
            step = max(live, finished) // parts
            cuts: list[str] = []
            while step and len(cuts) < parts - 1:
                cut = rows.id_behind(group, cuts[-1] if cuts else "", step)
                if cut is None:
                    break
                cuts.append(cut)
            return cuts

        return await self._engine.read(at(now_ms, query))

    async def workers(self, queue: Queue, *, now_ms: int | None = None) -> Sequence[WorkerSeen]:

        def query(tx: Tx, now_ms: int) -> Sequence[WorkerSeen]:
            seen = [
                WorkerSeen(name, shard.index, row.seen_at_ms)
                for shard in queue.all_shards()
                if (rows := tx.rows(shard)) is not None
                for name, row in rows.workers()
                if row.seen_at_ms > now_ms - WORKER_KEEP_MS
            ]
            return sorted(seen, key=lambda each: (each.worker, each.shard))

        return await self._engine.read(at(now_ms, query))


def check_find(queue: Queue, ids: Sequence[str], ahead: bool) -> None:
    """Refuse wrong arguments of `find`."""
    check_ids(queue, ids)
    check_bool("ahead", ahead)
    if ahead:
        check_batch("ids whose jobs ahead are counted", len(ids), AHEAD_IDS_MAX)


def with_ahead(found: Found, ahead: int | None) -> Found:
    """The same records with the number of jobs ahead."""
    return replace(found, ahead=None if ahead is None or ahead > AHEAD_MAX else ahead)


def _jobs_ahead(tx: Tx, queue: Queue, found: Found) -> int | None:
    """The ready jobs before a ready one in the view `next`, one beyond the bound at most."""
    order_key = found.record.order_key if found.state is State.WAITING and found.record is not None else None
    if order_key is None:
        return None
    own, count = queue.index_of(found.id), 0
    for shard in queue.all_shards():
        rows = tx.rows(shard)
        if rows is not None and count <= AHEAD_MAX:
            count += rows.ready_before(order_key + (shard.index < own), AHEAD_MAX + 1 - count)
    return count


def _finished_job(rows: Rows, id: str, now_ms: int) -> FinishedJob | None:
    finished_job = rows.finished_job(id)
    return finished_job if finished_job is not None and now_ms < finished_job.until_ms else None


def shows(found: Found, state: State) -> bool:
    """Whether a list of the state includes the found records."""
    match state:
        case State.BLOCKED:
            return found.blocked_job is not None
        case State.DONE | State.CANCELLED:
            return found.finished_job is not None and found.finished_job.state == state.value
        case _:
            return found.state is state


def _by_id(row: SnapshotRow) -> tuple[str, str, int]:
    return row.id, row.state, row.dead_letter or 0


def snapshot_rows(
    config: QueueConfig,
    jobs: Sequence[Row],
    blocked_jobs: Sequence[BlockedJob],
    finished_jobs: Sequence[FinishedJob],
    dead_letters: Sequence[DeadLetter],
    now_ms: int,
) -> builtins.list[SnapshotRow]:
    """All records of a shard as rows of a snapshot, in order."""
    live = [
        SnapshotRow(
            row.record.id,
            State.WAITING if row.delivery is None else State.ACTIVE,
            row.record.kind,
            config.priority_of(row.record.policy),
            row.record.attempts,
            row.record.stalls,
            row.record.run_at_ms,
            None if row.delivery is None else row.delivery.fence,
        )
        for row in jobs
    ]
    blocked = [
        SnapshotRow(
            blocked_job.record.id,
            State.BLOCKED,
            blocked_job.record.kind,
            config.priority_of(blocked_job.record.policy),
            0,
            0,
            blocked_job.record.run_at_ms,
        )
        for blocked_job in blocked_jobs
    ]
    over = [
        SnapshotRow(each.id, State(each.state), each.kind, None, each.attempts, each.stalls)
        for each in finished_jobs
        if now_ms < each.until_ms
    ]
    dead = [
        SnapshotRow(
            each.record.id,
            State.DEAD,
            each.record.kind,
            config.priority_of(each.record.policy),
            each.record.attempts,
            each.record.stalls,
            dead_letter=each.key.number,
        )
        for each in dead_letters
        if now_ms < each.until_ms
    ]
    return sorted([*live, *blocked, *over, *dead], key=_by_id)
