"""The journal protocol, with many shards read in one statement; empty inboxes are not numbered."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from headrace.model.errors import HeadraceError
from headrace.model.event import Bounds, Span
from headrace.model.limits import BATCH_MAX, LOOKS_AT_ONCE
from headrace.model.names import Shard
from headrace.model.validate import check_batch
from headrace.stores.engine.journal import NO_BOUNDS, EngineJournal, bounds_of
from headrace.stores.engine.rows import Tx
from headrace.stores.postgres.transaction import PostgresTx
from headrace.stores.shared.validate import check_spans, wrong_shards

INBOX_CALLS_MIN = 64
"""Calls in an inbox that are worth a transaction to number them: every read of counts adds them up."""


class Sequencer:
    """Numbers large inboxes, one transaction at a time for each shard of this process. Nothing depends on it: a reader
    of the journal numbers the rest."""

    def __init__(self, number: Callable[[Shard], Awaitable[None]]) -> None:
        self._number = number
        self._running: dict[Shard, asyncio.Task[None]] = {}

    def schedule(self, calls: Mapping[Shard, int]) -> None:
        """Number the inboxes that hold many calls; on the event loop."""
        for shard, count in calls.items():
            if count >= INBOX_CALLS_MIN and shard not in self._running:
                self._running[shard] = asyncio.create_task(self._run(shard))

    async def _run(self, shard: Shard) -> None:
        try:
            with contextlib.suppress(HeadraceError):
                await self._number(shard)
        finally:
            del self._running[shard]

    async def close(self) -> None:
        """Wait for the transactions under way."""
        await asyncio.gather(*self._running.values(), return_exceptions=True)


class JournalState(NamedTuple):
    """A journal by the row of its shard, without the calls in the inbox."""

    shard_id: int
    has_inbox: bool
    bounds: Bounds


NO_JOURNAL = JournalState(0, False, NO_BOUNDS)


class PostgresJournal(EngineJournal):
    """Most journals of a large store are quiet, and one statement is enough for all of those. Busy ones are numbered
    some at a time, without waiting for locks; a locked one is numbered by itself."""

    async def all_bounds(self, shards: Sequence[Shard]) -> Sequence[Bounds]:
        check_batch("shards", len(shards), BATCH_MAX)
        states = await self._engine.read(lambda tx: _read_states(tx, shards))
        numbered = await self._number(
            {each.shard_id: shard for shard, each in zip(shards, states, strict=True) if each.has_inbox}
        )
        return [numbered.get(each.shard_id, each.bounds) for each in states]

    async def reached(self, spans: Sequence[Span], at_ms: int) -> Sequence[int]:
        if len(spans) == 1:  # numbered and searched in one transaction
            return await super().reached(spans, at_ms)
        check_spans(spans, at_ms)

        def read(tx: Tx) -> tuple[list[JournalState], list[int]]:
            states = _read_states(tx, [span.shard for span in spans])
            return states, _reached(tx, spans, states, at_ms)

        states, found = await self._engine.read(read)
        busy = {
            each.shard_id: span.shard
            for span, each in zip(spans, states, strict=True)
            if each.has_inbox and span.upto > each.bounds.last_seq
        }
        if busy:
            await self._number(busy)
            _, found = await self._engine.read(read)
        return found

    async def _number(self, shards: Mapping[int, Shard]) -> dict[int, Bounds]:
        """Number the inboxes of shards, by their ids; returns the bounds of their journals then."""
        found: dict[int, Bounds] = {}
        ids = list(shards)
        for start in range(0, len(ids), LOOKS_AT_ONCE):
            some = {shard_id: shards[shard_id] for shard_id in ids[start : start + LOOKS_AT_ONCE]}
            found |= await self._engine.write(partial(_number_unlocked, shards=some))
            locked = [shard_id for shard_id in some if shard_id not in found]
            bounds = await asyncio.gather(*(self.bounds(some[shard_id]) for shard_id in locked))
            found |= zip(locked, bounds, strict=True)
        return found


def _read_states(tx: Tx, shards: Sequence[Shard]) -> list[JournalState]:
    assert isinstance(tx, PostgresTx)
    queues = [shard.queue for shard in shards]
    names = ([each.tenant for each in queues], [each.full_name for each in queues])
    others = [each.paired_queue.full_name for each in queues]
    states = [NO_JOURNAL] * len(shards)
    for position, known, *columns in tx.transaction.run(
        "shard_bounds", *names, others, [each.index for each in shards]
    ):
        queue = queues[position - 1]
        if known not in (None, queue.shards):
            raise wrong_shards(queue, known)
        states[position - 1] = _state_of(*columns)
    return states


def _state_of(shard_id: int | None, has_inbox: bool, *columns: Any) -> JournalState:
    if shard_id is None:
        return NO_JOURNAL
    epoch, first_seq, last_seq, first_at_ms, last_at_ms, size = columns
    if first_seq > last_seq:
        first_at_ms = last_at_ms = None
    return JournalState(shard_id, has_inbox, Bounds(epoch, first_seq, last_seq, first_at_ms, last_at_ms, size))


def _number_unlocked(tx: Tx, *, shards: Mapping[int, Shard]) -> dict[int, Bounds]:
    assert isinstance(tx, PostgresTx)
    return {rows.shard_id: bounds_of(rows.counters) for rows in tx.number_unlocked(shards)}


def _reached(tx: Tx, spans: Sequence[Span], states: Sequence[JournalState], at_ms: int) -> list[int]:
    assert isinstance(tx, PostgresTx)
    lows = [max(span.after, each.bounds.first_seq - 1) for span, each in zip(spans, states, strict=True)]
    highs = [min(span.upto, each.bounds.last_seq) for span, each in zip(spans, states, strict=True)]
    for position, last_seq in tx.transaction.run(
        "journal_reached", at_ms, [each.shard_id for each in states], lows, highs
    ):
        lows[position - 1] = last_seq
    return [max(span.after, min(low, span.upto)) for span, low in zip(spans, lows, strict=True)]
