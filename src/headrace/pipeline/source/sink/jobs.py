"""Enqueues a job for each row, once for as long as its key is remembered."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import blake2b

import pyarrow as pa
from pyspark.sql.types import StructType

from headrace.client.batching import EnqueueOutcome, batches, enqueue_batch, is_lost
from headrace.client.tasks import write_backoff
from headrace.model.errors import BadConfig, Refused
from headrace.model.job import Job
from headrace.model.limits import CLOCK_SKEW_MS_MAX, WRITE_TRIES_MAX, WRITES_IN_FLIGHT
from headrace.model.results import Enqueued
from headrace.model.validate import cut
from headrace.pipeline.source.discovery import TargetQueues
from headrace.pipeline.source.options import WriteOptions
from headrace.pipeline.source.sink.columns import check_columns, key_start
from headrace.pipeline.source.sink.rejects import RejectWriter, Row
from headrace.pipeline.source.sink.result import HASH_BYTES, WriteRun, WriteTally
from headrace.pipeline.source.sink.row_to_job import COLUMNS, JobFrame, Refuse, job_row
from headrace.stores.contract.jobs import Jobs
from headrace.stores.contract.store import Store

Sent = tuple[Sequence[Job], list[EnqueueOutcome]]


class BatchSender:
    """Keeps several calls in flight. Jobs have keys, so that a repeated send is harmless."""

    def __init__(self, jobs: Jobs, *, ordered: bool) -> None:
        self._jobs = jobs
        self._ordered = ordered
        """Whether jobs have given ids: calls with the same id are then never in flight together, so that the later row
        wins."""
        self._calls: deque[tuple[Sequence[Job], asyncio.Task[list[EnqueueOutcome]]]] = deque()

    async def send(self, jobs: Sequence[Job]) -> list[Sent]:
        """Send jobs; returns the answers to earlier ones."""
        answered = await self.drain(0 if self._meets(jobs) else WRITES_IN_FLIGHT - 1)
        self._calls.append((jobs, asyncio.create_task(_answers(self._jobs, jobs))))
        await asyncio.sleep(0)  # sends it before the next jobs are built, which never awaits
        return answered

    async def drain(self, calls_max: int = 0) -> list[Sent]:
        """Wait until at most `calls_max` are in flight; returns the answers."""
        answered: list[Sent] = []
        while len(self._calls) > calls_max:
            jobs, call = self._calls[0]
            answered.append((jobs, await call))
            self._calls.popleft()
        return answered

    async def stop(self) -> None:
        """Wait for all calls in flight, and ignore their errors."""
        await asyncio.gather(*(call for _, call in self._calls), return_exceptions=True)

    def _meets(self, jobs: Sequence[Job]) -> bool:
        if not self._ordered or not self._calls:
            return False
        ids = {job.id for sent, _ in self._calls for job in sent}
        return any(job.id in ids for job in jobs)


async def _answers(store: Jobs, jobs: Sequence[Job]) -> list[EnqueueOutcome]:
    """An answer or a refusal for each job; raises if the store stays unavailable."""
    outcomes = await enqueue_batch(store, jobs)
    backoff = write_backoff()
    for _ in range(WRITE_TRIES_MAX - 1):
        lost = [at for at, outcome in enumerate(outcomes) if is_lost(outcome)]
        if not lost:
            return outcomes
        await backoff.pause()
        for at, outcome in zip(lost, await enqueue_batch(store, [jobs[at] for at in lost]), strict=True):
            outcomes[at] = outcome
    for outcome in outcomes:
        if not isinstance(outcome, Enqueued) and is_lost(outcome):
            raise outcome
    return outcomes


_HINT = "put it into the payload, for example with struct(…), or leave it out"
_KEY_CHARS = 100
"""Characters of a key in a sentence, which is cut at its end."""
_REFUSALS = {
    "conflict": "its key was used for other work within the last {keep}; give it another key or another option name",
    "full": "queue {queue} has reached its waiting_max; write again when workers have caught up",
    "wrong_shards": "queue {queue} was created with another number of shards meanwhile; write again",
}


class JobSink:
    """Enqueues a job for each row, under the key of the row."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._names = check_columns("jobs", schema, COLUMNS, hint=_HINT)
        for column, value in (("kind", options.kind), ("queue", options.name)):
            if column not in self._names and value is None:
                raise BadConfig(f"jobs need a {column}; give a column '{column}' or option {column}")
        if not options.key_keep_ms:
            raise BadConfig("option keyTtl is 0; give how long keys are remembered, such as 30d")
        if "/" in options.key_space or not options.key_space.isprintable():
            raise BadConfig(f"option name is {options.key_space!r}; use printable characters other than '/'")

    async def check(self, store: Store) -> None:
        """Nothing: queues are created when first used."""

    async def write(self, store: Store, run: WriteRun, rows: Iterator[pa.RecordBatch]) -> WriteTally:
        """Enqueue a task's rows."""
        tally, queues = WriteTally(), TargetQueues(self._options.shards or 1)
        refusals = _Refusals(self._options, run, tally)
        sender = BatchSender(store.jobs, ordered="id" in self._names)
        counter = _AnswerCounter(store, run, self._options, tally, refusals.refuse)
        with refusals:
            await self._write(store, rows, queues, sender, counter)
        return tally

    async def _write(
        self,
        store: Store,
        rows: Iterator[pa.RecordBatch],
        queues: TargetQueues,
        sender: BatchSender,
        counter: "_AnswerCounter",
    ) -> None:
        try:
            for batch in rows:
                frame = JobFrame(self._options, self._names, batch)
                counter.tally.rows += frame.count
                await queues.learn(store, frame.queue_refs())
                for jobs in batches(frame.jobs(queues, counter.refuse)):
                    for sent, outcomes in await sender.send(jobs):
                        await counter.count(sent, outcomes)
            for sent, outcomes in await sender.drain():
                await counter.count(sent, outcomes)
        finally:
            await sender.stop()


class _Refusals:
    """Counts refused rows and keeps them if requested: all of a block, or none if it fails."""

    def __init__(self, options: WriteOptions, run: WriteRun, tally: WriteTally) -> None:
        self._tally = tally
        self._rejects = None if options.refused_dir is None else RejectWriter(options.refused_dir, run.id)

    def refuse(self, refused: Refused, row: Callable[[], Row]) -> None:
        """Count a refused row, and keep it."""
        self._tally.refuse(refused.reason, str(refused))
        if self._rejects is not None:
            self._rejects.add(row() | {"reason": refused.reason, "sentence": str(refused)})

    def __enter__(self) -> None:
        """Nothing: the file is created with the first refused row."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._rejects is None:
            return
        if kind is None:
            self._tally.refused_file = self._rejects.close()
        else:
            self._rejects.drop()


class _AnswerCounter:
    """Counts the store's answers for this run."""

    def __init__(self, store: Store, run: WriteRun, options: WriteOptions, tally: WriteTally, refuse: Refuse) -> None:
        self._store = store
        self._run = run
        self._options = options
        self._start = key_start(options.key_space)
        self.tally = tally
        self.refuse = refuse
        self._now_ms: int | None = None

    async def count(self, jobs: Sequence[Job], outcomes: Sequence[EnqueueOutcome]) -> None:
        """Count the answers to one call."""
        ours: list[Job] = []
        statuses: Counter[str] = Counter()
        for job, outcome in zip(jobs, outcomes, strict=True):
            if not isinstance(outcome, Enqueued):
                refused = outcome if isinstance(outcome, Refused) else Refused("refused", str(outcome))
                self.refuse(refused, partial(job_row, job, self._start))
            elif outcome.status == "duplicate":
                if await self._is_ours(outcome):
                    ours.append(job)
                else:
                    statuses["duplicate"] += 1
            elif outcome.ok:
                statuses[outcome.status] += 1
                ours.append(job)
            else:
                refused = Refused(outcome.status, self._why(job, outcome.status))
                self.refuse(refused, partial(job_row, job, self._start))
        self.tally.counts += statuses
        self.tally.put_in(job_hashes(ours))

    async def _is_ours(self, answer: Enqueued) -> bool:
        """Whether this run was the first to use a key: by an equal row, or in a failed attempt."""
        if answer.until_ms is None:
            return False
        used_at_ms = answer.until_ms - self._options.key_keep_ms
        if used_at_ms < self._run.started_at_ms:
            return False
        if self._now_ms is None or used_at_ms > self._now_ms:
            # A key of an earlier run with a longer TTL would seem to be in the future.
            self._now_ms = await self._store.now_ms() + CLOCK_SKEW_MS_MAX
        return used_at_ms <= self._now_ms

    def _why(self, job: Job, status: str) -> str:
        days = self._options.key_keep_ms / 86_400_000
        text = _REFUSALS[status].format(queue=repr(job.queue.full_name), keep=f"{days:g} days")
        return f"row with key {cut(job.idempotency_key or '', _KEY_CHARS)!r}: {text}"


def job_hashes(jobs: Sequence[Job]) -> bytes:
    """Eight bytes for each job that identify rows of one key."""
    if not any(job.id_given for job in jobs):
        return bytes.fromhex("".join([job.id[4 : 4 + 2 * HASH_BYTES] for job in jobs]))  # hashed already
    return b"".join(_hash(job) for job in jobs)


def _hash(job: Job) -> bytes:
    text = f"{job.queue.tenant}\0{job.queue.full_name}\0{job.id}\0{job.idempotency_key}"
    return blake2b(text.encode(), digest_size=HASH_BYTES).digest()
