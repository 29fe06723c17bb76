"""The fast way to settle: deliveries that are all done, all hold their leases and have no twins."""

from collections.abc import Sequence

from headrace.model.answers import Settled
from headrace.model.claim import Settlement, token_of
from headrace.model.event import Line, encode_lines
from headrace.model.limits import SWEEP_PER_CALL_MAX
from headrace.model.names import Shard
from headrace.model.outcome import Done
from headrace.stores.calls.jobs import by_shard
from headrace.stores.packing import Body, pack_ending, unpack_body
from headrace.stores.postgres.arrays import blobs, numbers, texts
from headrace.stores.postgres.connect import Connection
from headrace.stores.postgres.ended import Ended
from headrace.stores.postgres.known import KnownQueue, KnownQueues, Unusual
from headrace.stores.postgres.link import Cursor, Link


class SettleTry:
    """One attempt, in two round trips: drop the jobs and look at what they were, then write what follows."""

    def __init__(
        self, connection: Connection, queues: KnownQueues, settlements: Sequence[Settlement], now_ms: int | None
    ) -> None:
        if not all(isinstance(each.outcome, Done) for each in settlements):
            raise Unusual
        self.now_ms = now_ms
        self._settlements = settlements
        self._parts = [
            ShardPart(queues.get(connection, shard.queue), shard, [settlements[index] for index in picks])
            for shard, picks in by_shard(settlements, lambda each: (each.lease.queue, each.lease.id))
        ]

    def send(self, link: Link) -> None:
        """Drop the jobs."""
        for part in self._parts:
            part.send(link, self.now_ms)

    def read(self) -> None:
        """See that every one of them may be settled; raises when one may not."""
        for part in self._parts:
            self.now_ms = part.read(self.now_ms)

    def write(self, link: Link) -> None:
        """Write endings and lines."""
        for part in self._parts:
            part.write(link)

    def answers(self) -> list[Settled]:
        """One for each settlement, in the order given."""
        return [Settled(each.lease.id, "done") for each in self._settlements]

    def gathered(self) -> dict[Shard, int]:
        """How many calls are in each shard's inbox."""
        return {part.shard: part.gathered() for part in self._parts}

    def ended(self) -> list[Ended]:
        """What has ended on each shard."""
        return [Ended(part.shard.queue, part.ids, part.is_awaited) for part in self._parts]


class ShardPart:
    """The settlements of one shard."""

    def __init__(self, known: KnownQueue, shard: Shard, settlements: list[Settlement]) -> None:
        self.shard = shard
        self._known = known
        self._shard_id = known.shard_ids[shard.index]
        self._settlements = settlements
        self.ids = [each.lease.id for each in settlements]
        self.is_awaited = False
        self._worker = settlements[0].facts.worker
        self._lines: list[Line] = []
        self._unkept: list[str] = []
        self._endings: list[tuple[str, int, int, bytes, bytes | None]] = []
        self._now_ms = 0
        self._dropped: Cursor | None = None
        self._written: Cursor | None = None

    def send(self, link: Link, now_ms: int | None) -> None:
        """Drop the jobs."""
        known = self._known
        self._dropped = link.run("settle_drop", now_ms, known.text, known.queue_id, self._shard_id, texts(self.ids))

    def read(self, now_ms: int | None) -> int:
        """See that all of them may be settled, and prepare what follows; returns the instant."""
        assert self._dropped is not None  # sent before
        found = self._dropped.fetchall()
        if len(found) != len(self.ids):
            raise Unusual
        self._now_ms = found[0][0] if now_ms is None else now_ms
        held = {columns[2]: columns for columns in found}
        for settlement in self._settlements:
            _, is_awaited, id, fence, nonce, expires_at_ms, has_twin, body = held[settlement.lease.id]
            if is_awaited is None or fence is None or has_twin or expires_at_ms <= self._now_ms:
                raise Unusual
            self.is_awaited = is_awaited
            if token_of(nonce, fence) != settlement.lease.token:
                raise Unusual
            self._end(id, fence, unpack_body(body), settlement)
        return self._now_ms

    def _end(self, id: str, fence: int, body: Body, settlement: Settlement) -> None:
        facts, config = settlement.facts, self._known.config
        self._lines.append(
            Line(
                "done",
                id,
                facts.kind,
                facts.tag,
                facts.priority,
                body.attempts,
                body.stalls,
                fence,
                None if facts.worker == self._worker else facts.worker,
                None,
                facts.enqueued_at_ms,
                facts.wait_ms,
                facts.run_ms,
                payload_bytes=facts.payload_bytes,
            )
        )
        pin_ms = config.result_ttl_of(body.policy)
        keep_ms = pin_ms or (config.keep_done_ms if config.keep_done_max else 0)
        if not keep_ms:
            self._unkept.append(id)
            return
        assert isinstance(settlement.outcome, Done)  # seen before
        ended = pack_ending(body.kind, body.tag, body.enqueued_at_ms, self._now_ms, body.attempts, body.stalls)
        self._endings.append((id, self._now_ms + keep_ms, int(pin_ms > 0), ended, settlement.outcome.result))

    def write(self, link: Link) -> None:
        """Write endings and lines."""
        endings = self._endings
        self._written = link.run(
            "settle_done",
            self._shard_id,
            self._now_ms,
            self._known.config.keep_done_max,
            SWEEP_PER_CALL_MAX,
            self._worker,
            len(self.ids),
            encode_lines(self._lines),
            texts(self._unkept),
            texts([each[0] for each in endings]),
            numbers([each[1] for each in endings]),
            numbers([each[2] for each in endings]),
            blobs([each[3] for each in endings]),
            blobs([each[4] for each in endings]),
        )

    def gathered(self) -> int:
        """How many calls are in the shard's inbox."""
        assert self._written is not None  # written before
        return int(self._written.fetchall()[0][0])
