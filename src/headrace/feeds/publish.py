"""Publishes items in calls of a bounded size, and turns refused items into errors."""

from collections.abc import Iterable, Iterator, Sequence

from headrace.client.retry import UNANSWERED
from headrace.feeds.context import FeedContext
from headrace.model.errors import OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.feed import FeedName, Publication
from headrace.model.limits import BATCH_MAX, PUBLISH_BYTES_MAX
from headrace.model.results import Published
from headrace.model.validate import cut


async def publish(context: FeedContext, feed: FeedName, publication: Publication) -> str:
    """Publish one item and return its id; raises `Refused` if the store does not accept it."""
    [answer] = await context.store.items.publish(feed, [publication], instance=context.instance)
    if not answer.ok or answer.id is None:
        raise refusal(feed, publication, answer)
    return answer.id


async def publish_many(context: FeedContext, feed: FeedName, publications: Iterable[Publication]) -> list[str]:
    """Publish items in their order and return their ids.

    Raises `Refused` at the first item that the store does not accept. If the store stops answering, raises
    `OutcomeUnknown` with the published ids in `known`.
    """
    ids: list[str] = []
    for batch in batches(publications):
        try:
            answers = await context.store.items.publish(feed, batch, instance=context.instance)
        except UNANSWERED as error:
            if not ids and isinstance(error, StoreUnavailable):
                raise
            raise OutcomeUnknown(
                f"{len(ids):,} items were published and of {len(batch):,} it is not known: {error}",
                known=ids,
                unknown=[each.id for each in batch if each.id is not None],
            ) from error
        ids += [answer.id for answer in answers if answer.ok and answer.id is not None]
        for publication, answer in zip(batch, answers, strict=True):
            if not answer.ok:
                raise refusal(feed, publication, answer, len(ids))
    return ids


def batches(publications: Iterable[Publication]) -> Iterator[Sequence[Publication]]:
    """The publications in batches of at most one call's size."""
    batch: list[Publication] = []
    size = 0
    for each in publications:
        if batch and (len(batch) == BATCH_MAX or size + len(each.item) > PUBLISH_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += len(each.item)
    if batch:
        yield batch


def refusal(feed: FeedName, publication: Publication, answer: Published, published: int = 0) -> Refused:
    """The error for an item that was not published."""
    match answer.status:
        case "unknown":
            refused = unknown_item(feed, publication.id or "")
        case "unknown_neighbour":
            refused = unknown_neighbour(feed, publication.position.id or "")
        case "full":
            message = f"{str(feed)!r} is full; retract or take items, or raise its items_max"
            refused = Refused(
                "full", message if not published else f"{published:,} items were published, then {message}"
            )
        case _:
            message = f"{str(feed)!r} holds an item {cut(publication.id or '')!r} already; put it under another id"
            refused = Refused("known_item", message)
    return refused


def unknown_item(feed: FeedName, id: str) -> Refused:
    """The refusal to change a missing item."""
    return Refused("unknown_item", f"{str(feed)!r} holds no item {cut(id)!r} (any more); publish it first")


def unknown_neighbour(feed: FeedName, id: str) -> Refused:
    """The refusal of a position next to a missing item."""
    return Refused(
        "unknown_neighbour", f"{str(feed)!r} holds no item {cut(id)!r} to stand next to (any more); choose another"
    )
