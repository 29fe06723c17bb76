"""Integrity: checks the rows of a shard against each other, and repairs damage."""

from typing import Protocol

from headrace.model.integrity import Findings, RepairResult
from headrace.model.names import Shard


class Integrity(Protocol):
    """For operators of a store: finds and repairs damage from lost writes, restores and changes by hand, which no call
    of Headrace causes. In stores whose indexes the database maintains, only counters and blocked jobs can be wrong."""

    async def check(
        self, shard: Shard, *, cursor: str | None = None, limit: int = 1_000, now_ms: int | None = None
    ) -> Findings:
        """Check about `limit` records and change nothing; continue with the cursor of the answer.

        On stores with database indexes the first call counts all rows. An unknown shard has no flaws.
        """

    async def repair(
        self, shard: Shard, *, cursor: str | None = None, limit: int = 1_000, now_ms: int | None = None
    ) -> RepairResult:
        """Repair the flaws that `check` finds in about `limit` records, in one atomic step; continue with the cursor of
        the answer.

        Lets jobs wait again that are in no index, drops index entries without a record, corrects counters, and empties
        the quarantine at the end. The journal gets the events that it lacks: `stalled` without a fence for a job that
        lost its delivery, `removed` for a job whose record is gone. Repairing again changes nothing.
        """
