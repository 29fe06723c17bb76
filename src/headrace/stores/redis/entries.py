"""Entries of a shard's stream, read by the plain command: through a function they cost a server six times as much, and
thirty times as much where they are large."""

from collections.abc import Mapping
from typing import Any

import msgspec

from headrace.model.event import Entry
from headrace.model.names import Shard
from headrace.stores.redis.kept_lines import claimed_lines, enqueued_lines
from headrace.stores.redis.keys import journal_key
from headrace.stores.redis.link import Link

ENTRIES_FIRST = 16
"""Enough for those who follow a journal, and not too much where every entry has a thousand lines."""
GROWTH = 8
"""A command may ask for so many times the entries of the one before: of the next ones nobody knows the size."""
ENTRIES_AT_ONCE = 5_000
BYTES_AT_ONCE = 1024 * 1024
"""What one command asks for, as far as the sizes seen before tell: a server is done with it in three milliseconds."""


class EntryReader:
    """Reads a page: few entries first, then as many at once as their sizes allow."""

    def __init__(self, link: Link, shard: Shard, after: int, upto: int) -> None:
        self._link = link
        self._key = journal_key(shard)
        self._last_seq = after
        self._upto = upto
        self._entries: list[Entry] = []
        self._known: dict[tuple[bytes, bytes, bytes], tuple[int, int, str | None]] = {}

    async def read(self, limit: int, bytes_max: int) -> list[Entry]:
        """The entries that hold an event of the range, oldest first, until `limit` or `bytes_max` is passed."""
        asked, bytes_left = ENTRIES_FIRST, bytes_max
        while bytes_left > 0:
            # An entry has at least one event, so no more of them can be wanted than there are numbers left.
            asked = min(asked, limit - len(self._entries), self._upto - self._last_seq)
            if asked <= 0:
                break
            found = await self._link.command("XRANGE", self._key, self._last_seq + 1, "+", "COUNT", asked)
            taken = self._take(found, bytes_left)
            bytes_left -= taken
            if len(found) < asked or not taken:
                break
            mean = taken // len(found) + 1
            asked = min(asked * GROWTH, ENTRIES_AT_ONCE, min(BYTES_AT_ONCE, bytes_left) // mean + 1)
        return self._entries

    def _take(self, found: list[Any], bytes_max: int) -> int:
        """Keep entries up to the end of the range or of the page; says how many bytes."""
        entries, known, upto, bytes_left = self._entries, self._known, self._upto, bytes_max
        for id, fields in found:
            header = fields[1]
            epoch, number, at_ms, worker = header.split(b" ", 3)
            try:
                said = known[epoch, number, worker]
            except KeyError:
                said = known[epoch, number, worker] = int(epoch), int(number), worker.decode() or None
            last_seq = int(id[:-2])
            before = last_seq - said[1]
            # Retention may have dropped what comes next between two commands: the page ends before the hole.
            if before >= upto or bytes_left <= 0 or (entries and before != self._last_seq):
                break
            lines = fields[3] if fields[2] == b"l" else lines_of(dict(zip(fields[::2], fields[1::2], strict=True)))
            entries.append(
                Entry(epoch=said[0], last_seq=last_seq, count=said[1], at_ms=int(at_ms), worker=said[2], lines=lines)
            )
            self._last_seq = last_seq
            bytes_left -= len(lines)
        return bytes_max - bytes_left


def lines_of(fields: Mapping[bytes, bytes]) -> bytes:
    """The lines of an entry; of one that was damaged, what is there."""
    lines = fields.get(b"l", b"")
    for name, make in (b"e", enqueued_lines), (b"c", claimed_lines):
        if name in fields:
            try:
                return make(fields[b"n"], fields[name]) + lines
            except (msgspec.MsgspecError, ValueError, IndexError, KeyError):
                return fields[name] + b"\n" + lines
    return lines
