"""Checks arguments of store calls, and builds the refusals that drivers share."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from headrace.model.errors import OutcomeUnknown, Refused
from headrace.model.event import Span
from headrace.model.feed import FeedConfig, FeedName, Publication, check_instance, check_item_id, check_writable
from headrace.model.finished import DeadLetterKey
from headrace.model.job import State, check_id
from headrace.model.limits import (
    BATCH_MAX,
    CONSUMER_CHARS_MAX,
)
from headrace.model.names import Queue, Shard
from headrace.model.policy import QueueConfig
from headrace.model.validate import bounded_repr, check_batch, check_int, check_time


def unknown_feed(feed: FeedName) -> Refused:
    """The refusal of an unknown feed."""
    return Refused("unknown_feed", f"there is no feed {str(feed)!r}; create it first")


def feed_exists(feed: FeedName) -> Refused:
    """The refusal to create an existing feed."""
    return Refused("feed_exists", f"there is a feed {str(feed)!r} already; configure it, or choose another name")


def feed_version_changed(feed: FeedName, config: FeedConfig, version: int) -> Refused:
    """The refusal of a change to an outdated version of the configuration."""
    return Refused(
        "version_changed",
        f"feed {str(feed)!r} was to be at version {version} and is at {config.version};"
        " read its configuration and decide again",
    )


def check_publication(feed: FeedName, type: str, publication: Publication) -> None:
    """Refuse a publication that a feed of this type cannot take."""
    if publication.id is None and type != "sorted":
        raise Refused("bad_id", f"an item of {str(feed)!r} needs an id; only sorted feeds draw them")
    if type == "sorted":
        return
    if type == "queue" and publication.edit:
        raise wrong_type(feed, type, "edit")
    if publication.position.where not in (("first", "last") if type == "queue" else ("last",)):
        raise wrong_type(feed, type, f"publish {publication.position.where!r}")


def wrong_type(feed: FeedName, type: str, wanted: str) -> Refused:
    """The refusal of an operation of another type of feed."""
    return Refused("wrong_type", f"{str(feed)!r} is of type {type!r} and cannot {wanted}; use a feed of another type")


def check_state(state: object) -> None:
    """Refuse a value that is not a state, and the state dead, which `store.dead` lists."""
    if type(state) is not State:
        raise Refused(
            "bad_state", f"{bounded_repr(state)} is not a State; use one of {', '.join(each.name for each in State)}"
        )
    if state is State.DEAD:
        raise Refused("bad_state", "dead jobs are dead letters; list them with store.dead.list")


def check_call(feed: FeedName, what: str, count: int, instance: str) -> None:
    """Refuse a call to a directory, of a too large batch, or without a valid instance."""
    check_writable(feed)
    check_batch(what, count, BATCH_MAX)
    check_instance(instance)


def check_item_ids(ids: Sequence[str]) -> None:
    """Refuse a batch that is too large or holds an invalid item id."""
    check_batch("ids", len(ids), BATCH_MAX)
    for id in ids:
        check_item_id(id)


def check_pick(queue: Queue, pick: object) -> None:
    """Refuse anything that does not name a dead letter."""
    if isinstance(pick, str):
        check_id(pick, queue)
    elif isinstance(pick, DeadLetterKey):
        check_int("shard", pick.shard, 0, queue.shards - 1)
        check_int("dead_letter", pick.number, 1, 2**63 - 1)
    else:
        raise Refused(
            "bad_dead_letter", f"{bounded_repr(pick)} names no dead letter; use an id or a DeadLetterKey(shard, number)"
        )


SEQ_MAX = 2**63 - 1


def check_range(after: int, upto: int) -> None:
    """Refuse offsets that no journal can have."""
    check_int("after", after, 0, SEQ_MAX)
    check_int("upto", upto, 0, SEQ_MAX)


def check_spans(spans: Sequence[Span], at_ms: int) -> None:
    """Refuse too many spans, offsets that no journal can have, and an invalid instant."""
    check_batch("spans", len(spans), BATCH_MAX)
    check_time("at_ms", at_ms)
    for span in spans:
        check_range(span.after, span.upto)


def unknown_queue(shard: Shard) -> Refused:
    """The refusal to register a reader of an unknown queue."""
    return Refused("unknown_queue", f"there is no queue {shard.queue.full_name!r} yet; enqueue to it first")


def unknown_consumer(shard: Shard, consumer: str) -> Refused:
    """The refusal to advance an unregistered reader."""
    return Refused(
        "unknown_consumer",
        f"no consumer {bounded_repr(consumer, CONSUMER_CHARS_MAX)} is registered on {shard}; register before advancing",
    )


def beyond_journal(shard: Shard, last_seq: int, seq: int) -> Refused:
    """The refusal of an offset beyond the end of a journal."""
    return Refused(
        "beyond_journal",
        f"the journal of {shard} ends with seq {last_seq:,} and cannot be read up to {seq:,};"
        " was the store replaced by an older copy?",
    )


def check_version(queue: Queue, known: QueueConfig, version: int | None) -> None:
    """Refuse a change to an outdated version of the configuration."""
    if version is not None and version != known.version:
        raise Refused(
            "version_changed",
            f"queue {queue.full_name!r} was to be at version {version} and is at {known.version};"
            " read its configuration and decide again",
        )


def not_empty(queue: Queue, live: int) -> Refused:
    """The refusal to delete a queue that still has jobs."""
    return Refused(
        "not_empty",
        f"queue {queue.full_name!r} still has {live:,} waiting, blocked or active jobs;"
        " purge it and let the active ones end first",
    )


def wrong_shards(queue: Queue, known: int) -> Refused:
    """The refusal of a queue with another number of shards."""
    return Refused(
        "wrong_shards",
        f"queue {queue.full_name!r} of tenant {queue.tenant!r} has {known} shards, the call has {queue.shards};"
        " the number is fixed when a queue is first used: use that one",
    )


@contextmanager
def naming(ids: Iterable[str]) -> Iterator[None]:
    """Add the ids of the call to an `OutcomeUnknown`."""
    try:
        yield
    except OutcomeUnknown as lost:
        raise OutcomeUnknown(str(lost), unknown=tuple(ids)) from lost


def check_ids(queue: Queue, ids: Sequence[str]) -> None:
    """Refuse a batch that is too large or holds an invalid id."""
    check_batch("ids", len(ids), BATCH_MAX)
    for id in ids:
        check_id(id, queue)
