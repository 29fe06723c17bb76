"""The fast paths of settle: for deliveries that are all done, hold their leases and have no blocked jobs."""

from collections.abc import Sequence

from headrace.model.claim import Settlement, token_of
from headrace.model.event import EventRecord, encode_lines
from headrace.model.limits import SWEEP_PER_CALL_MAX
from headrace.model.names import Shard
from headrace.model.outcome import Done
from headrace.model.results import Settled
from headrace.stores.engine.row_codec import Body, pack_finished_job, unpack_body
from headrace.stores.postgres.arrays import blobs, numbers, texts
from headrace.stores.postgres.connection import Connection
from headrace.stores.postgres.fast_enqueue import CachedQueue, NotFastPath, NotPlain, QueueCache
from headrace.stores.postgres.sql import Cursor, LazyTransaction, sql
from headrace.stores.postgres.waiters import EndedJobs
from headrace.stores.shared.sharding import by_shard


def done_line(settlement: Settlement, entry_worker: str, attempts: int, stalls: int, fence: int) -> EventRecord:
    """The journal line of a done delivery."""
    facts = settlement.facts
    return EventRecord(
        "done",
        settlement.lease.id,
        facts.kind,
        facts.tag,
        facts.priority,
        attempts,
        stalls,
        fence,
        None if facts.worker == entry_worker else facts.worker,
        None,
        facts.enqueued_at_ms,
        facts.wait_ms,
        facts.run_ms,
        payload_bytes=facts.payload_bytes,
    )


class SettleTry:
    """One attempt, in two round trips: drop the jobs and check them, then write finished jobs and lines."""

    is_complete = False
    """Whether `send` does all, and nothing is left to write."""

    def __init__(
        self, connection: Connection, queues: QueueCache, settlements: Sequence[Settlement], now_ms: int | None
    ) -> None:
        if not all(isinstance(each.outcome, Done) for each in settlements):
            raise NotFastPath
        self.now_ms = now_ms
        self._settlements = settlements
        self._shards = [
            ShardSettle(queues.get(connection, shard.queue), shard, [settlements[index] for index in picks])
            for shard, picks in by_shard(settlements, lambda each: (each.lease.queue, each.lease.id))
        ]

    def send(self, transaction: LazyTransaction) -> None:
        """Drop the jobs."""
        for each in self._shards:
            each.send(transaction, self.now_ms)

    def read(self) -> None:
        """Check that all of them may be settled; gives up when one may not."""
        for each in self._shards:
            self.now_ms = each.read(self.now_ms)

    def write(self, transaction: LazyTransaction) -> None:
        """Write finished jobs and lines."""
        for each in self._shards:
            each.write(transaction)

    def answers(self) -> list[Settled]:
        """The answers in the order of the settlements."""
        return [Settled(each.lease.id, "done") for each in self._settlements]

    def inbox_sizes(self) -> dict[Shard, int]:
        """The number of calls in each shard's inbox."""
        return {each.shard: each.inbox_size() for each in self._shards}

    def ended_jobs(self) -> list[EndedJobs]:
        """The jobs that have ended on each shard."""
        return [EndedJobs(each.shard.queue, each.ids, each.is_awaited) for each in self._shards]


class PlainTry:
    """One attempt, in one statement per shard, for jobs that need not be read: the server makes their finished jobs of
    its own rows, sends none of them, and refuses a job that is not plain."""

    is_complete = True

    def __init__(
        self, connection: Connection, queues: QueueCache, settlements: Sequence[Settlement], now_ms: int | None
    ) -> None:
        self.now_ms = now_ms
        self._settlements = settlements
        self._shards = [
            PlainShard(queues.get(connection, shard.queue), shard, [settlements[index] for index in picks], now_ms)
            for shard, picks in by_shard(settlements, lambda each: (each.lease.queue, each.lease.id))
        ]

    def send(self, transaction: LazyTransaction) -> None:
        """Drop the jobs, write finished jobs and lines."""
        for each in self._shards:
            each.written = transaction.run("settle_plain", *each.arguments)

    def settle(self, connection: Connection) -> None:
        """Do the same in a separate transaction, in one round trip."""
        if len(self._shards) == 1:
            each = self._shards[0]
            each.written = connection.execute(sql("settle_plain"), each.arguments, binary=True)
        else:
            with connection.pipeline():  # one transaction, since there is no other statement among them
                for each in self._shards:
                    each.written = connection.execute(sql("settle_plain"), each.arguments, binary=True)
        self.read()

    def read(self) -> None:
        """Take over the answers of the server."""
        for each in self._shards:
            assert each.written is not None  # sent before
            [(self.now_ms, each.is_awaited, each.unnumbered)] = each.written.fetchall()

    def write(self, transaction: LazyTransaction) -> None:
        """Nothing is left to write."""

    def answers(self) -> list[Settled]:
        """The answers in the order of the settlements."""
        return [Settled(each.lease.id, "done") for each in self._settlements]

    def inbox_sizes(self) -> dict[Shard, int]:
        """The number of calls in each shard's inbox."""
        return {each.shard: each.unnumbered for each in self._shards}

    def ended_jobs(self) -> list[EndedJobs]:
        """The jobs that have ended on each shard."""
        return [EndedJobs(each.shard.queue, each.ids, each.is_awaited) for each in self._shards]


class PlainShard:
    """The settlements of one shard, by id: in this order jobs are locked everywhere."""

    def __init__(self, known: CachedQueue, shard: Shard, settlements: list[Settlement], now_ms: int | None) -> None:
        config = known.config
        if config.result_ttl_ms or not (config.keep_done_max and config.keep_done_ms):
            raise NotPlain
        self.shard = shard
        self.ids = [each.lease.id for each in settlements]
        self.is_awaited = False
        self.unnumbered = 0
        self.written: Cursor | None = None
        worker = settlements[0].facts.worker
        lines = []
        for each in settlements:
            # The server compares tokens: a valid token has its fence after the dot.
            fence, facts = each.lease.token.rpartition(".")[2], each.facts
            if not fence.isdecimal():
                raise NotFastPath
            lines.append(done_line(each, worker, facts.attempts, facts.stalls, int(fence)))
        order = sorted(range(len(settlements)), key=self.ids.__getitem__)
        settlements = [settlements[index] for index in order]
        results = [each.outcome.result for each in settlements if isinstance(each.outcome, Done)]
        if len(results) != len(settlements):
            raise NotFastPath
        self.arguments = (
            known.queue_id,
            known.text,
            known.shard_ids[shard.index],
            now_ms,
            config.keep_done_ms,
            config.keep_done_max,
            SWEEP_PER_CALL_MAX,
            worker,
            encode_lines(lines),
            numbers(order),
            texts([each.lease.id for each in settlements]),
            texts([each.lease.token for each in settlements]),
            blobs(results),
        )


class ShardSettle:
    """The settlements of one shard."""

    def __init__(self, known: CachedQueue, shard: Shard, settlements: list[Settlement]) -> None:
        self.shard = shard
        self._known = known
        self._shard_id = known.shard_ids[shard.index]
        self._settlements = settlements
        self.ids = [each.lease.id for each in settlements]
        self.is_awaited = False
        self._worker = settlements[0].facts.worker
        self._lines: list[EventRecord] = []
        self._unkept: list[str] = []
        self._finished_jobs: list[tuple[str, int, int, bytes, bytes | None]] = []
        self._now_ms = 0
        self._dropped: Cursor | None = None
        self._written: Cursor | None = None

    def send(self, transaction: LazyTransaction, now_ms: int | None) -> None:
        """Drop the jobs."""
        known = self._known
        self._dropped = transaction.run(
            "settle_drop", now_ms, known.text, known.queue_id, self._shard_id, texts(self.ids)
        )

    def read(self, now_ms: int | None) -> int:
        """Check that all of them may be settled, and prepare `write`; returns the instant."""
        assert self._dropped is not None  # sent before
        found = self._dropped.fetchall()
        if len(found) != len(self.ids):
            raise NotFastPath
        self._now_ms = found[0][0] if now_ms is None else now_ms
        found_by_id = {columns[2]: columns for columns in found}
        for settlement in self._settlements:
            _, is_awaited, id, fence, nonce, expires_at_ms, has_blocked_job, body = found_by_id[settlement.lease.id]
            if is_awaited is None or fence is None or has_blocked_job or expires_at_ms <= self._now_ms:
                raise NotFastPath
            self.is_awaited = is_awaited
            if token_of(nonce, fence) != settlement.lease.token:
                raise NotFastPath
            self._end(id, fence, unpack_body(body), settlement)
        return self._now_ms

    def _end(self, id: str, fence: int, body: Body, settlement: Settlement) -> None:
        config = self._known.config
        self._lines.append(done_line(settlement, self._worker, body.attempts, body.stalls, fence))
        pin_ms = config.result_ttl_of(body.policy)
        keep_ms = pin_ms or (config.keep_done_ms if config.keep_done_max else 0)
        if not keep_ms:
            self._unkept.append(id)
            return
        assert isinstance(settlement.outcome, Done)  # checked before
        finished_job = pack_finished_job(
            body.kind, body.tag, body.enqueued_at_ms, self._now_ms, body.attempts, body.stalls
        )
        self._finished_jobs.append(
            (id, self._now_ms + keep_ms, int(pin_ms > 0), finished_job, settlement.outcome.result)
        )

    def write(self, transaction: LazyTransaction) -> None:
        """Write finished jobs and lines."""
        finished_jobs = self._finished_jobs
        self._written = transaction.run(
            "settle_done",
            self._shard_id,
            self._now_ms,
            self._known.config.keep_done_max,
            SWEEP_PER_CALL_MAX,
            self._worker,
            len(self.ids),
            encode_lines(self._lines),
            texts(self._unkept),
            texts([each[0] for each in finished_jobs]),
            numbers([each[1] for each in finished_jobs]),
            numbers([each[2] for each in finished_jobs]),
            blobs([each[3] for each in finished_jobs]),
            blobs([each[4] for each in finished_jobs]),
        )

    def inbox_size(self) -> int:
        """The number of calls in the shard's inbox."""
        assert self._written is not None  # written before
        return int(self._written.fetchall()[0][0])
