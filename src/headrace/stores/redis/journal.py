"""The journal protocol: entries of a shard's stream, and who read how far."""

import asyncio
from collections.abc import Sequence
from typing import Any

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
from headrace.stores.calls.journal import (
    NO_BOUNDS,
    SEQ_MAX,
    beyond_journal,
    check_range,
    check_spans,
    cut,
    unknown_consumer,
    unknown_queue,
)
from headrace.stores.redis.across import ask_across
from headrace.stores.redis.asking import ask, instant, looking
from headrace.stores.redis.entries import EntryReader
from headrace.stores.redis.link import Argument, Link


class RedisJournal:
    """Reads entries, and remembers who read how far."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def read(self, shard: Shard, after: int, upto: int, *, limit: int = JOURNAL_PAGE_MAX) -> Sequence[Entry]:
        check_range(after, upto)
        check_int("limit", limit, 1, JOURNAL_PAGE_MAX)
        reader = EntryReader(self._link, shard, after, upto)
        # The bounds are asked for since that notices a server that was started again and a queue that is cut otherwise.
        _, entries = await asyncio.gather(self.bounds(shard), reader.read(limit, JOURNAL_PAGE_BYTES))
        return cut(entries, after, upto)

    async def bounds(self, shard: Shard) -> Bounds:
        [bounds] = await self.all_bounds([shard])
        return bounds

    async def all_bounds(self, shards: Sequence[Shard]) -> Sequence[Bounds]:
        check_batch("shards", len(shards), BATCH_MAX)
        with looking():
            answers = await ask_across(self._link, "journal_bounds", shards)
        return [NO_BOUNDS if answer is None else bounds_of(answer) for answer in answers]

    async def reached(self, spans: Sequence[Span], at_ms: int) -> Sequence[int]:
        check_spans(spans, at_ms)
        found = [span.after for span in spans]
        left = list(range(len(spans)))
        while left:  # every call answers for one span at least
            shards = [spans[place].shard for place in left]
            own = [[spans[place].after, spans[place].upto] for place in left]
            answers = await ask_across(self._link, "journal_reached", shards, [at_ms], own, reads=True)
            for place, answer in zip(left, answers, strict=True):
                if answer:
                    found[place] = max(spans[place].after, min(int(answer), spans[place].upto))
            left = [place for place, answer in zip(left, answers, strict=True) if answer == b""]
        return found

    async def register(
        self, shard: Shard, consumer: str, *, seq: int = 0, hold: bool = False, now_ms: int | None = None
    ) -> Consumer:
        check_text("consumer", consumer, CONSUMER_CHARS_MAX)
        check_int("seq", seq, 0, SEQ_MAX)
        check_bool("hold", hold)
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


def _consumer_of(name: str, parts: Sequence[Any]) -> Consumer:
    seq, hold, seen_at_ms = map(int, parts)
    return Consumer(name, seq, bool(hold), seen_at_ms)


def _name(consumer: str) -> bytes:
    # A name that cannot be stored was never registered; it is to be refused as unknown, not to break the call.
    return consumer.encode("utf-8", "surrogatepass")
