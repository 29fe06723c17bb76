"""Counts the rows of a shard anew, for those who look after a database."""

from headrace.stores.postgres.counters import COUNTS
from headrace.stores.postgres.jobs_part import PostgresJobRows
from headrace.stores.postgres.journal_rows import PostgresJournalRows


class PostgresIntegrityRows(PostgresJobRows, PostgresJournalRows):
    """The rows are the truth; the counts in the shard's row spare looking."""

    def leases_over(self, now_ms: int, limit: int) -> int:
        return int(self.ask("job_leases_over", self.shard_id, now_ms, limit).fetchall()[0][0])

    def stranded(self, after_id: str, limit: int) -> list[str]:
        return [id for (id,) in self.ask("job_stranded", self.shard_id, after_id, limit).fetchall()]

    def kept(self) -> dict[str, int]:
        return {name: getattr(self.counters, name) for name in COUNTS}

    def counted(self) -> dict[str, int]:
        # One statement, so one state of the table: whoever changes rows meanwhile has them and their counts in the
        # inbox together, or neither.
        found = self.ask("shard_count", *[self.shard_id] * 9).fetchall()[0]
        return dict(zip(COUNTS, found, strict=True))

    def recount(self, counted: dict[str, int]) -> None:
        assert self.folded is not None  # the shard's row is locked since it was numbered
        kept = dict(zip(COUNTS, self.folded, strict=True)) | counted
        self.folded = tuple(kept[name] for name in COUNTS)
        self.counters.set_counts(self.folded)
