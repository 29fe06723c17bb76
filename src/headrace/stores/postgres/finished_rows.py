"""The endings of a shard: looked up for a whole batch, collected while the step lasts, swept oldest first."""

from headrace.model.finished import Ending, Letter
from headrace.stores.engine.row_codec import ending_columns, ending_of, pack, unpack_letter
from headrace.stores.engine.rows import part_of
from headrace.stores.postgres.head import AllDraws, PostgresHead
from headrace.stores.postgres.lazy_transaction import Link
from headrace.stores.postgres.part import Part

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


FRONT = 64
"""Letters at the front that are looked at in one go: each death asks whether the oldest are over."""


class LetterRows(Part):
    """Letters under numbers that only grow."""

    def __init__(self, link: Link, shard_id: int, head: PostgresHead, draws: AllDraws) -> None:
        super().__init__(link, shard_id, head, draws)
        self._new_letters: dict[int, Letter] = {}
        self._gone_letters: list[int] = []
        self._of_id: dict[str, list[Letter]] = {}
        self._letter_front: list[tuple[int, int]] | None = None
        self._letter_front_is_all = False

    def letter(self, number: int) -> Letter | None:
        found = self._select("letter_find", self.shard_id, number)
        return found[0] if found else None

    def newest_letter(self, id: str) -> Letter | None:
        letters = self.letters_of(id)
        return letters[-1] if letters else None

    def letters_of(self, id: str) -> list[Letter]:
        # Who writes does not go by the counter: it was read before the job was locked, and may not know its death yet.
        if not self.link.writes and not self.head.dead:
            return []
        if id not in self._of_id:
            ids = [each for each in dict.fromkeys([id, *self.hint]) if each not in self._of_id]
            found = self._select("letter_of_ids", self.shard_id, ids)
            self._of_id |= {each: [] for each in ids}
            for letter in found:
                self._of_id[letter.record.id].append(letter)
        return list(self._of_id[id])

    def letters(self, after: int, limit: int) -> list[Letter]:
        return self._select("letter_list", self.shard_id, after, limit)

    def scan_letters(self, after: int, limit: int, bytes_max: int) -> tuple[list[Letter], bool]:
        with self.link.together():
            self.flush_letters()
            found = self.run("letter_scan", self.shard_id, after, limit, bytes_max)
        part, more = part_of(found.fetchall(), lambda columns: len(columns[0]), limit, bytes_max)
        return [unpack_letter(body) for (body,) in part], more

    def _select(self, name: str, *args: object) -> list[Letter]:
        # What is read in order to be written is locked, so that two who drop the same letter do not both count it.
        if self.link.writes:
            name += "_lock"
        with self.link.together():
            self.flush_letters()
            found = self.run(name, *args)
        return [unpack_letter(body) for (body,) in found.fetchall()]

    def put_letter(self, letter: Letter) -> None:
        self.head.dead += 1
        self._new_letters[letter.key.number] = letter
        if letter.record.id in self._of_id:
            self._of_id[letter.record.id].append(letter)
        if self._letter_front is not None and self._letter_front_is_all:
            self._letter_front.append((letter.key.number, letter.until_ms))

    def drop_letter(self, number: int) -> None:
        self.head.dead -= 1
        if self._new_letters.pop(number, None) is None:
            self._gone_letters.append(number)
        for id, letters in self._of_id.items():
            self._of_id[id] = [letter for letter in letters if letter.key.number != number]
        if self._letter_front is not None:
            self._letter_front = [each for each in self._letter_front if each[0] != number]

    def flush_letters(self) -> None:
        """Write the letters that the step has changed so far; all in one go inside `together`."""
        new, gone = list(self._new_letters.values()), self._gone_letters
        self._new_letters, self._gone_letters = {}, []
        if gone:
            self.run("letter_drop", self.shard_id, gone)
        if new:
            columns = [(letter.key.number, letter.record.id, letter.until_ms, pack(letter)) for letter in new]
            self.run("letter_write", self.shard_id, *map(list, zip(*columns, strict=True)))

    def letters_over(self, now_ms: int, keep_max: int, limit: int) -> list[Letter]:
        if not self.head.dead:
            return []
        over = 0
        for _, until_ms in self._oldest_letters(limit):
            if self.head.dead - over <= keep_max and until_ms > now_ms:
                break
            over += 1
        return self.letters(0, over) if over else []

    def _oldest_letters(self, limit: int) -> list[tuple[int, int]]:
        if self._letter_front is None or (len(self._letter_front) < limit and not self._letter_front_is_all):
            wanted = max(limit, FRONT)
            with self.link.together():
                self.flush_letters()
                found = self.run("letter_front", self.shard_id, wanted)
            self._letter_front = [(number, until_ms) for number, until_ms in found.fetchall()]
            self._letter_front_is_all = len(self._letter_front) < wanted
        return self._letter_front[:limit]
