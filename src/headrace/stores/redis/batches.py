"""A batch cut by shard: one call on one server, a call for each shard on a cluster."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from headrace.model.errors import BadConfig, HeadraceError, OutcomeUnknown, StoreUnavailable
from headrace.model.names import Queue, Shard
from headrace.stores.redis.client import Argument, RedisClient, ServerCall
from headrace.stores.redis.errors import ScriptRefusal
from headrace.stores.redis.fanout import check_shards
from headrace.stores.redis.keys import first_shard, head_key
from headrace.stores.shared.sharding import by_shard
from headrace.stores.shared.validate import wrong_shards

Item = TypeVar("Item")
Answer = TypeVar("Answer")
_CHECKED_MAX = 10_000
ArgumentsOf = Callable[[Sequence["ShardCall"]], list[Argument]]


class ShardCall(NamedTuple):
    """What a batch asks of one shard: where its items stand in the batch, and what its function is told of them."""

    shard: Shard
    picks: list[int]
    args: list[Argument]


class ShardReply(NamedTuple):
    """What came back for a part: the shard's answer, and what stood before those of all shards."""

    answer: Any
    lead: Any = None
    made: bool = False
    """Whether a death made the shard's fail queue."""


def cut(
    items: Sequence[Item],
    address: Callable[[Item], tuple[Queue, str]],
    own: Callable[[list[Item]], list[Argument]],
) -> list[ShardCall]:
    """The parts of a batch, one for each shard."""
    return [
        ShardCall(shard, picks, own(list(items) if len(picks) == len(items) else [items[index] for index in picks]))
        for shard, picks in by_shard(items, address)
    ]


def shards_of(parts: Sequence[ShardCall]) -> list[Argument]:
    """How many shards the queue of each part has."""
    return [part.shard.queue.shards for part in parts]


def own_args(parts: Sequence[ShardCall]) -> list[Argument]:
    """What the functions are told of each part, one after the other."""
    return [argument for part in parts for argument in part.args]


def in_words(parts: Sequence[ShardCall], refusal: ScriptRefusal) -> HeadraceError:
    """The error that a caller gets for a shard that knows another number of shards."""
    known, _, index = refusal.details.partition(" ")
    return wrong_shards(parts[int(index or 1) - 1].shard.queue, int(known))


async def send(
    client: RedisClient, function: str, parts: Sequence[ShardCall], arguments: ArgumentsOf, *, lead: int = 0
) -> list[ShardReply | HeadraceError]:
    """What came back for each part, or the error in its place. With `lead`, a reply begins with a value for all shards;
    a text has a character for each, '1' for one whose fail queue was made."""
    if not parts:
        return []
    groups = [[part] for part in parts] if client.clustered else [parts]
    calls = [ServerCall(function, [head_key(part.shard) for part in group], arguments(group)) for group in groups]
    replies: list[ShardReply | HeadraceError] = []
    for group, reply in zip(groups, await client.call_each(calls), strict=True):
        if isinstance(reply, ScriptRefusal):
            raise in_words(group, reply) from reply
        if isinstance(reply, HeadraceError):
            replies += [reply] * len(group)
            continue
        first = reply[0] if lead else None
        made = first if isinstance(first, bytes) else b""
        replies += [ShardReply(answer, first, made[at : at + 1] == b"1") for at, answer in enumerate(reply[lead:])]
    return replies


class ShardedBatch(Generic[Answer]):
    """The answers to a batch as they come in."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids = ids
        self._answers: list[Answer | None] = [None] * len(ids)
        self._lost: list[HeadraceError] = []

    def fill(self, picks: Sequence[int], answers: Sequence[Answer]) -> None:
        """Take the answers for some of the items."""
        for index, answer in zip(picks, answers, strict=True):
            self._answers[index] = answer

    def lose(self, error: HeadraceError) -> None:
        """Note that a part was not answered."""
        self._lost.append(error)

    def whole(self) -> list[Answer]:
        """All answers; raises when some did not come, with those that did."""
        known = [answer for answer in self._answers if answer is not None]
        if not self._lost:
            return known
        error = self._lost[0]
        if not known and all(isinstance(each, StoreUnavailable | BadConfig) for each in self._lost):
            raise error
        unknown = [id for id, answer in zip(self._ids, self._answers, strict=True) if answer is None]
        raise OutcomeUnknown(str(error), known=known, unknown=unknown) from error


class ShardCountCache:
    """The queues that were found to be cut as their callers say, so that few batches have to ask."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._known: set[Queue] = set()

    def note(self, queue: Queue) -> None:
        """A shard of the queue has answered."""
        if len(self._known) >= _CHECKED_MAX:
            self._known.clear()
        self._known.add(queue)

    async def check(self, queues: Sequence[Queue]) -> None:
        """Refuse a batch over several queues of which one is cut otherwise, before anything changes. A batch on one
        queue needs no question: either all its shards refuse, or none does."""
        unsure = [queue for queue in queues if queue not in self._known] if len(queues) > 1 else []
        calls = [
            ServerCall("check_shard_count", [head_key(first_shard(queue))], [queue.shards], reads=True)
            for queue in unsure
        ]
        for queue, reply in zip(unsure, await self._client.call_each(calls) if calls else (), strict=True):
            if isinstance(reply, ScriptRefusal):
                raise wrong_shards(queue, int(reply.details)) from reply
            if isinstance(reply, HeadraceError):
                raise reply

    async def check_missing(self, shard: Shard) -> None:
        """Refuse a queue whose shard is not there because it is cut into fewer."""
        if shard.index:
            await check_shards(self._client, shard.queue)
