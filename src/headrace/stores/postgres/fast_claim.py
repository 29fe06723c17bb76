"""The fast path of claim: hands out ready jobs if no job must be repaired, promoted or expired."""

from collections.abc import Callable, Collection
from operator import itemgetter

from headrace.model.claim import Claim, ClaimRequest, Claims, Lease, token_of
from headrace.model.decision import is_expired
from headrace.model.event import EventRecord, encode_lines
from headrace.model.limits import CLAIM_BYTES_MAX, WORKER_SEEN_MS
from headrace.model.names import Shard
from headrace.model.policy import NO_POLICY
from headrace.stores.engine.row_codec import PackedLease, pack, record_of, unpack_body
from headrace.stores.postgres.arrays import numbers, texts
from headrace.stores.postgres.connection import Connection
from headrace.stores.postgres.fast_enqueue import (
    UNKNOWN_MS,
    CachedQueue,
    DueShard,
    JobsDue,
    NotFastPath,
    QueueCache,
    around_time,
)
from headrace.stores.postgres.sql import Cursor, LazyTransaction
from headrace.stores.shared.sharding import visiting_order

_fence = itemgetter(1)
"""The fence in a row of claim_take: fences grow as order keys do."""


class ShardVisit:
    """A shard that the claim may visit, and the jobs taken from it."""

    def __init__(self, known: CachedQueue, shard: Shard) -> None:
        self.known = known
        self.shard = shard
        self.shard_id = known.shard_ids[shard.index]
        self.lease_end_ms: int | None = None
        self.later_ms: int | None = None
        self.has_ready = False
        self.seen_at_ms: int | None = None
        self.claims: list[Claim] = []
        self.last_order_key = 0
        self.recorded: Cursor | None = None


class ClaimTry:
    """One attempt, in two round trips while the first shard has enough: read and take, then record."""

    def __init__(
        self,
        connection: Connection,
        queues: QueueCache,
        request: ClaimRequest,
        now_ms: int | None,
        promoted: Collection[int] = (),
    ) -> None:
        self._request = request
        self._promoted = promoted
        self._request_now_ms = now_ms
        self.now_ms = 0
        self._visits = [
            ShardVisit(queues.get(connection, queue), shard)
            for queue in dict.fromkeys(request.queues)
            for shard in visiting_order(queue, request.nonce)
        ]
        self._visited: list[ShardVisit] = []
        self._bytes_left = CLAIM_BYTES_MAX
        self._wanted = request.limit
        self._stopped = False
        self._shards_read: Cursor | None = None
        self._first: ShardVisit | None = None
        self._taken: Cursor | None = None

    def send(self, transaction: LazyTransaction, now_ms: int | None = None) -> None:
        """Read every shard, and take from the first that is not paused."""
        self._request_now_ms = self._request_now_ms if now_ms is None else now_ms
        self.read_shards(transaction.run)
        self._first = next((visit for visit in self._visits if not visit.known.config.paused), None)
        if self._first is not None:
            self._taken = self._take(transaction, self._first)

    def read_shards(self, run: Callable[..., Cursor]) -> None:
        """Read every shard."""
        ids, configs = [visit.shard_id for visit in self._visits], [visit.known.text for visit in self._visits]
        self._shards_read = run(
            "claim_read_shards", self._request_now_ms, numbers(ids), texts(configs), self._request.worker
        )

    def _take(self, transaction: LazyTransaction, visit: ShardVisit) -> Cursor:
        request = self._request
        lease = around_time(pack(PackedLease(request.worker, UNKNOWN_MS, False)))
        return transaction.run(
            "claim_take", self._request_now_ms, visit.shard_id, self._wanted, request.nonce, request.lease_ms, *lease
        )

    def read_visits(self) -> None:
        """Take over the rows of `read_shards`; gives up when a configuration changed or the nonce is known."""
        assert self._shards_read is not None  # sent before
        found = self._shards_read.fetchall()
        if len(found) != len(self._visits):
            raise NotFastPath
        for visit, columns in zip(self._visits, found, strict=True):
            self.now_ms, _, is_known, visit.lease_end_ms, visit.later_ms, order_key, nonce, visit.seen_at_ms = columns
            if not is_known or nonce == self._request.nonce:
                raise NotFastPath
            visit.has_ready = order_key is not None

    def read(self, transaction: LazyTransaction) -> None:
        """Read the jobs taken, and take from further shards while more are wanted; gives up on anything unusual."""
        self.read_visits()
        if self._request_now_ms is None:
            self._request_now_ms = self.now_ms
        for visit in self._visits:
            if not self._wanted or self._bytes_left <= 0:
                self._stopped = True
                break
            self._visited.append(visit)
            if visit.lease_end_ms is not None and visit.lease_end_ms <= self.now_ms:
                raise NotFastPath
            if visit.later_ms is not None and visit.later_ms <= self.now_ms and visit.shard_id not in self._promoted:
                raise JobsDue(DueShard(visit.known, visit.shard_id))
            if visit is self._first and self._taken is not None:
                self._add_claims(visit, self._taken)
            elif visit.has_ready and not visit.known.config.paused:
                self._add_claims(visit, self._take(transaction, visit))
            self._check_worker_seen(visit)

    def _check_worker_seen(self, visit: ShardVisit) -> None:
        # The transitions record an idle worker now and then.
        is_fresh = visit.seen_at_ms is not None and visit.seen_at_ms > self.now_ms - WORKER_SEEN_MS
        if not visit.claims and not is_fresh:
            raise NotFastPath

    def _add_claims(self, visit: ShardVisit, taken: Cursor) -> None:
        request, config, queue = self._request, visit.known.config, visit.shard.queue
        nonce, worker, lease_ms, bytes_left = request.nonce, request.worker, request.lease_ms, self._bytes_left
        usual = config.priority_of(NO_POLICY), config.timeout_of(NO_POLICY)
        for now_ms, fence, id, order_key, run_at_ms, body, payload in sorted(taken.fetchall(), key=_fence):
            self.now_ms = now_ms
            record = record_of(id, run_at_ms, unpack_body(body), payload)
            bytes_left -= len(payload)
            policy = record.policy
            if policy is NO_POLICY:
                priority, timeout_ms = usual
            else:
                if is_expired(record, now_ms):
                    raise NotFastPath
                priority, timeout_ms = config.priority_of(policy), config.timeout_of(policy)
            lease = Lease(queue, id, token_of(nonce, fence), fence, now_ms + lease_ms)
            visit.claims.append(Claim(lease, record, worker, priority, timeout_ms, now_ms))
            visit.last_order_key = order_key
        if bytes_left < 0:
            raise NotFastPath
        self._bytes_left = bytes_left
        self._wanted -= len(visit.claims)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was taken, so that nothing has to be written."""
        return not any(visit.claims for visit in self._visited)

    def write(self, transaction: LazyTransaction) -> None:
        """Record the jobs taken."""
        for visit in self._visited:
            if visit.claims:
                lines = [EventRecord("claimed", claim.lease.id, fence=claim.lease.fence) for claim in visit.claims]
                visit.recorded = transaction.run(
                    "claim_record",
                    visit.shard_id,
                    self.now_ms,
                    self._request.worker,
                    len(visit.claims),
                    encode_lines(lines),
                    self._request.nonce,
                    visit.last_order_key,
                )

    def answer(self) -> Claims:
        """The jobs handed out, and when to claim again."""
        times = [self._next_at(visit) for visit in self._visited]
        if self._stopped:
            times.append(self.now_ms)
        items = [claim for visit in self._visited for claim in visit.claims]
        return Claims(items, min((each for each in times if each is not None), default=None), self.now_ms)

    def _next_at(self, visit: ShardVisit) -> int | None:
        times = [visit.lease_end_ms]
        if visit.recorded is not None:
            times.append(visit.claims[0].lease.expires_at_ms)
        if not visit.known.config.paused:
            times.append(visit.later_ms)
            if visit.has_ready if visit.recorded is None else visit.recorded.fetchall()[0][0]:
                return self.now_ms
        known = [each for each in times if each is not None]
        return max(min(known), self.now_ms) if known else None

    def idle(self) -> Claims | None:
        """The answer when the shards have nothing to hand out, repair or promote; None when one has."""
        self.read_visits()
        self._visited = self._visits
        for visit in self._visits:
            times = (visit.lease_end_ms, visit.later_ms)
            is_fresh = visit.seen_at_ms is not None and visit.seen_at_ms > self.now_ms - WORKER_SEEN_MS
            is_due = any(each is not None and each <= self.now_ms for each in times)
            if not is_fresh or is_due or (visit.has_ready and not visit.known.config.paused):
                return None
        return self.answer()
