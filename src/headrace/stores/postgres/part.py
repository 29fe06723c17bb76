"""A part of a shard's rows: what all parts share."""

from headrace.stores.postgres.counters import PostgresShardCounters, Sequences
from headrace.stores.postgres.lazy_transaction import LazyTransaction


class PostgresRowGroup:
    """The transaction, the shard and its counters."""

    def __init__(self, link: LazyTransaction, shard_id: int, counters: PostgresShardCounters, draws: Sequences) -> None:
        self.link = link
        self.run = link.run
        self.shard_id = shard_id
        self.counters = counters
        self.draws = draws
        self.hint: list[str] = []
        """Ids that the step is about: whoever has to look up one of them looks up all."""
