"""Prints changes of a feed: a line each, coloured in a terminal, or a JSON object each for programs."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from headrace.cli.feeds.items import item_text
from headrace.cli.feeds.options import position_text
from headrace.cli.output import one_line
from headrace.inspect.jobs import instant_or_none
from headrace.inspect.views import encoded_view
from headrace.model.redact import redact
from headrace.model.times import instant_text

if TYPE_CHECKING:
    from rich.console import Console

    from headrace.feeds.change import Change

STYLES: Final[Mapping[str, str]] = {
    "present": "dim",
    "live": "dim",
    "gap": "bold black on yellow",
    **dict.fromkeys(("published", "enqueued", "done"), "green"),
    **dict.fromkeys(("edited", "updated", "retried", "stalled"), "yellow"),
    **dict.fromkeys(("retracted", "cancelled", "removed", "purged"), "red"),
    **dict.fromkeys(("deleted", "dead"), "bold red"),
    **dict.fromkeys(("moved", "claimed"), "cyan"),
    **dict.fromkeys(("created", "configured"), "magenta"),
}
"""The styles of events; other events are plain text."""
NOTES: Final[Mapping[str, str]] = {
    "live": "changes follow",
    "gap": "changes were missed: discard earlier items; the current ones follow",
}
"""Notes on events without an item."""
SHOWN_ELSEWHERE: Final = ("id", "reason", "worker")
"""Columns of a journal's line that are printed elsewhere in the line."""
TIME_WIDTH: Final = 24
EVENT_WIDTH: Final = 10
ITEM_WIDTH_MIN: Final = 20
"""Columns of an item to show before its publisher gets room."""


class ChangePrinter:
    """Prints changes to a terminal, to a file or to a program."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._console = _terminal() if not json and sys.stdout.isatty() else None

    def show(self, change: "Change") -> None:
        """Print one change; `flush` makes it visible."""
        if self._json:
            sys.stdout.write(msgspec.json.encode(change_dict(change)).decode() + "\n")
        elif self._console is None:
            sys.stdout.write(plain_line(change) + "\n")
        else:
            self._coloured(self._console, change)

    def flush(self) -> None:
        """Make printed changes visible to the reader."""
        sys.stdout.flush()

    def _coloured(self, console: "Console", change: "Change") -> None:
        from rich.text import Text

        text = "dim" if change.event in ("present", "live") else ""
        line = Text.assemble((f"{_time(change)[11:]}  ", "dim"), (change.event, STYLES.get(change.event, "")))
        line.pad_right(max(EVENT_WIDTH - len(change.event), 0))
        if subject := _subject(change):
            line.append(f"  {subject}", text)
        item, publisher = (
            Text(f"  {_item_text(change)}".rstrip(), text),
            Text(f"  {_publisher(change)}".rstrip(), "dim"),
        )
        room = console.width - line.cell_len - publisher.cell_len
        if room < min(item.cell_len, ITEM_WIDTH_MIN):  # the item comes first
            room, publisher = room + publisher.cell_len, Text()
        item.truncate(max(room, 0), overflow="ellipsis")
        console.print(line + item + publisher, no_wrap=True, overflow="ellipsis", crop=True)


def _terminal() -> "Console":
    from rich.console import Console

    return Console(highlight=False)


def plain_line(change: "Change") -> str:
    """A change in one line, uncut."""
    parts = (_time(change), f"{change.event:{EVENT_WIDTH}}", _subject(change), _item_text(change), _publisher(change))
    return "  ".join(part for part in parts if part).rstrip()


def change_dict(change: "Change") -> dict[str, object]:
    """A change for programs."""
    position, at_ms = change.position, change.at_ms or None
    return {
        "feed": change.feed,
        "event": change.event,
        "id": change.id or None,
        "item": _item(change),
        "place": None if position is None else {"where": position.where, "id": position.id},
        "reason": change.reason,
        "instance": change.instance,
        "at": instant_or_none(at_ms),
        "at_ms": at_ms,
        "seq": change.seq,
        "cursor": change.cursor,
    }


def _time(change: "Change") -> str:
    """The time of a change; blanks for an event that is not in the log."""
    return instant_text(change.at_ms) if change.at_ms else " " * TIME_WIDTH


def _subject(change: "Change") -> str:
    """The id of the item, with its new position or the reason."""
    subject = one_line(change.id or "")
    if change.position is not None:
        subject += f" → {position_text(change.position)}"
    return f"{subject} ({change.reason})" if change.reason else subject


def _item_text(change: "Change") -> str:
    if change.event in NOTES:
        return NOTES[change.event]
    if change.raw is not None:
        return redact(item_text(change.raw))
    item = _item(change)
    if not isinstance(item, dict):
        return ""
    rest = {name: value for name, value in item.items() if name not in SHOWN_ELSEWHERE}
    return item_text(msgspec.json.encode(rest)) if rest else ""


def _item(change: "Change") -> object:
    """An item for programs; the error of a handler may hold a secret."""
    if change.raw is not None:
        return encoded_view(change.raw)
    item = change.item
    if isinstance(item, dict) and "error_message" in item:
        return {**item, "error_message": redact(item["error_message"])}
    return item


def _publisher(change: "Change") -> str:
    return one_line(change.instance or "")
