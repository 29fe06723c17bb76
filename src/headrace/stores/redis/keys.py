"""Names all keys of the store; `lua/parts/key_names.lua` builds the same names in the functions.

All keys of a shard start with its prefix, whose braces put them into one slot of a cluster. A name consists of tenants
and queues only, which have neither braces nor slashes; ids are fields and members, never parts of a name.

    m   hash    the shard itself: about (layout, shards, server), head (epoch, counters), cfg, awaited
    b   hash    id to the body of a waiting or active job
    r   zset    ready jobs by order key
    l   zset    later jobs by run_at_ms
    x   zset    active jobs by the end of their lease
    a   hash    id to the delivery
    t   hash    id to the blocked job
    k   hash    id and idempotency key to fingerprint and end; kx, by end
    o   hash    id to the finished job; ol, unpinned ones in order; op, pinned ones by end;
                oq, pinned ones in order
    w   hash    worker to the time it was last seen and its last nonce; ws, by that time
    d   hash    number to the dead letter; dn, by number; di, by id
    j   stream  the journal; jc, its consumers
    q   list    quarantine: records that were missing

All feeds of a tenant lie in one slot, so that a feed and its directory change in one step. The keys of a feed start
with `hr:{tenant}:f:NAME:`, those of the directory with `hr:{tenant}:f:*:`, which is also the channel of wake-ups:

    m   hash    the feed itself: layout, birth, epoch, counters, configuration
    i   hash    id to the item with its rank and time
    o   zset    rank and id, in the order of the feed; all scores are 0
    l   stream  the log: a change under its seq

A registry beside the shards lists the queues. It may list too many, never too few: shard 0 of a queue decides whether
the queue exists and how many shards it has.
"""

from headrace.model.feed import FeedName
from headrace.model.names import Queue, Shard

TENANTS = "hr:tenants"
"""The tenants that have queues, a zset by name."""


def prefix_of(shard: Shard) -> str:
    """The prefix of all keys of a shard; those of a fail queue are in the slot of its main queue."""
    queue = shard.queue
    return f"hr:{{{queue.tenant}/{queue.name}/{shard.index}}}:" + ("f:" if queue.is_fail_queue else "")


def head_key(shard: Shard) -> str:
    """The key that names a shard to a function."""
    return prefix_of(shard) + "m"


def journal_key(shard: Shard) -> str:
    """The stream of a shard's journal: read by a plain command, written by functions alone."""
    return prefix_of(shard) + "j"


def ends_channel(shard: Shard) -> str:
    """The channel of the ends of a shard's jobs, published while they have waiters; wake-ups come on its prefix."""
    return prefix_of(shard) + "e"


def names_key(tenant: str) -> str:
    """The full names of a tenant's queues, a zset by name."""
    return f"hr:{{{tenant}}}:names"


def first_shard(queue: Queue) -> Shard:
    """The shard that is created first and dropped last, and decides for the whole queue."""
    return Shard(queue, 0)


def feed_prefix(feed: FeedName) -> str:
    """The prefix of all keys of a feed, and the channel of its wake-ups."""
    return f"hr:{{{feed.tenant}}}:f:{feed.name}:"


def feed_key(feed: FeedName) -> str:
    """The key that names a feed to a function."""
    return feed_prefix(feed) + "m"
