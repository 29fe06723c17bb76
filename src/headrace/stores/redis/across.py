"""One function sent to shards of any queues: a few calls on one server, a call for each shard on a cluster."""

from collections.abc import Sequence
from typing import Any

from headrace.model.errors import HeadraceError
from headrace.model.names import Queue, Shard
from headrace.stores.calls.queues import wrong_shards
from headrace.stores.redis.errors import ScriptRefusal
from headrace.stores.redis.keys import first_shard, head_key
from headrace.stores.redis.link import Argument, Call, Link

SHARDS_PER_CALL = 50
"""Others are served between two calls; a shard takes a server some tens of microseconds."""


async def ask_across(
    link: Link,
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
    size = 1 if link.clustered else SHARDS_PER_CALL
    groups = [range(start, min(start + size, len(shards))) for start in range(0, len(shards), size)]
    calls = [
        Call(
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
    for group, reply in zip(groups, await link.call_each(calls), strict=True):
        if isinstance(reply, ScriptRefusal):
            known, _, which = reply.details.partition(" ")
            raise wrong_shards(shards[group[int(which) - 1]].queue, int(known)) from reply
        if isinstance(reply, HeadraceError):
            raise reply
        found += reply
    missing = [shard.queue for shard, answer in zip(shards, found, strict=True) if answer is None and shard.index]
    await _check_shards(link, list(dict.fromkeys(missing)))
    return found


async def _check_shards(link: Link, queues: Sequence[Queue]) -> None:
    """Refuse queues of which a shard is not there because they are cut into fewer."""
    calls = [Call("shards", [head_key(first_shard(queue))], [queue.shards], reads=True) for queue in queues]
    for queue, reply in zip(queues, await link.call_each(calls), strict=True):
        if isinstance(reply, ScriptRefusal):
            raise wrong_shards(queue, int(reply.details)) from reply
        if isinstance(reply, HeadraceError):
            raise reply
