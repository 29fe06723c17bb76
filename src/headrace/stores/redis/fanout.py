"""One function sent to several shards of a queue: one call on one server, a call for each shard on a cluster."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from headrace.model.errors import HeadraceError, OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.names import Queue, Shard
from headrace.model.validate import check_time
from headrace.stores.redis.client import Argument, RedisClient, ServerCall
from headrace.stores.redis.errors import ScriptRefusal
from headrace.stores.redis.keys import first_shard, head_key
from headrace.stores.shared.validate import not_empty, wrong_shards


def now_argument(now_ms: int | None) -> int | str:
    """The instant of a call as functions take it: the given one, else '', which is the server's clock."""
    if now_ms is None:
        return ""
    check_time("now_ms", now_ms)
    return now_ms


async def ask(
    client: RedisClient,
    function: str,
    shards: Sequence[Shard],
    common: Sequence[Argument] = (),
    own: Sequence[Sequence[Argument]] | None = None,
    *,
    reads: bool = False,
) -> list[Any]:
    """What each shard answers, in order; None for one that is not there.

    The function is told the number of shards, then `common`, then for each shard how many arguments of its `own`
    follow, and these. A shard of a queue that is cut otherwise refuses, and so does its queue's shard 0 in its stead
    when it is not there.
    """
    queue = shards[0].queue
    groups = [[]] * len(shards) if own is None else own
    if client.clustered:
        calls = [
            ServerCall(function, [head_key(shard)], [queue.shards, *common, len(group), *group], reads)
            for shard, group in zip(shards, groups, strict=True)
        ]
        found = [answer[0] for answer in await each(client, queue, calls)]
    else:
        listed = [argument for group in groups for argument in (len(group), *group)]
        found = await one(
            client, queue, ServerCall(function, [*map(head_key, shards)], [queue.shards, *common, *listed], reads)
        )
    if None in found and all(shard.index for shard in shards):
        await check_shards(client, queue)
    return found


async def check_shards(client: RedisClient, queue: Queue) -> None:
    """Refuse a queue that is cut into another number of shards, or whose main queue is."""
    await one(
        client, queue, ServerCall("check_shard_count", [head_key(first_shard(queue))], [queue.shards], reads=True)
    )


async def one(client: RedisClient, queue: Queue, call: ServerCall) -> Any:
    """The answer to one call, its refusals in words."""
    try:
        return await client.call(call)
    except ScriptRefusal as refusal:
        raise in_words(queue, refusal) from refusal


async def each(client: RedisClient, queue: Queue, calls: Sequence[ServerCall]) -> list[Any]:
    """The answers to several calls; the first error among them is raised when all have been answered."""
    answers = await client.call_each(calls)
    for answer in answers:
        if isinstance(answer, ScriptRefusal):
            raise in_words(queue, answer) from answer
        if isinstance(answer, HeadraceError):
            raise answer
    return answers


@contextmanager
def looking() -> Iterator[None]:
    """Around a look that may write, since it notices that the server was restarted: its lost answer cost nothing."""
    try:
        yield
    except OutcomeUnknown as lost:
        raise StoreUnavailable(str(lost)) from lost


def in_words(queue: Queue, refusal: ScriptRefusal) -> HeadraceError:
    """The error that a caller gets for a refusal of a function."""
    match refusal.reason:
        case "wrong_shards":
            return wrong_shards(queue, int(refusal.details.split()[0]))
        case "not_empty":
            return not_empty(queue, int(refusal.details))
        case _:
            return Refused(refusal.reason, f"queue {queue.full_name!r} refused the call: {refusal}")


SHARDS_PER_CALL = 50
"""Others are served between two calls; a shard takes a server some tens of microseconds."""


async def ask_across(
    client: RedisClient,
    function: str,
    shards: Sequence[Shard],
    common: Sequence[Argument] = (),
    own: Sequence[Sequence[Argument]] | None = None,
    *,
    reads: bool = False,
) -> list[Any]:
    """What each shard answers, in order; None for one that is not there.

    The function is told `common`, then for each shard into how many shards its queue is cut and what is its `own`. A
    shard of a queue that is cut otherwise refuses, and so does its queue's shard 0 in its stead when it is not there.
    """
    size = 1 if client.clustered else SHARDS_PER_CALL
    groups = [range(start, min(start + size, len(shards))) for start in range(0, len(shards), size)]
    calls = [
        ServerCall(
            function,
            [head_key(shards[place]) for place in group],
            [
                *common,
                *(each for place in group for each in (shards[place].queue.shards, *(own[place] if own else ()))),
            ],
            reads,
        )
        for group in groups
    ]
    found: list[Any] = []
    for group, reply in zip(groups, await client.call_each(calls), strict=True):
        if isinstance(reply, ScriptRefusal):
            known, _, which = reply.details.partition(" ")
            raise wrong_shards(shards[group[int(which) - 1]].queue, int(known)) from reply
        if isinstance(reply, HeadraceError):
            raise reply
        found += reply
    missing = [shard.queue for shard, answer in zip(shards, found, strict=True) if answer is None and shard.index]
    await _check_shards(client, list(dict.fromkeys(missing)))
    return found


async def _check_shards(client: RedisClient, queues: Sequence[Queue]) -> None:
    """Refuse queues of which a shard is not there because they are cut into fewer."""
    calls = [
        ServerCall("check_shard_count", [head_key(first_shard(queue))], [queue.shards], reads=True) for queue in queues
    ]
    for queue, reply in zip(queues, await client.call_each(calls), strict=True):
        if isinstance(reply, ScriptRefusal):
            raise wrong_shards(queue, int(reply.details)) from reply
        if isinstance(reply, HeadraceError):
            raise reply
