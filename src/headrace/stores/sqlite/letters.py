"""The dead letters of a shard."""

from headrace.model.finished import Letter
from headrace.stores.packing import pack, unpack_letter
from headrace.stores.sqlite.part import Part
from headrace.stores.sqlite.sql import sql


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
