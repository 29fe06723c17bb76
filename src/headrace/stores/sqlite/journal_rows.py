"""The journal of a shard and its readers."""

from headrace.model.event import Consumer, Entry
from headrace.stores.engine.row_codec import consumer_of
from headrace.stores.engine.rows import OldestEntry
from headrace.stores.sqlite.counters import COUNTS
from headrace.stores.sqlite.part import KEY_BITS, SqliteRowGroup
from headrace.stores.sqlite.sql import sql

SEQ_MAX = (1 << KEY_BITS) - 1


class SqliteJournalRows(SqliteRowGroup):
    """Entries under the seq of their last event."""

    def put_entry(self, entry: Entry) -> None:
        columns = (self.base + entry.last_seq, entry.count, entry.epoch, entry.at_ms, entry.worker, entry.lines)
        self.run(sql("journal_write"), columns)

    def oldest_entry(self) -> OldestEntry | None:
        found = self.run(sql("journal_oldest"), (self.base, self.base + SEQ_MAX)).fetchone()
        return None if found is None else OldestEntry(found[0] - self.base, found[1], found[2])

    def drop_oldest_entry(self) -> None:
        oldest = self.oldest_entry()
        if oldest is not None:
            self.run(sql("journal_drop"), (self.base + oldest.last_seq,))

    def entries(self, after: int, upto: int, limit: int, bytes_max: int) -> list[Entry]:
        found: list[Entry] = []
        base = self.base
        keys = (base + min(after, SEQ_MAX) + 1, base + SEQ_MAX)
        for key, count, epoch, at_ms, worker, lines in self.run(sql("journal_read"), (*keys, limit)):
            last_seq = key - base
            if last_seq - count >= upto or bytes_max <= 0:
                break
            found.append(Entry(epoch=epoch, last_seq=last_seq, count=count, at_ms=at_ms, worker=worker, lines=lines))
            bytes_max -= len(lines)
        return found

    def reached(self, after: int, upto: int, at_ms: int) -> int:
        low, high = max(after, self.counters.first_seq - 1), min(upto, self.counters.seq)
        while low < high:
            middle = (low + high + 1) // 2
            keys = (self.base + middle, self.base + SEQ_MAX)
            key, count, written_at_ms = self.run(sql("journal_at"), keys).fetchone()
            if written_at_ms <= at_ms:
                low = key - self.base
            else:
                high = min(key - self.base - count, middle - 1)  # also where an entry is missing
        return max(after, min(low, upto))

    def consumer(self, name: str) -> Consumer | None:
        found = self.run(sql("consumer_find"), (self.shard_id, name)).fetchone()
        return None if found is None else consumer_of(found)

    def consumers(self) -> list[Consumer]:
        return [consumer_of(found) for found in self.run(sql("consumer_list"), (self.shard_id,))]

    def put_consumer(self, consumer: Consumer) -> None:
        columns = (self.shard_id, consumer.name, consumer.seq, consumer.hold, consumer.seen_at_ms)
        self.run(sql("consumer_write"), columns)

    def drop_consumer(self, name: str) -> None:
        self.run(sql("consumer_drop"), (self.shard_id, name))


class SqliteIntegrityRows(SqliteRowGroup):
    """The rows are the truth; what is counted beside them spares looking."""

    def leases_over(self, now_ms: int, limit: int) -> int:
        return len(self.run(sql("job_leases_over"), (self.shard_id, now_ms, limit)).fetchall())

    def stranded(self, after_id: str, limit: int) -> list[str]:
        return [id for (id,) in self.run(sql("blocked_job_stranded"), (self.shard_id, after_id, limit))]

    def kept(self) -> dict[str, int]:
        return self.counters.kept()

    def counted(self) -> dict[str, int]:
        found = self.run(sql("shard_count"), {"shard_id": self.shard_id}).fetchone()
        return dict(zip(COUNTS, found, strict=True))

    def recount(self, counted: dict[str, int]) -> None:
        for name, number in counted.items():
            setattr(self.counters, name, number)
