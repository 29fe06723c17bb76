"""The options of a job besides its kind and payload, and `JobBuilder`, which applies them."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from headrace.client.codec import Codec
from headrace.model.clock import Clock
from headrace.model.errors import Refused
from headrace.model.job import NO_HEADERS, Job, UpdateRunAt
from headrace.model.limits import PAYLOAD_BYTES_MAX
from headrace.model.names import RANDOM_BYTES, Queue, derived_id, uuid7
from headrace.model.policy import NO_POLICY, Policy
from headrace.model.times import Duration, Instant, duration_ms, instant_ms
from headrace.model.validate import bounded_repr


class OptionFields(TypedDict, total=False):
    """The fields of `Options` as keyword arguments."""

    queue: str | Queue | None
    tenant: str | None
    shards: int | None
    id: str | None
    delay: Duration | None
    run_at: Instant | None
    priority: int | None
    timeout: Duration | None
    max_attempts: int | None
    max_stalls: int | None
    backoff: Duration | None
    backoff_max: Duration | None
    result_ttl: Duration | None
    expires_at: Instant | None
    tag: str | None
    headers: dict[str, str] | None
    idempotency_key: str | None
    idempotency_ttl: Duration | None
    update_payload: bool | None
    update_run_at: str | UpdateRunAt | None
    update_policy: bool | None
    reset_counts: bool | None


class Options(Struct, frozen=True, kw_only=True):
    """Unset fields (None) follow the options below, then the client, then the queue.

    Durations are texts with a unit ("30s", "5m") or seconds; instants are datetimes with a zone, or milliseconds
    since 1970. `delay` counts from the store's clock, so it is right even if this machine's clock is wrong.
    """

    queue: str | Queue | None = None
    """A name, or a `Queue` with tenant and shards; a blank name counts as unset."""
    tenant: str | None = None
    shards: int | None = None
    """The number of shards of the queue; fixed when the queue is first used."""
    id: str | None = None
    """The id of the job; sending a job with the same id again updates the waiting one."""
    delay: Duration | None = None
    run_at: Instant | None = None
    priority: int | None = None
    """0 to 9, higher first."""
    timeout: Duration | None = None
    """How long a handler may run; 0 is no limit."""
    max_attempts: int | None = None
    max_stalls: int | None = None
    backoff: Duration | None = None
    """The wait after the first failed attempt; doubles with each further one, up to `backoff_max`."""
    backoff_max: Duration | None = None
    result_ttl: Duration | None = None
    """How long the finished job and its result are kept, however many other jobs end meanwhile."""
    expires_at: Instant | None = None
    """The last instant at which it may start."""
    tag: str | None = None
    headers: dict[str, str] | None = None
    idempotency_key: str | None = None
    """A job sent twice with the same key runs once; a blank key counts as unset."""
    idempotency_ttl: Duration | None = None
    update_payload: bool | None = None
    update_run_at: str | UpdateRunAt | None = None
    update_policy: bool | None = None
    reset_counts: bool | None = None

    def over(self, below: "Options") -> "Options":
        """These options on top of others: unset fields are taken from `below`.

        A queue name here resets the number of shards, and a `Queue` the tenant, too. A time here replaces the time
        below, whether `delay` or `run_at`.
        """
        fields: dict[str, Any] = {}
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None:
                fields[name] = value
        if not fields:
            return below
        if "queue" in fields:
            fields.setdefault("shards", None)
            if isinstance(self.queue, Queue):
                fields.setdefault("tenant", None)
        if "delay" in fields or "run_at" in fields:
            fields = {"delay": None, "run_at": None} | fields
        return replace(below, **fields)

    def job(
        self,
        kind: str,
        payload: bytes,
        *,
        tenant_default: str,
        queue_default: str | Queue,
        fresh_id: Callable[[], str],
    ) -> Job:
        """The job that these options describe; raises `Refused` for invalid values."""
        check_kind(kind)
        queue = self._queue(tenant_default, queue_default)
        key = self._key()
        id = self.id
        if id is None:
            id = fresh_id() if key is None else derived_id(queue, key)
        return Job(
            queue=queue,
            id=id,
            kind=kind,
            payload=payload,
            run_at_ms=None if self.run_at is None else instant_ms("run_at", self.run_at),
            delay_ms=_ms("delay", self.delay),
            policy=self._policy(),
            tag=self.tag,
            headers=NO_HEADERS if self.headers is None else self.headers,
            idempotency_key=key,
            idempotency_ttl_ms=_ms("idempotency_ttl", self.idempotency_ttl),
            id_given=self.id is not None,
            update_payload=True if self.update_payload is None else self.update_payload,
            update_run_at=None if self.update_run_at is None else _flag(self.update_run_at),
            update_policy=True if self.update_policy is None else self.update_policy,
            reset_counts=False if self.reset_counts is None else self.reset_counts,
        )

    def _key(self) -> str | None:
        key = self.idempotency_key
        return (key.strip() or None) if isinstance(key, str) else key

    def _queue(self, tenant_default: str, queue_default: str | Queue) -> Queue:
        queue = self.queue
        if queue is None or (isinstance(queue, str) and not queue.strip()):
            queue = queue_default
        if not isinstance(queue, Queue):
            return named_queue(queue, tenant_default if self.tenant is None else self.tenant, self.shards or 1)
        if self.tenant not in (None, queue.tenant) or self.shards not in (None, queue.shards):
            raise Refused(
                "bad_queue",
                f"{bounded_repr(queue)} has its own tenant and shards; found also tenant {bounded_repr(self.tenant)}"
                f" and shards {bounded_repr(self.shards)}; leave them out, or give the queue's name only",
            )
        return queue

    def _policy(self) -> Policy:
        fields = (
            self.priority,
            self.timeout,
            self.max_attempts,
            self.max_stalls,
            self.backoff,
            self.backoff_max,
            self.result_ttl,
            self.expires_at,
        )
        if fields == _UNSET:
            return NO_POLICY
        try:
            return _known_policy(*fields)
        except TypeError:  # an unhashable value, which Policy refuses in words
            return _new_policy(*fields)


_UNSET = (None,) * 8


def _new_policy(
    priority: int | None,
    timeout: Duration | None,
    max_attempts: int | None,
    max_stalls: int | None,
    backoff: Duration | None,
    backoff_max: Duration | None,
    result_ttl: Duration | None,
    expires_at: Instant | None,
) -> Policy:
    return Policy(
        priority=priority,
        timeout_ms=_ms("timeout", timeout),
        max_attempts=max_attempts,
        max_stalls=max_stalls,
        backoff_ms=_ms("backoff", backoff),
        backoff_ms_max=_ms("backoff_max", backoff_max),
        result_ttl_ms=_ms("result_ttl", result_ttl),
        expires_at_ms=None if expires_at is None else instant_ms("expires_at", expires_at),
    )


# A function's jobs all have the same policy, and policies are compared by value anyway. Typed: True is not priority 1.
_known_policy = lru_cache(maxsize=1_024, typed=True)(_new_policy)


@lru_cache(maxsize=1_024, typed=True)
def _known_queue(name: str, tenant: str, shards: int) -> Queue:
    return Queue(name, tenant, shards)


def named_queue(name: str, tenant: str, shards: int = 1) -> Queue:
    """The queue of that name; the same object for the same name."""
    try:
        return _known_queue(name, tenant, shards)
    except TypeError:  # an unhashable value, which Queue refuses in words
        return Queue(name, tenant, shards)


def check_kind(kind: object) -> None:
    """Refuse a blank kind; Job checks the rest."""
    if not isinstance(kind, str) or not kind.strip():
        raise Refused("bad_kind", f"a job needs a kind, which selects its handler; found {bounded_repr(kind)}")


def _ms(what: str, value: Duration | None) -> int | None:
    return None if value is None else duration_ms(what, value)


def _flag(value: str | UpdateRunAt) -> UpdateRunAt:
    try:
        return UpdateRunAt(value)
    except ValueError:
        raise Refused(
            "bad_flag", f"update_run_at must be {', '.join(UpdateRunAt)}; found {bounded_repr(value)}"
        ) from None


class JobMaker:
    """Builds jobs with the defaults of a client or an app; clock and random bytes are arguments."""

    def __init__(
        self, *, tenant: str, queue: str | Queue, codec: Codec, clock: Clock, entropy: Callable[[int], bytes]
    ) -> None:
        self.tenant = tenant
        self.codec = codec
        self.default_queue = queue
        self._clock = clock
        self._entropy = entropy
        self._queue = self.queue(queue)  # refuses a wrong name when the client is made

    def job(self, kind: str, payload: object, **options: Unpack[OptionFields]) -> Job:
        """A job with its payload encoded, ready to be sent."""
        encoded = self.codec.encode(payload)
        if options:
            return self.job_of(kind, encoded, Options(**options))
        check_kind(kind)
        return Job(queue=self._queue, id=self.fresh_id(), kind=kind, payload=encoded, id_given=False)

    def job_of(self, kind: str, payload: bytes, options: Options) -> Job:
        """A job whose payload is encoded already."""
        return options.job(
            kind, payload, tenant_default=self.tenant, queue_default=self.default_queue, fresh_id=self.fresh_id
        )

    def job_like(self, like: Job, payload: bytes) -> Job:
        """A copy of `like`, a job with a generated id, with a new id and another payload; other fields are not checked
        again."""
        if type(payload) is not bytes or len(payload) > PAYLOAD_BYTES_MAX:
            return replace(like, payload=payload, id=self.fresh_id())  # refuses it in words
        job: Job = like.__copy__()  # type: ignore[attr-defined]  # copy.copy calls it too, at twice the cost
        force_setattr(job, "payload", payload)
        force_setattr(job, "id", self.fresh_id())
        return job

    def fresh_id(self) -> str:
        """An unused id."""
        return uuid7(self._clock.now_ms(), self._entropy(RANDOM_BYTES))

    def queue(self, queue: str | Queue) -> Queue:
        """A `Queue` as it is, or the queue of that name and the client's tenant."""
        return queue if isinstance(queue, Queue) else named_queue(queue, self.tenant)
