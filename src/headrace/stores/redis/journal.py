"""The journal protocol: reads and unpacks the entries of a shard, and keeps the offsets of consumers."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from headrace.model.event import Bounds, Consumer, Entry, Span
from headrace.model.limits import (
    BATCH_MAX,
    CONSUMER_CHARS_MAX,
    JOURNAL_PAGE_BYTES,
    JOURNAL_PAGE_MAX,
    SWEEP_PER_CALL_MAX,
)
from headrace.model.names import Shard
from headrace.model.validate import check_batch, check_bool, check_int, check_text
from headrace.stores.engine.journal import NO_BOUNDS, cut
from headrace.stores.redis.client import Argument, RedisClient
from headrace.stores.redis.fanout import as_read, call_shards, call_shards_of_queues, now_argument
from headrace.stores.redis.keys import journal_key
from headrace.stores.shared.validate import (
    SEQ_MAX,
    beyond_journal,
    check_range,
    check_spans,
    unknown_consumer,
    unknown_queue,
)

ENTRIES_FIRST = 16
"""Enough for a follower of a journal, and not too much when every entry has a thousand lines."""
GROWTH = 8
"""A command reads at most this many times the entries of the command before: the size of the next ones is unknown."""
ENTRIES_AT_ONCE = 5_000
BYTES_AT_ONCE = 1024 * 1024
"""The limits of one command, by the sizes seen before: a server is done in three milliseconds."""


class EntryReader:
    """Reads a page: few entries first, then as many at once as their sizes allow."""

    def __init__(self, client: RedisClient, shard: Shard, after: int, upto: int) -> None:
        self._client = client
        self._key = journal_key(shard)
        self._last_seq = after
        self._upto = upto
        self._entries: list[Entry] = []
        self._known: dict[tuple[bytes, bytes, bytes], tuple[int, int, str | None]] = {}

    async def read(self, limit: int, bytes_max: int) -> list[Entry]:
        """The entries that hold an event of the range, oldest first, until `limit` or `bytes_max` is passed."""
        count, bytes_left = ENTRIES_FIRST, bytes_max
        while bytes_left > 0:
            # An entry has at least one event, so the numbers left limit the entries left.
            count = min(count, limit - len(self._entries), self._upto - self._last_seq)
            if count <= 0:
                break
            found = await self._client.command("XRANGE", self._key, self._last_seq + 1, "+", "COUNT", count)
            bytes_added = self._add(found, bytes_left)
            bytes_left -= bytes_added
            if len(found) < count or not bytes_added:
                break
            mean = bytes_added // len(found) + 1
            count = min(count * GROWTH, ENTRIES_AT_ONCE, min(BYTES_AT_ONCE, bytes_left) // mean + 1)
        return self._entries

    def _add(self, found: list[Any], bytes_max: int) -> int:
        """Add entries up to the end of the range or of the page; returns their bytes."""
        entries, known, upto, bytes_left = self._entries, self._known, self._upto, bytes_max
        for id, fields in found:
            header = fields[1]
            epoch, number, at_ms, worker = header.split(b" ", 3)
            try:
                known_header = known[epoch, number, worker]
            except KeyError:
                known_header = known[epoch, number, worker] = int(epoch), int(number), worker.decode() or None
            last_seq = int(id[:-2])
            before = last_seq - known_header[1]
            # Retention may have dropped the next entries between two commands: the page ends before the gap.
            if before >= upto or bytes_left <= 0 or (entries and before != self._last_seq):
                break
            lines = fields[3] if fields[2] == b"l" else lines_of(dict(zip(fields[::2], fields[1::2], strict=True)))
            entries.append(
                Entry(
                    epoch=known_header[0],
                    last_seq=last_seq,
                    count=known_header[1],
                    at_ms=int(at_ms),
                    worker=known_header[2],
                    lines=lines,
                )
            )
            self._last_seq = last_seq
            bytes_left -= len(lines)
        return bytes_max - bytes_left


def lines_of(fields: Mapping[bytes, bytes]) -> bytes:
    """The lines of an entry; the packed text of a damaged one as it is."""
    lines = fields.get(b"l", b"")
    for name, unpack in (b"e", enqueued_lines), (b"c", claimed_lines):
        if name in fields:
            try:
                return unpack(fields[b"n"], fields[name]) + lines
            except (msgspec.MsgspecError, ValueError, IndexError, KeyError):
                return fields[name] + b"\n" + lines
    return lines


class RedisJournal:
    """Reads entries, and keeps the offsets of consumers."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client

    async def read(self, shard: Shard, after: int, upto: int, *, limit: int = JOURNAL_PAGE_MAX) -> Sequence[Entry]:
        check_range(after, upto)
        check_int("limit", limit, 1, JOURNAL_PAGE_MAX)
        reader = EntryReader(self._client, shard, after, upto)
        # The bounds detect a restarted server and a queue with another number of shards.
        _, entries = await asyncio.gather(self.bounds(shard), reader.read(limit, JOURNAL_PAGE_BYTES))
        return cut(entries, after, upto)

    async def bounds(self, shard: Shard) -> Bounds:
        [bounds] = await self.all_bounds([shard])
        return bounds

    async def all_bounds(self, shards: Sequence[Shard]) -> Sequence[Bounds]:
        check_batch("shards", len(shards), BATCH_MAX)
        with as_read():
            answers = await call_shards_of_queues(self._client, "journal_bounds", shards)
        return [NO_BOUNDS if answer is None else bounds_of(answer) for answer in answers]

    async def reached(self, spans: Sequence[Span], at_ms: int) -> Sequence[int]:
        check_spans(spans, at_ms)
        found = [span.after for span in spans]
        left = list(range(len(spans)))
        while left:  # every call answers for at least one span
            shards = [spans[index].shard for index in left]
            own = [[spans[index].after, spans[index].upto] for index in left]
            answers = await call_shards_of_queues(self._client, "journal_reached", shards, [at_ms], own, reads=True)
            for index, answer in zip(left, answers, strict=True):
                if answer:
                    found[index] = max(spans[index].after, min(int(answer), spans[index].upto))
            left = [index for index, answer in zip(left, answers, strict=True) if answer == b""]
        return found

    async def register(
        self, shard: Shard, consumer: str, *, seq: int = 0, hold: bool = False, now_ms: int | None = None
    ) -> Consumer:
        check_text("consumer", consumer, CONSUMER_CHARS_MAX)
        check_int("seq", seq, 0, SEQ_MAX)
        check_bool("hold", hold)
        return await self._move(
            shard, consumer, seq, "journal_register", [now_argument(now_ms), consumer, seq, int(hold)]
        )

    async def advance(self, shard: Shard, consumer: str, seq: int, *, now_ms: int | None = None) -> Consumer:
        check_int("seq", seq, 0, SEQ_MAX)
        return await self._move(shard, consumer, seq, "journal_advance", [now_argument(now_ms), _name(consumer), seq])

    async def _move(self, shard: Shard, consumer: str, seq: int, function: str, args: list[Argument]) -> Consumer:
        [answer] = await call_shards(self._client, function, [shard], args)
        if answer is None:
            raise unknown_queue(shard)
        if len(answer) == 1:
            raise beyond_journal(shard, int(answer[0]), seq)
        if not answer:
            raise unknown_consumer(shard, consumer)
        return _consumer_of(consumer, answer)

    async def forget(self, shard: Shard, consumer: str) -> bool:
        [answer] = await call_shards(self._client, "journal_forget", [shard], [_name(consumer)])
        return bool(answer)

    async def consumers(self, shard: Shard) -> Sequence[Consumer]:
        [answer] = await call_shards(self._client, "journal_consumers", [shard], reads=True)
        known = zip((answer or [])[::2], (answer or [])[1::2], strict=True)
        found = [_consumer_of(name.decode(), packed.split()) for name, packed in known]
        return sorted(found, key=lambda each: each.name)

    async def trim(self, shard: Shard, *, limit: int = SWEEP_PER_CALL_MAX, now_ms: int | None = None) -> int:
        check_int("limit", limit, 1, SWEEP_PER_CALL_MAX)
        [answer] = await call_shards(self._client, "journal_trim", [shard], [now_argument(now_ms), limit])
        return int(answer or 0)


def bounds_of(answer: Sequence[Any]) -> Bounds:
    """The bounds of a journal, from an answer of journal_bounds.lua."""
    epoch, first_seq, last_seq, first_at_ms, last_at_ms, size = map(int, answer)
    is_empty = first_seq > last_seq
    return Bounds(
        epoch,
        first_seq,
        last_seq,
        None if is_empty else first_at_ms,
        None if is_empty else last_at_ms,
        size,
    )


def _consumer_of(name: str, parts: Sequence[Any]) -> Consumer:
    seq, hold, seen_at_ms = map(int, parts)
    return Consumer(name, seq, bool(hold), seen_at_ms)


def _name(consumer: str) -> bytes:
    # A name that cannot be stored was never registered: it is refused as unknown, and must not break the call.
    return consumer.encode("utf-8", "surrogatepass")


_PRIORITY_AT = 10
"""In the head of a new body without its times."""
_NO_PRIORITY = 255
_UUID_CHARS = 36
_DASHES_AT = (8, 13, 18, 23)
_DIGITS_AT = [at for at in range(_UUID_CHARS) if at not in _DASHES_AT]
_Templates = list[tuple[str, int | None]]
_Packed = tuple[_Templates, list[int] | None, bytes | list[str], list[int]]
"""Line members and priority of each template; the template of each job if there are several; ids; sizes."""
_ENQUEUED_BYTES = len('{"event":"enqueued","id":,,"payload_bytes":,"priority":5,"run_at_ms":}\n')
"""The bytes of a line without its time, id, size and the members of its template."""
_json = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(_Packed).decode


def pack_enqueued(
    ids: list[str], templates: Sequence[tuple[bytes, str]], picks: list[int], sizes: list[int]
) -> tuple[bytes, int]:
    """The varying parts of the lines of jobs that are due at once and set nothing besides their body; and the bytes of
    the lines without their times."""
    count = len(ids)
    if count == 1:
        template, size = _template_of(*templates[0])
        return _pack(([template], None, ids, sizes)), size + len(_json(ids[0])) + len(str(sizes[0]))
    found = [_template_of(*template) for template in templates]
    uuids = _uuids_in(ids)
    size = count * (_UUID_CHARS + 2) if uuids else sum(len(_json(id)) for id in ids)
    size += _digits(sizes) + (count * found[0][1] if len(found) == 1 else sum(found[index][1] for index in picks))
    return _pack(([template for template, _ in found], picks if len(found) > 1 else None, uuids or ids, sizes)), size


@lru_cache(4_096)
def _template_of(head: bytes, members: str) -> tuple[tuple[str, int | None], int]:
    """Line members and priority of a template; and the bytes of a line without its time, id and size."""
    priority = head[_PRIORITY_AT]
    return (members, None if priority == _NO_PRIORITY else priority), _ENQUEUED_BYTES + len(members.encode())


def _digits(sizes: list[int]) -> int:
    most = len(str(max(sizes)))
    return most * len(sizes) if most == len(str(min(sizes))) else sum(len(str(size)) for size in sizes)


def enqueued_lines(common: bytes, packed: bytes) -> bytes:
    """The lines of jobs that were enqueued."""
    _, at_ms, priority = common.decode().split(" ")
    templates, picks, ids, sizes = _unpack(packed)
    texts = _uuids_of(ids) if isinstance(ids, bytes) else [_json(id).decode()[1:-1] for id in ids]
    middles = [f',{members},"payload_bytes":' for members, _ in templates]
    ends = [f',"priority":{priority if own is None else own},"run_at_ms":{at_ms}}}\n' for _, own in templates]
    if picks is None:
        [middle], [end] = middles, ends
        lines = [f'{{"event":"enqueued","id":"{id}"{middle}{size}{end}' for id, size in zip(texts, sizes, strict=True)]
    else:
        lines = [
            f'{{"event":"enqueued","id":"{id}"{middles[index]}{size}{ends[index]}'
            for id, size, index in zip(texts, sizes, picks, strict=True)
        ]
    return "".join(lines).encode()


def claimed_lines(common: bytes, packed: bytes) -> bytes:
    """The lines of jobs that were claimed."""
    _, first_fence = common.split(b" ")
    ids = packed.decode().split("\n")
    return "".join(
        [f'{{"event":"claimed","id":"{id}","fence":{fence}}}\n' for fence, id in enumerate(ids, int(first_fence))]
    ).encode()


def _uuids_in(ids: list[str]) -> bytes | None:
    """The ids in 16 bytes each if all are UUIDs in their usual form, else None."""
    if set(map(len, ids)) != {_UUID_CHARS}:
        return None
    joined = "".join(ids)
    digits = joined.replace("-", "")
    dashes = "-" * len(ids)
    if len(digits) != 32 * len(ids) or digits != digits.lower():
        return None
    if any(joined[at::_UUID_CHARS] != dashes for at in _DASHES_AT):
        return None
    try:
        packed = bytes.fromhex(digits)
    except ValueError:
        return None
    return packed if len(packed) == 16 * len(ids) else None  # `fromhex` skips blanks


def _uuids_of(packed: bytes) -> list[str]:
    """The ids, one digit of all of them at a time: half the time of slicing and joining each id."""
    digits = packed.hex().encode()
    text = bytearray(b"-" * (len(packed) // 16 * _UUID_CHARS))
    for digit, at in enumerate(_DIGITS_AT):
        text[at::_UUID_CHARS] = digits[digit::32]
    joined = text.decode()
    return [joined[at : at + _UUID_CHARS] for at in range(0, len(joined), _UUID_CHARS)]
