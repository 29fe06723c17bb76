"""The endings of a shard: looked up for a whole batch, collected while the step lasts, swept oldest first."""

from headrace.model.finished import Ending
from headrace.stores.packing import ending_columns, ending_of
from headrace.stores.postgres.head import AllDraws, PostgresHead
from headrace.stores.postgres.link import Link
from headrace.stores.postgres.part import Part
from headrace.stores.transitions.part import part_of

Standing = tuple[str, bool]
"""What is counted of an ending: its state, and whether it is pinned."""


class EndingRows(Part):
    """Jobs that are done or cancelled, at most one ending per id."""

    def __init__(self, link: Link, shard_id: int, head: PostgresHead, draws: AllDraws) -> None:
        super().__init__(link, shard_id, head, draws)
        self._known_endings: dict[str, Standing | None] = {}
        self._stored_endings: set[str] = set()
        self._endings: dict[str, Ending | None] = {}

    def ending(self, id: str) -> Ending | None:
        if id in self._endings:
            return self._endings[id]
        if not self._may_be_kept():
            return None
        found = self.run("ending_find", self.shard_id, id).fetchone()
        return None if found is None else ending_of(found)

    def _are_kept(self) -> bool:
        return self.head.done + self.head.cancelled > 0

    def _may_be_kept(self) -> bool:
        # Who writes does not go by the counter: it was read before the job was locked, and may not know its end yet.
        return self.link.writes or self._are_kept()

    def _standing(self, id: str) -> Standing | None:
        if id not in self._known_endings:
            ids = [each for each in dict.fromkeys([id, *self.hint]) if each not in self._known_endings]
            self._known_endings |= dict.fromkeys(ids)
            if self._may_be_kept():
                for each, state, pinned in self.run("ending_lock", self.shard_id, ids).fetchall():
                    self._known_endings[each] = (state, pinned)
                    self._stored_endings.add(each)
        return self._known_endings[id]

    def put_ending(self, ending: Ending) -> None:
        self._count_out(ending.id)
        self._endings.pop(ending.id, None)  # the newest is the last
        self._endings[ending.id] = ending
        self._known_endings[ending.id] = (ending.state, ending.pinned)
        self.head.ended(ending.state, ending.pinned, 1)

    def drop_ending(self, id: str) -> None:
        if self._count_out(id):
            self._endings[id] = None
            self._known_endings[id] = None

    def _count_out(self, id: str) -> bool:
        old = self._standing(id)
        if old is not None:
            self.head.ended(*old, -1)
        return old is not None

    def flush_endings(self) -> None:
        """Write the endings that the step has changed so far; all in one go inside `together`."""
        gone = [id for id in self._endings if id in self._stored_endings]
        kept = [ending_columns(ending) for ending in self._endings.values() if ending is not None]
        self._stored_endings.difference_update(gone)
        self._stored_endings.update(id for id, ending in self._endings.items() if ending is not None)
        self._endings = {}
        if gone:
            self.run("ending_drop", self.shard_id, gone)
        if kept:
            self.run("ending_write", self.shard_id, *map(list, zip(*kept, strict=True)))

    def scan_endings(self, after_id: str, limit: int, bytes_max: int) -> tuple[list[Ending], bool]:
        with self.link.together():
            self.flush_endings()
            found = self.run("ending_scan", self.shard_id, after_id, limit, bytes_max)
        part, more = part_of(found.fetchall(), lambda columns: len(columns[-1] or b""), limit, bytes_max)
        return [ending_of(columns) for columns in part], more

    def sweep_endings(self, now_ms: int, keep_max: int, limit: int) -> int:
        if not self._are_kept():
            return 0
        over = min(max(self.head.unpinned - keep_max, 0), limit)
        with self.link.together():
            self.flush_endings()
            surplus = self.run("ending_sweep", self.shard_id, over) if over else None
            firsts = self.run("ending_firsts", self.shard_id)
        swept = 0 if surplus is None else self._swept(surplus.fetchall(), pinned=False)
        oldest_ms, pinned_ms = firsts.fetchall()[0]
        if swept < limit and oldest_ms is not None and oldest_ms <= now_ms:
            found = self.run("ending_sweep_old", self.shard_id, limit - swept, now_ms)
            swept += self._swept(found.fetchall(), pinned=False)
        if swept < limit and pinned_ms is not None and pinned_ms <= now_ms:
            found = self.run("ending_sweep_pinned", self.shard_id, now_ms, limit - swept)
            swept += self._swept(found.fetchall(), pinned=True)
        return swept

    def _swept(self, gone: list[tuple[str, str]], pinned: bool) -> int:
        for id, state in gone:
            self.head.ended(state, pinned, -1)
            self._known_endings[id] = None
            self._stored_endings.discard(id)
        return len(gone)
