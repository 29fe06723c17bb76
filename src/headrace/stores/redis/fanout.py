"""Sends one function to several shards: in one call on one server, in a call for each shard on a cluster."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeVar

from headrace.model.errors import BadConfig, HeadraceError, OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.names import Queue, Shard
from headrace.model.validate import check_time
from headrace.stores.redis.client import Argument, RedisClient, ServerCall
from headrace.stores.redis.errors import ScriptRefusal
from headrace.stores.redis.keys import first_shard, head_key
from headrace.stores.shared.sharding import by_shard
from headrace.stores.shared.validate import not_empty, wrong_shards

Item = TypeVar("Item")
Answer = TypeVar("Answer")
ShardGroup = tuple[Sequence[Shard], list[Argument]]
"""The shards of one call, and its arguments."""

SHARDS_PER_CALL = 50
"""Others are served between two calls; a shard takes a server some tens of microseconds."""
_CHECKED_QUEUES_MAX = 10_000


def now_argument(now_ms: int | None) -> int | str:
    """The instant of a call as functions take it: `now_ms`, or '' for the server's clock."""
    if now_ms is None:
        return ""
    check_time("now_ms", now_ms)
    return now_ms


@contextmanager
def as_read() -> Iterator[None]:
    """Turns an unknown outcome into an unavailable store, around a read that writes only that a server restarted: a
    lost answer loses nothing."""
    try:
        yield
    except OutcomeUnknown as error:
        raise StoreUnavailable(str(error)) from error


# Reads and changes of whole shards: the first error is raised.


async def call_shards(
    client: RedisClient,
    function: str,
    shards: Sequence[Shard],
    common: Sequence[Argument] = (),
    own: Sequence[Sequence[Argument]] | None = None,
    *,
    reads: bool = False,
) -> list[Any]:
    """The answer of each shard of one queue, in order; None for a shard that does not exist.

    The arguments are the number of shards, `common`, then for each shard the number of its `own` and these. A shard
    of a queue with another number of shards refuses; shard 0 refuses in the stead of a shard that does not exist.
    """
    queue = shards[0].queue
    args_of = own or [()] * len(shards)
    groups: list[ShardGroup] = [
        (
            shards[group],
            [queue.shards, *common, *(argument for args in args_of[group] for argument in (len(args), *args))],
        )
        for group in _slices(client, len(shards), len(shards))
    ]
    answers = [answer for reply in await call_groups(client, function, groups, reads=reads) for answer in reply]
    if None in answers and all(shard.index for shard in shards):
        await check_shard_counts(client, [queue])
    return answers


async def call_shards_of_queues(
    client: RedisClient,
    function: str,
    shards: Sequence[Shard],
    common: Sequence[Argument] = (),
    own: Sequence[Sequence[Argument]] | None = None,
    *,
    reads: bool = False,
) -> list[Any]:
    """As `call_shards`, for shards of any queues: the arguments are `common`, then for each shard the number of shards
    of its queue and its `own`."""
    args_of = own or [()] * len(shards)
    groups: list[ShardGroup] = [
        (
            shards[group],
            [
                *common,
                *(
                    argument
                    for shard, args in zip(shards[group], args_of[group], strict=True)
                    for argument in (shard.queue.shards, *args)
                ),
            ],
        )
        for group in _slices(client, len(shards), SHARDS_PER_CALL)
    ]
    answers = [answer for reply in await call_groups(client, function, groups, reads=reads) for answer in reply]
    missing = [shard.queue for shard, answer in zip(shards, answers, strict=True) if answer is None and shard.index]
    await check_shard_counts(client, list(dict.fromkeys(missing)))
    return answers


def _slices(client: RedisClient, count: int, size: int) -> list[slice]:
    """The shards of each call: on a cluster every shard has its own slot."""
    step = 1 if client.clustered else size
    return [slice(start, start + step) for start in range(0, count, step)]


async def call_groups(
    client: RedisClient, function: str, groups: Sequence[ShardGroup], *, reads: bool = False
) -> list[Any]:
    """The reply to one call for each group of shards; raises the first error once all calls are answered."""
    calls = [ServerCall(function, [*map(head_key, shards)], args, reads) for shards, args in groups]
    replies = await client.call_each(calls)
    for (shards, _), reply in zip(groups, replies, strict=True):
        if isinstance(reply, ScriptRefusal):
            raise refusal_error(shards, reply) from reply
        if isinstance(reply, HeadraceError):
            raise reply
    return replies


def refusal_error(shards: Sequence[Shard], refusal: ScriptRefusal) -> HeadraceError:
    """The error for a refused call on these shards; the refusal names the shard by its position."""
    match refusal.reason:
        case "wrong_shards":
            known, _, position = refusal.details.partition(" ")
            return wrong_shards(shards[int(position or 1) - 1].queue, int(known))
        case "not_empty":
            return not_empty(shards[0].queue, int(refusal.details))
        case _:
            return Refused(refusal.reason, f"queue {shards[0].queue.full_name!r} refused the call: {refusal}")


async def check_shard_counts(client: RedisClient, queues: Sequence[Queue]) -> None:
    """Refuse queues that have another number of shards, or whose main queue has."""
    if queues:
        groups: list[ShardGroup] = [([first_shard(queue)], [queue.shards]) for queue in queues]
        await call_groups(client, "check_shard_count", groups, reads=True)


class ShardCountCache:
    """Remembers queues whose number of shards was right, so that few batches have to check it."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._checked: set[Queue] = set()

    async def check(self, queues: Sequence[Queue]) -> None:
        """Refuse a batch over several queues of which one has another number of shards, before anything changes. A
        batch on one queue needs no check: either all its shards refuse, or none does."""
        unchecked = [queue for queue in queues if queue not in self._checked] if len(queues) > 1 else []
        if unchecked:
            await check_shard_counts(self._client, unchecked)

    def add(self, queue: Queue) -> None:
        """Remember a queue of which a shard has answered."""
        if len(self._checked) >= _CHECKED_QUEUES_MAX:
            self._checked.clear()
        self._checked.add(queue)

    async def add_answer(self, shard: Shard, answer: object) -> None:
        """Remember the queue of a shard that has answered; refuse a queue that has too few shards for this one."""
        if answer is not None:
            self.add(shard.queue)
        elif shard.index:
            await check_shard_counts(self._client, [shard.queue])


# Batches of items: a shard that fails leaves the answers of the others.


class ShardCall(NamedTuple, Generic[Item]):
    """The share of one shard in a batch."""

    shard: Shard
    positions: Sequence[int]
    """Those of its items in the batch."""
    items: Sequence[Item]
    args: list[Argument]


class ShardReply(NamedTuple):
    """The answer of one shard."""

    answer: Any
    lead: Any = None
    """The first part of the reply: a number for all shards, or the byte of this shard."""


def group_by_shard(
    items: Sequence[Item], address: Callable[[Item], tuple[Queue, str]]
) -> Iterator[tuple[Shard, Sequence[int], Sequence[Item]]]:
    """Each shard of a batch with the positions of its items and the items; `address` is the queue and id of an item."""
    for shard, positions in by_shard(items, address):
        yield shard, positions, items if len(positions) == len(items) else [items[at] for at in positions]


async def call_batch(
    client: RedisClient,
    function: str,
    common: Sequence[Argument],
    calls: Sequence[ShardCall[Item]],
    *,
    has_counts: bool = True,
    has_lead: bool = False,
) -> list[ShardReply | HeadraceError]:
    """The reply of each shard of a batch, or the error in its place.

    The arguments are `common`, with `has_counts` the number of shards of each shard's queue, then those of each shard.
    With `has_lead`, a reply begins with a value for all shards or a text with a byte for each.
    """
    if not calls:
        return []
    groups = [[call] for call in calls] if client.clustered else [calls]
    server_calls = [
        ServerCall(
            function,
            [head_key(call.shard) for call in group],
            [
                *common,
                *([call.shard.queue.shards for call in group] if has_counts else ()),
                *own_args(group),
            ],
        )
        for group in groups
    ]
    replies: list[ShardReply | HeadraceError] = []
    for group, reply in zip(groups, await client.call_each(server_calls), strict=True):
        if isinstance(reply, ScriptRefusal):
            raise refusal_error([call.shard for call in group], reply) from reply
        if isinstance(reply, HeadraceError):
            replies += [reply] * len(group)
        elif has_lead:
            lead, *answers = reply
            if isinstance(lead, bytes):
                replies += [ShardReply(answer, lead[at : at + 1]) for at, answer in enumerate(answers)]
            else:
                replies += [ShardReply(answer, lead) for answer in answers]
        else:
            replies += map(ShardReply, reply)
    return replies


def own_args(calls: Sequence[ShardCall[Item]]) -> list[Argument]:
    """The arguments of each shard, one after the other."""
    return calls[0].args if len(calls) == 1 else [argument for call in calls for argument in call.args]


def queues_of(calls: Sequence[ShardCall[Item]]) -> list[Queue]:
    """The queues of a batch, each once."""
    return list(dict.fromkeys(call.shard.queue for call in calls))


class ShardedBatch(Generic[Answer]):
    """Collects the answers to a batch, shard by shard."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids = ids
        self._answers: list[Answer | None] = [None] * len(ids)
        self._errors: list[HeadraceError] = []

    def add_answers(self, positions: Sequence[int], answers: Sequence[Answer]) -> None:
        """Take the answers for the items at these positions."""
        for position, answer in zip(positions, answers, strict=True):
            self._answers[position] = answer

    def add_error(self, error: HeadraceError) -> None:
        """Take the error of a shard."""
        self._errors.append(error)

    def result(self) -> list[Answer]:
        """All answers; raises when some are missing, with the others."""
        known = [answer for answer in self._answers if answer is not None]
        if not self._errors:
            return known
        error = self._errors[0]
        if not known and all(isinstance(each, StoreUnavailable | BadConfig) for each in self._errors):
            raise error
        unknown = [id for id, answer in zip(self._ids, self._answers, strict=True) if answer is None]
        raise OutcomeUnknown(str(error), known=known, unknown=unknown) from error
