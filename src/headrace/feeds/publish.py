"""Publishing any number of items: in calls of a bounded size, and refusals as sentences."""

from collections.abc import Iterable, Iterator, Sequence

from headrace.client.retry import UNANSWERED
from headrace.feeds.context import FeedContext
from headrace.model.errors import OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.feed import FeedName, Publication
from headrace.model.limits import BATCH_MAX, PUBLISH_BYTES_MAX
from headrace.model.results import Published
from headrace.model.validate import cut


async def publish(access: FeedContext, feed: FeedName, publication: Publication) -> str:
    """Publish one item and return its id; raises `Refused` when the store will not have it."""
    [answer] = await access.store.items.publish(feed, [publication], instance=access.instance)
    if not answer.ok or answer.id is None:
        raise refusal(feed, publication, answer)
    return answer.id


async def publish_many(access: FeedContext, feed: FeedName, publications: Iterable[Publication]) -> list[str]:
    """Publish items in their order and return their ids.

    Raises `Refused` at the first that the store will not have, and `OutcomeUnknown`, with the ids that are `known` to
    be in, when the store does not answer in the midst of it.
    """
    ids: list[str] = []
    for part in parts(publications):
        try:
            answers = await access.store.items.publish(feed, part, instance=access.instance)
        except UNANSWERED as error:
            if not ids and isinstance(error, StoreUnavailable):
                raise
            raise OutcomeUnknown(
                f"{len(ids):,} items were published and of {len(part):,} it is not known: {error}",
                known=ids,
                unknown=[each.id for each in part if each.id is not None],
            ) from error
        ids += [answer.id for answer in answers if answer.ok and answer.id is not None]
        for publication, answer in zip(part, answers, strict=True):
            if not answer.ok:
                raise refusal(feed, publication, answer, len(ids))
    return ids


def parts(publications: Iterable[Publication]) -> Iterator[Sequence[Publication]]:
    """Cut into what one call may carry."""
    part: list[Publication] = []
    size = 0
    for each in publications:
        if part and (len(part) == BATCH_MAX or size + len(each.item) > PUBLISH_BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(each)
        size += len(each.item)
    if part:
        yield part


def refusal(feed: FeedName, publication: Publication, answer: Published, published: int = 0) -> Refused:
    """Why an item was not published."""
    match answer.status:
        case "unknown":
            refused = unknown_item(feed, publication.id or "")
        case "unknown_neighbour":
            refused = unknown_neighbour(feed, publication.position.id or "")
        case "full":
            told = f"{str(feed)!r} is full; retract or take items, or raise its items_max"
            refused = Refused("full", told if not published else f"{published:,} items were published, then {told}")
        case _:
            told = f"{str(feed)!r} holds an item {cut(publication.id or '')!r} already; put it under another id"
            refused = Refused("known_item", told)
    return refused


def unknown_item(feed: FeedName, id: str) -> Refused:
    """The refusal to change an item that is not there."""
    return Refused("unknown_item", f"{str(feed)!r} holds no item {cut(id)!r} (any more); publish it first")


def unknown_neighbour(feed: FeedName, id: str) -> Refused:
    """The refusal of a position next to an item that is not there."""
    return Refused(
        "unknown_neighbour", f"{str(feed)!r} holds no item {cut(id)!r} to stand next to (any more); choose another"
    )
