"""The journal protocol: entries of a shard's stream, and who read how far."""

from collections.abc import Sequence
from typing import Any

from headrace.model.checks import check_int, check_text
from headrace.model.event import Bounds, Consumer, Entry
from headrace.model.limits import CONSUMER_CHARS_MAX, JOURNAL_PAGE_BYTES, PAGE_MAX, SWEEP_PER_CALL_MAX
from headrace.model.names import Shard
from headrace.stores.calls.journal import SEQ_MAX, beyond_journal, unknown_consumer, unknown_queue
from headrace.stores.redis.asking import ask, instant, looking
from headrace.stores.redis.link import Argument, Link


class RedisJournal:
    """Reads entries, and remembers who read how far."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def read(self, shard: Shard, after: int, upto: int, *, limit: int = PAGE_MAX) -> Sequence[Entry]:
        check_int("after", after, 0, SEQ_MAX)
        check_int("upto", upto, 0, SEQ_MAX)
        check_int("limit", limit, 1, PAGE_MAX)
        with looking():
            given = [after + 1, upto, limit, JOURNAL_PAGE_BYTES]
            [answer] = await ask(self._link, "journal_read", [shard], given)
        if answer is None or after >= upto:
            return []
        entries = [_entry_of(*parts) for parts in zip(answer[::3], answer[1::3], answer[2::3], strict=True)]
        return [entry.within(after, upto) for entry in entries]

    async def bounds(self, shard: Shard) -> Bounds:
        with looking():
            [answer] = await ask(self._link, "journal_bounds", [shard])
        if answer is None:
            return Bounds(0, 1, 0, None, None, 0)
        return bounds_of(answer)

    async def register(
        self, shard: Shard, consumer: str, *, seq: int = 0, hold: bool = False, now_ms: int | None = None
    ) -> Consumer:
        check_text("consumer", consumer, CONSUMER_CHARS_MAX)
        check_int("seq", seq, 0, SEQ_MAX)
        return await self._move(shard, consumer, seq, "journal_register", [instant(now_ms), consumer, seq, int(hold)])

    async def advance(self, shard: Shard, consumer: str, seq: int, *, now_ms: int | None = None) -> Consumer:
        check_int("seq", seq, 0, SEQ_MAX)
        return await self._move(shard, consumer, seq, "journal_advance", [instant(now_ms), _name(consumer), seq])

    async def _move(self, shard: Shard, consumer: str, seq: int, function: str, given: list[Argument]) -> Consumer:
        [answer] = await ask(self._link, function, [shard], given)
        if answer is None:
            raise unknown_queue(shard)
        if len(answer) == 1:
            raise beyond_journal(shard, int(answer[0]), seq)
        if not answer:
            raise unknown_consumer(shard, consumer)
        return _consumer_of(consumer, answer)

    async def forget(self, shard: Shard, consumer: str) -> bool:
        [answer] = await ask(self._link, "journal_forget", [shard], [_name(consumer)])
        return bool(answer)

    async def consumers(self, shard: Shard) -> Sequence[Consumer]:
        [answer] = await ask(self._link, "journal_consumers", [shard], reads=True)
        known = zip((answer or [])[::2], (answer or [])[1::2], strict=True)
        found = [_consumer_of(name.decode(), packed.split()) for name, packed in known]
        return sorted(found, key=lambda each: each.name)

    async def trim(self, shard: Shard, *, limit: int = SWEEP_PER_CALL_MAX, now_ms: int | None = None) -> int:
        check_int("limit", limit, 1, SWEEP_PER_CALL_MAX)
        [answer] = await ask(self._link, "journal_trim", [shard], [instant(now_ms), limit])
        return int(answer or 0)


def bounds_of(answer: Sequence[Any]) -> Bounds:
    """What a journal holds, as journal_bounds answers it."""
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


def _entry_of(id: bytes, header: bytes, lines: bytes) -> Entry:
    epoch, count, at_ms, worker = header.split(b" ", 3)
    return Entry(
        epoch=int(epoch),
        last_seq=int(id.partition(b"-")[0]),
        count=int(count),
        at_ms=int(at_ms),
        worker=worker.decode() or None,
        lines=lines,
    )


def _consumer_of(name: str, parts: Sequence[Any]) -> Consumer:
    seq, hold, seen_at_ms = map(int, parts)
    return Consumer(name, seq, bool(hold), seen_at_ms)


def _name(consumer: str) -> bytes:
    # A name that cannot be stored was never registered; it is to be refused as unknown, not to break the call.
    return consumer.encode("utf-8", "surrogatepass")
