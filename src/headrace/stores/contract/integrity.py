"""Integrity: whether what a shard holds fits together, and putting right what does not."""

from typing import Protocol

from headrace.model.integrity import Findings, RepairResult
from headrace.model.names import Shard


class Integrity(Protocol):
    """For a person or a program that looks after a store: damage that no call of ours leaves behind, as after a server
    lost something, a restore, or a change by hand. Where rows are the truth, little can be amiss: their counters."""

    async def check(
        self, shard: Shard, *, cursor: str | None = None, limit: int = 1_000, now_ms: int | None = None
    ) -> Findings:
        """Look without changing anything, at about `limit` records; go on with the cursor that the answer has.

        Where rows are the truth, the first part counts them all. An unknown shard has nothing amiss.
        """

    async def repair(
        self, shard: Shard, *, cursor: str | None = None, limit: int = 1_000, now_ms: int | None = None
    ) -> RepairResult:
        """Look at about `limit` records and put right what `check` would show of them, in one atomic step; go on with
        the cursor that the answer has.

        Lets jobs wait again that are in no index, drops what points at nothing, sets counters right, and empties the
        quarantine in the end. What the journal would otherwise not know gets its event: `stalled` without a fence for a
        job that lost its delivery, `removed` for one whose record is gone. Repairing again changes nothing.
        """
