"""The reads protocol: looks that change nothing."""

import builtins
from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.model.finished import Ending
from headrace.model.job import State
from headrace.model.limits import PAGE_MAX, SCAN_PART_BYTES, WORKER_KEEP_MS
from headrace.model.names import Queue, Shard
from headrace.model.queue_config import QueueConfig
from headrace.model.results import Found, Group, Page, Scan, Snapshot, WorkerSeen
from headrace.model.validate import check_int
from headrace.stores.calls.cursor import bad_cursor, read_cursor, write_cursor
from headrace.stores.calls.finding import found_of
from headrace.stores.calls.jobs import by_shard, check_ids
from headrace.stores.calls.reads import check_state, shows, snapshot_rows
from headrace.stores.calls.scanning import is_number, read_place, write_place
from headrace.stores.redis.asking import ask, instant, looking
from headrace.stores.redis.keys import first_shard, head_key
from headrace.stores.redis.link import Link
from headrace.stores.redis.packing import delivery_of, ending_of, letter_of, record_of, twin_of
from headrace.stores.redis.picking import IdPages, is_place
from headrace.stores.transitions.rows import Row

_CONFIG = msgspec.json.Decoder(QueueConfig)
_AT = "@"
"""Between the cursor of a server's scan and the server that gave it."""


class RedisReads:
    """Looks, each on one consistent state of a shard."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._id_pages = IdPages(link)

    async def find(self, queue: Queue, ids: Sequence[str], *, now_ms: int | None = None) -> Sequence[Found | None]:
        check_ids(queue, ids)
        now = instant(now_ms)
        if not ids:
            await self._link.command("EXISTS", head_key(first_shard(queue)))  # says whether the store is closed
            return []
        groups = builtins.list(by_shard(ids, lambda id: (queue, id)))
        own = [[ids[position] for position in positions] for _, positions in groups]
        answers = await ask(self._link, "find", [shard for shard, _ in groups], [now], own, reads=True)
        found: builtins.list[Found | None] = [None] * len(ids)
        for (shard, positions), answer in zip(groups, answers, strict=True):
            if answer is not None:
                told_ms, paused, known = int(answer[0]), bool(answer[1]), answer[2]
                for position, parts in zip(positions, known, strict=True):
                    found[position] = _found_of(shard, ids[position], parts, paused, told_ms)
        return found

    async def list(
        self, queue: Queue, state: State, *, cursor: str | None = None, limit: int = 100, now_ms: int | None = None
    ) -> Page[Found]:
        check_int("limit", limit, 1, PAGE_MAX)
        check_state(state)
        start, place = read_cursor(cursor, queue)
        if cursor is not None and not is_place(place):
            raise bad_cursor("a list of this queue")
        instant(now_ms)
        found: builtins.list[Found] = []
        for shard in queue.all_shards()[start:]:
            wanted = limit - len(found)
            ids, place = await self._id_pages.take(shard, state, place, wanted)
            shown = await self.find(queue, ids, now_ms=now_ms) if ids else []
            found += [each for each in shown if each is not None and shows(each, state)]
            if len(ids) == wanted:
                return Page(found, write_cursor(shard.index, place))
            place = ""
        return Page(found, None)

    async def ending(self, queue: Queue, id: str, *, now_ms: int | None = None) -> Ending | None:
        check_ids(queue, [id])
        [answer] = await ask(self._link, "ending", [queue.shard_of(id)], [instant(now_ms), id], reads=True)
        if answer is None or answer[1] is None:
            return None
        ending = ending_of(id, answer[1])
        return ending if int(answer[0]) < ending.until_ms else None

    async def snapshot(self, shard: Shard, *, now_ms: int | None = None) -> Snapshot:
        with looking():
            [answer] = await ask(self._link, "snapshot", [shard], [instant(now_ms)])
        if answer is None:
            return Snapshot(0, 0, [])
        told_ms, epoch, seq, config, waiting, active, twins, endings, letters = answer
        jobs = [Row(record_of(id.decode(), body, None)) for id, body in _pairs(waiting)]
        jobs += [
            Row(record_of(id.decode(), body, None), delivery_of(delivery, 0))
            for id, body, delivery in zip(active[::3], active[1::3], active[2::3], strict=True)
        ]
        rows = snapshot_rows(
            _CONFIG.decode(config),
            jobs,
            [twin_of(id.decode(), packed) for id, packed in _pairs(twins)],
            [ending_of(id.decode(), packed) for id, packed in _pairs(endings)],
            [letter_of(shard.index, int(number), packed) for number, packed in _pairs(letters)],
            int(told_ms),
        )
        return Snapshot(int(epoch), int(seq), rows)

    async def scan(
        self,
        shard: Shard,
        group: Group,
        *,
        cursor: str | None = None,
        limit: int = 1_000,
        now_ms: int | None = None,
    ) -> Scan:
        check_int("limit", limit, 1, PAGE_MAX)
        at, _, server = read_place(shard, group, cursor, _is_server_place).partition(_AT)
        given = [instant(now_ms), group, server, at, limit, SCAN_PART_BYTES]
        with looking():
            [answer] = await ask(self._link, "scan", [shard], given)
        if answer is None:
            return Scan(0, 0, [], None)
        told_ms, epoch, seq, paused, server, at, flat = answer
        found = _scanned(shard, group, flat, bool(paused), int(told_ms))
        last = None if at == b"0" else at.decode() + _AT + server.decode()
        return Scan(int(epoch), int(seq), found, write_place(shard, group, last))

    async def workers(self, queue: Queue, *, now_ms: int | None = None) -> Sequence[WorkerSeen]:
        shards = queue.all_shards()
        answers = await ask(self._link, "workers", shards, [instant(now_ms), WORKER_KEEP_MS], reads=True)
        seen = [
            WorkerSeen(name.decode(), shard.index, int(seen_at_ms))
            for shard, answer in zip(shards, answers, strict=True)
            for name, seen_at_ms in _pairs(answer or [])
        ]
        return sorted(seen, key=lambda each: (each.worker, each.shard))


def _found_of(shard: Shard, id: str, parts: "builtins.list[Any]", paused: bool, now_ms: int) -> Found | None:
    body, place, packed, expires_at_ms, twin, ending, letters = parts
    row: Row | None = None
    if body is not None:
        delivery = None if packed is None else delivery_of(packed, int(expires_at_ms or 0))
        row = Row(record_of(id, body, None if place is None else int(place)), delivery)
    return found_of(
        id,
        row,
        None if twin is None else twin_of(id, twin).record,
        None if ending is None else ending_of(id, ending),
        [letter_of(shard.index, int(number), letter) for number, letter in _pairs(letters)],
        paused,
        now_ms,
    )


def _scanned(
    shard: Shard, group: Group, flat: "builtins.list[Any]", paused: bool, now_ms: int
) -> "builtins.list[Found]":
    """The rows of a part, as scan.lua answers them."""
    found: builtins.list[Found | None]
    match group:
        case "alive":
            rows = zip(*(flat[at::6] for at in range(6)), strict=True)
            found = [_found_of(shard, id.decode(), [*parts, None, []], paused, now_ms) for id, *parts in rows]
        case "ended":
            endings = (ending_of(id.decode(), packed) for id, packed in _pairs(flat))
            found = [found_of(each.id, None, None, each, [], paused, now_ms) for each in endings]
        case "dead":
            letters = (letter_of(shard.index, int(number), packed) for number, packed in _pairs(flat))
            found = [found_of(each.record.id, None, None, None, [each], paused, now_ms) for each in letters]
    return [each for each in found if each is not None]


def _is_server_place(_: Group, place: str) -> bool:
    return is_number(place.partition(_AT)[0], 2**64 - 1)


def _pairs(flat: "builtins.list[Any]") -> "builtins.list[tuple[Any, Any]]":
    return builtins.list(zip(flat[::2], flat[1::2], strict=True))
