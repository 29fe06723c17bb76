"""What happens to the items of a feed: published, edited, moved, retracted, taken, evicted."""

from collections.abc import Sequence

from headrace.model.feed import Item, ItemPosition, Move, Publication
from headrace.model.limits import CHANGES_PAGE_BYTES, EVICT_PER_CALL_MAX, RANK_CHARS_MAX, RERANK_MAX
from headrace.model.rank import SIGNS, between, spread
from headrace.model.results import Moved, Published, Retracted
from headrace.stores.engine.feed_log import FeedLog
from headrace.stores.engine.feed_rows import FeedRows, ItemRow
from headrace.stores.shared.validate import check_publication, wrong_type

_NUMBER_DIGITS = 15
_NUMBER_MAX = 10**_NUMBER_DIGITS - 1
AGED_PAGE = 16


def publish(log: FeedLog, publications: Sequence[Publication]) -> list[Published]:
    """Put items into a feed in the order given; a feed evicts afterwards if something new came."""
    rows = log.rows
    for each in publications:
        check_publication(rows.feed, rows.config.type, each)
    rows.load([id for each in publications for id in (each.id, each.position.id) if id is not None])
    answers = [_publish(log, each) for each in publications]
    if rows.config.type == "feed" and any(each.status == "published" for each in answers):
        evict(log)
    return answers


def _publish(log: FeedLog, publication: Publication) -> Published:
    rows, counters, type = log.rows, log.rows.counters, log.rows.config.type
    id, item, position = publication.id, publication.item, publication.position
    known = None if id is None else rows.row(id)
    if known is None and publication.edit:
        return Published(id, "unknown")
    if known is not None and type == "plain":
        return Published(id, "known")
    if position.id is not None and rows.row(position.id) is None:
        return Published(id, "unknown_neighbour")
    if known is None and type != "feed" and counters.items >= rows.config.items_max:
        return Published(id, "full")
    if id is None and counters.number == _NUMBER_MAX:
        return Published(id, "full")  # whoever gives such numbers has to go on giving them
    counters.total += 1
    if known is not None:
        assert id is not None  # it was found by it
        _edit(log, known, publication)
        return Published(id, "edited")
    if id is None:
        counters.number += 1
        id = str(counters.number)
    elif type == "sorted":
        counters.number = max(counters.number, _number_of(id))
    rows.put(ItemRow(id, item, _rank_at(rows, position), log.at_ms))
    counters.items += 1
    if type == "plain":
        log.touch()
    else:
        log.note("published", id, item, position if type == "sorted" else None)
    return Published(id, "published")


def _edit(log: FeedLog, known: ItemRow, publication: Publication) -> None:
    rows, item = log.rows, publication.item
    if rows.config.type == "feed":
        rows.drop(known)
        rows.put(ItemRow(known.id, item, _rank_at(rows, publication.position), log.at_ms))
        log.note("edited", known.id, item)
        return
    edited = ItemRow(known.id, item, known.rank, log.at_ms)
    rows.put(edited)
    log.note("edited", known.id, item)
    if not publication.edit:
        _move(log, edited, publication.position)


def _number_of(id: str) -> int:
    """The number that an id is, so that it is never drawn for another item; 0 for any other text."""
    is_number = id.isascii() and id.isdigit() and id[0] != "0" and len(id) <= _NUMBER_DIGITS
    return int(id) if is_number else 0


def move(log: FeedLog, moves: Sequence[Move]) -> list[Moved]:
    """Put items elsewhere in the order given."""
    rows = log.rows
    if rows.config.type != "sorted":
        raise wrong_type(rows.feed, rows.config.type, "move items")
    rows.load([id for each in moves for id in (each.id, each.position.id) if id is not None])
    answers: list[Moved] = []
    for each in moves:
        known = rows.row(each.id)
        if known is None:
            answers.append(Moved(each.id, "unknown"))
        elif each.position.id is not None and rows.row(each.position.id) is None:
            answers.append(Moved(each.id, "unknown_neighbour"))
        else:
            answers.append(Moved(each.id, "moved" if _move(log, known, each.position) else "unchanged"))
    return answers


def _move(log: FeedLog, row: ItemRow, position: ItemPosition) -> bool:
    """Whether the item stood elsewhere before; next to itself it is where it is."""
    rows = log.rows
    if row.rank in _neighbours(rows, position):
        return False
    rows.drop(row)
    rows.put(ItemRow(row.id, row.item, _rank_at(rows, position), row.at_ms))
    log.note("moved", row.id, row.item, position)
    return True


def _rank_at(rows: FeedRows, position: ItemPosition) -> str:
    """A rank for an item that comes to a position; those around it get new ones when it would be too long."""
    low, high = _neighbours(rows, position)
    rank = between(low, high)
    return rank if len(rank) <= RANK_CHARS_MAX else _rerank(rows, low, high)


def _neighbours(rows: FeedRows, position: ItemPosition) -> tuple[str | None, str | None]:
    """The ranks on either side of a position; None at an end."""
    if position.where == "first":
        return None, _rank(rows.first(1))
    if position.where == "last":
        return _rank(rows.last(1)), None
    neighbour = rows.row(position.id or "")
    assert neighbour is not None  # looked up before
    if position.where == "before":
        return _rank(rows.last(1, neighbour.rank)), neighbour.rank
    return neighbour.rank, _rank(rows.first(1, neighbour.rank))


def _rank(found: list[ItemRow]) -> str | None:
    return found[0].rank if found else None


def _rerank(rows: FeedRows, low: str | None, high: str | None) -> str:
    """Draw the ranks around a position anew, with room for one between `low` and `high`; their order stays."""
    before = [] if low is None else rows.last(RERANK_MAX + 1, low + SIGNS[0])[::-1]
    after = [] if high is None else rows.first(RERANK_MAX + 1, low or "")
    low_end = before.pop(0).rank if len(before) > RERANK_MAX else None
    high_end = after.pop().rank if len(after) > RERANK_MAX else None
    ranks = spread(low_end, high_end, len(before) + 1 + len(after))
    fresh = ranks.pop(len(before))
    around = [*before, *after]
    for row in around:
        rows.drop(row)
    for row, rank in zip(around, ranks, strict=True):
        rows.put(ItemRow(row.id, row.item, rank, row.at_ms))
    return fresh


def retract(log: FeedLog, ids: Sequence[str]) -> list[Retracted]:
    """Take items out in the order given."""
    rows, is_logged = log.rows, log.rows.config.type != "plain"
    rows.load(ids)
    answers: list[Retracted] = []
    for id in ids:
        known = rows.row(id)
        if known is None:
            answers.append(Retracted(id, "not_found"))
            continue
        rows.drop(known)
        rows.counters.items -= 1
        if is_logged:
            log.note("retracted", id)
        else:
            log.touch()
        answers.append(Retracted(id, "retracted"))
    return answers


def holds(rows: FeedRows) -> bool:
    """Whether a plain queue has something to hand out; refuses another type."""
    if rows.config.type != "plain":
        raise wrong_type(rows.feed, rows.config.type, "hand out items")
    return rows.counters.items > 0


def take(rows: FeedRows, limit: int) -> list[Item]:
    """Take the first items out of a plain queue."""
    if not holds(rows):
        return []
    taken = rows.first(limit, bytes_max=CHANGES_PAGE_BYTES)
    for row in taken:
        rows.drop(row)
    rows.counters.items -= len(taken)
    return [Item(row.id, row.item, row.at_ms) for row in taken]


def evict(log: FeedLog) -> int:
    """Take the oldest items beyond the bounds out of a feed, a bounded number; says how many."""
    rows, counters, config = log.rows, log.rows.counters, log.rows.config
    surplus = min(counters.items - config.items_max, EVICT_PER_CALL_MAX)
    evicted = rows.first(surplus) if surplus > 0 else []
    for row in evicted:
        rows.drop(row)
        log.note("retracted", row.id, reason="count")
    aged = 0
    over_ms = over_before_ms(rows, log.at_ms)
    while over_ms is not None and len(evicted) + aged < EVICT_PER_CALL_MAX:
        # Mostly there is one or none: who publishes finds what has come of age since the last time.
        page = rows.first(min(AGED_PAGE, EVICT_PER_CALL_MAX - len(evicted) - aged))
        over = [row for row in page if row.at_ms <= over_ms]
        for row in over:
            rows.drop(row)
            log.note("retracted", row.id, reason="age")
        aged += len(over)
        if len(over) < AGED_PAGE:
            break
    counters.items -= len(evicted) + aged
    return len(evicted) + aged


def over_before_ms(rows: FeedRows, at_ms: int) -> int | None:
    """Items that were published at this instant or before are over; None when they have no age."""
    return at_ms - rows.config.items_keep_ms if rows.config.items_keep_ms else None
