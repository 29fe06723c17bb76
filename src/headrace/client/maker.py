"""Makes jobs: encodes payloads, fills in the client's defaults and gives ids. No I/O."""

from collections.abc import Callable
from typing import Unpack

from msgspec.structs import force_setattr, replace

from headrace.client.codec import Codec
from headrace.client.options import OptionFields, Options, check_kind, named_queue
from headrace.model.clock import Clock
from headrace.model.ids import ENTROPY_BYTES, uuid7
from headrace.model.job import Job
from headrace.model.limits import PAYLOAD_BYTES_MAX
from headrace.model.names import Queue


class JobMaker:
    """What a client, with or without an event loop, knows about making jobs; time and chance come in."""

    def __init__(
        self, *, tenant: str, queue: str | Queue, codec: Codec, clock: Clock, entropy: Callable[[int], bytes]
    ) -> None:
        self.tenant = tenant
        self.codec = codec
        self.default_queue = queue
        self._clock = clock
        self._entropy = entropy
        self._queue = self.queue(queue)  # a wrong name is found when the client is made

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
        """A job as `like`, which has no id of the caller's, with another payload; what is right of `like` is not looked
        at again."""
        if type(payload) is not bytes or len(payload) > PAYLOAD_BYTES_MAX:
            return replace(like, payload=payload, id=self.fresh_id())  # refuses it in words
        job: Job = like.__copy__()  # type: ignore[attr-defined]  # copy.copy looks for it first, at twice the price
        force_setattr(job, "payload", payload)
        force_setattr(job, "id", self.fresh_id())
        return job

    def fresh_id(self) -> str:
        """An id that nobody has."""
        return uuid7(self._clock.now_ms(), self._entropy(ENTROPY_BYTES))

    def queue(self, queue: str | Queue) -> Queue:
        """The queue that is meant: itself, or the one of that name and the client's tenant."""
        return queue if isinstance(queue, Queue) else named_queue(queue, self.tenant)
