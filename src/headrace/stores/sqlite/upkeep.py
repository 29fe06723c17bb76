"""Counts the rows of a shard anew, for those who look after a file."""

from headrace.stores.sqlite.head import COUNTS
from headrace.stores.sqlite.part import Part
from headrace.stores.sqlite.sql import sql


class UpkeepRows(Part):
    """The rows are the truth; what is counted beside them spares looking."""

    def leases_over(self, now_ms: int, limit: int) -> int:
        return len(self.run(sql("job_leases_over"), (self.shard_id, now_ms, limit)).fetchall())

    def stranded(self, after_id: str, limit: int) -> list[str]:
        return [id for (id,) in self.run(sql("twin_stranded"), (self.shard_id, after_id, limit))]

    def kept(self) -> dict[str, int]:
        return self.head.kept()

    def counted(self) -> dict[str, int]:
        found = self.run(sql("shard_count"), {"shard_id": self.shard_id}).fetchone()
        return dict(zip(COUNTS, found, strict=True))

    def recount(self, counted: dict[str, int]) -> None:
        for name, number in counted.items():
            setattr(self.head, name, number)
