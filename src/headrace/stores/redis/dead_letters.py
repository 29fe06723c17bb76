"""The dead-letter protocol: lists, replays and purges dead letters."""

import builtins
from collections.abc import Iterable, Sequence
from typing import Any

from headrace.model.finished import DeadLetter, DeadLetterKey
from headrace.model.limits import BATCH_MAX, DURATION_MS_MAX, PAGE_MAX
from headrace.model.names import Queue, Shard
from headrace.model.results import Page, Replayed
from headrace.model.validate import check_batch, check_bool, check_int
from headrace.stores.contract.dead_letters import ALL_DEAD_LETTERS, DeadLetterFilter
from headrace.stores.engine.dead_letters import not_found
from headrace.stores.redis.client import Argument, RedisClient
from headrace.stores.redis.fanout import call_shards, now_argument
from headrace.stores.redis.keys import first_shard, head_key
from headrace.stores.redis.packing import dead_letter_of
from headrace.stores.redis.queues import QueueRegistry
from headrace.stores.shared.cursors import read_dead_letter_cursor, write_cursor
from headrace.stores.shared.sharding import picks_by_shard
from headrace.stores.shared.validate import check_pick

_FETCHED_AT_ONCE = 100
"""Dead letters of one call: whole ones, as the filter is applied in this process."""


class RedisDeadLetters:
    """Dead letters, shard by shard."""

    def __init__(self, client: RedisClient, registry: QueueRegistry) -> None:
        self._client = client
        self._registry = registry

    async def list(
        self,
        queue: Queue,
        *,
        where: DeadLetterFilter = ALL_DEAD_LETTERS,
        cursor: str | None = None,
        limit: int = 100,
        now_ms: int | None = None,
    ) -> Page[DeadLetter]:
        check_int("limit", limit, 1, PAGE_MAX)
        start, after = read_dead_letter_cursor(cursor, queue)
        now = now_argument(now_ms)
        found: builtins.list[DeadLetter] = []
        budget = PAGE_MAX
        for shard in queue.all_shards()[start:]:
            more = True
            while more:
                wanted = min(budget, _FETCHED_AT_ONCE)
                read_at_ms, batch = await self._dead_letters(shard, now, after, wanted)
                more = len(batch) == wanted
                budget -= len(batch)
                for dead_letter in batch:
                    after = dead_letter.key.number
                    if dead_letter.until_ms > read_at_ms and where.matches(dead_letter):
                        found.append(dead_letter)
                        if len(found) == limit:
                            return Page(found, write_cursor(shard.index, str(after)))
                if budget <= 0:
                    return Page(found, write_cursor(shard.index, str(after)))
            after = 0
        return Page(found, None)

    async def _dead_letters(
        self, shard: Shard, now: int | str, after: int, limit: int
    ) -> tuple[int, builtins.list[DeadLetter]]:
        """The instant of the read, and dead letters with `number > after`, by number."""
        [answer] = await call_shards(self._client, "dead_letter_list", [shard], [now, after, limit], reads=True)
        if answer is None:
            return 0, []
        read_at_ms, flat = answer
        pairs = zip(flat[::2], flat[1::2], strict=True)
        return int(read_at_ms), [dead_letter_of(shard.index, int(number), packed) for number, packed in pairs]

    async def replay(
        self,
        queue: Queue,
        picks: Sequence[DeadLetterKey | str],
        *,
        keep_counts: bool = False,
        delay_ms: int = 0,
        spread_ms: int = 0,
        now_ms: int | None = None,
    ) -> Sequence[Replayed]:
        check_batch("dead_letters", len(picks), BATCH_MAX)
        check_bool("keep_counts", keep_counts)
        check_int("delay_ms", delay_ms, 0, DURATION_MS_MAX)
        check_int("spread_ms", spread_ms, 0, DURATION_MS_MAX)
        for pick in picks:
            check_pick(queue, pick)
        groups = picks_by_shard(queue, picks)
        own: builtins.list[builtins.list[Argument]] = [
            [part for at in positions for part in (_pick_of(picks[at]), delay_ms + at * spread_ms // len(picks))]
            for positions in groups.values()
        ]
        answers = await self._call(queue, "dead_letter_replay", groups, [now_argument(now_ms), int(keep_counts)], own)
        replayed = [not_found(pick) for pick in picks]
        for (index, positions), answer in zip(groups.items(), answers, strict=True):
            for at, parts in zip(positions, _triples(answer), strict=False):
                replayed[at] = _replayed_of(picks[at], index, *parts)
        return replayed

    async def purge(self, queue: Queue, picks: Sequence[DeadLetterKey], *, now_ms: int | None = None) -> int:
        check_batch("dead_letters", len(picks), BATCH_MAX)
        for pick in picks:
            check_pick(queue, pick)
        groups = picks_by_shard(queue, picks)
        own = [[picks[at].number for at in positions] for positions in groups.values()]
        answers = await self._call(queue, "dead_letter_purge", groups, [now_argument(now_ms)], own)
        return sum(int(answer or 0) for answer in answers)

    async def _call(
        self,
        queue: Queue,
        function: str,
        groups: Iterable[int],
        common: Sequence[Argument],
        own: Sequence[Sequence[Argument]],
    ) -> builtins.list[Any]:
        shards = [Shard(queue, index) for index in groups]
        if not shards:
            await self._client.command("EXISTS", head_key(first_shard(queue)))  # raises when the store is closed
            return []
        return await call_shards(self._client, function, shards, common, own)


def _pick_of(pick: DeadLetterKey | str) -> str:
    return f"i{pick}" if isinstance(pick, str) else f"n{pick.number}"


def _triples(flat: Sequence[Any] | None) -> Iterable[tuple[Any, Any, Any]]:
    flat = flat or []
    return zip(flat[::3], flat[1::3], flat[2::3], strict=True)


def _replayed_of(pick: DeadLetterKey | str, shard_index: int, status: bytes, number: bytes, id: bytes) -> Replayed:
    if status == b"n":
        return not_found(pick)
    key = DeadLetterKey(shard_index, int(number))
    return Replayed(key, id.decode(), "replayed" if status == b"r" else "id_in_use")
