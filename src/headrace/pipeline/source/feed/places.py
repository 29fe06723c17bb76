"""Places in the logs of feeds: where a user wants to begin, and what a place is called by its cursor."""

from collections.abc import AsyncIterator, Mapping

from headrace.model.errors import BadConfig
from headrace.model.feed import Changed, FeedCursor
from headrace.model.results import FeedState
from headrace.pipeline.source.feed.offset import OLDEST
from headrace.pipeline.source.place import EARLIEST, LATEST, Place
from headrace.stores.contract.store import Store


async def first_places(
    store: Store, states: Mapping[str, FeedState], starting: Place, fails_on_loss: bool
) -> dict[str, str]:
    """Where a stream begins in each feed: a cursor, or nothing for the oldest change that is kept."""
    seqs = starting.seqs or {}
    for name in seqs:
        if name not in states:
            raise BadConfig(
                f"option startingOffsets names {name!r}, which is none of the feeds that are read;"
                f" they are {', '.join(list(states)[:10]) or 'none'}{', …' if len(states) > 10 else ''}"
            )
    places = {}
    for name, state in states.items():
        if starting.at_ms is not None:
            places[name] = await _at_instant(store, state, starting.at_ms)
        else:
            seq = seqs.get(name, LATEST if starting.end == "latest" else EARLIEST)
            places[name] = await _at_seq(store, name, state, seq, fails_on_loss)
    return places


async def _at_seq(store: Store, name: str, state: FeedState, seq: int, fails_on_loss: bool) -> str:
    """The place before the change `seq`, which is the first to be read."""
    if seq == EARLIEST:
        return ""
    if seq == LATEST:
        return str(state.cursor)
    least, most = state.first_seq, state.cursor.seq + 1
    if not least <= seq <= most and fails_on_loss:
        raise BadConfig(
            f"option startingOffsets begins with seq {seq} of feed {name}, which keeps {least} to {most - 1}; give a"
            f" seq from {least} to {most}, earliest or latest, or take what is nearest with failOnDataLoss=false"
        )
    if seq <= least:
        return ""
    place = await place_at(store, state, oldest_of(state), min(seq, most) - 1)
    return "" if place is None else str(place)


async def _at_instant(store: Store, state: FeedState, at_ms: int) -> str:
    """The place before the first change at or after an instant."""
    if state.changed_at_ms < at_ms:
        return str(state.cursor)
    before = ""
    async for birth, change in changes_behind(store, state, oldest_of(state)):
        if change.at_ms >= at_ms:
            return before
        before = f"{birth}-{change.epoch}-{change.seq}"
    return str(state.cursor)


async def place_at(store: Store, state: FeedState, after: FeedCursor, seq: int) -> FeedCursor | None:
    """The cursor of the change `seq`, which is behind `after` and not beyond the end that `state` tells; None when it
    was dropped meanwhile."""
    end = state.cursor
    if seq == end.seq:
        return end
    if seq == after.seq:
        return after
    # Epochs never fall within a log: where both ends have the same, so has what is between them.
    if after.epoch == end.epoch:
        return FeedCursor(end.birth, end.epoch, seq)
    async for birth, change in changes_behind(store, state, after):
        if change.seq > seq or birth != end.birth:
            break
        if change.seq == seq or change.epoch == end.epoch:
            return FeedCursor(birth, change.epoch, seq)
    return None


def oldest_of(state: FeedState) -> FeedCursor:
    """The place before the oldest change that is kept."""
    return FeedCursor(state.cursor.birth, OLDEST, state.first_seq - 1)


async def changes_behind(store: Store, state: FeedState, after: FeedCursor) -> AsyncIterator[tuple[str, Changed]]:
    """The changes behind a place one by one, each with the birth of its feed; ends early where some were dropped."""
    page = await store.feeds.changes(state.feed, None if after.epoch == OLDEST else after)
    while page.status == "kept" and page.cursor is not None:
        for change in page.rows:
            yield page.cursor.birth, change
        if not page.more:
            break
        page = await store.feeds.changes(state.feed, page.cursor)
