"""The dead letters of a shard: looked up for a whole batch, collected while the step lasts."""

from headrace.model.finished import Letter
from headrace.stores.packing import pack, unpack_letter
from headrace.stores.postgres.head import AllDraws, PostgresHead
from headrace.stores.postgres.link import Link
from headrace.stores.postgres.part import Part
from headrace.stores.transitions.part import part_of

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
