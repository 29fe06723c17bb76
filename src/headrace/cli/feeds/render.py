"""Prints changes as they come: a line each, coloured in a terminal, or a JSON object each for programs."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from headrace.cli.feeds.items import item_text
from headrace.cli.feeds.position import place_text
from headrace.cli.output import one_line
from headrace.cli.parse import instants
from headrace.cli.render import carried
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
"""How an event looks; what is not named here looks as any other text."""
TOLD: Final[Mapping[str, str]] = {
    "live": "changes follow",
    "gap": "changes were missed: forget what came before; what is there now follows",
}
"""What is said of an event that has no item."""
SAID: Final = ("id", "reason", "worker")
"""Columns of a journal's line that have their own place on the screen."""
TIME_WIDTH: Final = 24
EVENT_WIDTH: Final = 10
ITEM_WIDTH_MIN: Final = 20
"""Of an item, so much is shown before room is given to who published it."""


class Screen:
    """Whoever reads along: a person at a terminal, a file, or a program."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._console = _terminal() if not json and sys.stdout.isatty() else None

    def show(self, change: "Change") -> None:
        """Print one change; `flush` hands over what was printed."""
        if self._json:
            sys.stdout.write(msgspec.json.encode(change_dict(change)).decode() + "\n")
        elif self._console is None:
            sys.stdout.write(plain_line(change) + "\n")
        else:
            self._coloured(self._console, change)

    def flush(self) -> None:
        """Let the reader have what was printed."""
        sys.stdout.flush()

    def _coloured(self, console: "Console", change: "Change") -> None:
        from rich.text import Text

        text = "dim" if change.event in ("present", "live") else ""
        line = Text.assemble((f"{_time(change)[11:]}  ", "dim"), (change.event, STYLES.get(change.event, "")))
        line.pad_right(max(EVENT_WIDTH - len(change.event), 0))
        if subject := _subject(change):
            line.append(f"  {subject}", text)
        told, who = Text(f"  {_told(change)}".rstrip(), text), Text(f"  {_who(change)}".rstrip(), "dim")
        room = console.width - line.cell_len - who.cell_len
        if room < min(told.cell_len, ITEM_WIDTH_MIN):  # the item matters more than who published it
            room, who = room + who.cell_len, Text()
        told.truncate(max(room, 0), overflow="ellipsis")
        console.print(line + told + who, no_wrap=True, overflow="ellipsis", crop=True)


def _terminal() -> "Console":
    from rich.console import Console

    return Console(highlight=False)


def plain_line(change: "Change") -> str:
    """A change in one line, whole."""
    parts = (_time(change), f"{change.event:{EVENT_WIDTH}}", _subject(change), _told(change), _who(change))
    return "  ".join(part for part in parts if part).rstrip()


def change_dict(change: "Change") -> dict[str, object]:
    """A change for programs."""
    place = change.position
    return {
        "feed": change.feed,
        "event": change.event,
        "id": change.id or None,
        "item": _item(change),
        "place": None if place is None else {"where": place.where, "id": place.id},
        "reason": change.reason,
        "instance": change.instance,
        **instants(at_ms=change.at_ms or None),
        "seq": change.seq,
        "cursor": change.cursor,
    }


def _time(change: "Change") -> str:
    """When it happened; blanks for what is not of the log."""
    return instant_text(change.at_ms) if change.at_ms else " " * TIME_WIDTH


def _subject(change: "Change") -> str:
    """What it is about, and where that went or why."""
    subject = one_line(change.id or "")
    if change.position is not None:
        subject += f" → {place_text(change.position)}"
    return f"{subject} ({change.reason})" if change.reason else subject


def _told(change: "Change") -> str:
    if change.event in TOLD:
        return TOLD[change.event]
    if change.raw is not None:
        return redact(item_text(change.raw))
    item = _item(change)
    if not isinstance(item, dict):
        return ""
    rest = {name: value for name, value in item.items() if name not in SAID}
    return item_text(msgspec.json.encode(rest)) if rest else ""


def _item(change: "Change") -> object:
    """An item for programs; what a handler raised may hold a secret."""
    if change.raw is not None:
        return carried(change.raw)
    item = change.item
    if isinstance(item, dict) and "error_message" in item:
        return {**item, "error_message": redact(item["error_message"])}
    return item


def _who(change: "Change") -> str:
    return one_line(change.instance or "")
