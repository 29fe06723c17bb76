"""The reads protocol: finds, lists and scans jobs without a change."""

import builtins
import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from headrace.model.finished import FinishedJob
from headrace.model.job import BlockedJob, State
from headrace.model.limits import LIST_IDS_KEPT_MAX, PAGE_MAX, SCAN_PART_BYTES, SCAN_PER_CALL_MAX, WORKER_KEEP_MS
from headrace.model.names import Queue, Shard
from headrace.model.policy import QueueConfig
from headrace.model.results import ALL_IDS, Found, Group, IdRange, Page, Scan, Snapshot, View, WorkerSeen
from headrace.model.validate import check_bool, check_int
from headrace.stores.engine.browse import active_row, dead_row, finished_row, later_row, next_row
from headrace.stores.engine.reads import check_find, shows, snapshot_rows, with_ahead
from headrace.stores.redis.client import Argument, RedisClient
from headrace.stores.redis.fanout import as_read, call_shards, now_argument
from headrace.stores.redis.keys import first_shard, head_key
from headrace.stores.redis.packing import blocked_job_of, dead_letter_of, delivery_of, finished_job_of, record_of
from headrace.stores.shared.cursors import (
    NUMBER_END,
    Lane,
    Order,
    ViewCursor,
    ViewRow,
    bad_cursor,
    is_number,
    lane_limit,
    merge_lanes,
    read_cursor,
    read_scan_cursor,
    read_view_cursor,
    write_cursor,
    write_scan_cursor,
)
from headrace.stores.shared.lookup import Row, found_of, without_payloads
from headrace.stores.shared.sharding import by_shard
from headrace.stores.shared.validate import check_ids, check_state

_START = re.compile(r"\d{1,20}\.\d{1,20}", re.ASCII)
"""The epoch and seq of a journal."""
_SEPARATOR = "\0"
"""Between the last id of a page and the start of its listing; no id has it."""


def is_position(text: str) -> bool:
    """Whether a text is a position in a list: one of `IdPages`, or a bare id, after which a listing starts."""
    after, _, start = text.partition(_SEPARATOR)
    return bool(after and (not start or _START.fullmatch(start)))


class _SortedIds(Struct, frozen=True):
    """The ids of a state after one of them, in order."""

    after: bytes
    ids: list[bytes]
    is_rest: bool
    """Whether no others follow."""

    def page(self, after: bytes, limit: int) -> list[bytes] | None:
        """The next ids after `after`; None when they are not all known."""
        if after < self.after:
            return None
        start = bisect_right(self.ids, after)
        page = self.ids[start : start + limit]
        return page if self.is_rest or len(page) == limit else None


class IdPages:
    """The pages of listings, with ids kept for the next pages. Belongs to the event loop of its client."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._listings: dict[tuple[Shard, State, str], _SortedIds] = {}
        """Ids kept for listings of a state that started at the same seq of the shard, the last used at the end."""

    async def read(self, shard: Shard, state: State, position: str, limit: int) -> tuple[list[str], str]:
        """The ids of a state after a position ("" is the start), by code point, at most `limit` and fewer at the end
        only; and the position after the last of them."""
        last, _, start = position.partition(_SEPARATOR)
        after = last.encode()
        kept = self._listings.pop((shard, state, start), None)
        if kept is None or (page := kept.page(after, limit)) is None:
            count = PAGE_MAX if kept is None else max(LIST_IDS_KEPT_MAX, PAGE_MAX)
            read_at, ids = await _smallest_ids(self._client, shard, state, after, count)
            kept = _SortedIds(after, ids, len(ids) < count)
            page = ids[:limit]
            start = start or read_at
        if len(page) == limit:
            self._keep((shard, state, start), kept)
        found = [id.decode() for id in page]
        return found, f"{found[-1]}{_SEPARATOR}{start}" if found else position

    def _keep(self, listing: tuple[Shard, State, str], kept: _SortedIds) -> None:
        """Keep ids for a listing, and drop those of the least recently used listings beyond the limit."""
        self._listings.setdefault(listing, kept)
        total = sum(len(each.ids) for each in self._listings.values())
        while total > LIST_IDS_KEPT_MAX and len(self._listings) > 1:
            total -= len(self._listings.pop(next(iter(self._listings))).ids)


async def _smallest_ids(
    client: RedisClient, shard: Shard, state: State, after: bytes, count: int
) -> tuple[str, list[bytes]]:
    """The epoch and seq of the journal at the start, and at most `count` ids of a state with `id > after`, by code
    point."""
    found: set[bytes] = set()  # a scan may show an id twice
    start, below, cursor = "", b"", b"0"
    while True:
        args = [state.value, cursor, SCAN_PER_CALL_MAX, SCAN_PART_BYTES, after, below]
        [answer] = await call_shards(client, "scan_ids", [shard], args, reads=True)
        if answer is None:
            return start, []
        epoch, seq, cursor, ids = answer
        start = start or f"{int(epoch)}.{int(seq)}"
        found.update(ids)
        is_over = cursor == b"0"
        if is_over or len(found) >= 2 * count:
            ids = sorted(found)[:count]  # UTF-8 orders like code points
            if is_over:
                return start, ids
            found, below = set(ids), ids[-1]


_CONFIG = msgspec.json.Decoder(QueueConfig)
_AT = "@"
"""Between the cursor of a scan and the server of the scan."""


class RedisReads:
    """Reads, each of one consistent state of a shard."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._id_pages = IdPages(client)

    async def find(
        self, queue: Queue, ids: Sequence[str], *, ahead: bool = False, now_ms: int | None = None
    ) -> Sequence[Found | None]:
        check_find(queue, ids, ahead)
        now = now_argument(now_ms)
        if not ids:
            await self._client.command("EXISTS", head_key(first_shard(queue)))  # raises when the store is closed
            return []
        groups = builtins.list(by_shard(ids, lambda id: (queue, id)))
        own = [[ids[position] for position in positions] for _, positions in groups]
        answers = await call_shards(self._client, "find", [shard for shard, _ in groups], [now], own, reads=True)
        found: builtins.list[Found | None] = [None] * len(ids)
        for (shard, positions), answer in zip(groups, answers, strict=True):
            if answer is not None:
                read_at_ms, paused, known = int(answer[0]), bool(answer[1]), answer[2]
                for position, parts in zip(positions, known, strict=True):
                    found[position] = _found_of(shard, ids[position], parts, paused, read_at_ms)
        return await self._with_ahead(queue, found) if ahead else found

    async def _with_ahead(self, queue: Queue, found: "builtins.list[Found | None]") -> "builtins.list[Found | None]":
        """The same with the number of jobs before each ready one, over all shards."""
        keys = {
            each.id: each.record.order_key
            for each in found
            if each is not None and each.state is State.WAITING and each.record and each.record.order_key is not None
        }
        if not keys:
            return found
        shards = queue.all_shards()
        own = [[key + (shard.index < queue.index_of(id)) for id, key in keys.items()] for shard in shards]
        answers = await call_shards(self._client, "count_ahead", shards, own=own, reads=True)
        counts = [sum(map(int, each)) for each in zip(*(answer for answer in answers if answer), strict=True)]
        ahead = dict(zip(keys, counts, strict=True))
        return [each and with_ahead(each, ahead.get(each.id)) for each in found]

    async def list(
        self, queue: Queue, state: State, *, cursor: str | None = None, limit: int = 100, now_ms: int | None = None
    ) -> Page[Found]:
        check_int("limit", limit, 1, PAGE_MAX)
        check_state(state)
        start, position = read_cursor(cursor, queue)
        if cursor is not None and not is_position(position):
            raise bad_cursor("a list of this queue")
        now_argument(now_ms)
        found: builtins.list[Found] = []
        for shard in queue.all_shards()[start:]:
            wanted = limit - len(found)
            ids, position = await self._id_pages.read(shard, state, position, wanted)
            shown = await self.find(queue, ids, now_ms=now_ms) if ids else []
            found += [each for each in shown if each is not None and shows(each, state)]
            if len(ids) == wanted:
                return Page(found, write_cursor(shard.index, position))
            position = ""
        return Page(found, None)

    async def browse(
        self, queue: Queue, view: View, *, cursor: str | None = None, limit: int = 50, now_ms: int | None = None
    ) -> Page[Found]:
        check_int("limit", limit, 1, PAGE_MAX)
        if view == "blocked":
            page = await self.list(queue, State.BLOCKED, cursor=cursor, limit=limit, now_ms=now_ms)
            return Page([without_payloads(found) for found in page.rows], page.cursor)
        start = read_view_cursor(cursor, queue, view)
        wanted, shards = lane_limit(queue, view, limit), queue.all_shards()
        args: builtins.list[Argument] = [now_argument(now_ms), view, wanted]
        own = [_view_position(start, shard, queue.shards) for shard in shards]
        answers = await call_shards(self._client, "browse", shards, args, own, reads=True)
        lanes = [
            _lane_of(view, shard, answer, lane)
            for lane in range(2 if view == "finished" else 1)
            for shard, answer in zip(shards, answers, strict=True)
        ]
        return merge_lanes(start, lanes, limit)

    async def finished_job(self, queue: Queue, id: str, *, now_ms: int | None = None) -> FinishedJob | None:
        check_ids(queue, [id])
        [answer] = await call_shards(
            self._client, "get_finished", [queue.shard_of(id)], [now_argument(now_ms), id], reads=True
        )
        if answer is None or answer[1] is None:
            return None
        finished_job = finished_job_of(id, answer[1])
        return finished_job if int(answer[0]) < finished_job.until_ms else None

    async def snapshot(self, shard: Shard, *, now_ms: int | None = None) -> Snapshot:
        with as_read():
            [answer] = await call_shards(self._client, "snapshot", [shard], [now_argument(now_ms)])
        if answer is None:
            return Snapshot(0, 0, [])
        read_at_ms, epoch, seq, config, waiting, active, blocked_jobs, finished_jobs, dead_letters = answer
        jobs = [Row(record_of(id.decode(), body, None)) for id, body in _pairs(waiting)]
        jobs += [
            Row(record_of(id.decode(), body, None), delivery_of(delivery, 0))
            for id, body, delivery in zip(active[::3], active[1::3], active[2::3], strict=True)
        ]
        rows = snapshot_rows(
            _CONFIG.decode(config),
            jobs,
            [blocked_job_of(id.decode(), packed) for id, packed in _pairs(blocked_jobs)],
            [finished_job_of(id.decode(), packed) for id, packed in _pairs(finished_jobs)],
            [dead_letter_of(shard.index, int(number), packed) for number, packed in _pairs(dead_letters)],
            int(read_at_ms),
        )
        return Snapshot(int(epoch), int(seq), rows)

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
        at, _, server = read_scan_cursor(shard, group, cursor, _is_scan_position).partition(_AT)
        args = [now_argument(now_ms), group, server, at, limit, SCAN_PART_BYTES, "1" if payloads else "0"]
        with as_read():
            [answer] = await call_shards(self._client, "scan", [shard], args)
        if answer is None:
            return Scan(0, 0, [], None)
        read_at_ms, epoch, seq, paused, server, at, flat = answer
        found = [row for row in _scan_rows(shard, group, flat, bool(paused), int(read_at_ms)) if ids.holds(row.id)]
        if not payloads:
            found = [without_payloads(row) for row in found]
        last = None if at == b"0" else at.decode() + _AT + server.decode()
        return Scan(int(epoch), int(seq), found, write_scan_cursor(shard, group, last))

    async def split_ids(self, shard: Shard, parts: int, *, now_ms: int | None = None) -> Sequence[str]:  # noqa: ARG002
        check_int("parts", parts, 1, PAGE_MAX)
        now_argument(now_ms)  # checked as everywhere
        return []

    async def workers(self, queue: Queue, *, now_ms: int | None = None) -> Sequence[WorkerSeen]:
        shards = queue.all_shards()
        answers = await call_shards(self._client, "workers", shards, [now_argument(now_ms), WORKER_KEEP_MS], reads=True)
        seen = [
            WorkerSeen(name.decode(), shard.index, int(seen_at_ms))
            for shard, answer in zip(shards, answers, strict=True)
            for name, seen_at_ms in _pairs(answer or [])
        ]
        return sorted(seen, key=lambda each: (each.worker, each.shard))


def _found_of(shard: Shard, id: str, parts: "builtins.list[Any]", paused: bool, now_ms: int) -> Found | None:
    body, order_key, packed, expires_at_ms, blocked_job, finished_job, dead_letters = parts
    row: Row | None = None
    if body is not None:
        delivery = None if packed is None else delivery_of(packed, int(expires_at_ms or 0))
        row = Row(record_of(id, body, None if order_key is None else int(order_key)), delivery)
    return found_of(
        id,
        row,
        None if blocked_job is None else blocked_job_of(id, blocked_job).record,
        None if finished_job is None else finished_job_of(id, finished_job),
        [dead_letter_of(shard.index, int(number), dead_letter) for number, dead_letter in _pairs(dead_letters)],
        paused,
        now_ms,
    )


def _view_position(start: ViewCursor, shard: Shard, shards: int) -> "builtins.list[Argument]":
    """The arguments of a shard for browse.lua."""
    match start.view:
        case "next":
            return [start.after_order_key(shard.index)]
        case "later" | "active":
            return [*start.after_time()]
        case _:
            return [*start.below[shard.index :: shards]]


def _lane_of(view: View, shard: Shard, answer: "builtins.list[Any] | None", lane: int) -> Lane:
    """A lane of a shard, from an answer of browse.lua."""
    if answer is None:
        return Lane([], True)
    now_ms, paused, (is_rest, flat) = int(answer[0]), bool(answer[1]), answer[2 + lane]
    rows: builtins.list[ViewRow] = []
    if view == "finished":
        order: Order = (-NUMBER_END, "")
        for number, id, packed in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
            if packed is None:
                rows.append(ViewRow(order, int(number), None))
            else:
                rows.append(finished_row(int(number), finished_job_of(id.decode(), packed), now_ms))
                order = rows[-1].order
    elif view == "dead":
        rows = [
            dead_row(dead_letter_of(shard.index, int(number), packed), now_ms)
            for number, packed in _pairs(flat)
            if packed is not None
        ]
    else:
        rows = [
            _live_row(view, shard, id.decode(), parts, paused, now_ms)
            for id, *parts in zip(*(flat[at::6] for at in range(6)), strict=True)
        ]
    return Lane(rows, bool(is_rest))


def _live_row(view: View, shard: Shard, id: str, parts: "builtins.list[Any]", paused: bool, now_ms: int) -> ViewRow:
    row, blocked_job = _row_of(id, parts)
    match view:
        case "next":
            return next_row(row, shard.index, paused, now_ms)
        case "later":
            return later_row(row, paused, now_ms)
        case _:
            return active_row(row, blocked_job, paused, now_ms)


def _row_of(id: str, parts: "builtins.list[Any]") -> tuple[Row, BlockedJob | None]:
    body, order_key, packed, expires_at_ms, blocked_job = parts
    delivery = None if packed is None else delivery_of(packed, int(expires_at_ms or 0))
    record = record_of(id, body, None if order_key is None else int(order_key))
    return Row(record, delivery), None if blocked_job is None else blocked_job_of(id, blocked_job)


def _scan_rows(
    shard: Shard, group: Group, flat: "builtins.list[Any]", paused: bool, now_ms: int
) -> "builtins.list[Found]":
    """The rows of a page, from an answer of scan.lua."""
    found: builtins.list[Found | None]
    match group:
        case "alive":
            rows = zip(*(flat[at::6] for at in range(6)), strict=True)
            found = [_found_of(shard, id.decode(), [*parts, None, []], paused, now_ms) for id, *parts in rows]
        case "ended":
            finished_jobs = (finished_job_of(id.decode(), packed) for id, packed in _pairs(flat))
            found = [found_of(each.id, None, None, each, [], paused, now_ms) for each in finished_jobs]
        case "dead":
            dead_letters = (dead_letter_of(shard.index, int(number), packed) for number, packed in _pairs(flat))
            found = [found_of(each.record.id, None, None, None, [each], paused, now_ms) for each in dead_letters]
    return [each for each in found if each is not None]


def _is_scan_position(_: Group, position: str) -> bool:
    return is_number(position.partition(_AT)[0], 2**64 - 1)


def _pairs(flat: "builtins.list[Any]") -> "builtins.list[tuple[Any, Any]]":
    return builtins.list(zip(flat[::2], flat[1::2], strict=True))
