"""The endings of a shard: collected while the step lasts, written at once, swept oldest first."""

import sqlite3
from itertools import groupby, takewhile
from typing import Any

from headrace.model.finished import Ending, Letter
from headrace.stores.engine.row_codec import ending_columns, ending_of, pack, unpack_letter
from headrace.stores.sqlite.packing import json_array
from headrace.stores.sqlite.part import PINNED, Part
from headrace.stores.sqlite.sql import sql

RUN_MIN = 4
"""From here on a run of endings is cheaper as one statement than as one statement each."""


class EndingRows(Part):
    """Jobs that are done or cancelled, at most one ending per id."""

    def __init__(self, connection: sqlite3.Connection, shard_id: int, stored: tuple[int, ...]) -> None:
        super().__init__(connection, shard_id, stored)
        self._endings: dict[str, Ending | None] = {}

    def ending(self, id: str) -> Ending | None:
        self.flush_endings()
        found = self.run(sql("ending_find"), (self.shard_id, id)).fetchone()
        return None if found is None else ending_of(found)

    def put_ending(self, ending: Ending) -> None:
        self._endings.pop(ending.id, None)
        self._endings[ending.id] = ending

    def drop_ending(self, id: str) -> None:
        self._endings[id] = None

    def drop_endings(self, ids: list[str]) -> None:
        """Drop the endings of these ids, if there are endings at all."""
        if self.head.done or self.head.cancelled:
            self._endings |= dict.fromkeys(ids)

    def flush_endings(self) -> None:
        """Write the endings that the step has changed so far."""
        if not self._endings:
            return
        head = self.head
        if head.done or head.cancelled:
            ids = json_array(list(self._endings))
            for state, pinned in self.run(sql("ending_drop"), (self.shard_id, ids)).fetchall():
                head.ended(state, pinned, -1)
        written = [ending_columns(ending) for ending in self._endings.values() if ending is not None]
        self._endings = {}
        if written:
            self.insert_endings(written)

    def insert_endings(self, endings: list[tuple[Any, ...]]) -> None:
        """Insert endings, as columns in the order of ending_find; an id that has one is a constraint error."""
        # One statement for a run of endings that differ in id and body only: 0.6 instead of 2.0 µs an ending, since
        # neither Python nor SQLite starts anew for each. Bodies of one length travel as one blob and are cut from it.
        head, few = self.head, []
        for (state, pinned, until_ms, result, width), group in groupby(endings, _shape):
            run = list(group)
            number = self.base + head.ending + 1 + PINNED * pinned
            if len(run) < RUN_MIN:
                few += [(number + index, self.shard_id, *columns) for index, columns in enumerate(run)]
            else:
                ids, bodies = json_array([each[0] for each in run]), b"".join([each[4] for each in run])
                shared = (number, self.shard_id, state, pinned, until_ms)
                self.run(sql("ending_write_run"), (*shared, bodies, width, width, result, ids))
            head.ending += len(run)
            head.ended(state, pinned, len(run))
        if few:
            self.connection.executemany(sql("ending_write"), few)

    def scan_endings(self, after_id: str, limit: int, bytes_max: int) -> tuple[list[Ending], bool]:
        self.flush_endings()
        found, more = self.part("ending_scan", after_id, limit, bytes_max)
        return [ending_of(columns) for columns in found], more

    def sweep_endings(self, now_ms: int, keep_max: int, limit: int) -> int:
        self.flush_endings()
        head, span = self.head, (self.base, self.base + PINNED - 1)
        swept = self._drop_oldest(min(max(head.unpinned - keep_max, 0), limit))
        if head.unpinned and swept < limit:
            oldest = self.run(sql("ending_oldest"), (*span, 1)).fetchone()
            if oldest[0] <= now_ms:
                ends = self.run(sql("ending_oldest"), (*span, limit - swept)).fetchall()
                swept += self._drop_oldest(len(list(takewhile(lambda end: end[0] <= now_ms, ends))))
        if head.done + head.cancelled > head.unpinned and swept < limit:
            gone = self.run(sql("ending_drop_pinned"), (self.shard_id, now_ms, limit - swept)).fetchall()
            for (state,) in gone:
                head.ended(state, True, -1)
            swept += len(gone)
        return swept

    def _drop_oldest(self, count: int) -> int:
        if not count:
            return 0
        span = {"lowest": self.base, "highest": self.base + PINNED - 1, "others": count - 1}
        gone = self.run(sql("ending_drop_oldest"), span).fetchall()
        for (state,) in gone:
            self.head.ended(state, False, -1)
        return len(gone)


def _shape(columns: tuple[Any, ...]) -> tuple[str, bool, int, bytes | None, int]:
    """What endings of one statement share; bodies have their length in common."""
    _, state, pinned, until_ms, body, result = columns
    return state, pinned, until_ms, result, len(body)


class LetterRows(Part):
    """Letters under numbers that only grow."""

    def letter(self, number: int) -> Letter | None:
        found = self.run(sql("letter_find"), (self.shard_id, number)).fetchone()
        return None if found is None else unpack_letter(found[0])

    def newest_letter(self, id: str) -> Letter | None:
        found = self.run(sql("letter_newest"), (self.shard_id, id)).fetchone()
        return None if found is None else unpack_letter(found[0])

    def letters_of(self, id: str) -> list[Letter]:
        if not self.head.dead:
            return []
        return [unpack_letter(body) for (body,) in self.run(sql("letter_of_id"), (self.shard_id, id))]

    def letters(self, after: int, limit: int) -> list[Letter]:
        return [unpack_letter(body) for (body,) in self.run(sql("letter_list"), (self.shard_id, after, limit))]

    def scan_letters(self, after: int, limit: int, bytes_max: int) -> tuple[list[Letter], bool]:
        found, more = self.part("letter_list", after, limit, bytes_max)
        return [unpack_letter(body) for (body,) in found], more

    def put_letter(self, letter: Letter) -> None:
        self.head.dead += 1
        columns = (self.shard_id, letter.key.number, letter.record.id, letter.until_ms, pack(letter))
        self.run(sql("letter_write"), columns)

    def drop_letter(self, number: int) -> None:
        self.head.dead -= self.run(sql("letter_drop"), (self.shard_id, number)).rowcount

    def letters_over(self, now_ms: int, keep_max: int, limit: int) -> list[Letter]:
        over: list[Letter] = []
        for letter in self.letters(0, min(limit, max(self.head.dead, 0))):
            if self.head.dead - len(over) <= keep_max and letter.until_ms > now_ms:
                break
            over.append(letter)
        return over
