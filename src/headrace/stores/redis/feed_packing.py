"""How functions pack items and changes of feeds, read in Python; `lua/parts/{items,feed}.lua` say the same in Lua."""

from collections.abc import Sequence
from struct import Struct
from typing import Any, Literal

from headrace.model.feed import Changed, ChangeEvent, FeedCursor, Item, Place, Where
from headrace.stores.transitions.feed_rows import ItemRow

WHERE: dict[Where, str] = {"first": "f", "last": "l", "before": "b", "after": "a"}
_PLACES = {ord(sign): where for where, sign in WHERE.items()}
_EVENTS: dict[int, ChangeEvent] = {
    ord("c"): "created",
    ord("g"): "configured",
    ord("d"): "deleted",
    ord("p"): "published",
    ord("e"): "edited",
    ord("r"): "retracted",
    ord("m"): "moved",
}
_REASONS: dict[int, Literal["count", "age"]] = {ord("c"): "count", ord("o"): "age"}
_HEAD = Struct(">BBHIHI6xH")
"""Event and mark, epoch and instant in two parts each, six bytes that only the functions read, size of the instance."""


def row_of(id: bytes, packed: bytes) -> ItemRow:
    """An item with its rank."""
    end = 8 + int.from_bytes(packed[6:8])
    return ItemRow(id.decode(), packed[end:], packed[8:end].decode(), int.from_bytes(packed[:6]))


def item_of(id: str, packed: bytes) -> Item:
    """An item."""
    return Item(id, packed[8 + int.from_bytes(packed[6:8]) :], int.from_bytes(packed[:6]))


def items_of(flat: Sequence[bytes]) -> list[Item]:
    """Items whose ids and values come in turn."""
    return [item_of(id.decode(), packed) for id, packed in zip(flat[::2], flat[1::2], strict=True)]


def cursor_of(birth: bytes, epoch: bytes, seq: bytes) -> FeedCursor:
    """A place in a log."""
    return FeedCursor(birth.decode(), int(epoch), int(seq))


def change_of(entry: Sequence[Any]) -> Changed:
    """An entry of a log."""
    name, (_, head, _, id, _, item) = entry
    event, mark, epoch_high, epoch_low, at_high, at_low, instance_size = _HEAD.unpack_from(head)
    end = _HEAD.size + instance_size
    return Changed(
        seq=int(name.partition(b"-")[0]),
        epoch=(epoch_high << 32) + epoch_low,
        at_ms=(at_high << 32) + at_low,
        event=_EVENTS[event],
        instance=head[_HEAD.size : end].decode(),
        id=id.decode(),
        item=item,
        place=_place_of(event, mark, head[end:]),
        reason=_REASONS.get(mark) if event == ord("r") else None,
    )


def _place_of(event: int, mark: int, neighbour: bytes) -> Place | None:
    if event not in b"pm" or mark not in _PLACES:
        return None
    return Place(_PLACES[mark], neighbour.decode() or None)
